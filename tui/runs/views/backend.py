"""The text of the backend pane: switches, and the effect of each. Pure."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tui.core.text import glyphs, ratios
from tui.core.text import numbers as text
from tui.core.text.ratios import format_effect, format_interval
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    cell_len,
    fit,
    fit_line,
    flow,
    left,
    line,
    paragraph,
    plain,
    width,
)
from tui.kit.scale import ratio_line
from tui.runs.state.runs import CompareState
from tui.runs.state.state import RunsState
from tui.runs.views.device_colors import style_of_device
from tui.runs.views.workload_state import fold_warnings
from workloads.protocol.flag_words import PRECISION, format_setting
from workloads.protocol.results import UNTRUSTED_VERDICT, Comparison, FlagInfo, Verdict

TITLED_FROM = 40
"""Least cells of a folded pane's title that has a verdict."""
INTERVAL_MOST = 80
"""Most cells of the line that shows a ratio."""
BAR_CELLS = (8, 40)
"""Least and most cells of the longer bar of a setting's time."""
STYLES: dict[Verdict, TextStyle] = {
    "faster": TextStyle.WIN,
    "slower": TextStyle.NOTE,
    "same": TextStyle.QUIET,
    "unclear": TextStyle.PLAIN,
}


def format_backend_name(flag: str) -> str:
    """Return the name of a flag's backend in ``torch.backends``: ``cudnn`` of its benchmark."""
    return flag.partition(".")[0]


def format_flag_title(flag: FlagInfo) -> str:
    """Return the name of a flag within its backend: ``benchmark``, ``conv.fp32``.

    The precision of float32 belongs to an operation, and its whole name is too long for a row.
    """
    if not flag.name.endswith(PRECISION):
        return flag.title
    return f"{flag.name.partition('.')[2].removesuffix(PRECISION)}.fp32"


def list_switches(state: RunsState) -> tuple[FlagInfo, ...]:
    """Return the flags that have an effect here; those for the selected device's kind first."""
    kind = (state.machine.selected_device.torch or "").partition(":")[0]
    usable = (flag for flag in state.known_flags if flag.unavailable is None)
    return tuple(sorted(usable, key=lambda flag: kind not in flag.device_types))


def list_newest(state: RunsState) -> tuple[CompareState, ...]:
    """Return the latest comparison per flag, workload and device, newest first."""
    newest: dict[tuple[str, str, str], CompareState] = {}
    for compared in reversed(state.comparisons.values()):
        request = compared.request
        newest.setdefault((request.flag, request.workload, request.device), compared)
    return tuple(newest.values())


# ---- the lines ---------------------------------------------------------------------------------


class View(NamedTuple):
    """The pane's lines, and the number of the line with the switch under the cursor."""

    lines: list[Line]
    cursor_line: int = 0


def build_view(
    state: RunsState,
    cursor: str | None,
    cells: int,
    *,
    focused: bool = True,
    rows: int = 0,
    workload: str | None = None,
) -> View:
    """Build the pane's full text, or one line for each comparison.

    Args:
        state: the state of the runs.
        cursor: name of the flag under the cursor.
        cells: width of a line.
        focused: the pane has the focus: it shows the cursor, and can scroll.
        rows: rows of the pane, if they are limited; zero for no limit.
        workload: the workload under the cursor of the table, whose comparisons stand first.
    """
    build = partial(_build_view, state, cursor, cells, focused=focused, workload=workload)
    if state.machine.environment is None:
        return View([line(Span(explain_waiting(state), TextStyle.QUIET))])
    every = len(state.comparisons)
    for drawn, intervals in ((every, True), (every, False), (1, True), (1, False)):
        view = build(drawn=drawn, intervals=intervals)
        if not rows or len(view.lines) <= rows:
            return view
    if focused:
        return build(drawn=1, intervals=True)
    view = build()
    if len(view.lines) <= rows:
        return view
    brief = build(more=0)
    spare = rows - len(brief.lines)
    return build(more=spare) if spare > 0 else brief


