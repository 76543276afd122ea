"""Who holds the memory of each GPU: a bar per GPU, divided by process. Pure.

The processes of one launcher have one color in the bars of all GPUs, and the PID of each stands in
its part where that fits; those of the selected processes follow a sign.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.commands import distinguish
from tui.devices.memory.model import Slice, Value
from tui.devices.state.devices import CPU, DeviceView, find_last_reading
from tui.devices.views.memory import RUNNER, bar_cells, draw_sample, fill_area
from tui.devices.views.memory_account import is_worker
from tui.devices.views.process_rows import find_job, is_unattributed
from tui.kit.bars import LEFT_GAP, LOWER_GAP
from tui.kit.lines import (
    LAYERS,
    ON_LAYERS,
    Line,
    Span,
    TextStyle,
    cell_len,
    fit,
    fit_line,
    left,
    right,
    width,
)
from tui.monitor.messages import Device, GpuProcess

Kind = Literal["process", "unattributed", "driver", "free"]
MOST_ROWS = 4
"""The most rows of a bar, with the gap below it."""
LEAST_BAR = 20
"""Least cells of a bar."""
TITLE = "Memory by process"
HolderKey = tuple[int, "float | None"]
"""PID and start of a process."""


@dataclass(frozen=True, slots=True)
class BarPart:
    """One part of a GPU's memory."""

    kind: Kind
    bytes: int
    holder: HolderKey | None = None
    """The process; ``None`` for the other kinds."""
    job: int = 0
    """PID of its launcher, such as torchrun, else its own; 0 for the other kinds."""
    words: tuple[str, ...] = ()
    """A line for each row of the bar."""


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """The memory of one GPU, divided by who holds it."""

    label: str
    total: int
    parts: tuple[BarPart, ...]
    """In the order of the bar; they add up to the total."""
    lost: bool = False

    @property
    def free(self) -> int:
        """Return the bytes that nobody holds."""
        return sum(part.bytes for part in self.parts if part.kind == "free")

    @property
    def has_processes(self) -> bool:
        """Return whether a process has memory on it."""
        return any(part.holder for part in self.parts)


def divide_memory(views: Sequence[DeviceView], worker_pid: int | None) -> tuple[HeldMemory, ...]:
    """Return the memory of each GPU that has memory of its own, divided by who holds it.

    Args:
        views: the devices in the driver's order.
        worker_pid: this program's worker.
    """
    read = [(view, find_last_reading(view)) for view in views if view.key != CPU]
    known = [(view, device) for view, device in read if device is not None and _is_known(device)]
    rows = [row for _, device in known for row in device.processes or ()]
    short = distinguish(
        [RUNNER if is_worker(row, worker_pid) else row.command or text.NA for row in rows]
    )
    names = {_key(row): name for row, name in zip(rows, short, strict=True)}
    return tuple(_divide(view, device, names) for view, device in known)


def _is_known(device: Device) -> bool:
    memory = device.memory
    return bool(memory.total) and memory.used is not None and not memory.unified


def _key(row: GpuProcess) -> HolderKey:
    return row.pid, row.started_at


def _divide(view: DeviceView, device: Device, names: dict[HolderKey, str]) -> HeldMemory:
    total, used = device.memory.total or 0, device.memory.used or 0
    driver = min(device.memory.driver_reserved or 0, total)
    room = total - driver
    parts: list[BarPart] = []
    sized = [row for row in device.processes or () if row.memory]
    for row in sorted(sized, key=lambda row: (-(row.memory or 0), row.pid)):
        held = row.memory or 0
        figures = f"{text.size(held)}  {text.share(held / total)}"
        words = (f"{row.pid} {names[_key(row)]}", figures, row.user or "")
        # Memory that processes share is counted for each.
        parts.append(BarPart("process", min(held, room), _key(row), find_job(row), words))
        room -= parts[-1].bytes
    rest = min(room, used - sum(part.bytes for part in parts))
    if is_unattributed(rest, device.memory):
        parts.append(BarPart("unattributed", rest))
        room -= rest
    parts += [BarPart("driver", driver), BarPart("free", room)]
    lost = view.nvml is not None and view.nvml.lost is not None
    return HeldMemory(view.label, total, tuple(part for part in parts if part.bytes), lost)


def choose_colors(gpus: Sequence[HeldMemory]) -> dict[int, int]:
    """Return the number of each job's color, by the PID of the job.

    Jobs in one bar have different colors where that is possible, and so have all jobs while there
    are enough. The colors of jobs do not change when later ones come or go.
    """
    bars = [{part.job for part in gpu.parts if part.job} for gpu in gpus]
    colors: dict[int, int] = {}
    for job in sorted(set().union(*bars)):
        beside = {colors.get(other) for bar in bars if job in bar for other in bar}
        options = [(job + step) % len(LAYERS) for step in range(len(LAYERS))]
        apart = [color for color in options if color not in beside] or options
        unused = [color for color in apart if color not in colors.values()]
        colors[job] = (unused or apart)[0]
    return colors


