"""The memory of one process: findings, account, facts and history. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.allocators.findings import Finding
from tui.allocators.messages import TorchProcess
from tui.core.text import numbers as text
from tui.devices.memory import Gauge
from tui.devices.memory.model import get_value
from tui.devices.state.devices import DeviceView
from tui.devices.state.watched_processes import Allocator
from tui.devices.views.device_detail import Fact
from tui.devices.views.history import (
    LABEL,
    PlottedFigure,
    RecentReadings,
    history_lines,
    span_rule,
)
from tui.devices.views.large_history import ZOOMED, choose_scale
from tui.devices.views.memory_account import account_lines
from tui.kit.braille import ACROSS
from tui.kit.lines import Line, TextStyle, paragraph

HIGHEST_HISTORY = 4
"""The most rows of each history of a process."""
_HISTORIES = (
    ("allocated", "alloc", TextStyle.ALLOCATED),
    ("reserved", "reserved", TextStyle.CACHED),
    ("process", "process", TextStyle.CONTEXT),
)
"""Figures of a point, with their labels in front of a history and their style."""


def process_lines(
    allocator: Allocator,
    gauge: Gauge,
    view: DeviceView,
    worker_pid: int | None,
    now: float,
    cells: int,
) -> list[Line]:
    """Return the findings over time, then every figure or the reason for a missing one.

    Args:
        allocator: the process's allocator on the device.
        gauge: the account.
        view: the device.
        worker_pid: this program's worker.
        now: Unix time.
        cells: width of a line.
    """
    lines: list[Line] = []
    if allocator.ended:
        age = text.age(now - allocator.figures.at)
        words = f"{allocator.ended}: these are its last figures, read {age}"
        lines += paragraph(words, cells, TextStyle.NOTE)
    lines += finding_lines(allocator.findings, cells)
    facts = process_facts(allocator.process, now)
    return [*lines, *account_lines(gauge, view, facts, worker_pid, cells, "process")]


def finding_lines(findings: Sequence[Finding], cells: int) -> list[Line]:
    """Return the findings on a process over time; :func:`account_details` has their sources."""
    return [
        row
        for finding in findings
        for row in paragraph(
            finding.text,
            cells,
            TextStyle.NOTE if finding.is_warning else TextStyle.PLAIN,
            indent="  ",
        )
    ]


def process_facts(process: TorchProcess, now: float) -> list[Fact]:
    """Return the facts of the process itself, with reasons for unknown facts."""

    def format_fact(name: str, value: object) -> str:
        if value is not None:
            return str(value)
        return f"{text.NA}: {process.unavailable.get(name) or 'not known'}"

    rank = None if process.rank is None else str(process.rank)
    if rank is not None and process.world_size is not None:
        rank = f"{rank} of {process.world_size}"
    age = None if process.start is None else text.old(max(0.0, now - process.start))
    return [
        ("pid", str(process.pid)),
        ("command", format_fact("command", process.command)),
        ("user", format_fact("user", process.user)),
        ("running for", format_fact("start", age)),
        ("torch", format_fact("torch", process.torch)),
        ("rank", format_fact("rank", rank)),
        ("local rank", format_fact("local_rank", process.local_rank)),
        ("launcher", format_fact("launcher", process.launcher)),
        ("visible devices", format_fact("visible_devices", process.visible_devices)),
    ]


def history_rows(most: int) -> int:
    """Return the lines of :func:`process_history`, at most ``most``; 0 if they do not fit."""
    height = min(HIGHEST_HISTORY, (most - 1) // len(_HISTORIES))
    return 1 + height * len(_HISTORIES) if height > 0 else 0


def process_history(gauge: Gauge, recent: RecentReadings, cells: int, height: int) -> list[Line]:
    """Return the recent memory on one scale, which ends just above the highest reading.

    At most, it ends at the device's total, or at the process's own peak without it.

    Args:
        gauge: the account of the process.
        recent: its memory.
        cells: width of a line.
        height: lines in all.
    """
    top = get_value(gauge.total) or get_value(gauge.term("reserved_peak").bytes)
    plotted = [
        PlottedFigure(name, label, top, text.size(top), style)
        for name, label, style in _HISTORIES
        if name != "process" or any(point.process is not None for point in recent.points)
    ]
    columns = max(0, cells - LABEL) * ACROSS
    zoomed = [choose_scale(figure, recent, columns, text.size) for figure in plotted]
    highest = max(zoomed, key=lambda figure: figure.full or 0.0)
    plotted = [
        figure._replace(full=highest.full, full_text=highest.full_text) for figure in plotted
    ]
    rows = max(1, (height - 1) // len(plotted))
    lines, gap = history_lines(recent, plotted, cells, rows, text.size)
    zoom = ZOOMED if highest.full != top else ""
    return [span_rule(zoom, recent, cells, cells, gap), *lines]
