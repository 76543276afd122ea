"""The processes that failed: whose OOM ended them, and which rank was the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.runs import StartedRun

LEAVES_WITHIN_S = 30.0
"""Seconds from an OOM to ``sys.exit``: after longer, the program did something in between."""
LAUNCHERS = {
    "torchrun": "torchrun",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "mpirun": "mpirun",
    "srun": "srun",
}
"""Names of launchers, by a word of the command."""


def judge_by_exit_code(run: StartedRun, logs: Sequence[ProcessLog]) -> list[ProcessLog]:
    """Return the agents' logs, judged by the exit code of the run's own process."""
    return [
        with_exit_code(log, run.code) if log.pid == run.pid and not log.replaced else log
        for log in logs
    ]


def with_exit_code(log: ProcessLog, code: int | None) -> ProcessLog:
    """Return a program with its last OOM judged by its process's exit code.

    Args:
        log: the last program that the process executed.
        code: exit code of the process; ``None`` if a signal ended it, or if it is unknown.
    """
    if not (code and log.ooms and log.ended_at is not None) or log.kind:
        return log
    last = log.ooms[-1]
    # Another thread may be refused memory and end without the program. A program without an
    # optimizer makes no steps, and may have worked for long.
    if last.handled is not None or last.thread not in ("main", None):
        return log
    if log.ended_at - last.at > LEAVES_WITHIN_S:
        return log
    last = replace(last, handled=False, why_not_known="")
    return replace(log, ooms=(*log.ooms[:-1], last))


def first_failure(logs: Sequence[ProcessLog], command: Sequence[str]) -> str:
    """Describe which rank ran out of memory first, and which were ended after it.

    Args:
        logs: logs of the run's agents, one per process.
        command: command of the run, which names the launcher.

    Returns:
        ``rank 1 ran out of memory; torchrun ended rank 0``; empty with fewer than two ranks, or if
        no rank was ended by an OOM.
    """
    failed = _find_failed_ranks(logs)
    if not failed or sum(log.rank is not None for log in logs) < 2:
        return ""
    first, *others = failed
    words = f"rank {first.rank} ran out of memory"
    later = [log for log in others if log.rank != first.rank]
    if later:
        words += f" first, {_name_ranks(later)} after it"
    ended = find_ended_ranks(logs)
    if ended:
        words += f"; {name_launcher(command)} ended {_name_ranks(ended)}"
    return words


def find_ended_ranks(logs: Sequence[ProcessLog]) -> list[ProcessLog]:
    """Return the ranks that the launcher ended because others had run out of memory.

    An agent that wrote no end was killed from outside, or left by ``os._exit``.
    """
    out = {log.rank for log in _find_failed_ranks(logs)}
    if not out:
        return []
    ranks = (log for log in logs if log.rank is not None)
    return [rank for rank in ranks if not (rank.rank in out or rank.ended or rank.running)]


def _find_failed_ranks(logs: Sequence[ProcessLog]) -> list[ProcessLog]:
    """Return the ranks that an OOM ended, or may have ended, the first one first."""
    failed = [
        (oom.at, log)
        for log in logs
        if log.rank is not None
        for oom in log.ooms[-1:]
        if oom.handled is False or (oom.handled is None and not log.running)
    ]
    return [log for _, log in sorted(failed, key=lambda pair: pair[0])]


def _name_ranks(some: Sequence[ProcessLog]) -> str:
    numbers = sorted({log.rank or "" for log in some}, key=lambda rank: (len(rank), rank))
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def name_launcher(command: Sequence[str]) -> str:
    """Return the name of the launcher in a command, or ``the launcher``."""
    names = (word.rpartition("/")[2] for word in command)
    return next((LAUNCHERS[name] for name in names if name in LAUNCHERS), "the launcher")