def _build_view(
    state: RunsState,
    cursor: str | None,
    cells: int,
    *,
    focused: bool,
    workload: str | None,
    more: int | None = None,
    drawn: int = 0,
    intervals: bool = False,
) -> View:
    """Build the text; draw the times, and the intervals, of the first ``drawn`` comparisons.

    With ``more``, each comparison has one line, and the first has that many more.
    """
    groups: dict[str, list[FlagInfo]] = {}
    for flag in list_switches(state):
        groups.setdefault(format_backend_name(flag.name), []).append(flag)
    lines: list[Line] = []
    cursor_line = 0
    comparisons: list[Line] = []
    for number, compared in enumerate(_sort_comparisons(state, cursor, workload)):
        shown = number < drawn
        whole = comparison_lines(state, compared, cells, bars=shown, interval=shown and intervals)
        if more is None:
            comparisons += whole
        else:
            first = format_headline(state, compared, cells)
            comparisons.append(first)
            if len(comparisons) == 1 and plain(first) == plain(whole[0]):
                comparisons += whole[1 : 1 + more]
    for position, (name, flags) in enumerate(groups.items()):
        boxes = [format_switch(flag, state, cursor if focused else None) for flag in flags]
        rows = flow(
            [(Span(f"{name} ", TextStyle.STRONG), *boxes[0]), *boxes[1:]], cells, indent="  "
        )
        if any(flag.name == cursor for flag in flags):
            cursor_line = len(lines)
        lines += rows
        if position == 0:
            lines += comparisons
    if not groups:
        lines += comparisons
    return View(lines + idle_lines(state, cells), cursor_line)


def explain_waiting(state: RunsState) -> str:
    """Explain why there are no switches yet."""
    if state.runner.status == "unusable":
        return "no flags: torch cannot be used"
    if state.runner.status == "ended":
        return "no flags: the runner has ended"
    if state.runner.status == "not started":
        return "flags appear once torch has started there"
    return "flags appear once torch is imported"


def _sort_comparisons(
    state: RunsState, cursor: str | None, workload: str | None
) -> list[CompareState]:
    """Sort comparisons: running, of the selected workload, of the flag at the cursor, newest."""
    return sorted(
        list_newest(state),
        key=lambda compared: (
            compared.progress is None or compared.done,
            compared.request.workload != workload,
            compared.request.flag != cursor,
        ),
    )


def format_switch(flag: FlagInfo, state: RunsState, cursor: str | None) -> Line:
    """Draw a switch: ``[x] enabled``; that of a precision names what it switches on: ``tf32``."""
    on = state.flags.get(flag.name, flag.default)
    style = TextStyle.CURSOR if flag.name == cursor else TextStyle.PLAIN
    value = f" {format_setting(flag.name, True)}" if flag.name.endswith(PRECISION) else ""
    return (Span(f"[{'x' if on else ' '}] {format_flag_title(flag)}{value}", style),)


def format_folded_title(state: RunsState, cells: int) -> str:
    """Return the title of the folded pane: the newest verdict, else the switches that fit.

    Args:
        state: the state of the runs.
        cells: width of the title.
    """
    flags = list_switches(state)
    if not flags:
        title = f"Backends   {explain_idle(state)}".rstrip()
        return title if len(title) <= cells else "Backends"
    newest = list_newest(state)
    if newest and cells >= TITLED_FROM:
        title = f"Backends   {plain(comparison_lines(state, newest[0], cells)[0]).strip()}"
        return title if len(title) <= cells else fit(title.partition(" (")[0], cells)
    name = format_backend_name(flags[0].name)
    own = [flag for flag in flags if format_backend_name(flag.name) == name]
    boxes = [plain(format_switch(flag, state, None)) for flag in own]
    forms = []
    for shown in range(len(own), 0, -1):
        some = f"Backends   {name} {'  '.join(boxes[:shown])}"
        left_out = len(flags) - shown
        forms.append(f"{some}   {text.count(left_out, 'more flag')}" if left_out else some)
        # The whole of one backend needs no remark on the others.
        forms += [some] if shown == len(own) else []
    return next((form for form in forms if len(form) <= cells), f"Backends   {name}")


def explain_idle(state: RunsState) -> str:
    """Return the one reason why no flag has an effect here; empty if there are several or none."""
    if state.runner.status in ("unusable", "ended") or state.machine.environment is None:
        return explain_waiting(state)
    reasons = {flag.unavailable for flag in state.known_flags if flag.unavailable is not None}
    return f"no flag has an effect: {reasons.pop()}" if len(reasons) == 1 else ""


