"""A page of the presentation: a workload's figure, bars, explanation, code and findings. Pure.

A page fills the screen: the digits, the bars and the plots grow with the rows, and what is left
over is spread between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.machine import SIMULATED
from tui.kit.bars import draw_bar, draw_gauge
from tui.kit.digits import NATURAL, ROWS, DigitSize, draw_large
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    beside,
    cell_len,
    flow,
    left,
    line,
    paragraph,
    width,
    wrap,
)
from tui.runs.state import parameters
from tui.runs.state.result_format import (
    compute_half_width,
    format_limit_share,
    format_median,
    format_speed_up,
)
from tui.runs.state.runs import RunState, are_comparable
from tui.runs.state.state import RunsState, runs_on
from tui.runs.views.brief import first_sentences
from tui.runs.views.detail import get_present_settings
from tui.runs.views.device_charts import drop_contained
from tui.runs.views.device_colors import style_of_device
from tui.runs.views.findings import chart_rows, figure_rows, record_lines
from tui.runs.views.outcome import format_state
from tui.runs.views.question import answer_lines, question_lines
from tui.runs.views.source import source_lines
from tui.runs.views.workload_state import find_acting_flags, fold_warnings, format_run_progress
from tui.runs.views.workload_table import explain_not_run, format_rate, list_devices
from workloads.protocol.flag_words import format_setting
from workloads.protocol.results import RunResult, Setting, WorkloadInfo, may_claim

DEVICE_CELLS = 8
LEAST_BAR = 12
"""Least cells of a readable bar."""
NO_SPEED_UP = "no speed-up: a check failed, or the devices did not do the same work"
PAUSE = "––"
"""The large digits of a page whose first time is not known yet."""
BESIDE_FROM = 110
"""Least cells of a page with its code beside the prose, and with a margin."""
BESIDE_GAP = 3
LEAST_PROSE = 34
"""Least cells of prose with code beside it, none of whose lines is wrapped."""
LEAST_CODE = 40
"""Least cells of code beside the prose: its title has as many."""
PROSE_CELLS = 90
"""Most cells of a line of prose, which is hard to read across a wide screen."""
PAGE_CELLS = 150
"""Most cells of a page without a plot, which has the middle of a wide screen."""
MARGIN = 3
LARGE_FROM = 18
"""Least rows of a page with large digits."""
BELOW_PLOT = 9
"""Rows of a plot's legend and axis, and of the text that is visible below it."""
LEAST_PLOT = 9
"""Least rows of a plot."""
GAPS = 4
"""Blank lines that a full page needs: above the figure, the bars and the text, and below it."""
MOST_GAP = 4
SPINNER = {False: "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", True: "|/-\\"}


class PageShape(NamedTuple):
    """The size of a page's figure and of its bars."""

    digits: DigitSize | None
    """``None`` for a figure of usual letters."""
    bar_rows: int


SHAPES = (
    PageShape(DigitSize(3, 4), 3),
    PageShape(DigitSize(2, 3), 3),
    PageShape(DigitSize(2, 3), 2),
    PageShape(DigitSize(1, 2), 2),
    PageShape(NATURAL, 1),
    PageShape(None, 1),
)
"""From the largest to the smallest; a page has the first that leaves room for its text."""
BESIDE_PLOT = (PageShape(DigitSize(1, 2), 1), *SHAPES[-2:])
"""Of a page with a plot, which has most of the rows."""
DIGITS_SHARE, PLOTTED_SHARE = 4, 3
"""The digits have at most one row of so many, and the part above a plot one of so many."""


class Page(NamedTuple):
    """A page: the part that stays, and the part that scrolls."""

    top: list[Line]
    body: list[Line]


def list_pages(state: RunsState, group: str) -> list[WorkloadInfo]:
    """Return the workloads of a group; each has a page."""
    return [info for info in state.catalogue if info.group == group]


