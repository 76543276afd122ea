"""What ``run``, ``compare`` and ``snapshot`` print: the screens' views as text, and plain data.

A command imports this where its work begins: the views bring Rich's table of characters.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tui.cli.headless import Reader
from tui.cli.output import Failure
from tui.core.text import numbers as fmt
from tui.core.text.glyphs import rows_of_text
from tui.kit.lines import Line, Span, TextStyle, line, plain
from tui.kit.scale import ratio_line
from tui.kit.tables import table_lines
from tui.runs.state.parameters import Sweep, autos, short
from tui.runs.state.result_words import end_words, limit_words, peak_of, rate_words, time_words
from tui.runs.state.runs import CompareState, RunState
from tui.runs.sweeps.sweep_result import Swept, progress_text, swept
from tui.runs.views.backend import on_off, unfinished, verdict
from tui.runs.views.chart import crossing_lines, finding_lines, gap_lines, plot_rows
from tui.runs.views.outcome import check_lines
from tui.runs.views.workload_state import warnings_of
from tui.snapshots.model.results import Summary
from tui.snapshots.reader.messages import (
    AskDifference,
    AskSites,
    AskState,
    AskVerdict,
    DifferenceIs,
    Loaded,
    SitesAre,
    StateIs,
    VerdictIs,
)
from tui.snapshots.views.overview import file_lines, summary_lines, verdict_lines
from tui.snapshots.views.sites import (
    SiteLine,
    difference_head,
    difference_heading,
    difference_line,
    node_line,
)
from tui.snapshots.views.words import state_lines
from tui.state.store import Store
from workloads.protocol import wire
from workloads.protocol.results import Comparison, Environment, RunResult

WIDTH = 100
"""Cells of a line that goes into a file or a pipe."""
INDENT = "    "
RATIO_CELLS = 72
"""Of the line that a ratio is drawn on."""
NARROWEST, WIDEST = 60, 120
"""Cells of a line of what is told of a snapshot."""
MOST_VERDICTS = 3
"""OOMs of a device that are told in full: a library that retries leaves many."""


def results_text(store: Store, states: Sequence[RunState]) -> str:
    """Return a line for each result and below it what there is to say about it, then the sweeps."""
    return "".join(state_text(store, state) for state in states) + sweeps_text(store, states)


def state_text(store: Store, state: RunState) -> str:
    """Return a line for a result, and below it what there is to say about it."""
    result = state.result
    if result is None:
        return rows_of_text([f"{state.request.workload} on {state.request.device}: not run"])
    known = next((autos(i) for i in store.catalogue if i.name == result.workload), ())
    name = f"{result.workload} {short({**result.parameters, **result.chosen}, known)}"
    lines = [f"{name:<40} {result.device:<8} {result_summary(result)}"]
    if state.request.workload in store.sweeps:
        lines += [f"{INDENT}warning: {warning}" for warning in warnings_of(state)]
    else:
        cells = width() - len(INDENT)
        lines += [f"{INDENT}{row}".rstrip() for row in _result_notes(state, result, cells)]
    return rows_of_text(lines)


def sweeps_text(store: Store, states: Sequence[RunState]) -> str:
    """Return the sweeps that were run."""
    lines: list[str] = []
    for found in sweeps_of(store, states):
        lines += ["", *_sweep(found, width())]
    return rows_of_text(lines)


def width() -> int:
    """Cells of a line: the terminal's, or a fixed number where there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH


def _plain(rows: Sequence[Line]) -> list[str]:
    return [plain(row).rstrip() for row in rows]


def result_summary(result: RunResult) -> str:
    """Median, interval, rates, share of a limit and peak; or why there are none."""
    if result.time is None:
        return end_words(result.status, result.reason)
    parts = [time_words(result.time), *rate_words(result)]
    if result.limit is not None:
        parts.append(limit_words(result.limit))
    peak = peak_of(result.memory)
    if peak is not None:
        parts.append(f"peak {fmt.size(peak)}")
    if result.status != "ok":
        parts.append(end_words(result.status, result.reason))
    return "  ".join(parts)


def _result_notes(state: RunState, result: RunResult, cells: int) -> list[str]:
    """Check, warnings, figures, points of charts with their marks, tables and the log."""
    rows = [row.strip() for row in _plain(check_lines(result, cells))]
    rows += [f"warning: {warning}" for warning in warnings_of(state)]
    return rows + _plain(finding_lines(result, cells, drawn=False))


def results_as_json(store: Store, states: Sequence[RunState]) -> dict[str, Any]:
    """Return the shape of ``run --json``: what was measured, where and under which conditions."""
    environment = store.environment
    found: dict[str, Any] = {
        "environment": wire.to_plain(environment) if environment else None,
        "results": [_result_as_json(state) for state in states if state.result is not None],
    }
    sweeps = sweeps_of(store, states)
    if sweeps:
        found["sweeps"] = [sweep_as_json(store.sweeps[item.workload], item) for item in sweeps]
    if store.hello is not None and store.hello.problems:
        found["problems"] = list(store.hello.problems)
    return found