def idle_lines(state: RunsState, cells: int) -> list[Line]:
    """Return a line for each reason why flags have no effect here, with their backends."""
    reasons: dict[str, dict[str, None]] = {}
    for flag in state.known_flags:
        if flag.unavailable is not None:
            reasons.setdefault(flag.unavailable, {})[format_backend_name(flag.name)] = None
    return [
        row
        for reason, backends in reasons.items()
        for row in paragraph(
            f"{' and '.join(backends)} flags have no effect: {reason}",
            cells,
            TextStyle.QUIET,
            indent="  ",
        )
    ]


def comparison_lines(
    state: RunsState,
    compared: CompareState,
    cells: int,
    *,
    bars: bool = True,
    interval: bool = True,
) -> list[Line]:
    """Return the lines of one comparison: the switched flag, its effect, and its cost.

    Args:
        state: the state of the runs.
        compared: the comparison.
        cells: width of a line.
        bars: draw the times of both settings as bars.
        interval: draw the interval of the ratio.
    """
    outcome = _format_outcome(compared)
    subject = _format_subject(state, compared, cells, *outcome[:1])
    if outcome and width((*subject, Span("  "), *outcome[0])) > cells:
        subject = _format_subject(state, compared, cells)
    parts = [subject, *outcome]
    comparison = compared.comparison
    if comparison is None:
        return flow(parts, cells, indent="  ")
    warnings = [
        line(Span(f"{glyphs.GLYPHS.warning} {warning}", TextStyle.NOTE))
        for warning in fold_warnings(compared.warnings)
    ]
    drawn = _bar_lines(comparison, cells) if bars else []
    if drawn:
        cost = [*_format_gain(comparison, done=compared.done), *warnings]
        below = [line("  ", *row) for row in flow(cost, cells - 2, gap="   ")]
        rows = [*flow(parts, cells, indent="  "), *drawn, *below]
    else:
        parts += [_format_times_of_arms(comparison), *_format_cost(comparison, done=compared.done)]
        rows = flow([*parts, *warnings], cells, indent="  ")
    return [*rows, *_interval_lines(comparison, cells)] if interval else rows


def _bar_lines(comparison: Comparison, cells: int) -> list[Line]:
    """Draw the median times of both settings on one scale; none if they are not known."""
    times = [arm.median_s for arm in comparison.arms]
    if not comparison.ratio or not all(times):
        return []
    names = [format_setting(comparison.flag, arm.setting) for arm in comparison.arms]
    texts = [text.seconds(time) for time in times]
    label_cells = max(map(cell_len, names))
    room = min(BAR_CELLS[1], cells - 2 - label_cells - 1 - 1 - max(map(cell_len, texts)))
    if room < BAR_CELLS[0]:
        return []
    full = max(time or 0.0 for time in times)
    style = style_of_device(comparison.device)
    return [
        line(
            f"  {left(name, label_cells)} ",
            Span(glyphs.GLYPHS.gauge * max(1, round((time or 0.0) / full * room)), style),
            " ",
            Span(words, TextStyle.STRONG),
        )
        for name, words, time in zip(names, texts, times, strict=True)
    ]


def _interval_lines(comparison: Comparison | None, cells: int) -> list[Line]:
    """Draw the ratio and its interval."""
    if comparison is None or not comparison.ratio:
        return []
    room = min(cells - 2, INTERVAL_MOST)
    drawn = ratio_line(comparison.ratio, comparison.ci95, room)
    return [line("  ", *drawn)] if drawn else []


def format_headline(state: RunsState, compared: CompareState, cells: int) -> Line:
    """Format one comparison as one line: the switched flag and its effect, as far as they fit."""
    outcome = next(iter(_format_outcome(compared)), ())
    subject = _format_subject(state, compared, cells, outcome)
    # Drop the interval before cutting the words of the verdict.
    for phrase in (outcome, outcome[:-1] or outcome):
        joined = (*subject, Span("  "), *phrase)
        if width(joined) <= cells:
            return joined
    return fit_line(joined, cells)


