"""All facts on one workload: its description, and its figures on each device. Pure."""

from __future__ import annotations

from dataclasses import replace

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.machine import SIMULATED
from tui.kit.lines import Line, Span, TextStyle, flow, line, paragraph, plain, wrap, wrap_code
from tui.kit.plot import LEAST_HEIGHT
from tui.kit.scale import ratio_line
from tui.runs.state import parameters
from tui.runs.state.runs import RunState, find_last_ended
from tui.runs.state.state import RunsState, runs_on
from tui.runs.sweeps.sweep_result import SweepResult, collect_sweep, format_settings
from tui.runs.views.brief import (
    fit_description,
    format_earlier,
    skipped_lines,
    split_first_sentence,
)
from tui.runs.views.chart import chart_lines, draw_beside, sweep_lines
from tui.runs.views.device_charts import drop_contained
from tui.runs.views.outcome import condition_lines, format_state, outcome_lines, result_lines
from tui.runs.views.workload_state import (
    AGAINST_STYLES,
    MOST_WARNINGS,
    describe_progress,
    find_changed_flags,
    format_verdict,
)
from tui.runs.views.workload_table import CHANGED, list_devices
from workloads.protocol.flag_words import format_setting
from workloads.protocol.results import Setting, WorkloadInfo

_INTERVAL_CELLS = 70


def detail_lines(
    state: RunsState, workload: str | None, cells: int, height: int = 9, brief_rows: int = 0
) -> list[Line]:
    """Return the whole detail: outcome, plots, hints, description and every figure.

    Args:
        state: the state of the runs.
        workload: name of the workload.
        cells: width of a line.
        height: rows of a plot.
        brief_rows: after a run, return only the outcome, the plots, the first thing to look for,
            and as much of the description as these rows hold; 0 for the whole detail.
    """
    info = state.find_workload(workload)
    if info is None:
        return [line(Span("no workload is selected", TextStyle.QUIET))]
    names = list_devices(state)
    sweep = collect_sweep(state, info.name, names)
    outcome = _outcome_lines(state, info, sweep, cells, height, whole=not brief_rows)
    rows = paragraph(f"{info.name}: {info.title}", cells, TextStyle.STRONG)
    skipped = skipped_lines(state, info, cells)
    if sweep is not None and not skipped:
        # The sweep's progress is beside the title, to save rows above the plot.
        rows[-1:] = flow([rows[-1], outcome.pop(0)], cells, gap="   ")
    rows += skipped
    if outcome and brief_rows:
        rows += outcome
        rows += fit_description(info.look_for, cells, brief_rows - len(rows), label="Look for: ")
        about = paragraph(info.about, cells)
        return [*rows, (), *about] if len(rows) + 1 + len(about) <= brief_rows else rows
    look_for = [*paragraph(info.look_for, cells, label="Look for: "), ()]
    if outcome:
        # After a run, its figures come first: a sentence on what ran, and what to look for.
        first, rest = split_first_sentence(info.about)
        more = [*paragraph(rest, cells), ()] if rest else []
        rows += [*outcome, *paragraph(first, cells), *look_for, *more]
    else:
        rows += [*paragraph(info.about, cells), (), *look_for]
    if info.needs:
        rows += [*paragraph(", ".join(info.needs), cells, label="Needs: "), ()]
    rows += [*parameter_lines(state, info, cells), *code_lines(info, cells)]
    for device in names:
        rows += [()] if rows[-1] else []
        rows += device_lines(state, info, device, cells, sweep)
    return rows


