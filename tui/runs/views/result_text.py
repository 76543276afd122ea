"""Text and JSON of results, sweeps and comparisons, as ``run`` and ``compare`` print them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tui.core.text import glyphs
from tui.core.text import numbers as fmt
from tui.core.text.glyphs import rows_of_text
from tui.devices.state.devices import CPU
from tui.kit.command_line.output import WIDTH, width
from tui.kit.lines import Line, plain, wrap
from tui.kit.scale import ratio_line
from tui.kit.tables import table_lines
from tui.runs.state.parameters import Sweep, find_autos, format_short
from tui.runs.state.result_format import (
    find_peak,
    format_end,
    format_limit_share,
    format_rates,
    format_result_end,
    format_time,
    list_rates,
)
from tui.runs.state.runs import CompareState, RunState, is_trusted
from tui.runs.state.state import RunsState
from tui.runs.sweeps.sweep_result import SweepResult, collect_sweep, format_sweep_progress
from tui.runs.views.backend import format_no_ratio, format_unfinished, format_verdict
from tui.runs.views.chart import crossing_lines, finding_lines, gap_lines, plot_rows
from tui.runs.views.outcome import check_lines
from tui.runs.views.warning_list import list_causes
from workloads.protocol import wire
from workloads.protocol.flag_words import format_setting
from workloads.protocol.results import Comparison, Environment, RunResult

INDENT = "    "
RATIO_CELLS = 72
"""Cells of the line that shows a ratio."""


def format_results(state: RunsState, states: Sequence[RunState], *, timed: bool = True) -> str:
    """Return a line for each result with its notes below it, then the sweeps.

    Args:
        state: the state of the runs.
        states: the runs.
        timed: show the times of successful runs, and the doubts about them.
    """
    runs = "".join(format_run(state, entry, timed=timed) for entry in states)
    return runs + format_sweeps(state, states)


def format_warnings(state: RunsState, states: Sequence[RunState]) -> str:
    """Return a line for each cause of the warnings of several runs; empty without any."""
    causes = list_causes(state, states, width())
    return rows_of_text(["", *causes]) if causes else ""


def format_run(
    state: RunsState, entry: RunState, *, timed: bool = True, warned: bool = True
) -> str:
    """Return a line for a result, with its notes below it.

    Args:
        state: the state of the runs.
        entry: the run.
        timed: show the time of a successful run, and the doubts about it.
        warned: show its warnings in full below it; else :func:`format_warnings` follows.
    """
    result = entry.result
    if result is None:
        return rows_of_text([f"{entry.request.workload} on {entry.request.device}: not run"])
    known = next((find_autos(i) for i in state.catalogue if i.name == result.workload), ())
    name = f"{result.workload} {format_short({**result.parameters, **result.chosen}, known)}"
    timed = timed or result.status != "ok"
    summary = format_summary(result) if timed else "done"
    if entry.warnings and timed:
        summary = f"{glyphs.GLYPHS.warning} {summary}"
    lines = [f"{name:<40} {result.device:<8} {summary}"]
    cells = width() - len(INDENT)
    warnings = entry.warnings if timed and warned else ()
    if entry.request.workload in state.sweeps:
        lines += [INDENT + row for row in _format_warnings(warnings, cells)]
    else:
        lines += [f"{INDENT}{row}".rstrip() for row in _format_notes(warnings, result, cells)]
    return rows_of_text(lines)


def format_sweeps(state: RunsState, states: Sequence[RunState]) -> str:
    """Format the sweeps that ran."""
    lines: list[str] = []
    for sweep in find_sweeps(state, states):
        environment = state.machine.environment
        has_gpu = environment is None or any(each.id != CPU for each in environment.devices)
        lines += ["", *_format_sweep(sweep, width(), has_gpu=has_gpu)]
    return rows_of_text(lines)


def _make_plain(rows: Sequence[Line]) -> list[str]:
    return [plain(row).rstrip() for row in rows]


def _format_warnings(warnings: Sequence[str], cells: int) -> list[str]:
    return [row for warning in warnings for row in wrap(f"warning: {warning}", cells, "  ")]


NO_RATE = f"rate {fmt.NA}: the time is not to be trusted"


def format_summary(result: RunResult) -> str:
    """Format median, interval, rates, share of a limit and peak, or why they are absent.

    A warning that the time is not to be trusted replaces the rates.
    """
    if result.time is None:
        return format_end(result.status, result.reason)
    parts = [format_time(result.time)]
    # The rate of a time that says nothing of the workload would look as if it did.
    if is_trusted(result):
        parts += format_rates(result)
        parts += [format_limit_share(result.limit)] if result.limit is not None else []
    elif list_rates(result.rates):
        parts.append(NO_RATE)
    parts.append(f"peak {fmt.size(find_peak(result.memory))}")
    if result.status != "ok":
        parts.append(format_result_end(result))
    return "  ".join(parts)


def _format_notes(warnings: Sequence[str], result: RunResult, cells: int) -> list[str]:
    """Format check, warnings, figures, chart points with their marks, tables and the log."""
    rows = [row.strip() for row in _make_plain(check_lines(result, cells))]
    rows += _format_warnings(warnings, cells)
    return rows + _make_plain(finding_lines(result, cells, drawn=False))


def encode_results(state: RunsState, states: Sequence[RunState]) -> dict[str, Any]:
    """Return the object that ``run --json`` prints: results, machine and conditions."""
    environment = state.machine.environment
    # The results first: the environment is longer.
    encoded: dict[str, Any] = {
        "results": [_encode_result(entry) for entry in states if entry.result is not None],
    }
    sweeps = find_sweeps(state, states)
    if sweeps:
        encoded["sweeps"] = [encode_sweep(state.sweeps[item.workload], item) for item in sweeps]
    encoded["environment"] = wire.to_plain(environment) if environment else None
    if state.hello is not None and state.hello.problems:
        encoded["problems"] = list(state.hello.problems)
    return encoded


def _encode_result(entry: RunState) -> dict[str, Any]:
    result = entry.result
    assert result is not None
    plain: dict[str, Any] = wire.to_plain(add_process_peak(result, entry))
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


def add_process_peak(result: RunResult, entry: RunState) -> RunResult:
    """Return the result with NVML's figure for the process, if the monitor sampled one."""
    path = "memory.process_peak"
    if entry.conditions is None or entry.conditions.process_peak is None:
        return result
    absent = {key: reason for key, reason in result.unavailable.items() if key != path}
    peak = replace(result.memory, process_peak=entry.conditions.process_peak)
    return replace(result, memory=peak, unavailable=absent)


