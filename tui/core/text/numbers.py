"""All conversion of numbers to text: digits, units, and a figure's name as words.

``None`` becomes "n/a" everywhere. A nonzero number is never printed as zero, a sign is never lost,
and if a confidence interval is known, only digits that it supports are printed, besides the zeros
at the end of a whole number and a ratio's second digit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal

from tui.core.text import glyphs
from workloads.protocol.results import Cell

NA = "n/a"
MOST_DIGITS = 3
RATIO_DIGITS = 2
"""Least digits of a ratio: 1.4x rounded to 1x would deny the difference that it states."""
SizeFormat = Callable[[int | None], str]
"""Formats a size; a pane uses one format for all sizes."""


def significant(
    value: float, half_width: float | None, least: int = 1, rounding: str = ROUND_HALF_EVEN
) -> Decimal:
    """Round to the supported digits, at least ``least`` and at most :data:`MOST_DIGITS`.

    Args:
        value: finite and not zero.
        half_width: half of the confidence interval relative to the value; ``None`` if unknown.
        least: least number of digits.
        rounding: a rounding mode of :mod:`decimal`.
    """
    number = Decimal(repr(float(value)))
    digits = MOST_DIGITS
    if half_width is not None and half_width > 0:
        last_digit = (abs(number) * Decimal(repr(float(half_width)))).adjusted()
        digits = min(MOST_DIGITS, max(least, number.adjusted() - last_digit + 1))
    rounded = number.quantize(Decimal(1).scaleb(number.adjusted() - digits + 1), rounding=rounding)
    if rounded.adjusted() > number.adjusted():  # 9.996 became 10.00: one digit too many
        rounded = rounded.quantize(Decimal(1).scaleb(rounded.adjusted() - digits + 1))
    return rounded


def plain(number: Decimal) -> str:
    """Format without an exponent; whole numbers in groups of three digits."""
    power = number.as_tuple().exponent
    if not isinstance(power, int):
        raise TypeError(f"{number} has no digits")
    return f"{number:f}" if power < 0 else grouped(int(number))


def scaled(value: float, half_width: float | None, units: tuple[tuple[int, str], ...]) -> str:
    """Return the rounded value in the largest unit in which it is at least one.

    Similar values get the same unit, however precise they are: 213 rounded to tens reads 210, not
    0.21 of the next unit. Zeros fill a whole number.

    Args:
        value: in the unit whose exponent is zero.
        half_width: as in :func:`significant`.
        units: pairs of a power of ten and the unit's name, largest first, three powers apart.
    """
    if not math.isfinite(value):
        return NA
    if value == 0:
        return f"0 {next(name for power, name in units if power == 0)}"
    rounded = significant(value, half_width)
    for position, (power, name) in enumerate(units):
        smallest = position == len(units) - 1
        if rounded.adjusted() >= power or smallest:
            return f"{plain(rounded.scaleb(-power))} {name}".rstrip()
    raise AssertionError("no unit")


def grouped(value: int) -> str:
    """Return an integer in groups of three digits: ``3 040``."""
    return f"{value:,}".replace(",", " ")


SIZE_WIDTH = 9
"""Cells that any non-negative size below an exbibyte needs: ``999.9 GiB``."""

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_BINARY_FACTORS = tuple(Decimal(1024**power) for power in range(len(_BINARY)))
_ONE, _TENTH = Decimal(1), Decimal("0.1")
_WHOLE_FROM = Decimal("99.95")
"""Size in KiB or MiB from which decimals are left out."""
_DIGITS_FROM = Decimal(10_000)
"""Size in exbibytes from which a power of ten is used; nothing real is as large."""
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_WHOLE_PERCENT = 9.95
"""Percentage from which decimals are left out."""
_SYMBOLS = frozenset({"FLOP/s", "B/s", "FLOP", "B", "Hz"})
"""Units directly after the prefix; words such as ``samples/s`` are separated."""


def count(value: int | None, noun: str = "", plural: str | None = None) -> str:
    """Format ``3 040 calls``, ``1 call``; the plural adds an s unless given."""
    if value is None:
        return NA
    if not noun:
        return grouped(value)
    return f"{grouped(value)} {noun if abs(value) == 1 else plural or noun + 's'}"


# ---- sizes -------------------------------------------------------------------------------------


def _binary(value: int) -> tuple[str, str]:
    """Return digits and unit; rolls over before a fourth whole digit is needed."""
    sign, rest = ("-", -value) if value < 0 else ("", value)
    if rest < 1000:
        return f"{sign}{rest}", "B"
    for power, unit in enumerate(_BINARY[1:], start=1):
        scaled = Decimal(rest) / _BINARY_FACTORS[power]
        if scaled >= _DIGITS_FROM:
            if unit == _BINARY[-1]:
                return f"{sign}{scaled:.1E}", unit
            continue
        step = _TENTH if scaled < _WHOLE_FROM or power >= 3 else _ONE
        shown = scaled.quantize(step, rounding=ROUND_HALF_EVEN)
        if shown < 1000 or unit == _BINARY[-1]:
            return f"{sign}{shown}", unit
    raise AssertionError("no unit")


def size(value: int | None) -> str:
    """Format bytes in binary units: ``12.3 GiB``, ``201 MiB``; at most :data:`SIZE_WIDTH`."""
    if value is None:
        return NA
    return " ".join(_binary(value))


def round_size(value: int) -> str:
    """Format bytes as :func:`size` does, without a decimal of zero: ``32 MiB``."""
    return size(value).replace(".0 ", " ")


def size_short(value: int | None) -> str:
    """Format bytes in few cells, as ``free -h`` does: ``12.3G``, ``201M``, ``0B``."""
    if value is None:
        return NA
    digits, unit = _binary(value)
    return digits + unit[0]


def size_pair(used: int | None, total: int | None, between: str = "/") -> str:
    """Format both sizes in the unit of the total: ``20.7/139.8 GiB``, ``<0.1/139.8 GiB``."""
    if used is None:
        return NA if total is None else f"{NA} of {size(total)}"
    if total is None:
        return size(used)
    digits, unit = _binary(total)
    scaled = Decimal(used) / _BINARY_FACTORS[_BINARY.index(unit)]
    step = _TENTH if "." in digits else _ONE
    shown = scaled.quantize(step, rounding=ROUND_HALF_EVEN)
    part = f"<{step}" if used > 0 and shown == 0 else str(shown)
    return f"{part}{between}{digits} {unit}"


# ---- times -------------------------------------------------------------------------------------


def seconds(value: float | None, half_width: float | None = None) -> str:
    """Return a duration of a call to at most three significant digits: ``412 ms``, ``2.71 ms``.

    Args:
        value: seconds.
        half_width: half of the 95% interval over the value; unsupported digits are not printed, so
            0.2134 ms with 8% reads ``210 µs``.
    """
    if value is None:
        return NA
    units = ((0, "s"), (-3, "ms"), (-6, f"{glyphs.GLYPHS.micro}s"), (-9, "ns"))
    return scaled(value, half_width, units)


def duration(value: float | None) -> str:
    """Format a wait or an uptime, rounded down: ``12 s``, ``3 min 20 s``, ``4 d 03 h``."""
    if value is None or not math.isfinite(value):
        return NA
    if value < 0:
        return "-" + duration(-value)
    whole = int(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"


def at_most(value: float) -> str:
    """Return an upper bound of a wait, rounded up: ``≤4 s`` for 3.1 s."""
    return f"{glyphs.GLYPHS.at_most}{duration(max(1, math.ceil(value)))}"


def about(value: float) -> str:
    """Return a rounded estimate: ``about 5 s``, ``about 40 s``, ``about 4 min``."""
    if value < 57.5:
        return f"about {max(5, 5 * round(value / 5))} s"
    if value < 3570:
        return f"about {max(1, round(value / 60))} min"
    hours, minutes = divmod(round(value / 600) * 10, 60)
    return f"about {hours} h" + (f" {minutes} min" if minutes else "")


def date(at: float) -> str:
    """Format a Unix time as a local date to the minute: ``2026-01-31 14:05``."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def clock(at: float) -> str:
    """Format a Unix time as a local time of day: ``14:03:25``."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def age(value: float | None) -> str:
    """Format an age in one unit: ``12 s ago``."""
    return NA if value is None else f"{old(value)} ago"


def old(value: float) -> str:
    """Return an age in its largest unit, rounded down: ``12 s``, ``5 min``, ``2 h``."""
    whole = max(0, int(value))
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= length:
            return f"{whole // length} {unit}"
    return f"{whole} s"


# ---- rates and shares --------------------------------------------------------------------------


def rate(value: float | None, unit: str, half_width: float | None = None) -> str:
    """Format a rate with decimal prefixes: ``50.7 TFLOP/s``, ``26.0 GB/s``, ``90 k samples/s``.

    The number is at least one unless its unit has no prefix, to be comparable with other rates.

    Args:
        value: in ``unit``.
        unit: ``FLOP/s`` or ``B/s``, or words such as ``samples/s``.
        half_width: as for :func:`seconds`.
    """
    if value is None:
        return NA
    gap = "" if unit in _SYMBOLS else " "
    units = tuple(
        (3 * power, f"{prefix}{gap if prefix else ''}{unit}")
        for power, prefix in reversed(tuple(enumerate(_DECIMAL)))
    )
    return scaled(value, half_width, units)


def ratio(value: float | None, half_width: float | None = None) -> str:
    """Format a ratio with two digits or more: ``152x``, ``1.43x``, ``0.0123x``."""
    if value is None or not math.isfinite(value):
        return NA
    if value == 0:
        return "0x"
    return f"{plain(significant(value, half_width, RATIO_DIGITS))}x"


def percent(value: float | None) -> str:
    """Format a share of 0 to 100 in whole percent: ``61%``; ``<1%`` above zero."""
    if value is None or not math.isfinite(value):
        return NA
    if 0 < value < 0.5:
        return "<1%"
    if -0.5 <= value < 0:
        return ">-1%"
    return f"{round(value)}%"


def fine_percent(value: float | None) -> str:
    """Format a share or a difference, to two digits if it is small: ``6.6%``, ``-0.012%``.

    Args:
        value: percent; only zero itself is printed as zero.
    """
    if value is None or not math.isfinite(value):
        return NA
    if abs(value) >= _WHOLE_PERCENT or value == 0:
        return f"{round(value)}%"
    if abs(value) >= 1:
        return f"{value:.1f}%"
    return f"{value:.2g}%"


def share(value: float | None) -> str:
    """Format a fraction from 0.0 to 1.0 in whole percent."""
    return NA if value is None else percent(100 * value)


def spread(half_width: float | None) -> str:
    """Format half of an interval relative to its center: ``±1.1%``, ``±12%``, ``±<0.1%``."""
    if half_width is None or not math.isfinite(half_width):
        return NA
    value = 100 * abs(half_width)
    if 0 < value < 0.05:
        return f"{glyphs.GLYPHS.plus_minus}<0.1%"
    text = f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
    return f"{glyphs.GLYPHS.plus_minus}{text}%"


def variation(share: float | None) -> str:
    """Format how far repeated runs lie around their center; beyond twofold, no percentage helps."""
    return "more than twofold" if share is not None and share > 1 else spread(share)


# ---- a device's sensors ------------------------------------------------------------------------


def temperature(value: float | None) -> str:
    """Format degrees Celsius: ``45°C``."""
    return NA if value is None else f"{round(value)}{glyphs.GLYPHS.degree}C"


def watts(value: float | None) -> str:
    """Format ``310 W``; below ten watts, as on idle laptops, with one decimal."""
    if value is None:
        return NA
    return f"{_watts(value)} W"


def _watts(value: float) -> str:
    return f"{value:.1f}" if 0 < abs(value) < 9.95 else f"{value:.0f}"


def power(value: float | None, limit: float | None) -> str:
    """Format drawn and allowed power: ``310/700 W``."""
    if value is None:
        return NA if limit is None else f"{NA} of {watts(limit)}"
    return watts(value) if limit is None else f"{_watts(value)}/{limit:.0f} W"


def megahertz(value: float | None) -> str:
    """Format ``1980 MHz``, without another prefix, so that clocks are easy to compare."""
    return NA if value is None else f"{round(value)} MHz"


RATES = {"byte/s": "B/s", "bytes/s": "B/s"}
_SECONDS = ("s", "second", "seconds")
_BYTES = ("B", "byte", "bytes")
_MOST_BYTES = 1e18
_PLAIN_BELOW = 10_000
"""Value from which a number is rounded to an integer."""


def quantity(value: Cell, unit: str = "") -> str:
    """Format a value in its unit: ``1.90 ms``, ``1.0 GiB``, ``26.0 GB/s``, ``1.43x``, ``n/a``.

    Args:
        value: a number in ``unit``, text, or ``None`` if unknown.
        unit: s, byte, byte/s, FLOP/s, samples/s, x, %, another word, or none.
    """
    if value is None:
        return NA
    if isinstance(value, str):
        return f"{value} {unit}".strip()
    if not math.isfinite(value):
        return NA
    if unit in _SECONDS:
        return seconds(value)
    if unit in _BYTES and abs(value) >= _MOST_BYTES:
        return f"{value:.3g} B"
    if unit in _BYTES:
        return size(round(value))
    if unit == "x":
        return ratio(value)
    if unit == "%":
        return fine_percent(value)
    if unit.endswith("/s"):
        return rate(value, RATES.get(unit, unit))
    return f"{number(value)} {unit}".strip()


def number(value: float) -> str:
    """Return a bare number: ``4 096``, ``0.6931``, ``1.2e-06``."""
    if float(value).is_integer() and abs(value) < 1e15:
        return grouped(int(value))
    if _PLAIN_BELOW <= abs(value) < 1e15:
        return grouped(round(value))
    return f"{value:.4g}"


def place(value: float) -> str:
    """Return a position on an axis, short and as users type it: ``4096``, ``0.5``."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"
