"""The columns of the devices pane: which there are at a width, and their headings. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tui.core.text import glyphs
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import Order
from tui.kit.lines import Line, Span, TextStyle, left, right

MARK = 2
UTILISATION = 4
TEMPERATURE = 5
POWER, POWER_OF = 6, 10
"""Without and with the limit."""
MEMORY, MEMORY_LONG = 12, 15
"""With the unit as one letter and in full."""
CLOCKS = 13
STATUS = 23
NAME = (12, 16)
HISTORY_FROM = 96
"""Cells of a row from which its history stands in it."""
HISTORY_LEAST = 16

_NOISE = re.compile(
    r"\((R|TM|r|tm)\)|\bCPU\b|\bProcessor\b|\b\d+-Core\b|@\s*[\d.]+\s*GHz", re.ASCII
)
_SIZE = re.compile(r"[ -]?\b\d+ ?GB\b", re.ASCII)
"""Of the memory, which has a column. The size in the name of a MIG profile, in small letters, says
which profile it is."""


@dataclass(frozen=True, slots=True)
class DeviceColumns:
    """Widths in cells; zero for a column that is left out."""

    label: int
    name: int
    load: int
    """The bar of the utilisation."""
    filled: int
    """The bar of the memory."""
    memory: int
    temperature: int
    power: int
    clocks: int
    status: int
    history: int


_STEPS = (
    # The column, the cells that it takes then, and what each bar must keep.
    ("temperature", TEMPERATURE, 4),
    ("power", POWER, 5),
    ("name", 0, 6),
    ("power", POWER_OF, 10),
    ("memory", MEMORY_LONG, 12),
    ("history", HISTORY_LEAST, 12),
    ("status", STATUS, 14),
    ("clocks", CLOCKS, 16),
)
"""What a wider row has besides, in this order; the bars take all that is left."""


def columns(views: tuple[DeviceView, ...], width: int) -> DeviceColumns:
    """Choose the columns that fit, by :data:`_STEPS`; the bars fill the width.

    Args:
        views: all devices, since the columns of all rows stand under each other.
        width: cells of a row.
    """
    # No less than the heading above it.
    label = max((len(view.label) for view in views), default=0)
    label = max(label, len("gpu") + 1)
    names = 0
    if shared_name(views) is None:
        longest = max((len(short_name(view)) for view in views), default=0)
        names = max(NAME[0], min(longest, NAME[1]))
    taken = {"memory": MEMORY}
    fixed = MARK + label + 1 + UTILISATION

    def bars(columns: dict[str, int]) -> int:
        """Return the cells left for both bars, each with the blank before it."""
        return width - fixed - sum(cells + 1 for cells in columns.values()) - 2

    for column, cells, least in _STEPS:
        wanted = {"name": names, "history": max(cells, width // 4)}.get(column, cells)
        more = {**taken, column: wanted}
        if not wanted:
            continue
        if bars(more) < 2 * least or (column == "history" and width < HISTORY_FROM):
            break
        taken = more
    left_over = max(0, bars(taken))
    if left_over < 2:
        left_over = 0
    return DeviceColumns(
        label=label,
        name=taken.get("name", 0),
        load=(left_over + 1) // 2,
        filled=left_over // 2,
        memory=taken["memory"],
        temperature=taken.get("temperature", 0),
        power=taken.get("power", 0),
        clocks=taken.get("clocks", 0),
        status=taken.get("status", 0),
        history=taken.get("history", 0),
    )


def fields(plan: DeviceColumns) -> tuple[tuple[str, int, Order | None], ...]:
    """Return the columns from the left: heading, cells with the blank, sort order."""
    # A bar and its figure are one column to who looks at it.
    found: list[tuple[str, int, Order | None]] = [
        ("gpu", MARK + plan.label, "index"),
        ("name", plan.name, "index"),
        ("util", plan.load + (plan.load > 0) + UTILISATION, "load"),
        ("memory", plan.filled + (plan.filled > 0) + plan.memory, "memory"),
        ("temp", plan.temperature, "heat"),
        ("power", plan.power, None),
        ("SM/mem clock", plan.clocks, None),
        ("throttled", plan.status, None),
        (
            "util, 0\u2013100 %" if not glyphs.GLYPHS.ascii else "util, 0-100 %",
            plan.history,
            "load",
        ),
    ]
    shown = [(name, cells, order) for name, cells, order in found if cells]
    first, *others = shown
    return (first, *((name, cells + 1, order) for name, cells, order in others))


def width_of(plan: DeviceColumns) -> int:
    """Cells of a row."""
    return sum(cells for _, cells, _ in fields(plan))


def heading(plan: DeviceColumns, by: Order) -> Line:
    """Return the names of the columns; the one that the rows are sorted by is marked."""
    spans: list[Span] = []
    marked = False
    for name, cells, order in fields(plan):
        sorts = order == by and not marked
        marked = marked or sorts
        word = f"{name}{glyphs.GLYPHS.unfolded}" if sorts else name
        if name == "gpu":
            placed = left(" " * MARK + word, cells)
        elif name in ("name", "throttled", "memory") or name.startswith("util"):
            placed = left(f" {word}", cells)
        else:
            placed = right(word, cells)
        spans.append(Span(placed, TextStyle.KEY if sorts else TextStyle.QUIET))
    return tuple(spans)


def order_at(plan: DeviceColumns, cell: int) -> Order | None:
    """Return the order that the heading in a cell sorts by; ``None`` for none."""
    end = 0
    for _, cells, order in fields(plan):
        end += cells
        if cell < end:
            return order
    return None


# ---- names -------------------------------------------------------------------------------------


def short_name(view: DeviceView) -> str:
    """Return the name without words that all devices of its kind share, and without its size."""
    if view.key == CPU:
        return cpu_model(view.name)
    name = view.name.removeprefix("NVIDIA ")
    return " ".join(_SIZE.sub("", name).split()) or name


def shared_name(views: tuple[DeviceView, ...]) -> str | None:
    """Return the name of all GPUs where it is the same: the title has it then, and no row."""
    names = {short_name(view) for view in views if view.key != CPU}
    return names.pop() if len(names) == 1 else None


def cpu_model(model: str) -> str:
    """``AMD EPYC 9654`` for ``AMD EPYC 9654 96-Core Processor``."""
    return " ".join(_NOISE.sub(" ", model).split())