def flag_lines(state: RunsState, flag: str | None, cells: int) -> list[Line]:
    """Return what a flag does, then the warnings of its newest comparisons in full."""
    rows: list[Line] = []
    for compared in list_newest(state):
        if compared.request.flag == flag and compared.warnings:
            rows += [(), *flow([_format_subject(state, compared, cells)], cells)]
            for warning in compared.warnings:
                words = f"{glyphs.GLYPHS.warning} {warning}"
                rows += paragraph(words, cells, TextStyle.NOTE, indent="  ")
    about = next((known.about for known in state.known_flags if known.name == flag), "")
    return [*paragraph(about or explain_waiting(state), cells), *rows]


def _format_subject(
    state: RunsState, compared: CompareState, cells: int, outcome: Line = ()
) -> Line:
    """Format what is compared: ``conv2d on cuda:0: cudnn.benchmark off→on``.

    Args:
        state: the state of the runs.
        compared: the comparison.
        cells: width of a line. If the outcome does not fit beside the flag's full name, the flag
            has only its title.
        outcome: what follows.
    """
    request = compared.request
    arrow = glyphs.GLYPHS.arrow
    old, new = (format_setting(request.flag, setting) for setting in request.settings)
    titles = {flag.name: format_flag_title(flag) for flag in state.known_flags}
    full, short = (
        line(
            Span(f"{request.workload} ", TextStyle.STRONG),
            f"on {request.device}: {name} {old}{arrow}{new}",
        )
        for name in (request.flag, titles.get(request.flag, request.flag))
    )
    return full if width((*full, Span("  "), *outcome)) <= cells else short


def _format_outcome(compared: CompareState) -> list[Line]:
    """Return the verdict, the reason for its absence, or the progress of a running comparison."""
    comparison, progress = compared.comparison, compared.progress
    if not compared.done and progress is None and comparison is None:
        return [(Span("queued", TextStyle.QUIET),)]
    if not compared.done:
        phase = progress.phase if progress is not None else "measuring"
        return [_format_step(comparison, phase)]
    if comparison is None:
        return []
    if comparison.status != "ok":
        return format_unfinished(comparison)
    if comparison.ratio is None:
        return [format_no_ratio(comparison)]
    return [format_verdict(comparison)]


def format_no_ratio(comparison: Comparison, hint: str = "c runs more") -> Line:
    """Say why there is no ratio: ``unclear: the pairs disagree, 0.05x to 1.00x (24 pairs, …)``.

    Args:
        comparison: one without a ratio.
        hint: advice where there are pairs.
    """
    reason = comparison.unavailable.get("ratio", "no pair was measured")
    if not comparison.pairs:
        return line(Span(f"no verdict: {reason}", TextStyle.NOTE))
    more = f" ({text.count(comparison.pairs, 'pair')}, {hint})"
    return line(Span(f"{comparison.verdict}: {reason}", _choose_style(comparison)), more)


def format_unfinished(comparison: Comparison) -> list[Line]:
    """Describe how and why a comparison ended early, and the result of its pairs."""
    words: str = comparison.status
    reason = comparison.reason or ""
    style = TextStyle.BAD if comparison.status == "failed" else TextStyle.NOTE
    if comparison.pairs:
        words += f" after {comparison.pairs} of {text.count(comparison.pairs_wanted, 'pair')}"
    if comparison.ratio is None:
        return [(Span(f"{words}: {reason}" if reason else words, style),)]
    times, interval = format_times(comparison)
    so_far = line(f"so far {times}", f" ({format_interval(*interval)})" if interval else "")
    return [(Span(words, style),), so_far, (Span(reason, style),) if reason else ()]


def _format_step(comparison: Comparison | None, phase: str) -> Line:
    """Format the progress: ``measuring, pair 4 of 5: 1.44x faster so far``."""
    if comparison is None:
        return (Span(phase, TextStyle.KEY),)
    pair = min(comparison.pairs + 1, comparison.pairs_wanted)
    step = f"{phase}, pair {pair} of {comparison.pairs_wanted}"
    times, _ = format_times(comparison)
    if not times:
        return (Span(step, TextStyle.KEY),)
    return (
        Span(f"{step}: ", TextStyle.KEY),
        Span(f"{times} so far", _choose_style(comparison)),
    )


def _choose_style(comparison: Comparison) -> TextStyle:
    """Return the style of a verdict; a warning not to trust it makes it quiet."""
    doubted = any(warning.endswith(UNTRUSTED_VERDICT) for warning in comparison.warnings)
    return TextStyle.QUIET if doubted else STYLES[comparison.verdict]