def _result_as_json(state: RunState) -> dict[str, Any]:
    result = state.result
    assert result is not None
    plain: dict[str, Any] = wire.to_plain(with_process_peak(result, state))
    reason = result.reason or "not measured"
    absent = plain["unavailable"]
    for name in ("time", "limit"):
        if plain[name] is None:
            absent.setdefault(name, reason)
    if plain["check"] is None:
        absent.setdefault("check", "this workload has no check" if result.time else reason)
    for group in ("rates", "memory"):
        for name, value in plain[group].items():
            if value is None:
                absent.setdefault(f"{group}.{name}", reason)
    if result.limit is not None:
        plain["limit"]["exceeded"] = result.limit.exceeded
    plain["conditions"] = wire.to_plain(state.conditions)
    if state.conditions is None:
        absent["conditions"] = "nothing was measured"
    return plain


def with_process_peak(result: RunResult, state: RunState) -> RunResult:
    """Return the result with NVML's figure for the process put in, where the monitor saw one."""
    path = "memory.process_peak"
    if state.conditions is None or state.conditions.process_peak is None:
        return result
    absent = {key: reason for key, reason in result.unavailable.items() if key != path}
    peak = replace(result.memory, process_peak=state.conditions.process_peak)
    return replace(result, memory=peak, unavailable=absent)


# ---- sweeps ------------------------------------------------------------------------------------


def sweeps_of(store: Store, states: Sequence[RunState]) -> list[Swept]:
    """Return the sweeps that were run, with the devices they ran on."""
    found = []
    for name in dict.fromkeys(state.request.workload for state in states):
        devices = [state.request.device for state in states if state.request.workload == name]
        one = swept(store, name, tuple(dict.fromkeys(devices)))
        if one is not None:
            found.append(one)
    return found


def _sweep(found: Swept, cells: int) -> list[str]:
    rows = [f"sweep of {found.workload}: {progress_text(found)}"]
    rows += _plain(crossing_lines(found, cells))
    rows += _plain(plot_rows(found, min(cells, WIDTH)))
    rows += ["", *_plain(table_lines(found.table, {}, cells)[1:])]
    return rows + _plain(gap_lines(found, cells))


def sweep_as_json(sweep: Sweep, found: Swept) -> dict[str, Any]:
    """Return a sweep as plain data: its charts, the crossovers, and why points are missing."""
    charts = {chart.name: wire.to_plain(chart) for chart in found.charts}
    return {
        "workload": found.workload,
        "parameters": {name: list(sweep.values(name)) for name in sweep.texts},
        "axis": found.axis or None,
        "devices": list(found.devices),
        "done": found.done,
        "wanted": found.wanted,
        "median_s": charts.get("time"),
        "rate": charts.get("rate"),
        "speed_up": charts.get("speed_up"),
        "limits": [wire.to_plain(item) for item in found.limits],
        "crossovers": [wire.to_plain(item) for item in found.crossovers],
        "unavailable": found.unavailable
        | ({} if "rate" in charts else {"rate": "this workload has no rate, or nothing was timed"})
        | ({} if "speed_up" in charts else {"speed_up": "it ran on one device"})
        | ({} if found.axis else {"axis": "none of the swept parameters is a number"}),
    }


# ---- comparisons -------------------------------------------------------------------------------


def comparison_going_on(state: CompareState) -> str:
    """Return what a comparison has found so far, or its present step."""
    if state.comparison is not None and state.comparison.pairs:
        return comparison_line(state.comparison)
    phase = state.progress.phase if state.progress else "waiting"
    return f"{state.request.workload} on {state.request.device}  {phase}"


def comparison_as_json(environment: Environment | None, state: CompareState) -> dict[str, Any]:
    """Return the shape of ``compare --json``: what was found, where and under which conditions."""
    plain: dict[str, Any] = wire.to_plain(state.comparison)
    del plain["id"]
    del plain["measured"]
    plain["environment"] = wire.to_plain(environment) if environment else None
    plain["conditions"] = wire.to_plain(state.conditions)
    if state.conditions is None:
        plain["unavailable"]["conditions"] = "nothing was measured"
    return plain


def comparison_text(state: CompareState) -> str:
    """Return the verdict in a line, and below it what there is to say about it."""
    assert state.comparison is not None
    seen = state.conditions
    warnings = [*state.comparison.warnings, *(seen.warnings if seen else ())]
    notes = [f"    warning: {warning}" for warning in warnings]
    if seen is not None and seen.sm_clock_mhz_median is not None:
        clock = f"SM clock {fmt.megahertz(seen.sm_clock_mhz_median)}"
        heat = f"{fmt.watts(seen.power_w_max)}, {fmt.temperature(seen.temperature_c_max)}"
        notes.insert(0, f"    {clock}, up to {heat}")
    return rows_of_text([comparison_line(state.comparison), *_ratio_row(state.comparison), *notes])


def _ratio_row(comparison: Comparison) -> list[str]:
    """Return the ratio with its interval on a line around 1."""
    row = ratio_line(comparison.ratio, comparison.ci95, RATIO_CELLS) if comparison.ratio else ()
    return [f"    {plain(row)}"] if row else []


