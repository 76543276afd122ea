"""The memory of a device as lines: bar, legend, figures. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.commands import shorten_command
from tui.devices.commands import DEVICES
from tui.devices.memory import OTHER_PARTS, PINNED, Gauge, ProcessMemory, Slice
from tui.devices.memory.figures import NEXT_RUN, NOT_USED
from tui.devices.memory.model import Absent, Reading, Stale, Value, format_reading, get_value
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.views.device_columns import shorten_name
from tui.kit.bars import LOWER_GAP
from tui.kit.commands.command import TABS, key_text
from tui.kit.lines import (
    EDGES,
    Line,
    Patterned,
    Span,
    TextStyle,
    fit,
    fit_line,
    flow,
    paragraph,
    width,
)

STYLES = {
    "allocated": TextStyle.ALLOCATED,
    "unique": TextStyle.ALLOCATED,
    "cached": TextStyle.CACHED_AREA,
    "workspace": TextStyle.LAYER_D,
    "shared": TextStyle.CACHED_AREA,
    "context": TextStyle.CONTEXT,
    "process": TextStyle.CONTEXT,
    "ours": TextStyle.CONTEXT,
    "process_and_others": TextStyle.OTHERS,
    "others": TextStyle.OTHERS,
    **dict.fromkeys(OTHER_PARTS, TextStyle.OTHERS),
    "driver": TextStyle.SYSTEM,
    "unattributed": TextStyle.QUIET,
}
"""Styles of the bar's cells by the key of a slice."""
KEPT_PATTERNS = ("ours", *OTHER_PARTS, "free", "unknown")
"""Slices that keep their pattern in exact colors, as another slice or the track has their color."""
LEAST_SPLIT = 3
"""The fewest cells of another process in a bar that are split into its parts."""
OTHERS_SHOWN = 3
"""The most processes that the pane splits; the memory tab splits all."""
EMPTY_KEY = next(key_text(command.keys[0]) for command in DEVICES if command.id == "empty_cache")
FIGURES = ("reserved", "process", "used")
"""Terms of a GPU that the pane shows."""
HOST_FIGURES = ("resident", "used", "heap_in_use")


# ---- bar ---------------------------------------------------------------------------------------