def format_verdict(comparison: Comparison, hint: str = "c runs more") -> Line:
    """Format the verdict: ``1.43x faster (1.40–1.47, 5 of 5 pairs)``.

    The second setting is faster or slower, by a ratio of at least 1. If it is neither, the ratio
    is the second setting's speed over that of the first.

    Args:
        comparison: unfinished or done.
        hint: advice after an unclear verdict.
    """
    ratio, word = comparison.ratio, comparison.verdict
    if ratio is None or ratio <= 0:
        return ()
    _, interval = format_times(comparison)
    phrase = ratios.format_verdict(word, ratio, comparison.ci95)
    inside = [] if interval is None else [format_interval(*interval)]
    inside.append(format_pairs(comparison))
    more = f", {hint}" if word == "unclear" and hint else ""
    return line(Span(phrase, _choose_style(comparison)), f" ({', '.join(inside)}{more})")


def format_pairs(comparison: Comparison) -> str:
    """Format how many pairs were measured: ``5 pairs``, or ``3 of 5 pairs`` before the end.

    Pairs of one process say so: their interval does not cover how much processes differ.
    """
    pairs = text.count(comparison.pairs_wanted, "pair")
    if comparison.pairs != comparison.pairs_wanted:
        pairs = f"{comparison.pairs} of {pairs}"
    return pairs if comparison.fresh_process else f"{pairs}, one process"


def format_times(comparison: Comparison) -> tuple[str, tuple[float, float] | None]:
    """Format the ratio, ``1.43x faster`` or ``1.02x``; return its interval too."""
    ratio, interval, word = comparison.ratio, comparison.ci95, comparison.verdict
    if ratio is None or ratio <= 0:
        return "", None
    return format_effect(word, ratio, interval)


def _format_times_of_arms(comparison: Comparison) -> Line:
    """Format medians and first calls: ``off 412 µs → on 287 µs (first call 12.1 → 392 ms)``."""
    if comparison.ratio is None or all(arm.median_s is None for arm in comparison.arms):
        return ()
    arrow = glyphs.GLYPHS.arrow
    halves = [
        f"{format_setting(comparison.flag, arm.setting)} {text.seconds(arm.median_s)}"
        for arm in comparison.arms
    ]
    first = _format_first_calls(comparison)
    return line(f" {arrow} ".join(halves), f" ({first})" if first else "")


def _format_first_calls(comparison: Comparison) -> str:
    """Format the first calls of both settings: ``first call 12.1 → 392 ms``."""
    first = [arm.first_call_s for arm in comparison.arms]
    if None in first:
        return ""
    before, after = (text.seconds(seconds) for seconds in first)
    if before.partition(" ")[2] == after.partition(" ")[2]:
        before = before.partition(" ")[0]
    return f"first call {before} {glyphs.GLYPHS.arrow} {after}"


def _format_gain(comparison: Comparison, *, done: bool) -> list[Line]:
    """Return when a slower first call pays, or why never, and both first calls."""
    first = _format_first_calls(comparison)
    calls = comparison.break_even_calls
    if done and first and calls is not None:
        pays = [line(f"pays off after {text.count(max(1, round(calls)), 'call')}")]
    else:
        pays = _format_cost(comparison, done=done)
    return [*pays, line(first)] if first else pays


def _format_cost(comparison: Comparison, *, done: bool) -> list[Line]:
    """Return the number of calls that repays the slower first call, or why there is none."""
    first_a, first_b = (arm.first_call_s for arm in comparison.arms)
    if comparison.ratio is None or first_a is None or first_b is None or not done:
        return []
    words: list[Line] = []
    calls = comparison.break_even_calls
    if calls is not None:
        # The faster setting has the slower first call: with benchmark on, it includes the search.
        label = "search costs" if comparison.flag == "cudnn.benchmark" else "first call costs"
        extra = text.seconds(abs(first_b - first_a))
        pays = text.count(max(1, round(calls)), "call")
        words.append(line(f"{label} {extra}: pays off after {pays}"))
    elif "break_even_calls" in comparison.unavailable:
        reason = comparison.unavailable["break_even_calls"]
        words.append(line(Span(f"no break-even: {reason}", TextStyle.QUIET)))
    return words
