"""The commands of the watch tab."""

from __future__ import annotations

from tui.kit.commands.command import WATCH, Command, Situation

STORED_RUNS = "kept-runs"
"""The pane that lists the runs; every other pane of the tab shows the open run."""


def _run_is_open(now: Situation) -> bool:
    return now.pane != STORED_RUNS


WATCH_COMMANDS = (
    Command(
        "watch_open",
        ("o",),
        "open",
        "Open the newest snapshot of the process, or in the list the run.",
        group="Watch",
        tabs=WATCH,
        labels=((STORED_RUNS, ""),),
        footer=1,
    ),
    Command(
        "watch_rehearse",
        ("V",),
        "rehearse",
        "Rehearse a command on a simulated card to see if it fits.",
        group="Watch",
        tabs=WATCH,
        changes_state=True,
        footer=10,
    ),
    Command(
        "watch_snapshot",
        ("M",),
        "snapshot",
        "Request a snapshot of the process at its next step.",
        group="Watch",
        tabs=WATCH,
        changes_state=True,
        now=_run_is_open,
        footer=2,
    ),
    Command(
        "watch_history",
        ("H",),
        "history",
        "Start or stop recording the memory history of the process.",
        group="Watch",
        tabs=WATCH,
        changes_state=True,
        now=_run_is_open,
        footer=3,
    ),
    Command(
        "watch_output",
        ("l",),
        "output",
        "Show the run's output, or its memory again.",
        group="Watch",
        meaning="log",
        tabs=WATCH,
        now=_run_is_open,
        footer=4,
    ),
    Command(
        "watch_stacks",
        ("K",),
        "where",
        "Show where each rank is: the Python stacks of its threads.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=9,
    ),
    Command(
        "watch_over",
        ("A",),
        "time/steps",
        "Plot over steps or over time.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=7,
    ),
    Command(
        "watch_difference",
        ("c",),
        "compare",
        "Compare two snapshots of the process to see what has grown.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=6,
    ),
    Command(
        "watch_freeze",
        ("z",),
        "freeze",
        "Freeze the figures, or follow the run again.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=8,
    ),
    Command(
        "explain_watched_memory",
        ("i",),
        "explain",
        "Explain the memory of the process, figure by figure.",
        group="Watch",
        meaning="detail",
        tabs=WATCH,
        now=_run_is_open,
        footer=11,
    ),
    Command(
        "watch_end",
        ("x",),
        "end",
        "Send the run SIGINT, SIGTERM or SIGKILL, after confirmation.",
        group="Watch",
        tabs=WATCH,
        changes_state=True,
        now=_run_is_open,
        footer=5,
    ),
)