# ---- sweeps ------------------------------------------------------------------------------------


def find_sweeps(state: RunsState, states: Sequence[RunState]) -> list[SweepResult]:
    """Return the sweeps that ran, on the devices that they ran on."""
    sweeps = []
    for name in dict.fromkeys(entry.request.workload for entry in states):
        devices = [entry.request.device for entry in states if entry.request.workload == name]
        sweep = collect_sweep(state, name, tuple(dict.fromkeys(devices)))
        if sweep is not None:
            sweeps.append(sweep)
    return sweeps


def _format_sweep(sweep_result: SweepResult, cells: int, *, has_gpu: bool) -> list[str]:
    rows = [f"sweep of {sweep_result.workload}: {format_sweep_progress(sweep_result)}"]
    if len(sweep_result.devices) == 1:
        alone = f"ran on {sweep_result.devices[0]} alone" if has_gpu else "no GPU"
        rows.append(f"{INDENT}{alone}: no crossover")
    rows += _make_plain(crossing_lines(sweep_result, cells))
    rows += _make_plain(plot_rows(sweep_result, min(cells, WIDTH)))
    rows += ["", *_make_plain(table_lines(sweep_result.table, {}, cells)[1:])]
    return rows + _make_plain(gap_lines(sweep_result, cells))


def encode_sweep(sweep: Sweep, sweep_result: SweepResult) -> dict[str, Any]:
    """Return a sweep as plain data: charts, crossovers, and the reasons for missing points."""
    charts = {chart.name: wire.to_plain(chart) for chart in sweep_result.charts}
    return {
        "workload": sweep_result.workload,
        "parameters": {name: list(sweep.values(name)) for name in sweep.texts},
        "axis": sweep_result.axis or None,
        "devices": list(sweep_result.devices),
        "done": sweep_result.done,
        "wanted": sweep_result.total,
        "median_s": charts.get("time"),
        "rate": charts.get("rate"),
        "speed_up": charts.get("speed_up"),
        "limits": [wire.to_plain(item) for item in sweep_result.limits],
        "crossovers": [wire.to_plain(item) for item in sweep_result.crossovers],
        "unavailable": sweep_result.unavailable
        | ({} if "rate" in charts else {"rate": "this workload has no rate, or nothing was timed"})
        | ({} if "speed_up" in charts else {"speed_up": "it ran on one device"})
        | ({} if sweep_result.axis else {"axis": "none of the swept parameters is a number"}),
    }


