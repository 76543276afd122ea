"""Ratios and their intervals as text: the digits that an interval supports."""

from __future__ import annotations

from decimal import Decimal

from tui.core.text import glyphs
from tui.core.text import numbers as text
from workloads.protocol.results import Verdict


def format_ratio(ratio: float, interval: tuple[float, float] | None) -> str:
    """Format a ratio to the digits that its interval supports: ``1.43x``.

    It lies within the interval as :func:`format_interval` prints it, if need be with more digits.

    Args:
        ratio: above zero.
        interval: its 95% interval; ``None`` if unknown.
    """
    if interval is None or not interval[0] <= ratio <= interval[1]:
        return text.ratio(ratio)
    low, high = interval
    form = _choose_interval_form(low, high)
    ends = [Decimal(format(end, form)) for end in interval]
    shown = text.significant(ratio, (high - low) / 2 / ratio, text.RATIO_DIGITS)
    if not ends[0] <= shown <= ends[1]:
        # Rounded like the ends, it cannot lie outside them.
        shown = Decimal(format(ratio, form))
    return f"{text.plain(shown)}x"


def format_effect(
    verdict: Verdict, ratio: float, interval: tuple[float, float] | None
) -> tuple[str, tuple[float, float] | None]:
    """Format a ratio with its verdict: ``1.43x faster``, ``1.00x``, ``0.97–1.08x`` if unclear.

    An unclear ratio is only its interval: a figure in the middle would look like a finding.

    Args:
        verdict: on the second of two settings.
        ratio: time of the first over that of the second, above zero.
        interval: its 95% interval; ``None`` if unknown.

    Returns:
        The text, and the interval of the ratio in it: a slower setting has its inverse, and a text
        that is the interval has none beside it.
    """
    if verdict == "unclear" and interval is not None:
        return f"{format_interval(*interval)}x", None
    if verdict == "slower":
        ratio = 1 / ratio
        interval = (1 / interval[1], 1 / interval[0]) if interval and interval[0] > 0 else None
    times = format_ratio(ratio, interval)
    return f"{times} {verdict}" if verdict in ("faster", "slower") else times, interval


def format_verdict(verdict: Verdict, ratio: float, interval: tuple[float, float] | None) -> str:
    """Format a verdict: ``1.43x faster``, ``same: 1.00x``, ``unclear: 0.97–1.08x``."""
    times, _ = format_effect(verdict, ratio, interval)
    return times if verdict in ("faster", "slower") else f"{verdict}: {times}"


def format_interval(low: float, high: float) -> str:
    """Format an interval of ratios: ``1.40–1.47``, with digits enough to distinguish its ends."""
    form = _choose_interval_form(low, high)
    return f"{low:{form}}{glyphs.GLYPHS.dash}{high:{form}}"


def _choose_interval_form(low: float, high: float) -> str:
    """Return the format of both ends of an interval of ratios, as of :func:`format`."""
    if high >= 1e6 or low < 0.01 * high:
        return ".3g"
    decimals = 2 if high < 10 else 1 if high < 100 else 0
    while f"{low:.{decimals}f}" == f"{high:.{decimals}f}" and low != high and decimals < 4:
        decimals += 1
    return f".{decimals}f"
