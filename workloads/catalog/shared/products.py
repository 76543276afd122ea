"""Products: their shapes, the entries to check, and which resource bounds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workloads.declare.study import Study
from workloads.declare.tools import ClockName
from workloads.limits import limits
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

CHECKED_ROWS, CHECKED_COLUMNS = 64, 1024
"""The part of a large product that is compared with float64."""
LAUNCH_SHARE = 0.5
"""A call is launch-bound if an operation on one number takes this share of its time."""

SMALLEST_PROBE = 64 * 2**20
"""Bytes copied to measure the memory's rate; more where the cache could contain them."""

_ROWS = 2**20
"""Number of random numbers, copied repeatedly: drawing more takes longer than timing them."""


def bound_by(
    seconds: float, flop_per_byte: float, ridge: float, launch_s: float, *, cached: bool = False
) -> str:
    """Return a product's bottleneck by the roofline model (Williams, Waterman, Patterson 2009).

    Args:
        seconds: time of one call.
        flop_per_byte: its arithmetic intensity.
        ridge: the machine's FLOP/s over its bytes per second.
        launch_s: time of an operation with almost no work.
        cached: its bytes per second exceed the memory's rate, so a cache serves them.
    """
    if launch_s >= LAUNCH_SHARE * seconds:
        return "launch"
    if flop_per_byte >= ridge:
        return "compute"
    return "cache" if cached else "memory"


def launch_seconds(study: Study, on: Place, clock: ClockName | None = None) -> float:
    """Return the seconds of an addition of one number: launch and nothing else."""
    scalar = on.randn(1)
    return study.time(lambda: scalar + scalar, clock)


def probe_bytes(on: Place) -> int:
    """Return the bytes to copy for :func:`add_memory_rate`, too many for the cache."""
    from workloads.measure import environment

    return limits.uncached(SMALLEST_PROBE, environment.last_cache(on.device))


def add_memory_rate(study: Study, on: Place, probe: int) -> float:
    """Add the rate of a copy within the device's memory, and return it in byte/s."""
    import torch

    source = on.randn(_ROWS).repeat(probe // 4 // _ROWS)
    target = torch.empty_like(source)
    rate = 2 * probe / study.time(lambda: target.copy_(source))
    about = f"of a copy of {probe // 2**20} MiB, read and written"
    study.figure("memory_rate", rate, "byte/s", about)
    study.check_rate("the copy", rate, limits.MEMORY)
    return rate


def add_ridge(study: Study, best: float, memory: float) -> float:
    """Add the ridge of the roofline, and return it in FLOP per byte.

    Args:
        study: the findings.
        best: the highest rate of a product, FLOP/s.
        memory: the memory's rate, byte/s.
    """
    about = "FLOP per byte: the best rate in the table over the memory's; below it memory decides"
    study.figure("ridge", best / memory, "", about)
    return best / memory


def check_product(a: torch.Tensor, b: torch.Tensor, result: torch.Tensor, precision: str) -> Check:
    """Check some entries of the product of two square matrices against float64 on the CPU."""
    from workloads.declare.place import TOLERANCES, against_float64

    rows, columns = min(len(a), CHECKED_ROWS), min(len(a), CHECKED_COLUMNS)
    reference = a[:rows].cpu().double() @ b[:, :columns].cpu().double()
    reference_name = f"{rows} x {columns} entries of the product, in float64 on the CPU"
    return against_float64(
        result[:rows, :columns], reference, TOLERANCES[precision], reference_name
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """A batch of products of an m x k matrix with a k x n matrix, float32."""

    name: str
    m: int
    k: int
    n: int
    batch: int = 1

    @property
    def flop(self) -> int:
        return 2 * self.batch * self.m * self.k * self.n

    @property
    def byte(self) -> int:
        """Return the bytes of both factors, read once, and of the product, written once."""
        return 4 * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)

    @property
    def text(self) -> str:
        count = f"{self.batch} of " if self.batch > 1 else ""
        return f"{count}{self.m}x{self.k} · {self.k}x{self.n}"
