"""A sweep in the detail pane and in the table of workloads. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tui.state import parameters
from tui.state.runs import RunState
from tui.state.sweep import Sweep
from tui.state.sweep_curves import settings_text
from tui.state.sweep_result import Swept, progress_text
from tui.ui.views.chart import chart_lines
from tui.ui.views.lines import Line, Span, Tone, line, paragraph
from tui.ui.views.tables import table_lines
from tui.ui.views.workload_state import progress_words
from workloads.protocol.inventory import Setting


def sweep_lines(found: Swept, sweep: Sweep, cells: int) -> list[Line]:
    """How far the sweep is, its curves with the crossover, its table and its gaps."""
    rows: list[Line] = [line(Span("Sweep", Tone.STRONG), f"  {progress_text(found)}")]
    going = running(found)
    if going is not None and going.progress is not None:
        words = f"{going.request.device} {_settings(sweep, going)}: "
        rows += paragraph(words + progress_words(going.progress), cells, Tone.KEY, indent="  ")
    if found.done:
        for chart in found.charts:
            rows += [(), *chart_lines(chart, found.unavailable, cells)]
        rows += [(), *table_lines(found.table, {}, cells)]
    return rows


def running(found: Swept) -> RunState | None:
    """The run of the sweep that goes on."""
    states = (run for _, runs in found.points for run in runs.values())
    return next((run for run in states if run and run.progress and not run.ended), None)


def _settings(sweep: Sweep, run: RunState) -> str:
    return settings_text(sweep, run.request.parameters)


def sweep_state(found: Swept, sweep: Sweep) -> tuple[Span, ...]:
    """The table's last column: points done of all, and the one that runs or ended last."""
    if not found.done and running(found) is None:
        return (Span(f"sweep of {found.wanted} runs", Tone.QUIET),)
    spans = [Span(f"sweep {found.done}/{found.wanted}", Tone.STRONG)]
    going = running(found)
    if going is not None and going.progress is not None:
        words = f"  {going.request.device} {_settings(sweep, going)} "
        spans.append(Span(words + progress_words(going.progress), Tone.KEY))
    elif found.done == found.wanted:
        bad = progress_text(found).partition(", ")[2]
        spans.append(Span(f"  {bad}" if bad else "  ok", Tone.NOTE if bad else Tone.GOOD))
    elif found.last is not None:
        spans.append(Span(f"  last {_settings(sweep, found.last)}", Tone.QUIET))
    return tuple(spans)


def sweep_name(sweep: Sweep, rest: Mapping[str, Setting]) -> str:
    """The parameters in short, the swept ones as they were typed and first."""
    swept = " ".join(f"{name}={text}" for name, text in sweep.texts.items())
    return f"{swept} {parameters.short(rest)}".strip()


def latest_of(found: Swept, device: str) -> RunState | None:
    """The run of the sweep on a device that ended last."""
    ended = [runs[device] for _, runs in found.points if runs.get(device)]
    states = [run for run in reversed(ended) if run is not None and run.result is not None]
    return max(
        states, key=lambda run: run.result.ended_at or 0.0 if run.result else 0.0, default=None
    )
