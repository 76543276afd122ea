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
    ranks = [each for each in logs if each.rank is not None]
    failed = sorted(
        ((oom.at, each) for each in ranks for oom in each.ooms[-1:] if oom.handled is not True),
        key=lambda pair: pair[0],
    )
    if len(ranks) < 2 or not failed:
        return ""
    first = failed[0][1]
    words = f"rank {first.rank} ran out of memory"
    later = [each for _, each in failed[1:] if each.rank != first.rank]
    if later:
        words += f" first, {_named(later)} after it"
    out = {each.rank for _, each in failed}
    # An agent that wrote no end was killed from outside, or left by os._exit.
    ended = [each for each in ranks if each.rank not in out and not each.ended]
    if ended:
        words += f"; {_launcher(command)} ended {_named(ended)}"
    return words


def _named(some: Sequence[ProcessLog]) -> str:
    numbers = sorted({each.rank or "" for each in some}, key=lambda rank: (len(rank), rank))
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _launcher(command: Sequence[str]) -> str:
    names = (word.rpartition("/")[2] for word in command)
    return next((LAUNCHERS[name] for name in names if name in LAUNCHERS), "the launcher")
