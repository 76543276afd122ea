"""The axis of a plot: its range, labels and unit; the line for a ratio. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tui.core.text import glyphs
from tui.core.text.numbers import RATES, place
from tui.kit.lines import Line, Span, TextStyle, cell_len, line

LOGARITHMIC_FROM = 10.0
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""
_STEPS = (1.0, 2.0, 5.0, 10.0)
_PARTS = 5
"""Most steps of an axis from zero."""
_FEW = 5
"""Most values of a linear axis that are its ticks; more get evenly spaced, round ticks."""
_LEAST, _MOST = 1e-140, 1e140
"""Smallest and largest magnitude on an axis: ratios and products of two such floats are finite."""
_MOST_DECADES = 300
"""Most powers of ten from one end of an axis to the other that floats hold."""
_SHORT_NUMBER = 4
"""Most characters of a short number."""
_SHORT_UNIT = 3
"""Most characters of a unit that may follow each number: of times and sizes, not of rates."""
_BYTES = ("byte", "bytes", "B")
_NEAR = 1e-9
"""Relative distance within which a value counts as round."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A range of values along an axis."""

    low: float
    high: float
    logarithmic: bool = False
    doubling: bool = False
    """Round values are powers of two, as for sizes that double."""
    places: tuple[float, ...] = ()
    """The few measured values of a short axis, lowest first, which then are its ticks."""

    def share(self, value: float) -> float:
        """Return the position of a value: 0.0 at the low end, 1.0 at the high end."""
        if self.high == self.low:
            return 0.5
        if self.logarithmic:
            if value <= 0:
                return 0.0
            whole = math.log(self.high / self.low)
            return min(1.0, max(0.0, math.log(value / self.low) / whole))
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def contains(self, value: float) -> bool:
        """Return whether the value lies in the range."""
        return self.low * (1 - _NEAR) <= value <= self.high * (1 + _NEAR)

    def stretched(self, factor: float) -> Scale:
        """Return the scale with a higher end: each share is ``factor`` times smaller.

        It stays as it is if floats cannot hold the end.
        """
        if self.logarithmic:
            if factor * math.log10(self.high / self.low) > _MOST_DECADES:
                return self
            return replace(self, high=self.low * (self.high / self.low) ** factor)
        return replace(self, high=self.low + (self.high - self.low) * factor)

    def ticks(self, most: int, unit: float = 1.0) -> tuple[float, ...]:
        """Return the few places, or round values in the range, lowest first; at least one.

        Args:
            most: largest number of values; two or more if possible.
            unit: the unit in which they are round; bytes are rounded to powers of 1024.
        """
        most = max(2, most)
        if 0 < len(self.places) <= most:
            return self.places
        if self.logarithmic:
            places = self._powers(most)
            if len(places) >= 2:
                return places
        return self._even(most, unit)

    def _powers(self, most: int) -> tuple[float, ...]:
        base = 2.0 if self.doubling else 10.0
        first = math.ceil(math.log(self.low, base) - _NEAR)
        last = math.floor(math.log(self.high, base) + _NEAR)
        count = max(0, last - first + 1)
        if not self.doubling:
            for steps in ((1.0, 2.0, 5.0), (1.0, 3.0)):
                fine = [
                    step * base**power for power in range(first - 1, last + 1) for step in steps
                ]
                inside = tuple(value for value in fine if self.contains(value))
                if 2 <= len(inside) <= most:
                    return inside
        every = max(1, math.ceil(count / most))
        return tuple(base**power for power in range(first, last + 1, every))

    def _even(self, most: int, unit: float) -> tuple[float, ...]:
        span = (self.high - self.low) / unit
        if not span:
            return (self.low,)
        step = above(span / most)
        while True:
            first = math.ceil(self.low / unit / step - _NEAR)
            last = math.floor(self.high / unit / step + _NEAR)
            if last - first < most:
                break
            step = above(step * 1.5)
        # Steps below the floats' resolution give a value more than once.
        ticks = dict.fromkeys(number * step * unit for number in range(first, last + 1))
        return tuple(ticks) or (self.low,)


def _power_of_ten(value: float) -> float:
    return 10.0 ** math.floor(math.log10(value))


def _within_reach(value: float) -> float:
    """Return the value, or the nearest value that an axis can show."""
    if abs(value) < _LEAST:
        return 0.0
    return min(_MOST, max(-_MOST, value))


