"""A page of the demo: a workload's purpose, code, progress and findings. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from rich.style import Style
from rich.syntax import Syntax, SyntaxTheme

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.machine import SIMULATED
from tui.kit.bars import draw_bar, draw_gauge
from tui.kit.digits import draw_large
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
    wrap_code,
)
from tui.runs.state import parameters
from tui.runs.state.result_format import compute_half_width, format_median, format_speed_up
from tui.runs.state.runs import RunState, are_comparable
from tui.runs.state.state import RunsState
from tui.runs.views.brief import split_first_sentence
from tui.runs.views.chart import finding_lines
from tui.runs.views.detail import get_present_settings
from tui.runs.views.device_charts import drop_contained
from tui.runs.views.device_colors import style_of_device
from tui.runs.views.outcome import format_state
from tui.runs.views.workload_state import find_acting_flags, fold_warnings, format_run_progress
from tui.runs.views.workload_table import explain_not_run, format_limit, format_rate, list_devices
from workloads.protocol.flag_words import format_setting
from workloads.protocol.results import RunResult, Setting, WorkloadInfo, may_claim

DEVICE_CELLS = 8
LEAST_BAR = 12
"""Least cells of a readable bar."""
NO_SPEED_UP = "no speed-up: a check failed, or the devices did not do the same work"
BESIDE_FROM = 110
"""Least cells of a page with its code beside the prose."""
BESIDE_GAP = 3
LEAST_PROSE = 34
"""Least cells of prose with code beside it, none of whose lines is wrapped."""
LEAST_CODE = 40
"""Least cells of code beside the prose: its title has as many."""
FINDINGS_FROM = 80
"""Least cells of prose with the findings below it, not below the code."""
SENTENCES = 2
"""Sentences of the hints before the code; the rest follow the code."""
PROSE_CELLS = 100
"""Most cells of a line of prose, which is hard to read across a wide screen."""
SPINNER = {False: "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", True: "|/-\\"}
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")


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


def headline_lines(
    state: RunsState,
    info: WorkloadInfo,
    cells: int,
    note: str = "",
    *,
    tick: int = 0,
    large: bool = False,
) -> list[Line]:
    """Return the running workload, and for each device its time as a bar or its reason to wait.

    Args:
        state: the state of the runs.
        info: the page's workload.
        cells: width of a line.
        note: a further remark, shown last.
        tick: counter of the spinner, which advances while a run is pending.
        large: large digits above already show the page's number.
    """
    rows = settings_lines(state, info, cells)
    heads = len(rows)
    runs = _find_runs(state, info)
    rows += _device_lines(state, info, runs, cells, tick)
    number = format_number(state, info)
    if not large and len(_find_times(runs)) > 1:
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

    It is the speed-up if two devices have a time, else the only time; empty if there is none. A
    speed-up over a wrong result, or of other work, is none; nor is a wrong result's time.
    """
    runs = _find_runs(state, info)
    times = _find_times(runs)
    if len(times) > 1:
        slow, fast = list(times)[:2]
        results = [run.result for device in times if (run := runs[device]) and run.result]
        if not are_comparable(*results[:2]):
            return PageNumber(of=NO_SPEED_UP)
        first, then = (result.time for result in results[:2])
        speed_up = format_speed_up(first, then) if first and then else ""
        style = TextStyle.GOOD if times[fast] < times[slow] else TextStyle.NOTE
        return PageNumber(speed_up, f"as fast on {fast} as on {slow}", style)
    for device, seconds in times.items():
        run = runs[device]
        if run and run.result and may_claim(run.result):
            of = f"for a call on {device}"
            return PageNumber(text.seconds(seconds), of, style_of_device(device))
    return PageNumber()


