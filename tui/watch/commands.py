"""The commands of the watch tab."""

from __future__ import annotations

from functools import partial

from tui.kit.commands.command import WATCH, Command, Situation
from tui.snapshots.commands import VIEWS

STORED_RUNS = "kept-runs"
"""The pane that lists the runs; every other pane of the tab shows the open run."""


def _run_is_open(now: Situation) -> bool:
    return now.pane != STORED_RUNS


def _run_continues(now: Situation) -> bool:
    return _run_is_open(now) and now.run_continues


def _run_has_ended(now: Situation) -> bool:
    return _run_is_open(now) and not now.run_continues


_command = partial(Command, group="Watch", tabs=WATCH)
_run_command = partial(_command, now=_run_is_open, otherwise="needs an open run: enter opens one")
_running_command = partial(
    _command, now=_run_continues, otherwise="needs an open run that is running on this machine"
)
_VIEW_COMMANDS = tuple(
    _run_command(
        f"watch_{view.id}",
        (view.key,),
        view.title.lower(),
        f"Open the newest snapshot of the process at its {view.title.lower()}.",
        call=f"watch_open('{view.id}')",
    )
    for view in VIEWS
    if view.id != "difference"
)
"""The keys of the snapshot tab's views, which open the snapshot first."""
WATCH_COMMANDS = (
    _command(
        "watch_open",
        ("o",),
        "open",
        "Open the newest snapshot of the process, or in the list the run.",
        labels=((STORED_RUNS, ""),),
        useful=lambda now: now.run_has_snapshots,
        footer=1,
    ),
    *_VIEW_COMMANDS,
    _command(
        "watch_command",
        ("r",),
        "run",
        "Run a command under the watch.",
        changes_state=True,
        useful=lambda now: not _run_is_open(now),
        footer=10,
    ),
    _command(
        "watch_rehearse",
        ("V",),
        "rehearse",
        "Check whether a command would fit on another GPU.",
        changes_state=True,
        useful=lambda now: not _run_is_open(now),
        footer=12,
    ),
    _running_command(
        "watch_snapshot",
        ("M",),
        "snapshot",
        "Request a snapshot of the process at its next step.",
        changes_state=True,
        useful=lambda now: now.run_has_agent,
        footer=2,
    ),
    _running_command(
        "watch_history",
        ("H",),
        "history",
        "Start or stop recording the memory history of the process.",
        changes_state=True,
        useful=lambda now: now.run_has_agent,
        footer=3,
    ),
    _run_command(
        "watch_output",
        ("l",),
        "output",
        "Show the run's output, or its memory again.",
        meaning="log",
        footer=4,
    ),
    _running_command(
        "watch_stacks",
        ("K",),
        "where",
        "Show where each rank is: the Python stacks of its threads.",
        useful=lambda now: now.run_has_agent,
        footer=9,
    ),
    _run_command(
        "watch_over",
        ("A",),
        "time/steps",
        "Plot over steps or over time.",
        useful=lambda now: now.run_has_figures,
        footer=7,
    ),
    _run_command(
        "watch_difference",
        ("c",),
        "compare",
        "Compare two snapshots of the process to see what has grown.",
        useful=lambda now: now.run_has_snapshots,
        footer=6,
    ),
    _run_command(
        "watch_freeze",
        ("z",),
        "freeze",
        "Freeze the figures, or follow the run again.",
        footer=8,
    ),
    _run_command(
        "explain_watched_memory",
        ("i",),
        "explain",
        "Explain the memory of the process, figure by figure.",
        meaning="detail",
        useful=lambda now: now.run_has_figures,
        footer=11,
        earlier=(_run_has_ended, 2),
    ),
    _running_command(
        "watch_end",
        ("x",),
        "end",
        "Send the run SIGINT, SIGTERM or SIGKILL, after confirmation.",
        changes_state=True,
        footer=5,
    ),
)
