"""The search for the largest value with which a program fits, in few rehearsals."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

FACTOR = 8
"""Growth of the distance from a guess to the next value, until the guess lies between both."""


class BadRangeError(ValueError):
    """A range that cannot be searched; the text is one line."""


@dataclass(frozen=True, slots=True)
class SearchRange:
    """The name in the command, and the values to search, inclusive."""

    name: str
    low: int
    high: int


def parse_range(text: str) -> SearchRange:
    """Parse a range such as ``batch=1..1024``.

    Raises:
        BadRangeError: it has another form, or is empty.
    """
    found = re.fullmatch(r"([A-Za-z_]\w*)=(\d{1,12})\.\.(\d{1,12})", text.strip())
    if found is None:
        raise BadRangeError(f"{text}: give a name and two numbers, such as batch=1..1024")
    one = SearchRange(found[1], int(found[2]), int(found[3]))
    if one.low > one.high:
        raise BadRangeError(f"{text}: {one.low} is larger than {one.high}")
    return one


@dataclass(frozen=True, slots=True)
class Search:
    """What is known so far: the largest value that fits, and the smallest that does not."""

    range: SearchRange
    fits: int | None = None
    fails: int | None = None
    peaks: tuple[tuple[int, int], ...] = ()
    """Values that fit, with their peaks in bytes, in the order of the rehearsals."""
    distance: int = 0
    """Distance from the guess to the next value; 0 until a value was guessed."""
    last_fits: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the largest value that fits is known, or that there is none in the range."""
        if self.fits == self.range.high or self.fails == self.range.low:
            return True
        return self.fits is not None and self.fails is not None and self.fails == self.fits + 1

    def next_value(self, total: int) -> int:
        """Return the value to rehearse next.

        Memory is almost a straight line over a batch size, and a parabola over some lengths: the
        peaks so far tell where the curve reaches the card's memory. The neighbors of that guess come next, then values at
        growing distances, and never more than half of what is left.

        Args:
            total: memory of the card in bytes.
        """
        if self.fits is None:
            return self.range.low
        at_most = self.range.high if self.fails is None else self.fails - 1
        furthest = FACTOR * max(1, self.fits)
        middle = (self.fits + at_most + 1) // 2
        if len(self.peaks) == 1:
            return min(furthest, at_most if self.fails is None else middle)
        if not self.distance:
            return min(at_most, furthest, max(self.fits + 1, self._guess(total)))
        if self.fails is None:
            return min(at_most, self.fits + self.distance)
        if self.last_fits:
            return min(middle, self.fits + self.distance)
        return max(middle, self.fails - self.distance)

    def _guess(self, total: int) -> int:
        """Return the value at which the curve through the last two or three peaks reaches it."""
        (a, peak_a), (b, peak_b) = self.peaks[-2:]
        slope = (peak_b - peak_a) / (b - a)
        bend = 0.0
        if len(self.peaks) > 2:
            c, peak_c = self.peaks[-3]
            bend = max(0.0, (slope - (peak_a - peak_c) / (a - c)) / (b - c))
        rise = slope + bend * (b - a)
        root = math.sqrt(max(0.0, rise**2 + 4 * bend * (total - peak_b))) + rise
        if root <= 0:
            return self.range.high
        return b + int(min(2 * (total - peak_b) / root, self.range.high))

    def apply(self, value: int, peak: int | None) -> Search:
        """Return the search after one more rehearsal.

        Args:
            value: the rehearsed value.
            peak: its peak in bytes if it fits, else ``None``.
        """
        distance = self.distance * FACTOR
        if not distance and self._is_guess(value):
            distance = 1
        if peak is None:
            return replace(self, fails=value, distance=distance, last_fits=False)
        peaks = (*self.peaks, (value, peak))
        return replace(self, fits=value, peaks=peaks, distance=distance, last_fits=True)

    def _is_guess(self, value: int) -> bool:
        """Return whether a value was chosen by the curve, not as the furthest of a probe."""
        return len(self.peaks) > 1 and self.fits is not None and value < FACTOR * self.fits
