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
from tui.runs.state.runs import CompareState, RunState
from tui.runs.state.state import RunsState
from tui.runs.sweeps.sweep_result import Swept, progress_text, swept
from tui.runs.views.backend import on_off, unfinished, verdict
from tui.runs.views.chart import crossing_lines, finding_lines, gap_lines, plot_rows
from tui.runs.views.outcome import check_lines
from tui.runs.views.workload_state import half_width, warnings_of
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
from workloads.protocol import wire
from workloads.protocol.results import Comparison, Environment, Limit, RunResult

WIDTH = 100
"""Cells of a line that goes into a file or a pipe."""
INDENT = "    "
RATIO_CELLS = 72
"""Of the line that a ratio is drawn on."""
NARROWEST, WIDEST = 60, 120
"""Cells of a line of what is told of a snapshot."""
MOST_VERDICTS = 3
"""OOMs of a device that are told in full: a library that retries leaves many."""


def results_text(state: RunsState, states: Sequence[RunState]) -> str:
    """Return a line for each result and below it what there is to say about it, then the sweeps."""
    return "".join(state_text(state, entry) for entry in states) + sweeps_text(state, states)


def state_text(state: RunsState, entry: RunState) -> str:
    """Return a line for a result, and below it what there is to say about it."""
    result = entry.result
    if result is None:
        return rows_of_text([f"{entry.request.workload} on {entry.request.device}: not run"])
    known = next((autos(i) for i in state.catalogue if i.name == result.workload), ())
    name = f"{result.workload} {short({**result.parameters, **result.chosen}, known)}"
    lines = [f"{name:<40} {result.device:<8} {result_summary(result)}"]
    if entry.request.workload in state.sweeps:
        lines += [f"{INDENT}warning: {warning}" for warning in warnings_of(entry)]
    else:
        cells = width() - len(INDENT)
        lines += [f"{INDENT}{row}".rstrip() for row in _result_notes(entry, result, cells)]
    return rows_of_text(lines)


def sweeps_text(state: RunsState, states: Sequence[RunState]) -> str:
    """Return the sweeps that were run."""
    lines: list[str] = []
    for found in sweeps_of(state, states):
        lines += ["", *_sweep(found, width())]
    return rows_of_text(lines)


def width() -> int:
    """Cells of a line: the terminal's, or a fixed number where there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH


def _plain(rows: Sequence[Line]) -> list[str]:
    return [plain(row).rstrip() for row in rows]


def result_summary(result: RunResult) -> str:
    """Median, interval, rate, share of a limit and peak; or why there are none."""
    if result.time is None:
        return f"{result.status}: {result.reason}"
    half = half_width(result.time)
    parts = [fmt.seconds(result.time.median_s, half)]
    if half is not None:
        parts.append(fmt.spread(half))
    for value, unit in (
        (result.rates.flop_per_s, "FLOP/s"),
        (result.rates.byte_per_s, "B/s"),
        (result.rates.item_per_s, "samples/s"),
    ):
        if value is not None:
            parts.append(fmt.rate(value, unit))
    if result.limit is not None:
        parts.append(_of_limit(result.limit))
    if result.memory.allocated_peak is not None:
        parts.append(f"peak {fmt.size(result.memory.allocated_peak)}")
    elif result.memory.process_peak is not None:
        parts.append(f"peak {fmt.size(result.memory.process_peak)}")
    if result.status != "ok":
        parts.append(f"{result.status}: {result.reason}")
    return "  ".join(parts)


def _of_limit(limit: Limit) -> str:
    """Return the share of the limit, and whether that can be."""
    words = f"{fmt.share(limit.fraction)} of {limit.name}"
    if not limit.exceeded:
        return words
    return f"{words} ({'above its ceiling' if limit.basis == 'measured' else 'impossible'})"


def _result_notes(entry: RunState, result: RunResult, cells: int) -> list[str]:
    """Check, warnings, figures, points of charts with their marks, tables and the log."""
    rows = [row.strip() for row in _plain(check_lines(result, cells))]
    rows += [f"warning: {warning}" for warning in warnings_of(entry)]
    return rows + _plain(finding_lines(result, cells, drawn=False))


def results_as_json(state: RunsState, states: Sequence[RunState]) -> dict[str, Any]:
    """Return the shape of ``run --json``: what was measured, where and under which conditions."""
    environment = state.machine.environment
    found: dict[str, Any] = {
        "environment": wire.to_plain(environment) if environment else None,
        "results": [_result_as_json(entry) for entry in states if entry.result is not None],
    }
    sweeps = sweeps_of(state, states)
    if sweeps:
        found["sweeps"] = [sweep_as_json(state.sweeps[item.workload], item) for item in sweeps]
    if state.hello is not None and state.hello.problems:
        found["problems"] = list(state.hello.problems)
    return found


def _result_as_json(entry: RunState) -> dict[str, Any]:
    result = entry.result
    assert result is not None
    plain: dict[str, Any] = wire.to_plain(with_process_peak(result, entry))
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
    plain["conditions"] = wire.to_plain(entry.conditions)
    if entry.conditions is None:
        absent["conditions"] = "nothing was measured"
    return plain


def with_process_peak(result: RunResult, entry: RunState) -> RunResult:
    """Return the result with NVML's figure for the process put in, where the monitor saw one."""
    path = "memory.process_peak"
    if entry.conditions is None or entry.conditions.process_peak is None:
        return result
    absent = {key: reason for key, reason in result.unavailable.items() if key != path}
    peak = replace(result.memory, process_peak=entry.conditions.process_peak)
    return replace(result, memory=peak, unavailable=absent)