def bar_cells(slices: Sequence[Slice], total: int, cells: int) -> list[tuple[str, int]]:
    """Distribute ``cells`` among the slices; each slice above zero gets at least one.

    Args:
        slices: the slices of known size, which add up to ``total``.
        total: bytes, above zero.
        cells: width of the bar.
    """
    sizes = [(part.key, get_value(part.bytes) or 0) for part in slices]
    shown = [(key, size) for key, size in sizes if size > 0]
    least = 1 if len(shown) <= cells else 0
    widths = [max(least, size * cells // total) for _, size in shown]
    remainders = [size * cells % total for _, size in shown]
    while shown and sum(widths) < cells:
        best = max(range(len(shown)), key=lambda at: (remainders[at], shown[at][1]))
        widths[best] += 1
        remainders[best] = -1
    while sum(widths) > cells:
        widest = max(range(len(shown)), key=lambda at: (widths[at], shown[at][1]))
        widths[widest] -= 1
    return [(key, count) for (key, _), count in zip(shown, widths, strict=True) if count]


def bar_line(gauge: Gauge, cells: int) -> Line:
    """Return the bar, or the reason for an unknown total."""
    total = get_value(gauge.total)
    if total is None or total <= 0:
        reason = gauge.total.reason if isinstance(gauge.total, Absent) else "it is zero"
        return (Span(fit(f"no bar, the total is not known: {reason}", cells), TextStyle.QUIET),)
    return tuple(
        fill_cells(key, count)
        for key, count in bar_cells(_with_others_split(gauge, total, cells), total, cells)
    )


def fill_cells(key: str, cells: int) -> Span:
    """Return a slice of a bar, which is ``cells`` wide.

    Where it is solid, it ends in a gap to the next one: colors may be alike to the user.
    """
    steps = glyphs.GLYPHS.horizontal
    return _fill(glyphs.GLYPHS.slices[key] * cells, key, steps[-1], steps[-2])


def fill_area(key: str, cells: int, *, last: bool) -> Span:
    """Return a row of a slice of a bar of several rows.

    Args:
        key: of the slice, which is no process's.
        cells: its width.
        last: leave a gap to what is below the bar, where the slice is solid.
    """
    filled = _fill(glyphs.GLYPHS.slices[key] * cells, key, glyphs.GLYPHS.vertical[-1])
    if not last or not isinstance(filled, Patterned):
        return filled
    return Patterned(filled.text, EDGES[filled.style], LOWER_GAP[False])


def draw_sample(key: str) -> Span:
    """Return what stands for a slice in a legend.

    A full cell would merge with the bar above it.
    """
    drawn = glyphs.GLYPHS.slices[key]
    sample = glyphs.GLYPHS.gauge
    return _fill(sample if drawn == glyphs.GLYPHS.vertical[-1] else drawn, key, sample)


def _fill(text: str, key: str, solid: str, end: str = "") -> Span:
    style = STYLES.get(key, TextStyle.REST)
    patterned = glyphs.GLYPHS.ascii or key in KEPT_PATTERNS
    return Span(text, style) if patterned else Patterned(text, style, solid, end)


def _with_others_split(gauge: Gauge, total: int, cells: int) -> list[Slice]:
    """Return the known slices, largest first; other processes are split if there is room."""
    slices: list[Slice] = []
    for part in gauge.known:
        left = get_value(part.bytes) or 0
        if part.key == "others":
            for other in gauge.others:
                process_bytes = sum(size for _, size in other.parts)
                if process_bytes > left or process_bytes * cells < LEAST_SPLIT * total:
                    continue
                slices += [Slice(key, "", Value(size)) for key, size in other.parts]
                left -= process_bytes
            part = replace(part, bytes=Value(left))
        slices.append(part)
    return slices


def legend_lines(gauge: Gauge, cells: int, format_size: text.SizeFormat = text.size) -> list[Line]:
    """Return every slice above zero with its glyph and its bytes, on as few lines as possible.

    To avoid a second line, the free slice is dropped, which the title also shows.

    Args:
        gauge: the account.
        cells: width of a line.
        format_size: how sizes are written.
    """
    parts = [part for part in gauge.known if get_value(part.bytes) != 0 or part.key == "free"]
    occupied = [part for part in parts if part.key != "free"]
    split = _with_others_split(gauge, get_value(gauge.total) or 0, cells)
    # The bar draws the memory of other processes by what their torch does with it.
    of_others = tuple(
        {
            part.key: None
            for part in split
            if part.key in (*OTHER_PARTS, "others") and (get_value(part.bytes) or 0) > 0
        }
    )
    drawn = [
        flow(
            [
                _legend_item(
                    part,
                    format_size(get_value(part.bytes)),
                    of_others if part.key == "others" else (part.key,),
                )
                for part in chosen
            ],
            cells,
        )
        for chosen in (parts, occupied)
    ]
    return min(drawn, key=len)


def _legend_item(part: Slice, size: str, keys: Sequence[str]) -> Line:
    """Return an entry of the legend, with the glyphs of all its slices."""
    quiet = isinstance(part.bytes, Stale)
    return (
        *map(draw_sample, keys),
        Span(f" {part.label} "),
        Span(size, TextStyle.QUIET if quiet else TextStyle.STRONG),
    )


def other_lines(
    others: Sequence[ProcessMemory],
    cells: int,
    most: int | None = None,
    format_size: text.SizeFormat = text.size_short,
) -> list[Line]:
    """Return a line per process: the memory of its torch, or one word on why it is unknown.

    Args:
        others: the processes, largest first.
        cells: width of a line.
        most: the most lines; ``None`` for no limit.
        format_size: how sizes are written.
    """
    shown = others if most is None or len(others) <= most else others[: most - 1]
    lines = [fit_line(_other_line(other, format_size, cells), cells) for other in shown]
    if len(shown) < len(others):
        rest = text.count(len(others) - len(shown), "more torch process", "more torch processes")
        lines.append((Span(fit(f"{rest}: see the tabs {MORE}", cells), TextStyle.QUIET),))
    return lines


_LEAST_COMMAND = 12
"""Cells of a command that still say which program it is."""
_TAB_KEYS = {tab.id: tab.key for tab in TABS}
PROCESSES = _TAB_KEYS["processes"]
MORE = f"{_TAB_KEYS['memory']} and {PROCESSES}"


def _other_line(other: ProcessMemory, format_size: text.SizeFormat, cells: int) -> Line:
    """Draw a process; where its command has no room, without the smallest figure, its context."""
    head = (Span(f"{other.pid} ", TextStyle.STRONG),)
    tail = (Span(f" {shorten_command(other.command or text.NA)}", TextStyle.QUIET),)
    figures = (other.allocated, other.cached, other.context)
    if isinstance(other.allocated, Absent):
        used = format_reading(other.process, format_size)
        return (*head, Span(f"{used}, not split: {other.allocated.short}"), *tail)
    parts: list[Line] = []
    for key, size in zip(OTHER_PARTS, figures, strict=True):
        label = key.removeprefix("other_")
        style = TextStyle.QUIET if isinstance(size, Stale) else TextStyle.STRONG
        value = Span(f"{format_reading(size, format_size)} ", style)
        parts.append((draw_sample(key), Span(f" {label} "), value))
    room = cells - width(head) - min(width(tail), _LEAST_COMMAND)
    shown = parts if sum(map(width, parts)) <= room else parts[:-1]
    return (*head, *(span for part in shown for span in part), *tail)


# ---- figures -----------------------------------------------------------------------------------


def figure_lines(
    gauge: Gauge, view: DeviceView, cells: int, format_size: text.SizeFormat = text.size_short
) -> list[Line]:
    """Return the figures under the bar: reserved, process, used, exact peaks, what ``e`` frees.

    Those that are zero are left out.
    """
    items: list[Line] = []
    for key in HOST_FIGURES if view.key == CPU else FIGURES:
        term = gauge.term(key)
        size = get_value(term.bytes)
        if not size or (key == "used" and _is_one_slice(gauge, size)):
            continue
        peak = get_value(gauge.term("reserved_peak").bytes) if key == "reserved" else None
        note = f" (peak {format_size(peak)})" if peak is not None else ""
        style = TextStyle.QUIET if isinstance(term.bytes, Stale) else TextStyle.STRONG
        items.append((Span(f"{term.label} "), Span(format_size(size), style), Span(note)))
    free = get_value(gauge.would_free)
    if free:
        upper = f"up to {format_size(free)}"
        if gauge.wording.frees:
            items.append((Span(f"{gauge.wording.frees} {upper}"),))
        else:
            items.append((Span(EMPTY_KEY, TextStyle.KEY), Span(f" frees {upper}")))
    pinned = _pinned_item(gauge, format_size)
    peaks = peak_items(gauge, sampled=False, format_size=format_size)
    return flow([*items, *pinned, *peaks], cells)


def _is_one_slice(gauge: Gauge, used: int) -> bool:
    """Return whether a slice of the bar alone is all that is used, which its legend says."""
    rest = ("free", "driver")
    return any(get_value(part.bytes) == used for part in gauge.known if part.key not in rest)


def _pinned_item(gauge: Gauge, format_size: text.SizeFormat) -> list[Line]:
    """Return the line on pinned host memory, if any, which is not part of the bar."""
    size = next((get_value(term.bytes) for term in gauge.terms if term.key == PINNED), None)
    return (
        [(Span("pinned on the host "), Span(format_size(size), TextStyle.STRONG))] if size else []
    )


def peak_items(
    gauge: Gauge, *, sampled: bool, format_size: text.SizeFormat = text.size_short
) -> list[Line]:
    """Return the sampled peaks, or the peak of allocated bytes, which has no figure beside it."""
    items: list[Line] = []
    for term in gauge.peaks:
        size = get_value(term.bytes)
        beside = term.key in ("reserved_peak", "allocated_peak_whole")
        if not size or beside or sampled != ("sampled" in term.source):
            continue
        how = " sampled" if sampled else ""
        items.append((Span(f"peak {term.label} {format_size(size)}{how}"),))
    return items


def absence_lines(gauge: Gauge, cells: int) -> list[Line]:
    """Return the unknown terms with their reasons, each reason once."""
    return [
        line
        for absent, labels in _find_absences(gauge).items()
        for line in paragraph(
            f"{', '.join(labels)} {absent.short}: {absent.reason}", cells, TextStyle.QUIET
        )
    ]


RUNNER = "runner"
"""Label of the worker's slice of the host's memory."""


def absent_name_lines(gauge: Gauge, cells: int, omitted: str = "") -> list[Line]:
    """Return the names of the unknown terms; ``i`` gives the reasons.

    Where torch has no memory on the device yet, that is said instead.

    Args:
        gauge: the account.
        cells: width of a line.
        omitted: the label of a term to leave out; empty for none.
    """
    absences = {
        absent: shown
        for absent, labels in _find_absences(gauge).items()
        if (shown := [label for label in labels if label != omitted])
    }
    for reason in (NEXT_RUN, NOT_USED):
        if {absent.reason for absent in absences} == {reason}:
            return paragraph(reason, cells, TextStyle.QUIET)
    by_word: dict[str, list[str]] = {}
    for absent, shown in absences.items():
        by_word.setdefault(absent.short or text.NA, []).extend(shown)
    return [
        line
        for word, labels in by_word.items()
        for line in paragraph(f"{', '.join(labels)} {word} (i)", cells, TextStyle.QUIET)
    ]


def _find_absences(gauge: Gauge) -> dict[Absent, list[str]]:
    """Return the labels of unknown terms by reason; a slice represents its terms."""
    absences: dict[Absent, list[str]] = {}
    for part in gauge.slices:
        if isinstance(part.bytes, Absent):
            absences.setdefault(part.bytes, []).append(part.label)
    reasons = {absent.reason for absent in absences}
    for term in gauge.terms:
        if (
            term.key in FIGURES
            and isinstance(term.bytes, Absent)
            and term.bytes.reason not in reasons
        ):
            absences.setdefault(term.bytes, []).append(term.label)
    return absences


def warning_lines(gauge: Gauge, cells: int) -> list[Line]:
    """Return the lines on terms that contradict each other."""
    mark = f"{glyphs.GLYPHS.warning} "
    return [
        line
        for warning in gauge.warnings
        for line in paragraph(mark + warning, cells, TextStyle.BAD, indent="  ")
    ]


def brief_warning_lines(gauge: Gauge, cells: int) -> list[Line]:
    """Return a line for each contradiction; ``i`` shows the likely causes."""
    shown = gauge.warnings[:WARNINGS_SHOWN]
    lines = [warning.partition(": ")[0] for warning in shown]
    if len(shown) < len(gauge.warnings):
        lines[-1] = text.count(len(gauge.warnings) - len(shown) + 1, "more warning")
    mark = glyphs.GLYPHS.warning
    return [
        line
        for words in lines
        for line in paragraph(f"{mark} {words} (i)", cells, TextStyle.BAD, indent="  ")
    ]


WARNINGS_SHOWN = 2
HOLDERS_SHOWN = 4


def holder_lines(
    gauge: Gauge,
    view: DeviceView,
    cells: int,
    worker: int | None,
    format_size: text.SizeFormat = text.size,
) -> list[Line]:
    """Return NVML's other processes on the device, largest first, except those split above.

    Args:
        gauge: the account, which contains the split processes.
        view: the device.
        cells: width of a line.
        worker: PID of the workbench's worker, whose memory is among the figures.
        format_size: how sizes are written.
    """
    listed_pids = {worker, *(other.pid for other in gauge.others)}
    listed = (view.nvml.processes if view.nvml and not view.nvml.lost else None) or ()
    unlisted = [item for item in listed if not item.ours and item.pid not in listed_pids]
    unlisted.sort(key=lambda item: -1 if item.memory is None else item.memory, reverse=True)
    shown = unlisted if len(unlisted) <= HOLDERS_SHOWN else unlisted[: HOLDERS_SHOWN - 1]
    lines = [
        fit_line(
            (
                Span(f"{item.pid} {item.user or text.NA} "),
                Span(format_size(item.memory), TextStyle.STRONG),
                Span(f" {shorten_command(item.command or text.NA)}", TextStyle.QUIET),
            ),
            cells,
        )
        for item in shown
    ]
    if len(shown) < len(unlisted):
        rest = text.count(len(unlisted) - len(shown), "more process", "more processes")
        lines.append((Span(fit(f"{rest}: see the tab {PROCESSES}", cells), TextStyle.QUIET),))
    return lines


FULL_SIZES_FROM = 100
"""Cells of a line from which the pane writes sizes in full, whatever the device."""


def choose_sizes(cells: int) -> text.SizeFormat:
    """Return how the pane writes all its sizes on lines of a width."""
    return text.size if cells >= FULL_SIZES_FROM else text.size_short


def draw_body(gauge: Gauge, view: DeviceView, cells: int, worker: int | None = None) -> list[Line]:
    """Return all lines under the bar.

    The most useful lines come first; see :func:`holder_lines`.
    """
    format_size = choose_sizes(cells)
    # A worker that does not run holds none of the host's memory.
    omitted = RUNNER if view.key == CPU and worker is None else ""
    return [
        *legend_lines(gauge, cells, format_size),
        *other_lines(gauge.others, cells, OTHERS_SHOWN, format_size),
        *absent_name_lines(gauge, cells, omitted),
        *brief_warning_lines(gauge, cells),
        *figure_lines(gauge, view, cells, format_size),
        *holder_lines(gauge, view, cells, worker, format_size),
    ]


def explain_lines(gauge: Gauge, cells: int) -> list[Line]:
    """Explain the bar in sentences: contradictions, the use, unknown figures, sampled peaks."""
    parts = (
        warning_lines(gauge, cells),
        paragraph(" ".join(gauge.explanation), cells),
        absence_lines(gauge, cells),
        flow(peak_items(gauge, sampled=True), cells),
    )
    return [row for part in parts if part for row in (*part, ())][:-1]


_SPACED_UNIT = re.compile(r" ([KMGT])iB")


def memory_title(
    gauge: Gauge,
    view: DeviceView,
    cells: int,
    device: str = "",
    format_size: text.SizeFormat = text.size,
) -> str:
    """Return the title: device, free and total memory, and important problems if they fit.

    Args:
        gauge: the account.
        view: the device.
        cells: width of the title.
        device: whose memory it is, if not the device's.
        format_size: how the pane writes sizes; where there is little room they are short.
    """
    total = get_value(gauge.total)
    spare = next((part for part in gauge.known if part.key == "free"), None)
    sizes = f"total {format_reading(gauge.total, text.size)}"
    if total is not None and spare is not None:
        sizes = f"{text.size_pair(get_value(spare.bytes), total, ' of ')} {spare.label}"
    if gauge.unified:
        sizes += ", unified"
    notes = []
    if isinstance(gauge.total, Stale) and gauge.total.age_s is not None:
        notes.append(f"{text.old(gauge.total.age_s)} old")
    if gauge.age_s is not None:
        notes.append(f"account of {gauge.age_s:.1f} s ago")
    if gauge.warnings:
        notes.append(f"{glyphs.GLYPHS.warning} {text.count(len(gauge.warnings), 'warning')}")
    label = f"Memory{device}   {view.label}"
    name = "" if view.key == CPU else shorten_name(view)
    name = "" if name == view.label else name
    short = _SPACED_UNIT.sub(r"\1", sizes)
    if format_size is text.size_short:
        sizes = short
    for parts in (
        (f"{label} {name}".rstrip(), sizes, *notes),
        (label, sizes, *notes),
        (label, *notes, short),
        (label, *notes, short.replace(" of ", "/")),
    ):
        full = "   ".join(parts)
        if width((Span(full),)) <= cells:
            return full
    return fit("   ".join((label, *notes, short)), cells)


# ---- absences -----------------------------------------------------------------------------------

WOULD_FREE = f"{EMPTY_KEY} would free"


def choose_free_label(gauge: Gauge) -> str:
    """Return the label of the action that empties the cache of the account's process."""
    return gauge.wording.frees or WOULD_FREE


Reasons = dict[Absent, list[str]]
"""Labels of figures by the reason for their absence."""


def find_shared_reasons(gauge: Gauge) -> Reasons:
    """Return the reasons that more than one absent figure shares."""
    figures: list[tuple[str, Reading[int]]] = [
        *((term.label, term.bytes) for term in gauge.terms),
        *((f"peak {term.label}", term.bytes) for term in gauge.peaks),
        *((counter.label, counter.count) for counter in gauge.counters),
        (choose_free_label(gauge), gauge.would_free),
    ]
    shared: Reasons = {}
    for label, figure in figures:
        if isinstance(figure, Absent):
            shared.setdefault(figure, []).append(label)
    return {absent: labels for absent, labels in shared.items() if len(labels) > 1}


def drop_absent(gauge: Gauge, reasons: Reasons) -> Gauge:
    """Return the account without the peaks and counters that are absent for these reasons."""
    return replace(
        gauge,
        peaks=tuple(term for term in gauge.peaks if not is_absent_for(term.bytes, reasons)),
        counters=tuple(
            counter for counter in gauge.counters if not is_absent_for(counter.count, reasons)
        ),
    )


def is_absent_for(figure: Reading[int], reasons: Reasons) -> bool:
    """Return whether a figure is absent for one of these reasons."""
    return isinstance(figure, Absent) and figure in reasons


def reason_lines(reasons: Reasons, cells: int, most: int | None = None) -> list[Line]:
    """Return each reason once, with its figures: two and a count if there are ``most`` or more."""

    def name(labels: list[str]) -> str:
        whole = most is None or len(labels) < most
        shown = labels if whole else labels[:2]
        # "runner, unique" is one label.
        names = ("; " if any("," in label for label in shown) else ", ").join(shown)
        return names if whole else f"{names} and {len(labels) - 2} other figures"

    return [
        row
        for absent, labels in reasons.items()
        for row in paragraph(
            f"{name(labels)} {absent.short}: {absent.reason}", cells, TextStyle.QUIET, indent="  "
        )
    ]
