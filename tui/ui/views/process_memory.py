"""A process's memory on a device: what its figures tell, its history, its account. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.memory import Gauge
from tui.monitor.messages import Sample
from tui.state.allocators import Allocator
from tui.state.history import MemoryPoint
from tui.state.pairing import DeviceView
from tui.state.reading import value_of
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.braille import ACROSS
from tui.ui.views.device_detail import Fact
from tui.ui.views.history import LABEL, Figure, column_s, history_lines
from tui.ui.views.lines import Line, Span, TextStyle, fit, paragraph
from tui.ui.views.memory_account import account_lines
from tui.watch.messages import TorchProcess

HIGHEST = 4
"""Rows of each of its histories, at most."""
_FIGURES = (
    ("allocated", TextStyle.ALLOCATED),
    ("reserved", TextStyle.CACHED),
    ("process", TextStyle.CONTEXT),
)


def process_lines(
    allocator: Allocator,
    gauge: Gauge,
    view: DeviceView,
    worker_pid: int | None,
    now: float,
    cells: int,
) -> list[Line]:
    """What the figures tell over time, then every figure with its source or its reason.

    Args:
        allocator: of the process on the device.
        gauge: the account.
        view: the device.
        worker_pid: this program's worker.
        now: Unix time.
        cells: width of a line.
    """
    found: list[Line] = []
    if allocator.ended:
        age = text.age(now - allocator.figures.at)
        words = f"{allocator.ended}: these are its last figures, read {age}"
        found += paragraph(words, cells, TextStyle.NOTE)
    for finding in allocator.findings:
        found += paragraph(f"{finding.text} ({finding.source})", cells, TextStyle.NOTE, indent="  ")
    facts = process_facts(allocator.process, now)
    return [*found, *account_lines(gauge, view, facts, worker_pid, cells, "process")]


def process_facts(process: TorchProcess, now: float) -> list[Fact]:
    """What is known of the process itself, with the reason of what is not."""

    def said(name: str, value: object) -> str:
        if value is not None:
            return str(value)
        return f"{text.NA}: {process.unavailable.get(name) or 'not known'}"

    rank = process.rank
    if rank is not None and process.world_size is not None:
        rank_words: str | None = f"{rank} of {process.world_size}"
    else:
        rank_words = None if rank is None else str(rank)
    age = None if process.start is None else text.old(max(0.0, now - process.start))
    return [
        ("pid", str(process.pid)),
        ("command", said("command", process.command)),
        ("user", said("user", process.user)),
        ("running for", said("start", age)),
        ("torch", said("torch", process.torch)),
        ("rank", said("rank", rank_words)),
        ("local rank", said("local_rank", process.local_rank)),
        ("launcher", said("launcher", process.launcher)),
        ("CUDA_VISIBLE_DEVICES", said("visible_devices", process.visible_devices)),
    ]


def history_rows(most: int) -> int:
    """Lines of :func:`process_history`, at most so many; none where one row each has no room."""
    each = min(HIGHEST, (most - 1) // len(_FIGURES))
    return 1 + each * len(_FIGURES) if each > 0 else 0


def process_history(
    points: Sequence[MemoryPoint],
    gauge: Gauge,
    sample: Sample | None,
    now: float,
    cells: int,
    height: int,
) -> list[Line]:
    """What it held over the last minutes, on one scale: the device's memory, or its own peak.

    Args:
        points: oldest first.
        gauge: its account.
        sample: the monitor's newest.
        now: Unix time.
        cells: width of a line.
        height: lines in all.
    """
    top = value_of(gauge.total) or value_of(gauge.term("reserved_peak").bytes)
    wanted = [
        Figure(name, name, top, text.size_short(top), style)
        for name, style in _FIGURES
        if name != "process" or any(point.process is not None for point in points)
    ]
    seconds = column_s(sample)
    span = text.duration(max(0, cells - LABEL) * ACROSS * seconds)
    rule = glyphs.GLYPHS.rule
    words = f"last {span}, the highest of each {text.duration(seconds)}"
    head = fit(f"{rule} {words} ", cells)
    rows = max(1, (height - 1) // len(wanted))
    return [
        (Span(head + rule * (cells - len(head)), TextStyle.QUIET),),
        *history_lines(points, wanted, sample, now, cells=cells, rows=rows),
    ]