def explain_no_group(state: RunsState, group: str, cells: int) -> list[Line]:
    """List the groups that exist."""
    names = ", ".join(dict.fromkeys(info.group for info in state.catalogue))
    return paragraph(f"There is no group {group}; there are {names}.", cells, TextStyle.BAD)


def title_line(state: RunsState, group: str, number: int, cells: int) -> Line:
    """Return the group, the page number and the workload's title."""
    pages = list_pages(state, group)
    if not pages:
        return line(Span(left(f" {group}", cells), TextStyle.CURSOR))
    info = pages[min(number, len(pages) - 1)]
    words = f" {group}  {number + 1} of {len(pages)}   {info.title}"
    note = f"  {SIMULATED} " if state.machine.simulated else ""
    return line(Span(left(words, cells - len(note)) + note, TextStyle.CURSOR))


def compose_page(
    state: RunsState,
    info: WorkloadInfo,
    cells: int,
    rows: int,
    *,
    note: str = "",
    tick: int = 0,
    answered: bool = False,
) -> Page:
    """Return the page of a workload for a screen.

    Args:
        state: the state of the runs.
        info: the page's workload.
        cells: width of a line.
        rows: height of the page.
        note: a remark on the page.
        tick: counter of the spinner, which advances while a run is pending.
        answered: the answer to the page's question is shown.
    """
    charts = [*_charts(state, info)]
    margin = _find_margin(cells, plotted=bool(charts))
    inner = cells - 2 * margin

    def text_of(height: int, *, whole: bool = False) -> list[Line]:
        return page_lines(state, info, inner, height, answered=answered or whole)

    def top_of(shape: PageShape) -> tuple[list[Line], list[Line]]:
        number = format_number(state, info)
        large = number_lines(number, inner, shape.digits) if shape.digits else []
        if number.of and not number.words:
            large = _center(
                [line(Span(row, TextStyle.BAD)) for row in wrap(number.of, inner)], inner
            )
        bars = headline_lines(
            state, info, inner, note, tick=tick, large=bool(large), bar_rows=shape.bar_rows
        )
        return large, bars

    shapes = BESIDE_PLOT if charts else SHAPES
    # With the answer, so that the figure keeps its size when it is shown.
    needed = len(text_of(LEAST_PLOT, whole=True))
    large, bars = top_of(_choose_shape(shapes, lambda shape: _count(top_of(shape)), rows, needed))
    body = text_of(LEAST_PLOT)
    free = rows - len(large) - len(bars) - needed - GAPS
    if charts:
        height = LEAST_PLOT + _find_growth(text_of, rows - len(large) - len(bars) - GAPS, free)
        body = text_of(height)
        free = rows - len(large) - len(bars) - len(body) - GAPS
    gap = min(MOST_GAP, 1 + max(0, free) // GAPS) if rows >= LARGE_FROM else 0
    spare = max(0, free - GAPS * (gap - 1))
    above = gap + spare // 2 if free > 0 or large else 0
    top = [*[()] * above, *large, *[()] * (gap if large else 0), *bars, *[()] * max(1, gap)]
    return Page(_indent(top, margin), _indent(body, margin))


def _count(parts: tuple[list[Line], list[Line]]) -> int:
    """Return the rows of the part of a page that stays, without its gaps."""
    return sum(map(len, parts))


def _choose_shape(
    shapes: tuple[PageShape, ...], count: Callable[[PageShape], int], rows: int, needed: int
) -> PageShape:
    """Return the largest shape with digits that leaves room for the text.

    If there is none, the text has half of the rows, and scrolls.
    """
    known = [
        (shape, count(shape))
        for shape in shapes
        if not shape.digits
        or (rows >= LARGE_FROM and ROWS * shape.digits.down * DIGITS_SHARE <= rows)
    ]
    if shapes is BESIDE_PLOT:
        most = rows // PLOTTED_SHARE
    else:
        for shape, used in known:
            if shape.digits and used + needed + GAPS <= rows:
                return shape
        most = rows // 2 + 1
    return next((shape for shape, used in known if used + GAPS <= most), known[-1][0])


def _find_margin(cells: int, *, plotted: bool) -> int:
    """Return the blanks at each side of a page."""
    if cells < BESIDE_FROM:
        return 0
    return MARGIN if plotted else max(MARGIN, (cells - PAGE_CELLS) // 2)


def _find_growth(text_of: Callable[[int], list[Line]], view: int, free: int) -> int:
    """Return how many rows the plots grow by: into free rows, or to fill the view alone.

    Args:
        text_of: makes the text with plots of a height.
        view: visible rows of the text.
        free: rows that the text with the lowest plots leaves over; negative if it is too long.
    """
    step = len(text_of(LEAST_PLOT + 1)) - len(text_of(LEAST_PLOT))
    if not step:
        return 0  # bars of steps do not grow
    room = free if free > 0 else view - LEAST_PLOT - BELOW_PLOT
    return max(0, room // step)


def _indent(rows: list[Line], margin: int) -> list[Line]:
    lead = Span(" " * margin)
    return [(lead, *row) if row and margin else row for row in rows]


def headline_lines(
    state: RunsState,
    info: WorkloadInfo,
    cells: int,
    note: str = "",
    *,
    tick: int = 0,
    large: bool = False,
    bar_rows: int = 1,
) -> list[Line]:
    """Return the running workload, and for each device its time as a bar or its reason to wait.

    Args:
        state: the state of the runs.
        info: the page's workload.
        cells: width of a line.
        note: a further remark, shown last.
        tick: counter of the spinner, which advances while a run is pending.
        large: large digits above already show the page's number.
        bar_rows: rows of a bar.
    """
    rows = settings_lines(state, info, cells)
    heads = len(rows)
    runs = _find_runs(state, info)
    rows += _device_lines(state, info, runs, cells, tick, bar_rows)
    number = format_number(state, info)
    if not large and number.words != PAUSE and len(_find_times(runs)) > 1:
        rows += paragraph(f"{number.words} {number.of}".strip(), cells, TextStyle.STRONG)
    if len(rows) == heads:
        rows.append(explain_not_run(state, info))
    for run in runs.values():
        for warning in fold_warnings(run.warnings, "") if run else ():
            rows += paragraph(
                f"{glyphs.GLYPHS.warning} {warning}", cells, TextStyle.NOTE, indent="  "
            )
    return [*rows, *paragraph(note, cells, TextStyle.NOTE, indent="  ")] if note else rows


class PageNumber(NamedTuple):
    """The main number of a page with its unit, and what it is."""

    words: str = ""
    """Empty if there is none."""
    of: str = ""
    style: TextStyle = TextStyle.STRONG


def format_number(state: RunsState, info: WorkloadInfo) -> PageNumber:
    """Return the page's main number in the color of its device, or of a speed-up.

    It is the speed-up of the faster device if two have a time, else the only time; empty if there
    is none. A speed-up over a wrong result, or of other work, is none; nor is a wrong result's
    time. The color says if the GPU has won.
    """
    runs = _find_runs(state, info)
    times = _find_times(runs)
    if len(times) > 1:
        base, device = list(times)[:2]
        results = {on: run.result for on in (base, device) if (run := runs[on]) and run.result}
        if not are_comparable(*results.values()):
            return PageNumber(of=NO_SPEED_UP)
        won = times[device] <= times[base]
        slow, fast = (base, device) if won else (device, base)
        style = TextStyle.GOOD if won else TextStyle.NOTE
        first, then = results[slow].time, results[fast].time
        speed_up = format_speed_up(first, then) if first and then else ""
        return PageNumber(speed_up, f"as fast on {fast} as on {slow}", style)
    for device, seconds in times.items():
        run = runs[device]
        if run and run.result and may_claim(run.result):
            of = f"for a call on {device}"
            return PageNumber(text.seconds(seconds), of, style_of_device(device))
    return _format_pause(runs)


def _format_pause(runs: dict[str, RunState | None]) -> PageNumber:
    """Return the time or the estimate of a run that goes on, or a pause before there is one."""
    pending = {device: run for device, run in runs.items() if run and not run.ended}
    for device, run in pending.items():
        known = run.so_far.time if run.so_far else None
        estimate = run.progress.estimate_s if run.progress else None
        if known is not None or estimate is not None:
            words = text.seconds(known.median_s) if known else text.seconds(estimate, 0.1)
            return PageNumber(words, f"so far on {device}", TextStyle.KEY)
    return PageNumber(PAUSE, "not measured yet", TextStyle.QUIET) if pending else PageNumber()


def number_lines(number: PageNumber, cells: int, size: DigitSize = NATURAL) -> list[Line]:
    """Return the number in large digits, centered, above what it is; none if it has no digits."""
    rows = draw_large(number.words, size)
    if not rows or len(rows[0]) > cells:
        return []
    label = [line(Span(row, TextStyle.STRONG)) for row in wrap(number.of, cells)]
    label = [(), *label] if size.down > 1 else label
    return _center([*(line(Span(row, number.style)) for row in rows), *label], cells)


def _center(rows: list[Line], cells: int) -> list[Line]:
    return [line(" " * max(0, (cells - width(row)) // 2), *row) if row else () for row in rows]


def is_waiting(state: RunsState, info: WorkloadInfo) -> bool:
    """Return whether a run of the page has not ended."""
    return any(run is not None and not run.ended for run in _find_runs(state, info).values())


def _find_runs(state: RunsState, info: WorkloadInfo) -> dict[str, RunState | None]:
    """Return the shown runs by device, for the devices that the workload supports."""
    return {
        device: state.present_run(info, device)
        for device in list_devices(state)
        if runs_on(info, device)
    }


def _find_times(runs: dict[str, RunState | None]) -> dict[str, float]:
    """Return the seconds per call by device, for runs that ended with a time."""
    return {
        device: run.result.time.median_s
        for device, run in runs.items()
        if run and run.result and run.result.time and run.result.time.median_s
    }


def _device_lines(
    state: RunsState,
    info: WorkloadInfo,
    runs: dict[str, RunState | None],
    cells: int,
    tick: int,
    bar_rows: int,
) -> list[Line]:
    """Return for each device its time as a bar scaled to the longest, or its run's state.

    A time alone is compared with the device's limit, if one is known. The time of a wrong result
    has no bar, because beside another one it would claim a speed-up.
    """
    times = {
        device: seconds
        for device, seconds in _find_times(runs).items()
        if (run := runs[device]) and run.result and may_claim(run.result)
    }
    results = [run.result for device in times if (run := runs[device]) and run.result]
    comparable = len(results) > 1 and are_comparable(*results[:2])
    statuses = {
        device: _format_status(state, info, run, tick, bar_rows) for device, run in runs.items()
    }
    widest = max((width(row) for device in times for row in statuses[device]), default=0)
    room = cells - DEVICE_CELLS - 2 - widest - (2 if bar_rows > 1 else 0)
    rows: list[Line] = []
    for device, status in statuses.items():
        label = Span(f"{left(device, DEVICE_CELLS)} ", style_of_device(device))
        if bar_rows > 1:
            rows.append(())
        alone = {name: seconds for name, seconds in times.items() if name == device}
        scale = times if comparable else alone
        bar = _draw_time(runs[device], scale, device, room, thick=bar_rows > 1)
        if not bar or room < LEAST_BAR:
            for number, row in enumerate(status):
                lead = label if not number else Span(" " * label.width)
                rows += flow([(lead, *row)], cells, indent=" " * label.width)
            continue
        gap = Span("   " if bar_rows > 1 else " ")
        for number in range(max(bar_rows, len(status))):
            lead = label if not number else Span(" " * label.width)
            drawn = bar if number < bar_rows else (Span(" " * room),)
            figures = status[number] if number < len(status) else ()
            rows.append((lead, *drawn, gap, *figures))
    return rows


def _draw_time(
    run: RunState | None, times: dict[str, float], device: str, room: int, *, thick: bool
) -> Line:
    """Return a row of a device's bar: its time on the scale of the longest, or of the limit.

    A time has no bar if there is nothing to compare it with.
    """
    if device not in times:
        return ()
    style = style_of_device(device)
    limit = run.result.limit if run is not None and run.result is not None else None
    if len(times) == 1 and limit is not None:
        if not thick:
            return draw_gauge(limit.fraction, room, style)
        drawn = draw_bar(limit.fraction, room)
        track = glyphs.GLYPHS.zero * (room - cell_len(drawn))
        return (Span(drawn, style), Span(track, TextStyle.REST))
    if len(times) == 1:
        return ()
    share = times[device] / max(times.values())
    return (Span(left(draw_bar(share, room), room), style),)


def settings_lines(state: RunsState, info: WorkloadInfo, cells: int) -> list[Line]:
    """Return the workload's parameters, and the settings of the user that differ."""
    settings = parameters.get_defaults(info)
    named: list[Line] = [line(_format_setting(info, *setting)) for setting in settings.items()]
    which = "(the defaults, not stored)" if named else "no parameters, not stored"
    name, note = Span(info.name, TextStyle.STRONG), Span(which, TextStyle.QUIET)
    rows = flow([line(name), *named, line(note)], cells, indent="  ")
    edited = parameters.find_changed(info, get_present_settings(state, info))
    if edited:
        words = ", ".join(_format_setting(info, *setting) for setting in edited.items())
        rows += paragraph(
            f"your table has {words}: not used here", cells, TextStyle.NOTE, indent="  "
        )
    acting = {
        flag.name: flag
        for on in list_devices(state)
        for flag in find_acting_flags(state, info.name, on)
    }
    switched = [
        f"{name} is {format_setting(name, state.flags[name])}"
        for name, flag in acting.items()
        if state.flags.get(name, flag.default) != flag.default
    ]
    if switched:
        words = f"flags that are not at their default: {', '.join(switched)}"
        rows += paragraph(words, cells, TextStyle.NOTE, indent="  ")
    return rows


def _format_setting(info: WorkloadInfo, name: str, value: Setting) -> str:
    return f"{name} = {parameters.format_value(value, auto=name in parameters.find_autos(info))}"


def _format_status(
    state: RunsState, info: WorkloadInfo, run: RunState | None, tick: int, rows: int
) -> list[Line]:
    """Return a run's figures on so many rows, followed by its progress or its bad end."""
    if run is None:
        return [explain_not_run(state, info) or (Span("not measured", TextStyle.QUIET),)]
    known = run.result or run.so_far
    lines = _format_figures(known, rows) if known is not None and known.time is not None else []
    spans: list[Span] = [Span("  ")] if lines and not run.succeeded else []
    if run.result is None:
        words = format_run_progress(run.progress) if run.progress else _explain_wait(state, run)
        style = TextStyle.KEY if run.progress else TextStyle.QUIET
        turning = SPINNER[glyphs.GLYPHS.ascii]
        spans.append(Span(f"{turning[tick % len(turning)]} ", style))
        estimate = run.progress.estimate_s if run.progress and known is None else None
        if estimate is not None:
            spans.append(Span(f"{text.seconds(estimate, 0.1)}  ", TextStyle.STRONG))
        spans.append(Span(words, style))
    elif not run.succeeded:
        spans.append(format_state(run))
    if not lines:
        return [tuple(spans)]
    return [(*lines[0], *spans), *lines[1:]]


def _explain_wait(state: RunsState, run: RunState) -> str:
    """Return the reason why a run has not begun."""
    if state.runner.status != "ready":
        return f"waits for the runner, which is {state.runner.status}"
    for other in state.book.values():
        if other is not run and not other.ended and other.progress is not None:
            return f"waits for {other.request.workload} on {other.request.device}"
    return "waits for its turn"


def _format_figures(result: RunResult, rows: int) -> list[Line]:
    """Return the time, the rate and the share of the limit, on as many rows as a bar has."""
    assert result.time is not None
    half = compute_half_width(result.time)
    spread = f" {text.spread(half)}" if half is not None else ""
    time = (Span(format_median(result.time), TextStyle.STRONG), Span(spread, TextStyle.QUIET))
    rate, limit = format_rate(result), result.limit
    known = [Span(rate, TextStyle.STRONG)] if rate not in ("", text.NA) else []
    if limit is not None:
        style = TextStyle.BAD if limit.exceeded else TextStyle.STRONG
        known.append(Span(format_limit_share(limit), style))
    if result.status == "ok" and not may_claim(result):
        known.append(Span("check failed", TextStyle.BAD))
    if rows > 2:
        return [time, *((span,) for span in known)]
    joined = [span for part in known for span in (Span("   "), part)]
    if rows > 1:
        return [time, tuple(joined[1:])] if joined else [time]
    return [(*time, *joined)]


def page_lines(
    state: RunsState,
    info: WorkloadInfo,
    cells: int,
    height: int = LEAST_PLOT,
    *,
    answered: bool = False,
) -> list[Line]:
    """Return the plots, the explanation beside the code, the findings, and the question.

    The explanation is short, because an audience listens; the workload's detail has all of it.

    Args:
        state: the state of the runs.
        info: the page's workload.
        cells: width of a line.
        height: rows of a plot.
        answered: the answer is shown.
    """
    code = info.script if info.question and info.script else info.code
    longest = 2 + max(map(cell_len, code.expandtabs(4).splitlines()), default=0)
    room = cells - BESIDE_GAP - max(longest, LEAST_CODE)
    wide = cells >= BESIDE_FROM - 2 * MARGIN and room >= LEAST_PROSE
    prose = min(room, cells // 2, PROSE_CELLS) if wide else min(cells, PROSE_CELLS)
    beyond = cells - BESIDE_GAP - prose if wide else cells
    rows = paragraph(first_sentences(info.about, 1), prose)
    rows += paragraph(first_sentences(info.look_for, 2), prose, label="Look for: ")
    if info.needs:
        rows += [(), *paragraph(", ".join(info.needs), prose, label="Needs: ")]
    how = "y copies it" if info.question else "y copies the script"
    source = source_lines(info, beyond, how)
    results = _find_results(state, info)
    if wide:
        near = prose + BESIDE_GAP - 2
        # Below the shorter column if the page is lower then, else below both.
        columns = [
            beside(rows, _join(source, figure_rows(results, beyond)), near),
            beside(_join(rows, figure_rows(results, prose)), source, near),
            _join(beside(rows, source, near), figure_rows(results, cells)),
        ]
        rows = min(columns, key=len)
    else:
        rows = _join([*rows, (), *source], figure_rows(results, cells))
    rows = _join(rows, record_lines(results, cells))
    charts = chart_rows(_charts(state, info), cells, height)
    rows = _join(charts, rows) if charts else rows
    if info.question:
        hint = paragraph("enter shows the answer", cells, TextStyle.QUIET)
        below = min(cells, PROSE_CELLS)
        rows += [(), *question_lines(info, below, answered=answered)]
        rows += answer_lines(info, below) if answered else hint
    return rows


def _join(first: list[Line], then: list[Line]) -> list[Line]:
    """Put a blank line between two parts, if there are two."""
    return [*first, (), *then] if first and then else [*first, *then]


def _find_results(state: RunsState, info: WorkloadInfo) -> dict[str, RunResult]:
    """Return the finished and unfinished results of a page by device."""
    return drop_contained(_find_runs(state, info))


def _charts(state: RunsState, info: WorkloadInfo) -> list[tuple[str, RunResult, int]]:
    """Return the device, the result and the place in it of each chart of a page."""
    return [
        (device, result, number)
        for device, result in _find_results(state, info).items()
        for number in range(len(result.charts))
    ]