def number_lines(number: PageNumber, cells: int) -> list[Line]:
    """Return the number in large digits, centered, above what it is; none if it has no digits."""
    rows = draw_large(number.words)
    if not rows or len(rows[0]) > cells:
        return []
    label = [line(Span(row, TextStyle.STRONG)) for row in wrap(number.of, cells)]
    return [
        line(" " * max(0, (cells - width(row)) // 2), *row)
        for row in [*(line(Span(row, number.style)) for row in rows), *label]
    ]


def is_waiting(state: RunsState, info: WorkloadInfo) -> bool:
    """Return whether a run of the page has not ended."""
    return any(run is not None and not run.ended for run in _find_runs(state, info).values())


def _find_runs(state: RunsState, info: WorkloadInfo) -> dict[str, RunState | None]:
    """Return the shown runs by device, for the devices that the workload supports."""
    return {
        device: state.demo_run(info, device)
        for device in list_devices(state)
        if device.partition(":")[0] in info.devices
    }


def _find_times(runs: dict[str, RunState | None]) -> dict[str, float]:
    """Return the seconds per call by device, for runs that ended with a time."""
    return {
        device: run.result.time.median_s
        for device, run in runs.items()
        if run and run.result and run.result.time and run.result.time.median_s
    }


def _device_lines(
    state: RunsState, info: WorkloadInfo, runs: dict[str, RunState | None], cells: int, tick: int
) -> list[Line]:
    """Return a row for each device: its time as a bar scaled to the longest, or its run's state.

    A time alone is compared with the device's limit, if one is known.
    """
    times = _find_times(runs)
    statuses = {device: _format_status(state, info, run, tick) for device, run in runs.items()}
    room = cells - DEVICE_CELLS - 2 - max((width(statuses[device]) for device in times), default=0)
    rows: list[Line] = []
    for device, status in statuses.items():
        label = Span(f"{left(device, DEVICE_CELLS)} ", style_of_device(device))
        if device not in times or room < LEAST_BAR:
            rows += flow([(label, *status)], cells, indent="  ")
            continue
        style = style_of_device(device)
        run = runs[device]
        limit = run.result.limit if run is not None and run.result is not None else None
        if len(times) == 1 and limit is not None:
            bar = draw_gauge(limit.fraction, room, style)
        else:
            share = times[device] / max(times.values()) if len(times) > 1 else 0.0
            bar = (Span(left(draw_bar(share, room) if share else "", room), style),)
        rows.append((label, *bar, Span(" "), *status))
    return rows


def settings_lines(state: RunsState, info: WorkloadInfo, cells: int) -> list[Line]:
    """Return the workload's parameters, and the settings of the user that differ."""
    settings = parameters.get_defaults(info)
    named: list[Line] = [line(_format_setting(info, *setting)) for setting in settings.items()]
    default = Span("(the defaults)" if named else "no parameters", TextStyle.QUIET)
    rows = flow(
        [line(Span(info.name, TextStyle.STRONG)), *named, line(default)], cells, indent="  "
    )
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


def _format_status(state: RunsState, info: WorkloadInfo, run: RunState | None, tick: int) -> Line:
    if run is None:
        return explain_not_run(state, info)
    known = run.result or run.so_far
    spans: list[Span] = []
    if known is not None and known.time is not None:
        spans += _format_figures(known)
        spans += [] if run.succeeded else [Span("  ")]
    if run.result is None:
        words = format_run_progress(run.progress) if run.progress else _explain_wait(state, run)
        turning = SPINNER[glyphs.GLYPHS.ascii]
        spans.append(Span(f"{turning[tick % len(turning)]} ", TextStyle.KEY))
        estimate = run.progress.estimate_s if run.progress and known is None else None
        if estimate is not None:
            spans.append(Span(f"{text.seconds(estimate, 0.1)}  ", TextStyle.STRONG))
        spans.append(Span(words, TextStyle.KEY))
    elif not run.succeeded:
        spans.append(format_state(run))
    return tuple(spans)


def _explain_wait(state: RunsState, run: RunState) -> str:
    """Return the reason why a run has not begun."""
    if state.runner.status != "ready":
        return f"waits for the runner, which is {state.runner.status}"
    for other in state.book.values():
        if other is not run and not other.ended and other.progress is not None:
            return f"waits for {other.request.workload} on {other.request.device}"
    return "waits for its turn"


def _format_figures(result: RunResult) -> list[Span]:
    assert result.time is not None
    spans = [Span(format_median(result.time), TextStyle.STRONG)]
    width = compute_half_width(result.time)
    spans.append(Span(f" {text.spread(width)}" if width is not None else "", TextStyle.QUIET))
    known = [
        words for words in (format_rate(result), format_limit(result)) if words not in ("", text.NA)
    ]
    spans += [Span(f"   {words}", TextStyle.STRONG) for words in known]
    return spans


def page_lines(
    state: RunsState, info: WorkloadInfo, cells: int, *, answered: bool = False
) -> list[Line]:
    """Return the explanation and the code, the findings on each device, and the question.

    Args:
        state: the state of the runs.
        info: the page's workload.
        cells: width of a line.
        answered: the answer is shown.
    """
    code = info.script if info.question and info.script else info.code
    longest = 2 + max(map(cell_len, code.expandtabs(4).splitlines()), default=0)
    room = cells - BESIDE_GAP - max(longest, LEAST_CODE)
    wide = cells >= BESIDE_FROM and room >= LEAST_PROSE
    prose = min(room if wide else cells, PROSE_CELLS)
    sentences = _SENTENCE.split(info.look_for)
    first, rest = " ".join(sentences[:SENTENCES]), " ".join(sentences[SENTENCES:])
    about, more = split_first_sentence(info.about)
    rows = [*paragraph(about, prose), *paragraph(first, prose, label="Look for: "), ()]
    if info.needs:
        rows += [*paragraph(", ".join(info.needs), prose, label="Needs: "), ()]
    how = "y copies it" if info.question else "y copies the script"
    source = source_lines(info, cells - BESIDE_GAP - prose if wide else cells, how)
    rows += [] if wide else [*source, ()]
    for words in filter(None, (more, rest)):
        rows += [*paragraph(words, prose), ()]
    rows.pop()
    near = prose + BESIDE_GAP - 2
    if not wide:
        rows += _finding_lines(state, info, cells)
    elif prose < FINDINGS_FROM:
        rows = [*beside(rows, source, near), *_finding_lines(state, info, cells)]
    else:
        rows = beside([*rows, *_finding_lines(state, info, prose)], source, near)
    if info.question:
        hint = paragraph("enter shows the answer", cells, TextStyle.QUIET)
        below = min(cells, PROSE_CELLS)
        rows += [(), *question_lines(info, below)]
        rows += answer_lines(info, below) if answered else hint
    return rows


def _finding_lines(state: RunsState, info: WorkloadInfo, cells: int) -> list[Line]:
    """Return what the workload's study found on each device, below a rule with its name."""
    rows: list[Line] = []
    runs = {device: state.demo_run(info, device) for device in list_devices(state)}
    for device, result in drop_contained(runs).items():
        lines = finding_lines(result, cells)
        if lines:
            rows += [
                (),
                line(Span(f"{glyphs.GLYPHS.rule * 2} {device} ", TextStyle.STRONG)),
                *lines,
            ]
    return rows


def source_lines(info: WorkloadInfo, cells: int, how: str) -> list[Line]:
    """Return the script of a workload with a question, else the timed lines.

    Args:
        info: the workload.
        cells: width of a line.
        how: how to get the script; shown if there is one.
    """
    whole = bool(info.question and info.script)
    title = line(
        Span("The script" if whole else "What is timed", TextStyle.STRONG),
        Span(f"  {how}" if info.script else "", TextStyle.QUIET),
    )
    return [*flow([title], cells), *code_lines(info.script if whole else info.code, cells)]


def question_lines(info: WorkloadInfo, cells: int) -> list[Line]:
    """Return the workload's question."""
    return paragraph(info.question, cells, label="Question: ")


def answer_lines(info: WorkloadInfo, cells: int) -> list[Line]:
    """Return the answer to the workload's question."""
    return paragraph(info.answer, cells, label="Answer: ")


# ---- code ----------------------------------------------------------------------------------------


_KINDS: tuple[tuple[tuple[str, ...], TextStyle], ...] = (
    (("Comment",), TextStyle.QUIET),
    (("Keyword",), TextStyle.KEY),
    (("Operator", "Word"), TextStyle.KEY),
    (("Literal", "String"), TextStyle.GOOD),
    (("Literal", "Number"), TextStyle.NOTE),
    (("Name", "Builtin"), TextStyle.CACHED),
    (("Name", "Function"), TextStyle.STRONG),
    (("Name", "Class"), TextStyle.STRONG),
    (("Name", "Decorator"), TextStyle.STRONG),
)
_KIND = "kind"


def code_lines(source: str, cells: int) -> list[Line]:
    """Return the source; long lines are wrapped with a mark, and not colored."""
    rows: list[Line] = []
    for plain, drawn in zip(source.splitlines(), _highlight(source), strict=True):
        fits = width(drawn) <= cells
        rows += [drawn] if fits else wrap_code(plain, cells)
    return rows


class TokenKinds(SyntaxTheme):
    """A theme that marks each token with its kind; the screen chooses the color."""

    def get_style_for_token(self, token_type: tuple[str, ...]) -> Style:
        for kind, style in _KINDS:
            if token_type[: len(kind)] == kind:
                return Style(meta={_KIND: style})
        return Style()

    def get_background_style(self) -> Style:
        return Style()


@lru_cache(maxsize=32)
def _highlight(source: str) -> tuple[Line, ...]:
    source = source.expandtabs(4)
    coloured = Syntax(source, "python", theme=TokenKinds()).highlight(source)
    styles = [TextStyle.PLAIN] * len(source)
    for span in coloured.spans:
        if isinstance(span.style, Style):
            kind = span.style.meta.get(_KIND, TextStyle.PLAIN)
            end = min(span.end, len(source))
            styles[span.start : end] = [kind] * (end - span.start)
    rows: list[Line] = []
    start = 0
    for plain in source.splitlines(keepends=True):
        words = plain.rstrip("\r\n")
        rows.append(_code_line(words, styles[start : start + len(words)]))
        start += len(plain)
    return tuple(rows)


def _code_line(code: str, styles: list[TextStyle]) -> Line:
    spans: list[Span] = []
    start = 0
    for end in range(1, len(code) + 1):
        if end == len(code) or styles[end] is not styles[start]:
            spans.append(Span(code[start:end], styles[start]))
            start = end
    return line("  ", *spans) if spans else ()
