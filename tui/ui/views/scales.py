"""Scales of charts: where a value stands between two round ends. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workloads.protocol.frozen import frozen

LOGARITHMIC_FROM = 10.0
"""Ratio of the largest to the smallest value from which steps are ratios, not differences."""
_STEPS = (1.0, 2.0, 5.0, 10.0)


@frozen
class Scale:
    """A range with round ends, so that it stays where it is while values are added."""

    low: float
    high: float
    logarithmic: bool

    def share(self, value: float) -> float:
        """How far along the value stands: 0.0 at the low end, 1.0 at the high one."""
        if self.high == self.low:
            return 0.5
        if self.logarithmic:
            if value <= 0:
                return 0.0
            whole = math.log(self.high / self.low)
            return min(1.0, max(0.0, math.log(value / self.low) / whole))
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def ticks(self, most: int = 4) -> tuple[float, ...]:
        """Round values to label: the ends and, between them, powers of ten or the middle."""
        if not self.logarithmic:
            return (self.low, (self.low + self.high) / 2, self.high)
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        powers = [10.0**power for power in range(first, last + 1)]
        inner = [power for power in powers if self.low * 2.1 <= power <= self.high / 2.1]
        every = max(1, math.ceil(len(inner) / max(1, most - 2)))
        return (self.low, *inner[::every], self.high)


def _below(value: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above it."""
    power = 10.0 ** math.floor(math.log10(value))
    return max((step * power for step in _STEPS if step * power <= value * (1 + 1e-9)), default=0.1)


def above(value: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below it; ``value`` above zero."""
    power = 10.0 ** math.floor(math.log10(value))
    return min(step * power for step in _STEPS if step * power >= value * (1 - 1e-9))


def scale_for(values: Sequence[float]) -> Scale:
    """A scale for the values: by ratios where they span many, else from zero.

    Args:
        values: finite, at least one.
    """
    low, high = min(values), max(values)
    if low > 0 and high / low >= LOGARITHMIC_FROM:
        return Scale(_below(low), above(high), True)
    if low >= 0:
        return Scale(0.0, above(high) if high > 0 else 1.0, False)
    return Scale(-above(-low), above(high) if high > 0 else 0.0, False)


def places_scale(places: Sequence[float]) -> Scale:
    """A scale for an axis: from the first place to the last, by ratios where they grow so."""
    low, high = min(places), max(places)
    return Scale(low, high, low > 0 and high / low >= 4)