def count_bar_rows(gpus: Sequence[HeldMemory], available: int) -> tuple[int, ...]:
    """Return the rows of each GPU's bar: one without processes, and as many for all the others.

    Args:
        gpus: the memory of each.
        available: the most rows, with the heading; if they are too few, no GPU has a bar.
    """
    used = sum(gpu.has_processes for gpu in gpus)
    free = available - 1 - len(gpus)
    if not gpus or free < 0:
        return ()
    most = min(MOST_ROWS, 1 + free // used) if used else 1
    return tuple(most if gpu.has_processes else 1 for gpu in gpus)


def holder_bars(
    gpus: Sequence[HeldMemory], cells: int, available: int, chosen: Collection[HolderKey] = ()
) -> list[Line]:
    """Return a heading, and a bar for each GPU; nothing if there is no room.

    Args:
        gpus: the memory of each.
        cells: width of a line.
        available: the most rows.
        chosen: the selected processes.
    """
    heights = count_bar_rows(gpus, available)
    label = max((len(gpu.label) for gpu in gpus), default=0) + 3
    figures = ["lost" if gpu.lost else f"{text.size(gpu.free)} free" for gpu in gpus]
    tail = max(map(len, figures), default=0) + 3
    room = cells - label - tail
    if not heights or room < LEAST_BAR:
        return []
    colors = choose_colors(gpus)
    lines = [_heading(gpus, cells)]
    for gpu, words, height in zip(gpus, figures, heights, strict=True):
        for row in range(height):
            first = row == 0
            head = Span(left(f"  {gpu.label}" if first else "", label))
            end = Span(right(words if first else "", tail - 1), TextStyle.STRONG)
            lines.append((head, *_bar_row(gpu, room, row, height, colors, chosen), end))
    return lines


def _heading(gpus: Sequence[HeldMemory], cells: int) -> Line:
    """Return the heading, which explains the parts that are no process's."""
    kinds = {part.kind for gpu in gpus for part in gpu.parts}
    signs = [
        (Span("   "), draw_sample(kind), Span(f" {kind}", TextStyle.QUIET))
        for kind in ("unattributed", "driver", "free")
        if kind in kinds
    ]
    start = (Span(glyphs.GLYPHS.rule, TextStyle.REST), Span(f" {TITLE}", TextStyle.QUIET))
    explained = (*start, *(span for sign in signs for span in sign))
    heading = explained if width(explained) + 2 <= cells else start
    rule = glyphs.GLYPHS.rule * (cells - width(heading) - 1)
    return fit_line((*heading, Span(" "), Span(rule, TextStyle.REST)), cells)


def _bar_row(
    gpu: HeldMemory,
    cells: int,
    row: int,
    height: int,
    colors: dict[int, int],
    chosen: Collection[HolderKey],
) -> list[Span]:
    """Return one row of a bar."""
    slices = [Slice(str(at), "", Value(part.bytes)) for at, part in enumerate(gpu.parts)]
    spans: list[Span] = []
    # The last row of several is the gap to the next bar.
    last = height > 1 and row == height - 1
    for key, size in bar_cells(slices, gpu.total, cells):
        part = gpu.parts[int(key)]
        if part.holder is None:
            blank = part.kind == "free" and row > 0
            spans.append(Span(" " * size) if blank else fill_area(part.kind, size, last=last))
        else:
            color, selected = colors[part.job], row == 0 and part.holder in chosen
            beside = bool(spans)
            fitting = _fit_words(part.words, size - 2)
            words = fitting[row] if row < len(fitting) and not last else ""
            spans += _filled(words, size, color, selected=selected, last=last, beside=beside)
    return spans


def _fit_words(words: Sequence[str], cells: int) -> list[str]:
    """Return the lines of words that fit, of the first at least its PID."""
    first, *others = words
    pid = first.partition(" ")[0]
    if cell_len(first) > cells:
        shortened = cell_len(pid) + 4 <= cells and pid.isdigit()
        short = pid if pid.isdigit() and cell_len(pid) <= cells else ""
        first = fit(first, cells) if shortened else short
    if not first:
        return []
    # Of several figures, the first may fit alone.
    shorter = [line if cell_len(line) <= cells else line.partition("  ")[0] for line in others]
    return [first, *(line for line in shorter if line and cell_len(line) <= cells)]


def _filled(
    words: str, cells: int, color: int, *, selected: bool, last: bool, beside: bool
) -> list[Span]:
    """Draw one row of a process's part as an area; the words of a selected one follow a sign.

    Args:
        words: its words on this row.
        cells: its width.
        color: the number of its color.
        selected: mark the part on this row.
        last: it is the last of several rows, with the gap to the next bar.
        beside: another part ends where this one begins.
    """
    ascii_only, style = glyphs.GLYPHS.ascii, ON_LAYERS[color]
    under = LOWER_GAP[ascii_only] if last else " "
    edge = LEFT_GAP[ascii_only] if beside or ascii_only else under
    edge = glyphs.GLYPHS.selected if selected else edge
    body = under * (cells - 1) if last else left(words, cells - 1)
    return [Span(edge + body, style)]
