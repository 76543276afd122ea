"""The search for the largest value with which a program fits, in few rehearsals."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

PROBE = 8
"""Factor from the lowest value to the second, where a search gallops."""
MOST_GUESSES = 4
"""Values guessed from the peaks, before the search only halves the rest of the range."""
GALLOP = 4
"""Rehearsals that a galloping search may take beyond a bisection."""
NEAR = 3
"""Rehearsals that a search next to a known limit may take beyond a bisection."""


class BadRangeError(ValueError):
    """A range that cannot be searched; the text is one line."""


@dataclass(frozen=True, slots=True)
class SearchRange:
    """The name in the command, and the values to search, inclusive."""

    name: str
    low: int
    high: int

    @property
    def bisection(self) -> int:
        """The base-2 logarithm of the number of values, rounded up."""
        return (self.high - self.low).bit_length()


def parse_range(text: str) -> SearchRange:
    """Parse a range such as ``batch=1..1024``.

    Raises:
        BadRangeError: it has another form, or is empty.
    """
    match = re.fullmatch(r"([A-Za-z_]\w*)=(\d{1,12})\.\.(\d{1,12})", text.strip())
    if match is None:
        raise BadRangeError(f"{text}: give a name and two numbers, such as batch=1..1024")
    search_range = SearchRange(match[1], int(match[2]), int(match[3]))
    if search_range.low > search_range.high:
        raise BadRangeError(f"{text}: {search_range.low} is larger than {search_range.high}")
    return search_range


@dataclass(frozen=True, slots=True)
class Search:
    """State of a search: the largest value that fits, and the smallest that does not.

    Of N values, between none and all may fit: a rehearsal, which fits or does not, halves these
    N + 1 outcomes at best. A value is guessed from the peaks only where the rehearsals that are
    left suffice for either result, so that no guess costs more than the search was given.
    """

    range: SearchRange
    left: int
    """Rehearsals that may still be made. One more is, if the lowest value or none fits."""
    fits: int | None = None
    fails: int | None = None
    is_close: bool = False
    """True if the smallest that does not fit only comes within the margin of the memory."""
    peaks: tuple[tuple[int, int], ...] = ()
    """Values that fit, with their peaks in bytes, in the order of the rehearsals."""
    guesses: int = 0
    hints: tuple[int, ...] = ()
    """Values to rehearse before all others: the limit is probably between them."""
    slope: float | None = None
    """Bytes that one more is likely to take, where a similar search has measured it."""

    @classmethod
    def bisecting(cls, values: SearchRange) -> Search:
        """Return a search that takes as few rehearsals as any can whose values say nothing."""
        return cls(values, values.bisection)

    @classmethod
    def galloping(cls, values: SearchRange) -> Search:
        """Return a search that begins at the lowest value, and takes few if memory is regular."""
        return cls(values, values.bisection + GALLOP, hints=(values.low,))

    @property
    def is_over(self) -> bool:
        """True if the largest value that fits is known, or that there is none in the range."""
        if self.fits == self.range.high or self.fails == self.range.low:
            return True
        return self.fits is not None and self.fails is not None and self.fails == self.fits + 1

    def next_value(self, available: int) -> int:
        """Return the value to rehearse next.

        Args:
            available: bytes up to which a peak fits.
        """
        bottom = self.range.low if self.fits is None else self.fits
        top = self.range.high if self.fails is None else self.fails - 1
        if bottom == top:
            return bottom  # the next one does not fit, and whether this one does is open
        half = 1 << max(0, self.left - 1)  # outcomes that the rehearsals after this one tell apart
        least = max(top + 1 - half, bottom + (self.fits is not None))
        return min(max(self._choose_guess(available, bottom, top), least), bottom + half, top)

    def _choose_guess(self, available: int, bottom: int, top: int) -> int:
        """Return the value that would tell most if memory is regular.

        Memory is almost a straight line over a batch size, and a parabola over some lengths: the
        peaks so far tell where it reaches the memory of the card.

        Args:
            available: bytes up to which a peak fits.
            bottom: the largest value that fits, or the lowest.
            top: the largest that may fit.
        """
        for hint in self.hints:
            if (self.fits is None or hint > bottom) and hint <= top:
                return hint
        middle = (bottom + top + 1) // 2
        if not self.peaks:
            return middle
        if len(self.peaks) == 1:
            if self.slope is not None and self.slope > 0:
                value = bottom + max(1, int((available - self.peaks[0][1]) / self.slope))
                return value if value <= top else middle if self.fails is not None else top
            return min(PROBE * max(1, bottom), top if self.fails is None else middle)
        if self.guesses >= MOST_GUESSES:
            return middle
        guess = self._guess(available, 2)
        if self.fails is None:
            # A guess far beyond the last peak is worth another probe before it.
            probe = PROBE * max(1, bottom)
            return probe if guess > 2 * probe else guess
        if guess > top:
            if len(self.peaks) < 3:
                return bottom + (top - bottom) * 9 // 10
            guess = self._guess(available, 3)
        return middle if guess > top else guess

    def near(self) -> Search:
        """Return a new search of the range for a similar program, near this search's result."""
        left = self.range.bisection + NEAR
        if self.fits is None:
            return Search(self.range, left, hints=(self.range.low,))
        slope = None
        if len(self.peaks) > 1:
            (a, peak_a), (b, peak_b) = self.peaks[-2:]
            slope = (peak_b - peak_a) / (b - a)
        return Search(self.range, left, hints=(self.fits + 1, self.fits), slope=slope)

    def _guess(self, available: int, points: int) -> int:
        """Return the value at which the curve through the last peaks reaches the memory.

        Args:
            available: the memory in bytes.
            points: 2 for a straight line, 3 for a parabola.
        """
        (a, peak_a), (b, peak_b) = self.peaks[-2:]
        slope = (peak_b - peak_a) / (b - a)
        bend = 0.0
        if points > 2:
            c, peak_c = self.peaks[-3]
            bend = max(0.0, (slope - (peak_a - peak_c) / (a - c)) / (b - c))
        rise = slope + bend * (b - a)
        left = available - peak_b
        root = math.sqrt(max(0.0, rise**2 + 4 * bend * left)) + rise
        return self.range.high if root <= 0 else b + int(min(2 * left / root, self.range.high))

    def apply(self, value: int, peak: int | None, *, is_close: bool = False) -> Search:
        """Return the search after one more rehearsal.

        Args:
            value: the rehearsed value.
            peak: its peak in bytes if it fits, else ``None``.
            is_close: it may fit: its peak is within the margin of the card's memory.
        """
        guesses, left = self.guesses + (len(self.peaks) > 1), self.left - 1
        if peak is None:
            return replace(self, fails=value, is_close=is_close, guesses=guesses, left=left)
        peaks = (*self.peaks, (value, peak))
        return replace(self, fits=value, peaks=peaks, guesses=guesses, left=left)
