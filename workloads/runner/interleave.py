"""Compare two settings of a flag in one process, in blocks: A B, then B A, then A B again."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from workloads.measure import comparison, cpu_share, flags, timing
from workloads.measure.comparison import ArmSample, Pair
from workloads.measure.cpu_share import Others
from workloads.measure.timing import Control
from workloads.protocol.messages import Compare
from workloads.protocol.results import Comparison
from workloads.runner import readings
from workloads.runner.outcome import keep_if_device_lost, outcome
from workloads.runner.prepare import Prepared, prepared

BLOCKS_PER_ARM = 3
"""Of which the median counts: one block that was interrupted does not spoil its pair."""


def compare(request: Compare, control: Control, tell: Callable[[Comparison], None]) -> Comparison:
    """Compare, and tell what is known after each pair."""
    pairs: list[Pair] = []
    ended_early: tuple[str, ...] = ()
    beside = Others()
    parameters = dict(request.parameters)
    spans: list[tuple[float, float]] = []
    devices: tuple[str, ...] = ()

    def so_far() -> Comparison:
        return comparison.summarise(
            request,
            pairs,
            fresh_process=False,
            parameters=parameters,
            warnings=(*ended_early, *readings.beside_pairs(beside, request.device)),
            measured=spans,
            devices=devices,
        )

    def saw(others: Others) -> None:
        nonlocal beside
        beside += others

    try:
        control.report("preparing")
        base = {**request.flags, request.flag: request.settings[0]}
        with prepared(request.workload, request.device, request.parameters, base) as ready:
            parameters.update(ready.parameters)
            devices = ready.case.devices
            blocks = _Blocks(request, ready, control)
            wanted = comparison.pairs_wanted(request, False)
            limit, began = comparison.BLOCKS_S[request.budget], time.monotonic()
            while len(pairs) < wanted:
                start = time.time()
                with cpu_share.watched(saw):
                    pair = blocks.pair(len(pairs))
                pairs.append(pair)
                spans.append((start, time.time()))
                tell(so_far())
                control.report("measuring", len(pairs))
                if len(pairs) >= 3 and time.monotonic() - began > limit:
                    ended_early = (f"ended at the time limit of {limit:g} s",)
                    break
        return so_far()
    except (Exception, SystemExit) as error:  # noqa: BLE001 (anything may come; it is told)
        status, reason = outcome(error, request.device)
        keep_if_device_lost(error, reason)
        if status == "cancelled":
            reason = "the pairs so far are kept"
        return replace(so_far(), status=status, reason=reason)


class _Blocks:
    """Measures one pair after the other, with the same number of calls in each block."""

    def __init__(self, request: Compare, ready: Prepared, control: Control) -> None:
        self._request = request
        self._ready = ready
        self._control = control
        control.report("first call")
        seconds = max(self._warm(index) for index in (0, 1))
        self._warm_up_calls = max(1, round(timing.BLOCK_S / max(seconds, 1e-9)))
        self._calls = max(1, self._warm_up_calls // 2)

    def _switch(self, index: int) -> None:
        flags.apply({self._request.flag: self._request.settings[index]})

    def _warm(self, index: int) -> float:
        """Seconds of a warm call with one of the settings."""
        self._switch(index)
        clock, call = self._ready.clock, self._ready.case.timed
        first = timing.first_call(call, clock)
        return timing.warm_up(call, clock, timing.PLANS["quick"], self._control, first)

    def pair(self, index: int) -> Pair:
        """Both settings once, each after a block that is not timed.

        A setting just switched on is slow for some 20 ms, while caches fill and threads start.
        One untimed call leaves most of that in the block.
        """
        samples: dict[int, ArmSample] = {}
        for arm in comparison.order(index):
            self._switch(arm)
            clock, case = self._ready.clock, self._ready.case
            clock.block(case.timed, self._warm_up_calls)
            blocks = [clock.block(case.timed, self._calls) for _ in range(BLOCKS_PER_ARM)]
            by_device = case.clock == "device"
            seconds = statistics.median(
                [b.device_s if by_device and b.device_s is not None else b.wall_s for b in blocks]
            )
            samples[arm] = ArmSample(seconds / self._calls, None)
        return Pair(samples[0], samples[1])
