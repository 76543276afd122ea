"""Why a device holds its clocks back: NVML's bit mask in NVML's words."""

from __future__ import annotations

from collections.abc import Iterable

REASONS: dict[int, str] = {
    0x001: "idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
"""nvmlClocksEventReason* (nvml.h); the last two under their older name, ThrottleReason."""

HARMFUL = ("hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown")
"""Reasons that mean a fault or heat; a software power cap is normal under load."""

_BITS = {name: bit for bit, name in REASONS.items()}
_WIDTH = 64


def names(mask: int) -> tuple[str, ...]:
    """The reasons set in ``mask``, lowest bit first; a bit that we do not know keeps its number."""
    return tuple(
        REASONS.get(1 << position, f"bit 0x{1 << position:x}")
        for position in range(_WIDTH)
        if mask & (1 << position)
    )


def mask(reasons: Iterable[str]) -> int:
    """The bit mask that :func:`names` was given.

    Raises:
        ValueError: a name is none that :func:`names` writes.
    """
    found = 0
    for name in reasons:
        if name in _BITS:
            found |= _BITS[name]
        elif name.startswith("bit 0x"):
            found |= int(name.removeprefix("bit "), 16)
        else:
            raise ValueError(f"unknown clocks event reason {name!r}")
    return found