def below(value: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten not above ``value``, which is positive."""
    power = _power_of_ten(value)
    return max(
        (step * power for step in _STEPS if step * power <= value * (1 + _NEAR)), default=power
    )


def above(value: float) -> float:
    """Return the least of 1, 2, 5 times a power of ten not below ``value``, which is positive."""
    power = _power_of_ten(value)
    return min(step * power for step in _STEPS if step * power >= value * (1 - _NEAR))


def scale_for(values: Sequence[float], unit: str = "") -> Scale:
    """Return a scale with round ends for values: by ratios where they span many, else from zero.

    Args:
        values: finite, at least one; magnitudes below 1e-140 count as zero, above 1e140 as 1e140.
        unit: their unit, in which the ends are round.
    """
    low, high = _within_reach(min(values)), _within_reach(max(values))
    if low > 0 and high / low >= LOGARITHMIC_FROM:
        if unit in _BYTES:
            first = math.floor(math.log2(low) + _NEAR)
            last = math.ceil(math.log2(high) - _NEAR)
            return Scale(2.0**first, 2.0**last, True, doubling=True)
        return Scale(below(low), above(high), True)
    most = max(high, -low)
    if not most:
        return Scale(0.0, 1.0)
    factor = max((size for size, _ in units_of(unit) if size <= most), default=1.0)
    step = above(most / factor / _PARTS) * factor
    ends = [math.floor(low / step + _NEAR) * step, math.ceil(high / step - _NEAR) * step]
    return Scale(min(0.0, ends[0]), max(0.0, ends[1]))


def places_scale(places: Sequence[float]) -> Scale:
    """Return a scale for chosen values, from first to last; logarithmic if they grow by ratios."""
    low, high = _within_reach(min(places)), _within_reach(max(places))
    doubling = all(value > 0 and math.log2(value).is_integer() for value in places)
    logarithmic = low > 0 and high / low >= 4
    few = () if logarithmic or len(places) > _FEW else tuple(sorted({*map(_within_reach, places)}))
    return Scale(low, high, logarithmic, doubling, few)


# ---- the units of an axis ----------------------------------------------------------------------

_DECIMAL = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"))
_BINARY = tuple((1024.0**power, f"{prefix}iB") for power, prefix in enumerate("?KMGTP") if power)


def units_of(unit: str) -> tuple[tuple[float, str], ...]:
    """Return the units of a figure: factors with their names, the smallest first."""
    if unit in ("s", "second", "seconds"):
        micro = f"{glyphs.GLYPHS.micro}s"
        return ((1e-9, "ns"), (1e-6, micro), (1e-3, "ms"), (1.0, "s"))
    if unit in _BYTES:
        return ((1.0, "B"), *_BINARY)
    word = RATES.get(unit, unit)
    if word in ("B/s", "FLOP/s", "FLOP"):
        return tuple((factor, prefix + word) for factor, prefix in _DECIMAL)
    if word.endswith("/s"):
        return tuple((factor, f"{prefix} {word}".strip()) for factor, prefix in _DECIMAL)
    return ((1.0, word),)


class Labels(NamedTuple):
    """The ticks of an axis with their numbers."""

    unit: str
    """Unit of all numbers; empty if they have none or each its own."""
    ticks: tuple[tuple[float, str], ...]
    """Value and text, the lowest value first."""

    @property
    def cells(self) -> int:
        """Width of the longest number in cells."""
        return max(len(text) for _, text in self.ticks)


def labels(scale: Scale, unit: str, most: int) -> Labels:
    """Return the ticks of an axis in one unit, so that their numbers are short.

    Where a logarithmic axis spans so much that no unit gives short numbers, each time or
    size has its own, and each rate its prefix: ``10T`` in FLOP/s.

    Args:
        scale: the range of the axis.
        unit: the unit of its values.
        most: largest number of ticks.
    """
    candidates = []
    units = units_of(unit)
    for factor, word in units:
        ticks = scale.ticks(most, factor)
        texts = [place(_rounded(tick / factor)) for tick in ticks]
        candidates.append(Labels(word, tuple(zip(ticks, texts, strict=True))))
    reach = max(map(abs, (scale.low, scale.high)))
    # Skip units in which all numbers would be below one.
    candidates = [
        item for item, (factor, _) in zip(candidates, units, strict=True) if factor <= reach
    ] or [candidates[0]]
    if not scale.logarithmic:
        return candidates[-1]
    # For equal lengths, choose the larger unit.
    best = min(
        reversed(candidates),
        key=lambda item: (item.cells, len("".join(text for _, text in item.ticks))),
    )
    if best.cells <= _SHORT_NUMBER or len(units) == 1:
        return best
    named = [(tick, _with_unit(tick, units)) for tick, _ in best.ticks]
    if all(len(word) <= _SHORT_UNIT for _, word in units):
        return Labels("", tuple(named))
    base = units[0][1]
    short = ((tick, words.removesuffix(base).replace(" ", "")) for tick, words in named)
    return Labels(base, tuple(short))


def _with_unit(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Return a value in the largest unit that is not above it."""
    factor, word = max((size for size in units if size[0] <= value), default=units[0])
    return f"{place(_rounded(value / factor))} {word}".strip()


def _rounded(value: float) -> float:
    return float(f"{value:.12g}")


# ---- a ratio and its interval --------------------------------------------------------------------

_REACHES = (1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
"""Ratios at the ends of a line around one; the other end is the inverse."""
LEAST_LINE = 9
"""Least cells of a readable line."""


def ratio_line(ratio: float, interval: tuple[float, float] | None, cells: int) -> Line:
    """Return a ratio and its confidence interval on a line around 1, where both are the same.

    Twice and half as fast have the same distance from 1.

    Args:
        ratio: above zero.
        interval: its confidence interval; ``None`` with too few pairs.
        cells: width of a line; without enough cells, no line is drawn.
    """
    reach = reach_of([(ratio, interval)])
    slower, faster = ends_of(reach)
    room = _odd_cells(cells - cell_len(slower) - cell_len(faster) - 2)
    if room < LEAST_LINE:
        return ()
    drawn = interval_line(ratio, interval, room, reach)
    return line(Span(f"{slower} ", TextStyle.QUIET), *drawn, Span(f" {faster}", TextStyle.QUIET))


def reach_of(ratios: Sequence[tuple[float, tuple[float, float] | None]]) -> float:
    """Return the ratio at the right end of a line that includes all; the left end is its inverse.

    Args:
        ratios: each with its interval; at least one.
    """
    values = [end for ratio, interval in ratios for end in (ratio, *_low_high(ratio, interval))]
    farthest = max(max(value, 1 / value) for value in map(_within_ratios, values))
    return next((reach for reach in _REACHES if reach >= farthest), above(farthest))


def ends_of(reach: float) -> tuple[str, str]:
    """Return the labels at the ends of a line: ``1.1x slower``, ``1.1x faster``."""
    factor = f"{place(_short_ratio(reach))}x"
    return f"{factor} slower", f"{factor} faster"


def interval_line(
    ratio: float,
    interval: tuple[float, float] | None,
    cells: int,
    reach: float,
    *,
    named: bool = True,
) -> Line:
    """Return the line alone, without its ends; faster and slower have their colors.

    Args:
        ratio: above zero.
        interval: as for :func:`ratio_line`.
        cells: width; the last cell of an even width stays empty, because the middle is a cell.
        reach: the ratio at its right end.
        named: write 1x beside the middle, if the interval leaves room on a side.
    """
    low, high = map(_within_ratios, _low_high(ratio, interval))
    ratio = _within_ratios(ratio)
    room = _odd_cells(cells)
    scale = Scale(1 / reach, reach, True)
    chars = glyphs.GLYPHS.interval
    drawn = [(chars.line, TextStyle.QUIET)] * room
    ends = [round(scale.share(value) * (room - 1)) for value in (low, high)]
    middle = room // 2
    if named:
        # Write the name where the interval leaves it whole, and away from the interval if possible.
        # Where there is no such place, leave it out: the middle has a mark of its own.
        for name in sorted((middle - 2, middle + 1), reverse=ends[0] < middle):
            if name + 1 < ends[0] or name > ends[1]:
                drawn[name], drawn[name + 1] = ("1", TextStyle.QUIET), ("x", TextStyle.QUIET)
                break
    drawn[middle] = (chars.one, TextStyle.STRONG)
    style = TextStyle.GOOD if low > 1 else TextStyle.NOTE
    if interval is None or low <= 1 <= high:
        style = TextStyle.QUIET
    # An interval without a cell on either side of the ratio is its mark alone, not half of one.
    if interval is not None and ends[1] - ends[0] > 1:
        for cell in range(ends[0], ends[1] + 1):
            inner = chars.one_inside if cell == middle else chars.inside
            drawn[cell] = (inner, style)
        drawn[ends[0]], drawn[ends[1]] = (chars.low, style), (chars.high, style)
    drawn[round(scale.share(ratio) * (room - 1))] = (glyphs.GLYPHS.marks[0], style)
    return tuple(Span(text, style) for text, style in drawn)


def _low_high(ratio: float, interval: tuple[float, float] | None) -> tuple[float, float]:
    return interval if interval is not None and interval[0] > 0 else (ratio, ratio)


def _within_ratios(value: float) -> float:
    return min(_MOST, max(1 / _MOST, value))


def _odd_cells(cells: int) -> int:
    """Return the largest odd number of cells, whose middle stands for 1."""
    return cells - (1 - cells % 2)


def _short_ratio(value: float) -> float:
    return float(f"{value:.3g}")
