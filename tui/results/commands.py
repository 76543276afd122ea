"""The commands of the results tab."""

from __future__ import annotations

from functools import partial

from tui.kit.commands.command import RESULTS, Command, Situation


def _on_result(now: Situation) -> bool:
    return now.pane == "results" and now.has_selection


_command = partial(
    Command,
    group="Results",
    tabs=RESULTS,
    now=_on_result,
    otherwise="needs a result under the cursor",
)
RESULTS_COMMANDS = (
    _command(
        "mark_result",
        ("space",),
        "mark",
        "Mark the result as A or B, or unmark it.",
        meaning="toggle",
        footer=1,
    ),
    _command(
        "compare_results",
        ("c",),
        "compare",
        "Compare the environments of the two marked results.",
        footer=2,
    ),
    _command(
        "tag_results",
        ("number_sign",),
        "tag",
        "Tag the marked results, or the one under the cursor.",
        changes_state=True,
        footer=8,
    ),
    _command(
        "delete_results",
        ("delete",),
        "delete",
        "Delete the marked results, or the one under the cursor, after confirmation.",
        changes_state=True,
        footer=9,
    ),
    _command(
        "sort_results", ("s",), "sort", "Sort the results: newest, workload or time.", footer=10
    ),
)
