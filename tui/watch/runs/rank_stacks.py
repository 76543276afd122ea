"""The live Python stacks of a run's processes, by rank, from their agents."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from tui.watch.runs.agents import Agents
from tui.watch.runs.process_logs import process_logs_in
from tui.watch.runs.runs import StartedRun, processes_of
from tui.watch.runs.stacks import ProcessStacks

NO_ANSWER = (
    "its agent does not answer: an extension holds the interpreter, the process is stopped, or its "
    "socket is in another XDG_RUNTIME_DIR; py-spy dump --pid {pid} reads the stacks from outside"
)
NO_PROCESS = (
    "no process of the run with an agent is running: it has ended, or has not used CUDA yet"
)


@dataclass(frozen=True, slots=True)
class RankStacks:
    """One process of a run with its stacks, or with the reason why there are none."""

    pid: int
    rank: str | None
    """``RANK`` as its launcher set it; ``None`` without a launcher."""
    stacks: ProcessStacks | None
    why_none: str = ""


def read_rank_stacks(folder: Path) -> tuple[RankStacks, ...]:
    """Ask all running processes of a run for their stacks; sorted by rank and pid.

    This stops nothing in them: the agent's own thread answers, which needs the GIL for a moment,
    so that even a rank that waits in a C++ call can answer.

    Args:
        folder: folder of the run.
    """
    present = set(processes_of(folder))
    logs = [log for log in process_logs_in(folder) if log.pid in present and not log.ended]
    with contextlib.closing(Agents()) as agents:
        stacks = agents.stacks([log.identity for log in logs])
    ranks = [
        RankStacks(
            log.pid,
            log.rank,
            stacks.get(log.identity),
            "" if log.identity in stacks else NO_ANSWER.format(pid=log.pid),
        )
        for log in logs
    ]
    return tuple(sorted(ranks, key=_place))


def describe_missing_ranks(run: StartedRun) -> str:
    """Return why a run has no process to ask, in one line."""
    if not run.is_of_this_machine:
        return f"it is a run of {run.host}: ask there"
    return NO_PROCESS


def _place(rank: RankStacks) -> tuple[bool, int, int]:
    number = int(rank.rank) if rank.rank is not None and rank.rank.isdecimal() else None
    return number is None, number or 0, rank.pid
