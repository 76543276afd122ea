"""The columns of the devices pane at each width, and their headings. Pure."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import NamedTuple

from tui.core.text import glyphs
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import ORDERS, Order
from tui.devices.views.history import NO_READING, NO_SAMPLE, DrawnLoads, format_span
from tui.kit.lines import Line
from tui.kit.table import REST, Column, Layout, PlacedColumn, fit_columns, heading_line, order_at
from tui.monitor.messages import HARMFUL_REASONS

MARK = 2
UTILISATION = 4
TEMPERATURE = 5
POWER, POWER_OF = 6, 10
"""Cells of the power column without and with the limit."""
MEMORY, MEMORY_USED = 12, 7
"""Cells of the memory column with and without the total; its unit has one letter, as in the history
below."""
TOTAL_FROM = 54
"""Cells of a row from which it names the total memory; narrower ones have wider bars instead."""
CLOCKS = 13
STATUS = 23
BRIEF_STATUS = 8
"""Cells for the reason of lower clocks on narrow rows, where a GPU has a harmful one."""
USERS = 12
"""Least cells for the users of a GPU."""
NAME = (12, 16)
HISTORY_FROM = 96
"""Cells that a row needs to contain its history."""
HISTORY_LEAST = 16
MOST_WITH_BARS, LEAST_TRACE = 4, 6
"""GPUs up to which each narrow row has a bar of its load: the rows of more have its history there,
as only the selected one has a plot, if the bar has so many cells."""

_NOISE = re.compile(
    r"\((R|TM|r|tm)\)|\bCPU\b|\bProcessor\b|\b\d+-Core\b|@\s*[\d.]+\s*GHz", re.ASCII
)
_SIZE = re.compile(r"[ -]?\b\d+ ?GB\b", re.ASCII)
"""The memory size in a device's name, which the memory column repeats. The size in the name of a
MIG profile is in lower case and stays, because it identifies the profile."""


class DeviceColumns(NamedTuple):
    """Widths in cells; zero for a column that is left out."""

    label: int
    name: int
    load: int
    """The utilization bar."""
    filled: int
    """The memory bar."""
    memory: int
    temperature: int
    power: int
    clocks: int
    status: int
    history: int
    users: bool
    """The status column also shows who uses a GPU, where its state is no problem."""
    layout: Layout[None]
    """The layout with headings; rows are drawn cell by cell, as some cells span several columns."""
    traced: bool = False
    """The cells of the utilization bar show the history of the load."""

    @property
    def trace(self) -> int:
        """Cells of the history of the load: in its own column or in place of its bar."""
        return self.load if self.traced else self.history


def columns(views: tuple[DeviceView, ...], width: int, *, hosts: bool = False) -> DeviceColumns:
    """Choose the columns that fit and let the bars fill the width.

    Args:
        views: all devices, since all rows share the columns.
        width: cells of a row.
        hosts: the devices are of several hosts: headings of hosts name them, and the users of the
            GPUs matter more than wide bars.
    """
    # No less than the heading above it.
    label = max(max((len(view.label) for view in views), default=0), len("gpu") + 1)
    name = 0
    if not hosts and find_shared_name(views) is None:
        longest = max((len(shorten_name(view)) for view in views), default=0)
        name = max(NAME[0], min(longest, NAME[1]))
    throttled = any(
        view.nvml is not None and set(view.nvml.throttle or ()) & set(HARMFUL_REASONS)
        for view in views
    )
    plan = _fit(label, name, width, hosts, _history(), throttled)
    return plan if hosts else _omit_gpu_headings(_trace_many(plan, views), views)


@functools.lru_cache(maxsize=64)
def _fit(
    label: int, name: int, width: int, hosts: bool, history: str, throttled: bool
) -> DeviceColumns:
    """Return the columns that fit, which are the same at each sample.

    Args:
        label: cells of the longest label.
        name: cells of the names; 0 without that column.
        width: cells of a row.
        hosts: the devices are of several hosts.
        history: the heading of the histories.
        throttled: heat or a fault lowers a GPU's clocks.
    """
    columns = _host_columns(label, width) if hosts else _columns(label, name, width, history)
    layout = fit_columns(columns, width)
    if throttled and not (hosts or name or _has_status(layout)):
        columns = [_make_room_for_status(column, history) for column in columns]
        layout = fit_columns(columns, width)
    cells = {placed.column.name: placed.width for placed in layout}
    size = MEMORY if hosts else _memory_cells(width)
    power, memory = cells.get("power", 0), cells.get("memory", 0) - _BAR_GAP - size
    return DeviceColumns(
        label=cells.get(_GPU, MARK) - MARK,
        name=cells.get("name", 0),
        load=max(0, cells.get("util", 0) - _BAR_GAP - UTILISATION),
        filled=max(0, memory),
        memory=size,
        temperature=cells.get("temp", 0),
        power=power + cells.get(_LIMIT, 0),
        clocks=cells.get("SM/mem clock", 0),
        status=cells.get(_STATUS, 0) or cells.get(_IN_BRIEF, 0) or cells.get(_USERS, 0),
        history=cells.get(history, 0),
        users=_USERS in cells,
        layout=layout,
    )


def deep_columns(views: tuple[DeviceView, ...], width: int) -> DeviceColumns:
    """Return the columns of rows of two lines: the load on the first, the memory on the second.

    Both bars have the same cells.

    Args:
        views: all devices, since all rows share the columns.
        width: cells of a row.
    """
    label = max(max((len(view.label) for view in views), default=0), len("gpu") + 1)
    beside = UTILISATION + 1 + TEMPERATURE + 1 + POWER
    bar = max(0, width - MARK - label - _BAR_GAP - 1 - beside)
    # Enough for the mark of the sort order, too.
    memory = _BELOW if bar - 1 > len(_BELOW) else "memory"
    headings: list[Column[None]] = [
        Column(_GPU, MARK + label, align="left", gap=0, order="index"),
        Column("util", UTILISATION + 1, align="left", gap=1, order="load"),
        Column(memory, MEMORY_USED, align="left", gap=1, grows=(width,), order="memory"),
        Column("temp", TEMPERATURE, gap=1, order="heat"),
        Column("power", POWER, gap=1),
    ]
    layout = fit_columns(headings, width)
    plan = DeviceColumns(
        label, 0, bar, bar, beside, TEMPERATURE, POWER, 0, 0, 0, users=False, layout=layout
    )
    return _omit_gpu_headings(_trace_many(plan, views), views)


def _trace_many(plan: DeviceColumns, views: tuple[DeviceView, ...]) -> DeviceColumns:
    """Return the columns with histories in place of the bars of the load if there are many GPUs."""
    gpus = sum(view.key != CPU for view in views)
    return plan._replace(
        traced=gpus > MOST_WITH_BARS and not plan.history and plan.load >= LEAST_TRACE
    )


def _omit_gpu_headings(plan: DeviceColumns, views: tuple[DeviceView, ...]) -> DeviceColumns:
    """Return the columns with the headings of the CPU's figures alone if there is no GPU."""
    if any(view.key != CPU for view in views):
        return plan
    of_cpu = ("util", "memory", _BELOW, _history())
    layout = tuple(
        placed
        if placed.column.name in of_cpu
        else replace(placed, column=replace(placed.column, name="", order=None))
        for placed in plan.layout
    )
    return plan._replace(layout=layout)