# ---- sweeps ------------------------------------------------------------------------------------


def sweeps_of(state: RunsState, states: Sequence[RunState]) -> list[Swept]:
    """Return the sweeps that were run, with the devices they ran on."""
    found = []
    for name in dict.fromkeys(entry.request.workload for entry in states):
        devices = [entry.request.device for entry in states if entry.request.workload == name]
        one = swept(state, name, tuple(dict.fromkeys(devices)))
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


def comparison_going_on(entry: CompareState) -> str:
    """Return what a comparison has found so far, or its present step."""
    if entry.comparison is not None and entry.comparison.pairs:
        return comparison_line(entry.comparison)
    phase = entry.progress.phase if entry.progress else "waiting"
    return f"{entry.request.workload} on {entry.request.device}  {phase}"


def comparison_as_json(environment: Environment | None, entry: CompareState) -> dict[str, Any]:
    """Return the shape of ``compare --json``: what was found, where and under which conditions."""
    plain: dict[str, Any] = wire.to_plain(entry.comparison)
    del plain["id"]
    del plain["measured"]
    plain["environment"] = wire.to_plain(environment) if environment else None
    plain["conditions"] = wire.to_plain(entry.conditions)
    if entry.conditions is None:
        plain["unavailable"]["conditions"] = "nothing was measured"
    return plain


def comparison_text(entry: CompareState) -> str:
    """Return the verdict in a line, and below it what there is to say about it."""
    assert entry.comparison is not None
    seen = entry.conditions
    warnings = [*entry.comparison.warnings, *(seen.warnings if seen else ())]
    notes = [f"    warning: {warning}" for warning in warnings]
    if seen is not None and seen.sm_clock_mhz_median is not None:
        clock = f"SM clock {fmt.megahertz(seen.sm_clock_mhz_median)}"
        heat = f"{fmt.watts(seen.power_w_max)}, {fmt.temperature(seen.temperature_c_max)}"
        notes.insert(0, f"    {clock}, up to {heat}")
    return rows_of_text([comparison_line(entry.comparison), *_ratio_row(entry.comparison), *notes])


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
        entry = (await child.ask(AskState(0, summary.device, event), StateIs)).state
        rows.append(line(Span(f"device {summary.device}", TextStyle.STRONG)))
        rows += state_lines(entry, summary.events, None, cells)
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
