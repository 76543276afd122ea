"""The color of a device, the same in every bar and plot. Pure."""

from __future__ import annotations

import re

from tui.devices.state.devices import CPU
from tui.kit.lines import TextStyle
from tui.kit.plot import CURVE_STYLES, mark_of

CPU_STYLE = TextStyle.OTHERS
GPU_STYLES = (TextStyle.ALLOCATED, TextStyle.CACHED, TextStyle.CONTEXT)
_GPU = re.compile(r"(?:cuda|xpu|mps)(?::(\d+))?")


def find_device_style(name: str) -> TextStyle | None:
    """Return the color of the device that a name begins with; ``None`` if it names none.

    Args:
        name: torch's name of a device, or a curve's name: ``cuda:0``, ``CPU``, ``cpu float32``.
    """
    device = name.lower().partition(" ")[0]
    if device == CPU:
        return CPU_STYLE
    gpu = _GPU.fullmatch(device)
    return GPU_STYLES[int(gpu[1] or 0) % len(GPU_STYLES)] if gpu else None


def style_of_device(device: str) -> TextStyle:
    """Return the color of a device; of an unknown one, that of the first GPU."""
    return find_device_style(device) or GPU_STYLES[0]


def list_curve_styles(names: list[str], device: str = "") -> list[TextStyle]:
    """Return the colors of a chart's curves: of the devices they are named after, else others.

    If several curves have one device, their colors would be equal: then none has its device's.

    Args:
        names: names of the curves.
        device: the device of the whole chart, whose color a single curve has.
    """
    if device and len(names) == 1:
        return [style_of_device(device)]
    named = [find_device_style(name) for name in names]
    own = [style for style in named if style is not None]
    if len(set(own)) < len(own):
        named, own = [None] * len(names), []
    rest = [style for style in CURVE_STYLES if style not in own]
    styles: list[TextStyle] = []
    for style in named:
        others = sum(item not in own for item in styles)
        styles.append(style or rest[others % len(rest)])
    return styles


def list_curve_marks(names: list[str]) -> list[str]:
    """Return the marks of a chart's curves: each device has the same one in every chart.

    If several curves have one device, their marks would be equal: then none has its device's.

    Args:
        names: names of the curves.
    """
    numbers = [_number_device(name) for name in names]
    own = [number for number in numbers if number is not None]
    if len(set(own)) < len(own):
        numbers, own = [None] * len(names), []
    rest = (number for number in range(len(names) + len(own)) if number not in own)
    return [mark_of(next(rest) if number is None else number) for number in numbers]


def _number_device(name: str) -> int | None:
    """Return 0 for the CPU and a higher number for each GPU; ``None`` for another name."""
    device = name.lower().partition(" ")[0]
    if device == CPU:
        return 0
    gpu = _GPU.fullmatch(device)
    return 1 + int(gpu[1] or 0) % len(GPU_STYLES) if gpu else None
