"""The rank that failed first, and the ranks that its launcher then ended."""

from __future__ import annotations

from collections.abc import Sequence

from tui.watch.runs.process_logs import ProcessLog

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


def first_failure(logs: Sequence[ProcessLog], command: Sequence[str]) -> str:
    """Describe which rank ran out of memory first, and which were ended after it.

    Args:
        logs: logs of the run's agents, one per process.
        command: command of the run, which names the launcher.

    Returns:
        ``rank 1 ran out of memory; torchrun ended rank 0``; empty with fewer than two ranks, or if
        no rank was ended by an OOM.
    """
    ranks = [log for log in logs if log.rank is not None]
    failed = sorted(
        ((oom.at, rank) for rank in ranks for oom in rank.ooms[-1:] if oom.handled is not True),
        key=lambda pair: pair[0],
    )
    if len(ranks) < 2 or not failed:
        return ""
    first = failed[0][1]
    words = f"rank {first.rank} ran out of memory"
    later = [log for _, log in failed[1:] if log.rank != first.rank]
    if later:
        words += f" first, {_name_ranks(later)} after it"
    out = {log.rank for _, log in failed}
    # An agent that wrote no end was killed from outside, or left by os._exit.
    ended = [rank for rank in ranks if rank.rank not in out and not rank.ended]
    if ended:
        words += f"; {_launcher(command)} ended {_name_ranks(ended)}"
    return words


def _name_ranks(some: Sequence[ProcessLog]) -> str:
    numbers = sorted({log.rank or "" for log in some}, key=lambda rank: (len(rank), rank))
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _launcher(command: Sequence[str]) -> str:
    names = (word.rpartition("/")[2] for word in command)
    return next((LAUNCHERS[name] for name in names if name in LAUNCHERS), "the launcher")
