"""A device that repeats one product, the comparison of its results, and its clock under load."""

from __future__ import annotations

import statistics
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from workloads.measure.nvml import DeviceState

CPU_TOLERANCE = 1e-4
"""Share of the largest entry. A GPU gives the same bits each time (cuBLAS documentation, "Results
reproducibility"); a CPU's library may sum in another order when its threads change."""
STRIP = 512
"""Rows to compare at a time."""
STEADY = 0.02
"""Share by which a steady clock may differ from its median: more than a step of 15 MHz."""
AROUND_S = 1.0
"""Seconds before and after a sample whose median counts as the clock at its time: at its power cap
an H100's clock changes by up to 7% from one sample to the next (docs/readings)."""
FEWEST_SAMPLES = 8
"""With fewer, the last quarter is a single sample."""
NOT_CUDA = "NVML reports it of NVIDIA GPUs alone"


@dataclass(frozen=True, slots=True)
class Tick:
    """The work of a device in one tick."""

    rate: float
    """Products per second, without the time of the comparisons."""
    compared: int
    """Products that were compared with the first one."""
    wrong: int
    """Entries that differed, in all of these."""


class Burner:
    """One device that repeats one product, and compares results with the first one's.

    Args:
        name: of the device.
        a: the first factor.
        b: the second.
        every: products from one comparison to the next; ``None`` to compare the last of a tick.
    """

    def __init__(
        self, name: str, a: torch.Tensor, b: torch.Tensor, every: int | None = None
    ) -> None:
        import torch

        self.name = name
        self.device = a.device
        self._a, self._b = a, b
        self._every = every
        self._out = a @ b
        self._first = self._out.clone()
        self._bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
        self._tolerance: float | None = None
        if self.device.type != "cuda":
            self._tolerance = CPU_TOLERANCE * float(self._first.abs().max())
        self._products = 0
        self._seconds = 0.0
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._wrong = torch.zeros((), dtype=torch.int64, device=self.device)
        self._compared = 0

    def start(self, products: int) -> None:
        """Queue products, and their comparisons with the very first one."""
        import torch

        self._products, self._compared, self._seconds, self._events = products, 0, 0.0, []
        self._wrong.zero_()
        step = self._every or products
        for begun in range(0, products, step):
            count = min(step, products - begun)
            if self.device.type == "cuda":
                with torch.cuda.device(self.device):
                    self._queue(count)
            else:
                self._compute(count)

    def _queue(self, count: int) -> None:
        import torch

        first = torch.cuda.Event(enable_timing=True)
        last = torch.cuda.Event(enable_timing=True)
        first.record()
        self._multiply(count)
        last.record()
        self._events.append((first, last))
        self._compare()

    def _compute(self, count: int) -> None:
        import torch

        began = time.perf_counter()
        self._multiply(count)
        if self.device.type == "mps":
            torch.mps.synchronize()
        self._seconds += time.perf_counter() - began
        self._compare()

    def _multiply(self, products: int) -> None:
        import torch

        for _ in range(products):
            torch.mm(self._a, self._b, out=self._out)

    def _compare(self) -> None:
        # In strips: counting a whole matrix's Booleans takes eight bytes for each of them.
        for out, first in zip(self._out.split(STRIP), self._first.split(STRIP), strict=True):
            self._wrong += self._differs(out, first).sum()
        self._compared += 1

    def _differs(self, out: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        if self._tolerance is None:
            return out.view(self._bits) != first.view(self._bits)
        # ~(a <= b) and not a > b: NaN is wrong too.
        return ~((out - first).abs() <= self._tolerance)

    def finish(self) -> Tick:
        """Wait for the queued products and comparisons."""
        wrong = int(self._wrong)
        if self._events:
            self._seconds = sum(first.elapsed_time(last) for first, last in self._events) / 1e3
        return Tick(self._products / self._seconds, self._compared, wrong)

    def read_state(self) -> DeviceState:
        """Return the device's temperature and clock, if NVML knows them."""
        from workloads.measure import environment
        from workloads.measure.nvml import DeviceState, read_state

        if self.device.type != "cuda":
            return DeviceState(unavailable=dict.fromkeys(("temperature_c", "sm_mhz"), NOT_CUDA))
        return read_state(environment.device(self.device).uuid)


@dataclass(frozen=True, slots=True)
class Steady:
    """A clock that has stopped changing."""

    mhz: float
    after_s: float
    """Seconds from the start of the load to the first of the samples that stay near it."""


def find_steady(samples: Sequence[tuple[float, float | None]]) -> Steady | str:
    """Return a clock's steady state under load, or the reason why there is none.

    The steady clock is the median of the last quarter of the samples. It is reached where the
    medians around all samples from then on differ from it by at most :data:`STEADY`.

    Args:
        samples: seconds from the start, and MHz where known, in order.
    """
    known = [(at, mhz) for at, mhz in samples if mhz is not None]
    if len(known) < FEWEST_SAMPLES:
        return f"{len(known)} samples of the clock, at least {FEWEST_SAMPLES} are needed"
    last = known[-(len(known) // 4) :]
    steady = statistics.median([mhz for _, mhz in last])
    times, clocks = zip(*known, strict=True)
    since: float | None = None
    for at in reversed(times):
        around = clocks[bisect_left(times, at - AROUND_S) : bisect_right(times, at + AROUND_S)]
        if abs(statistics.median(around) - steady) > STEADY * steady:
            break
        since = at
    if since is None or since > last[0][0]:
        return f"the clock still changed by more than {STEADY:.0%} at the end"
    return Steady(steady, since)
