"""The commands of the watch tab."""

from __future__ import annotations

from tui.kit.commands.command import WATCH, Command, Situation

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