_GPU = " " * MARK + "gpu"
_LIMIT = " "
"""Name of the column without a heading: the power limit."""
_BELOW = "memory below"
"""Heading of the memory in rows of two lines."""
_USERS = "used by"
_STATUS, _IN_BRIEF = "throttled", "throttle"
_BAR_GAP = 1
"""Cells between a bar and its figure, which together look like one column."""


def _history() -> str:
    return "util 0-100%" if glyphs.GLYPHS.ascii else "util 0\u2013100%"


def _has_status(layout: Layout[None]) -> bool:
    return any(placed.column.name == _STATUS for placed in layout)


def _make_room_for_status(column: Column[None], history: str) -> Column[None]:
    """Return a column of narrow rows on which the status is brief, beside narrower bars."""
    if column.name == _STATUS:
        return replace(
            column, name=_IN_BRIEF, width=BRIEF_STATUS, drop_order=5, leaves=_beside_bars(6)
        )
    return replace(column, leaves=_beside_bars(8)) if column.name == history else column


def _beside_bars(least: int) -> int:
    """Return the cells of both bar columns if each bar has ``least`` cells."""
    return 2 * (least + _BAR_GAP) + UTILISATION + MEMORY


def _memory_cells(width: int) -> int:
    """Return the cells of the memory in use, in a row of this machine's devices."""
    return MEMORY if width >= TOTAL_FROM else MEMORY_USED


