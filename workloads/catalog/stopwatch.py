"""Take the time between places of a loop, by the device's own clock where it has one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Union

import torch

from workloads.place import Place

Moment = Union[torch.cuda.Event, float]


class Stopwatch:
    """Moments on a device.

    On CUDA a moment is an event in the current stream: it passes when the work queued before it is
    done, and the host does not wait for it. Elsewhere the host's clock is read, on MPS once the
    device has done what was asked of it.
    """

    def __init__(self, on: Place) -> None:
        self._on = on

    def now(self) -> Moment:
        """This moment."""
        if self._on.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            return event
        if self._on.type == "mps":
            torch.mps.synchronize()
        return perf_counter()

    def synchronize(self) -> None:
        """Wait until all moments taken have passed; to be called before asking for seconds."""
        if self._on.type == "cuda":
            torch.cuda.synchronize(self._on.device)

    @staticmethod
    def seconds(first: Moment, last: Moment) -> float:
        """Seconds from one moment to a later one."""
        if isinstance(first, float) or isinstance(last, float):
            assert isinstance(first, float)
            assert isinstance(last, float)
            return last - first
        return float(first.elapsed_time(last)) / 1e3


def split(
    on: Place, step: Callable[[Callable[[], None]], None], phases: Sequence[str], steps: int
) -> dict[str, float]:
    """Seconds of each phase of a step: medians over a number of steps, after one that is not kept.

    Args:
        on: where it runs.
        step: does one step, and calls what it is given at the end of each phase.
        phases: their names, in order.
        steps: how many to time.
    """
    watch = Stopwatch(on)
    runs: list[list[Moment]] = []
    for _ in range(steps + 1):
        moments = [watch.now()]
        step(lambda moments=moments: moments.append(watch.now()))  # type: ignore[misc]
        runs.append(moments)
    watch.synchronize()
    return {
        phase: statistics.median(
            [watch.seconds(moments[index], moments[index + 1]) for moments in runs[1:]]
        )
        for index, phase in enumerate(phases)
    }
