"""Which digits of a number are printed, and in which unit; :mod:`tui.text.numbers` says what of."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Decimal

NA = "n/a"


def significant(value: float, half_width: float | None, most: int = 3) -> Decimal:
    """Round to the digits that are supported, at least one and at most ``most``.

    Args:
        value: finite and not zero.
        half_width: half of the confidence interval relative to the value; ``None`` if unknown.
        most: significant digits at most.
    """
    number = Decimal(repr(float(value)))
    digits = most
    if half_width is not None and half_width > 0:
        place = (abs(number) * Decimal(repr(float(half_width)))).adjusted()
        digits = min(most, max(1, number.adjusted() - place + 1))
    rounded = number.quantize(
        Decimal(1).scaleb(number.adjusted() - digits + 1), rounding=ROUND_HALF_EVEN
    )
    if rounded.adjusted() > number.adjusted():  # 9.996 became 10.00: one digit too many
        rounded = rounded.quantize(Decimal(1).scaleb(rounded.adjusted() - digits + 1))
    return rounded


def exponent(number: Decimal) -> int:
    """Power of ten of the last digit."""
    power = number.as_tuple().exponent
    if not isinstance(power, int):
        raise TypeError(f"{number} has no digits")
    return power


def plain(number: Decimal) -> str:
    """Without an exponent, whole numbers in groups."""
    return f"{number:f}" if exponent(number) < 0 else grouped(int(number))


def scaled(
    value: float,
    half_width: float | None,
    units: tuple[tuple[int, str], ...],
) -> str:
    """The rounded value in the largest unit in which it is at least one.

    So all that is near in size has one unit, however well it is known: 213 rounded to tens reads
    210 beside 213, and not 0.21 of the next unit. A zero at the end of a whole number fills it.

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
    """An integer in groups of three digits: ``3 040``."""
    return f"{value:,}".replace(",", " ")