def _columns(label: int, name: int, width: int, history: str) -> list[Column[None]]:
    util, memory = 1 + _BAR_GAP + UTILISATION, 1 + _BAR_GAP + _memory_cells(width)
    columns: list[Column[None]] = [
        Column(_GPU, MARK + label, align="left", gap=0, order="index"),
        Column(
            "util", util, align="left", gap=1, grows=tuple(range(util, util + width)), order="load"
        ),
        Column(
            "memory", memory, align="left", gap=1,
            grows=tuple(range(memory, memory + width)), order="memory",
        ),
        Column(
            "temp", TEMPERATURE, gap=1, drop_order=7, leaves=_beside_bars(4), order="heat"
        ),
        Column(_LIMIT, POWER_OF - POWER, gap=0, drop_order=4, leaves=_beside_bars(10)),
        Column("power", POWER, gap=1, drop_order=6, leaves=_beside_bars(3)),
        Column("SM/mem clock", CLOCKS, gap=1, drop_order=0, leaves=_beside_bars(16)),
        Column(_STATUS, STATUS, align="left", gap=1, drop_order=1, leaves=_beside_bars(14)),
        Column(
            history, max(HISTORY_LEAST, width // 4), align="left", gap=1, drop_order=2,
            leaves=_beside_bars(12) if width >= HISTORY_FROM else REST, order="load",
        ),
    ]  # fmt: skip
    if name:
        leaves = _beside_bars(6)
        columns.insert(
            1, Column("name", name, align="left", gap=1, drop_order=5, leaves=leaves, order="index")
        )
    return columns


def _host_columns(label: int, width: int) -> list[Column[None]]:
    util, memory = 1 + _BAR_GAP + UTILISATION, 1 + _BAR_GAP + MEMORY
    return [
        Column(_GPU, MARK + label, align="left", gap=0, order="index"),
        Column("util", util, align="left", gap=1, grows=(util + 5, util + 11), order="load"),
        Column(
            "memory", memory, align="left", gap=1, grows=(memory + 4, memory + 11), order="memory"
        ),
        Column("temp", TEMPERATURE, gap=1, drop_order=3, order="heat"),
        Column(_LIMIT, POWER_OF - POWER, gap=0, drop_order=1, leaves=64),
        Column("power", POWER, gap=1, drop_order=2, leaves=_beside_bars(4) + USERS),
        Column("SM/mem clock", CLOCKS, gap=1, drop_order=0, leaves=72),
        Column(_USERS, USERS, align="left", gap=2, drop_order=4, grows=(30, width)),
    ]


def measure_row(plan: DeviceColumns) -> int:
    """Return the cells of a row."""
    return plan.layout[-1].end if plan.layout else 0


_BLANK = {NO_READING: "gap: no value", NO_SAMPLE: "gap: no sample"}
"""Why cells of a history are blank, for the narrowest column."""


def heading(plan: DeviceColumns, by: Order, loads: DrawnLoads | None = None) -> Line:
    """Return the column names, with a mark on the sort column.

    Args:
        plan: the columns.
        by: the sort order.
        loads: the rows' histories, whose duration is part of their heading, or why they have gaps;
            ``None`` without any.
    """
    layout = plan.layout
    if loads and plan.trace:
        replaced = "util" if plan.traced else _history()
        layout = tuple(
            replace(placed, column=replace(placed.column, name=_title_loads(plan, placed, loads)))
            if placed.column.name == replaced
            else placed
            for placed in layout
        )
    return heading_line(layout, by)


def _title_loads(plan: DeviceColumns, placed: PlacedColumn[None], loads: DrawnLoads) -> str:
    """Return the heading of the histories of the load, with their duration if it fits."""
    span = format_span(loads.span_s)
    if plan.traced:
        titles = [f"util, last {span}", f"util, {span}", "util"]
    elif loads.gap:
        titles = [f"{_history()}, last {span}; {loads.gap}", f"{span}; {loads.gap}", loads.gap]
        titles.append(_BLANK[loads.gap])
    else:
        titles = [f"{_history()}, last {span}", f"util, last {span}", f"util, {span}"]
    # The mark of the sort order stands behind the words.
    room = placed.width - plan.traced
    return next((title for title in titles if len(title) <= room), titles[-1])


def find_order(plan: DeviceColumns, cell: int) -> Order | None:
    """Return the sort order of the heading at a cell, or ``None`` without a heading there."""
    return order_at(plan.layout, cell, ORDERS)


# ---- names -------------------------------------------------------------------------------------


def shorten_name(view: DeviceView) -> str:
    """Return a device's name without the vendor's common words and without the memory size."""
    return shorten_cpu_model(view.name) if view.key == CPU else _shorten_gpu_name(view.name)


@functools.lru_cache(maxsize=256)
def _shorten_gpu_name(full: str) -> str:
    name = full.removeprefix("NVIDIA ")
    return " ".join(_SIZE.sub("", name).split()) or name


def find_shared_name(views: tuple[DeviceView, ...]) -> str | None:
    """Return the name that all GPUs share, which the title shows instead of each row."""
    names = {shorten_name(view) for view in views if view.key != CPU}
    return names.pop() if len(names) == 1 else None


@functools.lru_cache(maxsize=256)
def shorten_cpu_model(model: str) -> str:
    """Shorten a CPU's name, such as ``AMD EPYC 9654 96-Core Processor`` to ``AMD EPYC 9654``."""
    return " ".join(_NOISE.sub(" ", model).split())
