"""Compare two settings of a flag in one process, in blocks: A B, then B A, then A B again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from workloads import comparison, flags, statistics, timing
from workloads.comparison import ArmSample, Pair
from workloads.execute import Prepared, prepared
from workloads.protocol import Compare, Comparison
from workloads.timing import Cancelled, Control
from workloads.workload import ParameterError, Skip

WARM_UP_S = 0.15
BLOCKS_PER_ARM = 3
"""Of which the median counts: one block that was interrupted does not spoil its pair."""


def compare(request: Compare, control: Control, tell: Callable[[Comparison], None]) -> Comparison:
    """Compare, and tell what is known after each pair."""
    pairs: list[Pair] = []
    parameters = dict(request.parameters)

    def so_far() -> Comparison:
        return comparison.summarise(request, pairs, fresh_process=False, parameters=parameters)

    try:
        control.report("preparing")
        base = {**request.flags, request.flag: request.settings[0]}
        with prepared(request.workload, request.device, request.parameters, base) as ready:
            parameters.update(ready.parameters)
            blocks = _Blocks(request, ready, control)
            for index in range(comparison.pairs_wanted(request, False)):
                pairs.append(blocks.pair(index))
                tell(so_far())
                control.report("measuring", len(pairs))
        return so_far()
    except Skip as skip:
        return replace(so_far(), status="skipped", reason=str(skip))
    except Cancelled:
        return replace(so_far(), status="cancelled", reason="cancelled; the pairs so far are kept")
    except (ParameterError, ValueError) as error:
        return replace(so_far(), status="failed", reason=str(error))
    except (torch.OutOfMemoryError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return replace(so_far(), status="failed", reason=reason)


class _Blocks:
    """Measures one pair after the other, with the same number of calls in each block."""

    def __init__(self, request: Compare, ready: Prepared, control: Control) -> None:
        self._request = request
        self._ready = ready
        control.report("first call")
        self._first = [self._first_call(index) for index in (0, 1)]
        control.report("warm-up")
        seconds = max(self._warm(index) for index in (0, 1))
        self._settle = max(1, round(timing.BLOCK_S / max(seconds, 1e-9)))
        self._calls = max(1, self._settle // 2)

    def _switch(self, index: int) -> None:
        flags.apply({self._request.flag: self._request.settings[index]})

    def _first_call(self, index: int) -> float:
        self._switch(index)
        return timing.first_call(self._ready.case.timed, self._ready.clock)

    def _warm(self, index: int) -> float:
        self._switch(index)
        clock, call = self._ready.clock, self._ready.case.timed
        spent, seconds = 0.0, 0.0
        while spent < WARM_UP_S:
            seconds = clock.block(call, 1).wall_s
            spent += seconds
        return seconds

    def pair(self, index: int) -> Pair:
        """Both settings once, each after a block that is not timed.

        A setting just switched on is slow for some 20 ms: caches, primitives and threads settle.
        One untimed call leaves most of that in the block.
        """
        samples: dict[int, ArmSample] = {}
        for arm in comparison.order(index):
            self._switch(arm)
            clock, case = self._ready.clock, self._ready.case
            clock.block(case.timed, self._settle)
            blocks = [clock.block(case.timed, self._calls) for _ in range(BLOCKS_PER_ARM)]
            by_device = case.clock == "device"
            seconds = statistics.median(
                [b.device_s if by_device and b.device_s is not None else b.wall_s for b in blocks]
            )
            samples[arm] = ArmSample(seconds / self._calls, self._first[arm])
        return Pair(samples[0], samples[1])