def _outcome_lines(
    state: RunsState,
    info: WorkloadInfo,
    sweep: SweepResult | None,
    cells: int,
    height: int,
    *,
    whole: bool,
) -> list[Line]:
    """Return the results' summary and plots, or the sweep's, and a blank line."""
    if sweep is not None:
        return [*sweep_lines(sweep, state.sweeps[info.name], cells, height), ()]
    runs = {device: state.latest_run(info.name, device) for device in list_devices(state)}
    if not any(runs.values()):
        return []
    # The whole detail has the warnings in full, with each device's figures.
    rows = outcome_lines(runs, cells, " (below)" if whole else " (i)")
    # The plot's last row, its ticks, is on the screen together with the outcome above it.
    height = max(LEAST_HEIGHT, height - len(rows))
    drawn = [
        (replace(chart, title=f"{chart.title or chart.name}, {device}"), result.unavailable, device)
        for device, result in drop_contained(runs).items()
        for chart in result.charts
    ]

    def draw(number: int, room: int) -> list[Line]:
        chart, unavailable, device = drawn[number]
        return [(), *chart_lines(chart, unavailable, room, height, device=device)]

    return [*rows, *draw_beside(draw, len(drawn), cells), ()]


def get_present_settings(state: RunsState, info: WorkloadInfo) -> dict[str, Setting]:
    """Return the workload's settings in the table; swept parameters as typed."""
    sweep = state.sweeps.get(info.name)
    if sweep is not None:
        return {**sweep.points[0], **sweep.texts}
    return {**parameters.get_defaults(info), **state.parameters.get(info.name, {})}


def parameter_lines(state: RunsState, info: WorkloadInfo, cells: int) -> list[Line]:
    """Describe each parameter: its value, its meaning and its allowed values."""
    if not info.parameters:
        return [line(Span("no parameters", TextStyle.QUIET)), ()]
    present = get_present_settings(state, info)
    changed = parameters.find_changed(info, present)
    how = "  = edits, there F5 puts the defaults back" if changed else "  = edits"
    rows: list[Line] = [line(Span("Parameters", TextStyle.HEADING), Span(how, TextStyle.QUIET))]
    for parameter in info.parameters:
        value = parameters.format_value(present[parameter.name], auto=parameter.auto)
        words = f"{parameter.name} = {value}"
        lead = Span("  ")
        if parameter.name in changed:
            default = parameters.format_value(parameter.default, auto=parameter.auto)
            words += f" (default {default})"
            lead = Span(f"{CHANGED} ", TextStyle.NOTE)
        words += f": {parameter.about} ({parameters.describe_allowed(parameter)})"
        lines = paragraph(words, cells - 2, indent="    ")
        rows += [line(lead if row is lines[0] else "  ", *row) for row in lines]
    return [*rows, ()]


def code_lines(info: WorkloadInfo, cells: int) -> list[Line]:
    """Return the source that is timed, if there is any, below the key that copies its script."""
    if not info.code:
        return []
    how = "y in this pane copies the script"
    title = [line(Span("What is timed", TextStyle.HEADING)), line(Span(how, TextStyle.QUIET))]
    rows = flow(title if info.script else title[:1], cells, gap="  ")
    for source in info.code.splitlines():
        rows += wrap_code(source, cells, TextStyle.KEY)
    return rows


def device_lines(
    state: RunsState, info: WorkloadInfo, device: str, cells: int, swept: SweepResult | None = None
) -> list[Line]:
    """Return the run on one device in any state; for a sweep, the run that ended last."""
    if swept is not None:
        run = find_last_ended(runs.get(device) for _, runs in swept.points)
        sweep = state.sweeps[info.name]
        which = (
            f"last of the sweep: {format_settings(sweep, run.request.parameters)}" if run else ""
        )
    else:
        run = state.latest_run(info.name, device)
        which = "a quick run of the presentation" if run is not None and run.demo else ""
    title = line(
        Span(f"{glyphs.GLYPHS.rule * 2} {device} ", TextStyle.HEADING), Span(which, TextStyle.QUIET)
    )
    if not runs_on(info, device):
        kinds = ", ".join(info.devices)
        return [
            title,
            *paragraph(f"does not run here: it is made for {kinds}", cells, TextStyle.QUIET),
        ]
    if run is None and swept is not None:
        return [title, *paragraph("no run of the sweep has ended", cells, TextStyle.QUIET)]
    if run is None:
        earlier = state.earlier_result(info, device)
        words = "not run"
        if earlier is not None and earlier.failure:
            words = f"earlier {format_earlier(state, earlier)}"
        elif earlier is not None:
            words += f"; earlier: {format_earlier(state, earlier)}"
        return [title, *paragraph(words, cells, TextStyle.QUIET)]
    warnings = run.warnings if run.result or run.so_far is None else run.so_far.warnings
    shown = len(warnings) <= MOST_WARNINGS
    return [title, *_run_lines(state, run, cells, warnings_shown=swept is None and shown)]


