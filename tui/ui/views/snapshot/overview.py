"""The first page on a snapshot: why it ran out, or what there is; who held it; what helps. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.snapshots.model.results import AGAINST_OOM, OF_CACHED, Advice, Summary, Top, Verdict
from tui.snapshots.reader.messages import FileInfo
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, fit_line, flow, line, paragraph, wrap
from tui.ui.views.snapshot.words import (
    FRAME_STYLES,
    SITE_HEADING,
    bulleted,
    clock_words,
    indented,
    site_line,
    stack_lines,
)

TOLD_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments", "max_split_size")


def verdict_lines(verdict: Verdict, summary: Summary, cells: int) -> list[Line]:
    """One failed allocation: what, why, who, what helps, where."""
    place = summary.ooms.index(verdict.event) + 1 if verdict.event in summary.ooms else 0
    which = f"OOM {place} of {len(summary.ooms)}" if len(summary.ooms) > 1 else "OOM"
    where = f"device {verdict.device}, event {verdict.event}"
    rows = [
        line(
            Span(which, TextStyle.STRONG),
            Span(f" on {where} of {summary.events}, ", TextStyle.QUIET),
            Span(clock_words(verdict.time_us), TextStyle.QUIET),
        )
    ]
    rows += paragraph(verdict.headline, cells, TextStyle.BAD)
    rows += flow([_figure(name, value) for name, value in _figures(verdict)], cells)
    rows += paragraph(verdict.cause, cells, label="cause: ")
    for reason in verdict.reasons:
        rows += bulleted(reason, cells)
    for doubt in verdict.state.doubts:
        rows += bulleted(doubt, cells, TextStyle.NOTE, "!")
    held = top_lines("Held the memory then", verdict.top, cells)
    advice = advice_lines(AGAINST_OOM, verdict.advice, cells)
    asked = [(), line(Span("Asked for at", TextStyle.STRONG)), *stack_lines(verdict.stack, cells)]
    # Where the request is to blame, who asked matters more than who held.
    blamed = verdict.cause in ("larger than the device", "larger than what was free")
    return rows + (asked + advice + held if blamed else held + advice + asked)


def _figures(verdict: Verdict) -> list[tuple[str, str]]:
    state = verdict.state
    figures = [
        ("asked", text.size(verdict.asked)),
        ("live", text.size(state.live)),
        ("reserved", text.size(state.reserved)),
        ("cached", text.size(state.cached)),
        ("device free", text.size(verdict.device_free)),
        ("largest free block", text.size(state.largest_free_block)),
        ("largest usable free block", text.size(verdict.serving_free_block)),
    ]
    if state.private_reserved:
        figures.append(("in private pools", text.size(state.private_reserved)))
    figures += [
        ("others", text.size(verdict.others)),
        ("device total", text.size(verdict.total)),
    ]
    return figures


def summary_lines(summary: Summary, cells: int) -> list[Line]:
    """One device without an OOM, or what else there is to know of it."""
    rows = paragraph(summary.headline, cells, label=f"device {summary.device}: ")
    scattered = summary.fragmentation
    figures = [
        ("live at start", text.size(summary.live_at_start)),
        ("peak", text.size(summary.live_peak)),
        ("at end", text.size(summary.live_at_end)),
        ("reserved", text.size(summary.reserved)),
        ("peak reserved", text.size(summary.reserved_peak)),
        ("allocated", text.size(summary.allocated)),
        ("largest free block", text.size(summary.largest_free_block)),
        ("free in", text.count(scattered.pieces, "piece")),
        ("unallocated", text.share(scattered.unused)),
        ("segments", text.count(summary.segments)),
        ("blocks", text.count(summary.blocks)),
        ("events", text.count(summary.events)),
    ]
    if summary.pending:
        figures.append(("pending", text.size(summary.pending)))
    if summary.private_reserved:
        figures.append(("private pools", text.size(summary.private_reserved)))
    if summary.skipped:
        figures.append(("left out", text.count(summary.skipped, "event")))
    rows += flow([_figure(name, value) for name, value in figures], cells)
    for remark in summary.remarks:
        rows += bulleted(remark, cells, TextStyle.NOTE, "!")
    held = "Held the memory at the peak" if summary.top_at == "peak" else "Hold the memory"
    rows += top_lines(held, summary.top, cells)
    rows += advice_lines(OF_CACHED, summary.advice, cells)
    return rows


def _figure(name: str, value: str) -> Line:
    return line(Span(f"{name} ", TextStyle.QUIET), Span(value))


def top_lines(title: str, top: Sequence[Top], cells: int) -> list[Line]:
    """The sites that held the most."""
    rows: list[Line] = [(), line(Span(title, TextStyle.STRONG))]
    if not top:
        return [*rows, line(Span("   nothing was live", TextStyle.QUIET))]
    rows.append(fit_line((Span(f"{SITE_HEADING}site", TextStyle.QUIET),), cells))
    for item in top:
        style = FRAME_STYLES[item.kind]
        rows.append(
            site_line(
                item.bytes, item.share, item.count, label=item.label, style=style, cells=cells
            )
        )
    return rows


def advice_lines(title: str, advice: Sequence[Advice], cells: int) -> list[Line]:
    """What there is to be done, each with its figure."""
    if not advice:
        return []
    rows: list[Line] = [(), line(Span(title, TextStyle.STRONG))]
    for number, item in enumerate(advice, start=1):
        rows += bulleted(item.what, cells, mark=f"{number}")
        rows += indented(wrap(item.why, max(10, cells - 5)), 5, TextStyle.QUIET)
    return rows


def exception_lines(message: str, source: str, cells: int) -> list[Line]:
    """What the exception said, and where that is from."""
    title = line(Span("Text of the exception", TextStyle.STRONG))
    from_where = indented(wrap(f"from: {source}", max(10, cells - 3)), 3, TextStyle.QUIET)
    return [(), title, *indented(wrap(message, max(10, cells - 3)), 3), *from_where]


def file_lines(info: FileInfo, cells: int) -> list[Line]:
    """What the file is, its allocator settings, and what is odd about it."""
    rows: list[Line] = [(), line(Span("File", TextStyle.STRONG))]
    rows += indented(wrap(info.file, max(10, cells - 3)), 3)
    parts = [line(f"   {text.size(info.byte)}" if info.byte else "   from a pipe")]
    parts.append(line(info.container))
    if info.form != "snapshot":
        words = {
            "segments": "a bare list of segments: no trace in it",
            "history": "the form of torch 2.0",
        }
        parts.append(line(words.get(info.form, info.form)))
    parts += [
        line(Span(f"{name} ", TextStyle.QUIET), info.settings[name] or "not set")
        for name in TOLD_SETTINGS
        if name in info.settings
    ]
    if info.host_segments:
        parts.append(line(f"{text.count(info.host_segments, 'pinned-host segment')}, not shown"))
    rows += flow(parts, cells, indent="   ")
    for warning in info.warnings:
        rows += bulleted(warning, cells, TextStyle.NOTE, "!")
    return rows