# ---- comparisons -------------------------------------------------------------------------------


def format_comparison_progress(entry: CompareState) -> str:
    """Return the present findings of a comparison, or its current step."""
    if entry.comparison is not None and entry.comparison.pairs:
        return format_comparison_line(entry.comparison)
    phase = entry.progress.phase if entry.progress else "waiting"
    return f"{entry.request.workload} on {entry.request.device}  {phase}"


def encode_comparison(environment: Environment | None, entry: CompareState) -> dict[str, Any]:
    """Return the object that ``compare --json`` prints: findings, machine and conditions."""
    plain: dict[str, Any] = wire.to_plain(entry.comparison)
    del plain["id"]
    del plain["measured"]
    plain["environment"] = wire.to_plain(environment) if environment else None
    plain["conditions"] = wire.to_plain(entry.conditions)
    if entry.conditions is None:
        plain["unavailable"]["conditions"] = "nothing was measured"
    return plain


def format_comparison(entry: CompareState) -> str:
    """Return the settings in a line, with the verdict and its notes below it."""
    assert entry.comparison is not None
    notes = [INDENT + row for row in _format_warnings(entry.warnings, width() - len(INDENT))]
    conditions = entry.conditions
    if conditions is not None and conditions.sm_clock_mhz_median is not None:
        clock = f"SM clock {fmt.megahertz(conditions.sm_clock_mhz_median)}"
        heat = (
            f"{fmt.watts(conditions.power_w_max)}, {fmt.temperature(conditions.temperature_c_max)}"
        )
        notes.insert(0, f"    {clock}, up to {heat}")
    first, *others = _format_parts(entry.comparison)
    verdict = [INDENT + part for part in others]
    return rows_of_text([first, *verdict, *_format_ratio(entry.comparison), *notes])


def _format_ratio(comparison: Comparison) -> list[str]:
    """Return the ratio with its interval on a line around 1."""
    row = ratio_line(comparison.ratio, comparison.ci95, RATIO_CELLS) if comparison.ratio else ()
    return [f"    {plain(row)}"] if row else []


def format_comparison_line(comparison: Comparison) -> str:
    """Return the settings, the verdict, the times and the cost in a line."""
    return "  ".join(_format_parts(comparison))


def format_comparison_outcome(comparison: Comparison) -> str:
    """Return the flag with its settings, the verdict, the times and the cost in a line."""
    flag, *others = _format_parts(comparison, hint="")
    return "  ".join([flag.partition("  ")[2], *others])


def _format_parts(comparison: Comparison, hint: str = "--pairs for more") -> list[str]:
    """Return the settings, then the known ones of verdict, times and cost."""
    a, b = comparison.arms
    old, new = (format_setting(comparison.flag, arm.setting) for arm in (a, b))
    arrow = glyphs.GLYPHS.arrow
    parts = [f"{comparison.workload} on {comparison.device}  {comparison.flag} {old}{arrow}{new}"]
    if comparison.status != "ok":
        parts += [plain(sentence) for sentence in format_unfinished(comparison) if sentence]
    elif comparison.ratio is not None:
        parts.append(plain(format_verdict(comparison, hint)))
    elif comparison.pairs:
        parts.append(plain(format_no_ratio(comparison, "--pairs for more")))
    if comparison.ratio is not None:
        times = f"{old} {fmt.seconds(a.median_s)} {arrow} {new} {fmt.seconds(b.median_s)}"
        calls = comparison.break_even_calls
        pays = "" if calls is None else f", pays off after {fmt.count(round(calls), 'call')}"
        parts.append(f"{times}{pays}")
    return parts
