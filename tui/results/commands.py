"""The commands of the results tab."""

from __future__ import annotations

from tui.kit.commands.command import RESULTS, Command, Situation


def _on_result(now: Situation) -> bool:
    return now.pane == "results" and now.has_selection


RESULTS_COMMANDS = (
    Command(
        "mark_result",
        ("space",),
        "mark",
        "Mark the result as A or B, or unmark it.",
        group="Results",
        meaning="toggle",
        tabs=RESULTS,
        now=_on_result,
        footer=1,
    ),
    Command(
        "compare_results",
        ("c",),
        "compare",
        "Compare the environments of the two marked results.",
        group="Results",
        tabs=RESULTS,
        now=_on_result,
        footer=2,
    ),
    Command(
        "tag_results",
        ("number_sign",),
        "tag",
        "Tag the marked results, or the one under the cursor.",
        group="Results",
        tabs=RESULTS,
        changes_state=True,
        now=_on_result,
        footer=8,
    ),
    Command(
        "delete_results",
        ("delete",),
        "delete",
        "Delete the marked results, or the one under the cursor, after confirmation.",
        group="Results",
        tabs=RESULTS,
        changes_state=True,
        now=_on_result,
        footer=9,
    ),
    Command(
        "sort_results",
        ("s",),
        "sort",
        "Sort the results: newest, workload or time.",
        group="Results",
        tabs=RESULTS,
        now=_on_result,
        footer=10,
    ),
)
