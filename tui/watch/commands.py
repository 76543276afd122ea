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
        "Open the newest snapshot of the process under the cursor in the snapshot tab, with the "
        "exception's text if it was taken at an OOM; in the list, open the run.",
        group="Watch",
        tabs=WATCH,
        footer=1,
    ),
    Command(
        "watch_rehearse",
        ("V",),
        "rehearse",
        "Rehearse a command on a simulated card, to learn whether it fits, and watch it.",
        group="Watch",
        tabs=WATCH,
        asks=True,
        footer=10,
    ),
    Command(
        "watch_snapshot",
        ("M",),
        "snapshot",
        "Request a snapshot from the process under the cursor, at its next step.",
        group="Watch",
        tabs=WATCH,
        asks=True,
        now=_run_is_open,
        footer=2,
    ),
    Command(
        "watch_history",
        ("H",),
        "history",
        "Start or stop recording torch's memory history in the process under the cursor.",
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
        "Show and follow the run's output, or show its memory again.",
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
        "Show where each rank is now: the Python stacks of all its threads.",
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
        "Compare two snapshots of the process under the cursor to see what has grown.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=6,
    ),
    Command(
        "watch_freeze",
        ("z",),
        "freeze",
        "Freeze the figures while the run continues, or follow the run again.",
        group="Watch",
        tabs=WATCH,
        now=_run_is_open,
        footer=8,
    ),
    Command(
        "explain_watched_memory",
        ("i",),
        "explain",
        "Explain the memory of the process under the cursor, figure by figure.",
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
        "Send SIGINT, SIGTERM or SIGKILL to the run's process group, after confirmation.",
        group="Watch",
        tabs=WATCH,
        asks=True,
        now=_run_is_open,
        footer=5,
    ),
)
