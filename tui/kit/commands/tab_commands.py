"""The commands of the tabs that have keys of their own: watch, results."""

from __future__ import annotations

from tui.kit.commands.command import RESULTS, WATCH, Command, Situation

KEPT_RUNS = "kept-runs"
"""The pane that lists the runs; any other of the tab is of the run that is open."""


def _run_is_open(now: Situation) -> bool:
    return now.pane != KEPT_RUNS


WATCH_COMMANDS = (
    Command(
        "watch_open",
        ("o",),
        "open",
        "Open the newest snapshot of the process under the cursor in the snapshot tab, with the "
        "exception's text where it was taken at an OOM; in the list, open the run.",
        group="Watch",
        tabs=WATCH,
        footer=1,
    ),
    Command(
        "watch_snapshot",
        ("s",),
        "snapshot",
        "Have the process under the cursor write a snapshot at its next step.",
        group="Watch",
        tabs=WATCH,
        asks=True,
        now=_run_is_open,
        footer=2,
    ),
    Command(
        "watch_history",
        ("h",),
        "history",
        "Have the process under the cursor record torch's memory history, or no more.",
        group="Watch",
        tabs=WATCH,
        asks=True,
        now=_run_is_open,
        footer=3,
    ),
    Command(
        "watch_output",
        ("l",),
        "output",
        "Show the end of the run's output, which is followed, or its memory again.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=4,
    ),
    Command(
        "watch_stacks",
        ("k",),
        "where",
        "Show where each rank is now: the live Python stacks of all its threads.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=9,
    ),
    Command(
        "watch_over",
        ("t",),
        "time/steps",
        "Plot over steps, or over time again.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=7,
    ),
    Command(
        "watch_difference",
        ("D",),
        "compare",
        "Compare the snapshots of two steps of the process under the cursor: what has grown.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=6,
    ),
    Command(
        "watch_freeze",
        ("f",),
        "freeze",
        "Hold the figures still while the run goes on, or follow it again.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=8,
    ),
    Command(
        "watch_end",
        ("x",),
        "end",
        "End the run by SIGINT, SIGTERM or SIGKILL to its process group, after asking.",
        group="Watch",
        tabs=WATCH,
        asks=True,
        now=_run_is_open,
        footer=5,
    ),
)


def _on_result(now: Situation) -> bool:
    return now.pane == "results" and now.has_selection


RESULTS_COMMANDS = (
    Command(
        "mark_result",
        ("space",),
        "mark",
        "Mark the result under the cursor, or take its mark away; two can be marked, A and B.",
        group="Results",
        tabs=RESULTS,
        now=_on_result,
        footer=1,
    ),
    Command(
        "compare_results",
        ("c",),
        "compare",
        "Compare the environments of the two marked results over all workloads that both have.",
        group="Results",
        tabs=RESULTS,
        now=_on_result,
        footer=2,
    ),
    Command(
        "tag_results",
        ("t",),
        "tag",
        "Give the marked results, or the one under the cursor, a name.",
        group="Results",
        tabs=RESULTS,
        asks=True,
        now=_on_result,
        footer=8,
    ),
    Command(
        "delete_results",
        ("x",),
        "delete",
        "Delete the marked results, or the one under the cursor, after asking.",
        group="Results",
        tabs=RESULTS,
        asks=True,
        now=_on_result,
        footer=9,
    ),
    Command(
        "sort_results",
        ("s",),
        "sort",
        "Sort the results by the next of newest, workload and time.",
        group="Results",
        tabs=RESULTS,
        now=_on_result,
        footer=10,
    ),
)
