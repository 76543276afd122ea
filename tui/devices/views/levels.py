"""Thresholds of a device's figures: how near each figure is to its limit. Pure.

Color and a sign before the figure both show it. Utilization has no threshold: 100% is no problem.
"""

from __future__ import annotations

import enum

from tui.core.text import glyphs
from tui.kit.lines import Span, TextStyle, right
from tui.monitor.messages import HARMFUL_REASONS, Device

WARM_C, HOT_C = 10.0, 2.0
"""Degrees Celsius below the slowdown threshold at which a device counts as warm, and as hot."""
AT_CAP = 0.97
"""Share of the power limit at which a device counts as capped: the driver stays just below it."""
FULL = 0.95
"""Share of the memory in use at which it counts as full."""


class LimitLevel(enum.Enum):
    """How near a figure is to its limit."""

    USUAL = "usual"
    NEAR = "near its limit"
    AT = "at its limit"
    FAULT = "fault"


LEVEL_STYLES = {
    LimitLevel.USUAL: TextStyle.PLAIN,
    LimitLevel.NEAR: TextStyle.NOTE,
    LimitLevel.AT: TextStyle.BAD,
    LimitLevel.FAULT: TextStyle.BAD,
}


def rank_heat(device: Device | None) -> LimitLevel:
    """Rank the temperature by the device's slowdown threshold; a slowdown is a fault."""
    if device is None:
        return LimitLevel.USUAL
    if set(device.throttle or ()) & set(HARMFUL_REASONS):
        return LimitLevel.FAULT
    celsius, slowdown = device.temperature_c, device.slowdown_c
    if celsius is None or slowdown is None or celsius < slowdown - WARM_C:
        return LimitLevel.USUAL
    return LimitLevel.AT if celsius >= slowdown - HOT_C else LimitLevel.NEAR


def rank_power(device: Device | None) -> LimitLevel:
    """Rank the power by its limit, where it is normal; a brake by the power supply is a fault."""
    reasons = device.throttle or () if device else ()
    if device is None or "hw_power_brake_slowdown" in reasons:
        return LimitLevel.FAULT if device else LimitLevel.USUAL
    drawn_w, limit_w = device.power_w, device.power_limit_w
    capped = drawn_w is not None and bool(limit_w) and drawn_w >= AT_CAP * (limit_w or 0)
    return LimitLevel.NEAR if capped or "sw_power_cap" in reasons else LimitLevel.USUAL


def rank_memory(share: float | None) -> LimitLevel:
    """Rank the share of the memory in use, 0 to 1; ``None`` if unknown."""
    return LimitLevel.NEAR if share is not None and share >= FULL else LimitLevel.USUAL


def draw_figure(figure: str, cells: int, level: LimitLevel, *, quiet: bool) -> Span:
    """Return a figure at the right of its column, with its sign directly before it.

    Args:
        figure: the figure with its unit.
        cells: width of the column without the gap of one cell before it, which may have the sign.
        level: nearness to the limit.
        quiet: the figure is old; its sign stays.
    """
    style = TextStyle.QUIET if quiet else LEVEL_STYLES[level]
    sign = glyphs.GLYPHS.warning if level is LimitLevel.FAULT else glyphs.GLYPHS.limit
    return Span(right(figure if level is LimitLevel.USUAL else sign + figure, cells + 1), style)
