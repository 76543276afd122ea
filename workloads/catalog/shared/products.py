"""Products: their shapes, the entries to check, and which resource bounds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workloads.declare.study import Study

if TYPE_CHECKING:
    from workloads.declare.place import Place

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.declare.place import Place


CHECKED_ROWS, CHECKED_COLUMNS = 64, 1024
"""The part of a large product that is compared with float64."""
LAUNCH_SHARE = 0.5
"""A call is launch-bound if an operation on one number takes this share of its time."""


SMALLEST_PROBE = 64 * 2**20
"""Bytes copied to measure the memory's rate; more where the cache could contain them."""


_ROWS = 2**20
"""Number of random numbers, copied repeatedly: drawing more takes longer than timing them."""


def bound_by(seconds: float, flop_per_byte: float, ridge: float, launch_s: float) -> str:
    """Return a product's bottleneck by the roofline model (Williams, Waterman, Patterson 2009).

    Args:
        seconds: time of one call.
        flop_per_byte: its arithmetic intensity.
        ridge: the machine's FLOP/s over its bytes per second.
        launch_s: time of an operation with almost no work.
    """
    if launch_s >= LAUNCH_SHARE * seconds:
        return "launch"
    return "memory" if flop_per_byte < ridge else "compute"


def seconds_of_copy(study: Study, on: Place, size: int) -> float:
    """Return the seconds of a copy of so many bytes within the device's memory."""
    import torch

    source = on.randn(_ROWS).repeat(size // 4 // _ROWS)
    target = torch.empty_like(source)
    return study.time(lambda: target.copy_(source))


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
