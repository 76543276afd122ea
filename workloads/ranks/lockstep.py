"""Ranks that decide alike: what any of them measures is the slowest rank's time.

A measurement decides from its times how many calls a block takes and when to stop. Where each call
waits for the other ranks, all must decide the same, or they would wait for ever: so every block is
begun ranks, and its times are those of the slowest rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from workloads.clocks import Clock, TimedBlock


class RankGroup:
    """The ranks of one run.

    Args:
        group: of all ranks, over gloo: it carries nothing but what is agreed on here.
        told_to_end: whether this rank was told to end the run.
    """

    def __init__(self, group: dist.ProcessGroup, told_to_end: Callable[[], bool]) -> None:
        self._group = group
        self._told_to_end = told_to_end
        self.ended = False
        """Some rank was told to end when they met last; the same on all."""

    def largest(self, values: Sequence[float]) -> list[float]:
        """The largest of each value over the ranks; waits for all of them."""
        own = torch.tensor([float(self._told_to_end()), *values], dtype=torch.float64)
        dist.all_reduce(own, dist.ReduceOp.MAX, group=self._group)
        end, *largest = own.tolist()
        self.ended = self.ended or end > 0
        return largest

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.largest(())


class LockstepClock:
    """A clock whose blocks all ranks begin together; their times are the slowest rank's."""

    def __init__(self, own: Clock, ranks: RankGroup) -> None:
        self._own = own
        self._ranks = ranks

    def synchronize(self) -> None:
        """Wait for this rank's own device."""
        self._own.synchronize()

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        """Time ``calls`` calls back to back."""
        self._own.synchronize()
        self._ranks.barrier()
        block = self._own.block(call, calls)
        device = 0.0 if block.device_s is None else block.device_s
        wall, device, enqueue = self._ranks.largest((block.wall_s, device, block.enqueue_s))
        return TimedBlock(wall, None if block.device_s is None else device, enqueue)


_current: list[RankGroup] = []


def join(ranks: RankGroup) -> None:
    """Make this process a rank."""
    _current.append(ranks)


def current() -> RankGroup | None:
    """The ranks that this process is one of; ``None`` in a worker."""
    return _current[-1] if _current else None