def _run_lines(state: RunsState, run: RunState, cells: int, *, warnings_shown: bool) -> list[Line]:
    """Return every figure of a run, and its warnings unless they are shown above."""
    if run.result is None:
        if run.so_far is None:
            words = format_state(run)
            return paragraph(words.text, cells, words.style)
        doing = describe_progress(run.progress, timed=True) if run.progress else "queued"
        if run.progress and run.progress.phase == "figures":
            doing = "timing is done; its study is running"
        return result_lines(run.so_far, () if warnings_shown else run.so_far.warnings, cells, doing)
    return [
        *changed_flag_lines(state, run, cells),
        *against_lines(state, run, cells),
        *result_lines(run.result, () if warnings_shown else run.warnings, cells),
        *condition_lines(run.conditions, cells),
    ]


def against_lines(state: RunsState, run: RunState, cells: int) -> list[Line]:
    """Compare a run with earlier sessions, with a picture if the interval is known."""
    against = run.against
    if against is None:
        return []
    earlier = text.count(against.runs[0], "run")
    words = (
        f"{format_verdict(against)} beside {earlier} of earlier sessions, "
        f"the last {text.age(state.now - against.at)}"
    )
    if against.ci95 is None:
        varies = "unknown" if against.varies is None else text.variation(against.varies)
        words += f"; a verdict needs three sessions per side (variation from run to run: {varies})"
    style = AGAINST_STYLES.get(against.verdict, TextStyle.QUIET)
    rows = paragraph(words, cells, style, indent="  ")
    drawn = (
        ratio_line(against.ratio, against.ci95, min(cells, _INTERVAL_CELLS)) if against.ci95 else ()
    )
    rows += [line("  ", *drawn)] if drawn else []
    differences = ", ".join(against.differences)
    if differences:
        words = f"changed since (not necessarily causes): {differences}"
        rows += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    return rows


def changed_flag_lines(state: RunsState, run: RunState, cells: int) -> list[Line]:
    """Return the flags of the run that differ from the present ones."""
    changed = find_changed_flags(state, run)
    if not changed:
        return []
    words = ", ".join(
        f"{name} was {format_setting(name, run.request.flags[name])}" for name in changed
    )
    return paragraph(f"ran with other flags: {words}", cells, TextStyle.NOTE, indent="  ")


def format_for_clipboard(state: RunsState, workload: str | None, cells: int = 100) -> str:
    """Return the detail as plain text for the clipboard, with the conditions of the figures."""
    rows = map(plain, detail_lines(state, workload, cells))
    return "\n".join([*rows, "", *format_conditions(state, cells)]) + "\n"


def format_conditions(state: RunsState, cells: int) -> list[str]:
    """Return host, driver, torch and threads as text."""
    known: list[tuple[str, object]] = [("GPU", SIMULATED)] if state.machine.simulated else []
    if sample := state.machine.sample:
        known += [("host", sample.host.name), ("driver", sample.driver.version)]
    if environment := state.machine.environment:
        known += [
            ("python", environment.python),
            ("torch", environment.torch),
            ("CUDA", environment.cuda),
            ("cuDNN", environment.cudnn),
            ("cpu", environment.cpu),
            ("cpus usable", environment.cpus_usable),
            ("threads", environment.threads),
            ("malloc", environment.malloc),
            *environment.variables.items(),
        ]
    words = [f"{name} {text.NA if value is None else value}" for name, value in known]
    return wrap(", ".join(words), cells, indent="  ")