def comparison_line(comparison: Comparison) -> str:
    """Return the settings, the verdict, the times and the cost in a line."""
    a, b = comparison.arms
    parts = [
        f"{comparison.workload} on {comparison.device}",
        f"{comparison.flag} {on_off(a.setting)} to {on_off(b.setting)}",
    ]
    if comparison.status != "ok":
        parts += [plain(said) for said in unfinished(comparison) if said]
    elif comparison.ratio is not None:
        parts.append(plain(verdict(comparison, "--pairs for more")))
    if comparison.ratio is not None:
        parts.append(f"{fmt.seconds(a.median_s)} and {fmt.seconds(b.median_s)} a call")
    if comparison.break_even_calls is not None:
        calls = fmt.count(round(comparison.break_even_calls), "call")
        parts.append(f"the first call has paid for itself after {calls}")
    return "  ".join(parts)


# ---- snapshots ---------------------------------------------------------------------------------


async def snapshot_text(
    child: Reader, loaded: Loaded, *, event: int | None, top: int, at_peak: bool, compares: bool
) -> str:
    """Return the text that ``snapshot`` prints.

    Args:
        child: that has read the files.
        loaded: what it said about them.
        event: whose state is told; ``None`` for the whole trace.
        top: how many sites are listed.
        at_peak: compare the peaks, not the ends.
        compares: there are two files, and their difference is told.

    Raises:
        Failure: there is no such event, or nothing to compare.
    """
    cells = max(NARROWEST, min(WIDEST, shutil.get_terminal_size((80, 24)).columns))
    if compares:
        rows = await _difference(child, loaded, cells, top, at_peak=at_peak)
    elif event is not None:
        rows = await _at_event(child, loaded, event, cells, top)
    else:
        rows = await _overview(child, loaded, cells, top)
    return "".join(f"{plain(row).rstrip()}\n" for row in rows)


async def _overview(child: Reader, loaded: Loaded, cells: int, top: int) -> list[Line]:
    """Why it ran out, and what there is, for each device; then the file."""
    rows: list[Line] = []
    for summary in loaded.devices:
        rows += await _verdicts(child, summary, cells, top)
        rows += summary_lines(summary, cells)
    if not loaded.devices:
        rows.append(line("no device in this file"))
    for info in loaded.files:
        rows += file_lines(info, cells)
    return rows


async def _verdicts(child: Reader, summary: Summary, cells: int, top: int) -> list[Line]:
    rows: list[Line] = []
    # The last one is what ended the program; a library that retries leaves others before it.
    told = summary.ooms[-MOST_VERDICTS:][::-1]
    for event in told:
        answer = await child.ask(AskVerdict(0, summary.device, event, top), VerdictIs)
        rows += [*verdict_lines(answer.verdict, summary, cells), ()]
    others = len(summary.ooms) - len(told)
    if others:
        rows += [line(f"{fmt.count(others, 'earlier OOM')}: --json tells them all"), ()]
    return rows


async def _at_event(child: Reader, loaded: Loaded, event: int, cells: int, top: int) -> list[Line]:
    """Return the state of each device right after an event, and who held the memory then.

    Raises:
        Failure: no device has such an event.
    """
    having = [summary for summary in loaded.devices if 0 <= event < summary.events]
    if not having:
        longest = max((summary.events for summary in loaded.devices), default=0)
        have = f"events 0 to {longest - 1}" if longest else "no trace"
        raise Failure(f"--at {event}: the file has {have}")
    rows: list[Line] = []
    for summary in having:
        state = (await child.ask(AskState(0, summary.device, event), StateIs)).state
        rows.append(line(Span(f"device {summary.device}", TextStyle.STRONG)))
        rows += state_lines(state, summary.events, None, cells)
        listing = (await child.ask(AskSites(0, summary.device, event, limit=top), SitesAre)).listing
        rows += [(), line(Span("Held the memory then", TextStyle.STRONG))]
        rows += [
            node_line(SiteLine((row.key,), row), unfolded=False, cells=cells)
            for row in listing.rows
        ]
        if listing.more:
            rest = f"{fmt.size(listing.more_bytes):>9} in {fmt.count(listing.more)} more"
            rows.append(line(rest))
        rows.append(())
    return rows


async def _difference(
    child: Reader, loaded: Loaded, cells: int, top: int, *, at_peak: bool
) -> list[Line]:
    """Return the changes on each device that both files have.

    Raises:
        Failure: there is none.
    """
    if not loaded.common:
        raise Failure("the two files have no device in common: there is nothing to compare")
    rows: list[Line] = []
    for device in loaded.common:
        answer = await child.ask(AskDifference(0, device, at_peak, limit=top), DifferenceIs)
        rows += difference_head(answer.difference, cells)
        if found := answer.difference.rows:
            rows += [(), difference_heading(cells), *(difference_line(row, cells) for row in found)]
        if answer.more:
            rows.append(line(f"and {fmt.count(answer.more)} smaller changes: --top shows more"))
        rows.append(())
    return rows
