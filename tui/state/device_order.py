"""In which order the devices are listed, so that rows do not jump while figures change. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from tui.state.history import Point
from tui.state.pairing import CPU, DeviceView

Order = Literal["index", "load", "memory", "heat"]
ORDERS: tuple[Order, ...] = ("index", "load", "memory", "heat")
MEAN_S = 10.0
"""Seconds over which the mean of a figure is taken."""
MARGINS: Mapping[Order, float] = {"load": 10.0, "memory": 2.0, "heat": 3.0}
"""A row moves up only once its mean is ahead of the row above by more than this: points of percent
of load and of memory, degrees Celsius of heat."""


def figure(view: DeviceView, points: Sequence[Point], order: Order) -> float | None:
    """What a device is sorted by: the mean of its last readings; ``None`` where none is known.

    Args:
        view: the device.
        points: of the last :data:`MEAN_S` seconds.
        order: percent of load, percent of memory in use, or degrees Celsius.
    """
    total = view.nvml.memory.total if view.nvml else None
    found: list[float] = []
    for point in points:
        value = point.temperature if order == "heat" else point.utilization
        if order == "memory":
            value = 100 * point.used / total if point.used is not None and total else None
        if value is not None:
            found.append(value)
    return sum(found) / len(found) if found else None


def held(
    before: Sequence[str], figures: Mapping[str, float | None], margin: float
) -> tuple[str, ...]:
    """The keys sorted from the highest figure down, kept as they were while figures are close.

    Args:
        before: the order that was shown; keys that are new are sorted in from the end.
        figures: by key, in the order of those without a figure and of equal ones.
        margin: how far a key must be ahead of the one above it to pass it.
    """
    order = [key for key in before if key in figures]
    order += [key for key in figures if key not in order]
    moved = True
    while moved:
        moved = False
        for at in range(len(order) - 1):
            above, below = figures[order[at]], figures[order[at + 1]]
            passes = below is not None and (above is None or below > above + margin)
            if passes:
                order[at], order[at + 1] = order[at + 1], order[at]
                moved = True
    return tuple(order)


def in_order(
    views: Sequence[DeviceView],
    figures: Mapping[str, float | None],
    before: Sequence[str],
    order: Order,
) -> tuple[str, ...]:
    """The keys of the devices in the order asked for, the CPU last: it is no rival of the GPUs.

    Args:
        views: the devices in the driver's order.
        figures: of :func:`figure`, by key.
        before: the order that was shown, empty where another has just been asked for.
        order: what they are sorted by.
    """
    gpus = {view.key: figures.get(view.key) for view in views if view.key != CPU}
    last = [view.key for view in views if view.key == CPU]
    if order == "index":
        return (*gpus, *last)
    return (*held(before, gpus, MARGINS[order] if before else 0.0), *last)
