"""What ``gpu-workbench run`` prints: results and sweeps as text and as plain data."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tui.state.parameters import Sweep, autos, short
from tui.state.runs import RunState
from tui.state.store import Store
from tui.state.sweep_result import Swept, progress_text, swept
from tui.text import numbers as fmt
from tui.text.glyphs import rows_of_text
from tui.ui.views.chart import crossing_lines, finding_lines, gap_lines, plot_rows
from tui.ui.views.lines import Line, plain
from tui.ui.views.outcome import check_lines
from tui.ui.views.tables import table_lines
from tui.ui.views.workload_state import half_width, warnings_of
from workloads.protocol import wire
from workloads.protocol.results import Limit, RunResult

WIDTH = 100
"""Of lines that go into a file or a pipe."""
INDENT = "    "


def as_text(store: Store, states: Sequence[RunState]) -> str:
    """A line for each result and below it what there is to say about it, then the sweeps."""
    return "".join(state_text(store, state) for state in states) + sweeps_text(store, states)


def state_text(store: Store, state: RunState) -> str:
    """A line for a result, and below it what there is to say about it."""
    result = state.result
    if result is None:
        return rows_of_text([f"{state.request.workload} on {state.request.device}: not run"])
    known = next((autos(i) for i in store.catalogue if i.name == result.workload), ())
    name = f"{result.workload} {short({**result.parameters, **result.chosen}, known)}"
    lines = [f"{name:<40} {result.device:<8} {summary(result)}"]
    if state.request.workload in store.sweeps:
        lines += [f"{INDENT}warning: {warning}" for warning in warnings_of(state)]
    else:
        cells = width() - len(INDENT)
        lines += [f"{INDENT}{row}".rstrip() for row in _notes(state, result, cells)]
    return rows_of_text(lines)


def sweeps_text(store: Store, states: Sequence[RunState]) -> str:
    """The sweeps that were run."""
    lines: list[str] = []
    for found in sweeps_of(store, states):
        lines += ["", *_sweep(found, width())]
    return rows_of_text(lines)


def width() -> int:
    """Cells of a line: the terminal's, or a fixed number where there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH


def _plain(rows: Sequence[Line]) -> list[str]:
    return [plain(row).rstrip() for row in rows]


def summary(result: RunResult) -> str:
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
    """The share of the limit, and whether that can be."""
    words = f"{fmt.share(limit.fraction)} of {limit.name}"
    if not limit.exceeded:
        return words
    return f"{words} ({'above its ceiling' if limit.basis == 'measured' else 'impossible'})"


def _notes(state: RunState, result: RunResult, cells: int) -> list[str]:
    """Check, warnings, figures, points of charts with their marks, tables and the log."""
    rows = [row.strip() for row in _plain(check_lines(result, cells))]
    rows += [f"warning: {warning}" for warning in warnings_of(state)]
    return rows + _plain(finding_lines(result, cells, drawn=False))


def as_json(store: Store, states: Sequence[RunState]) -> dict[str, Any]:
    """The shape of ``run --json``: what was measured, where and under which conditions."""
    environment = store.environment
    found: dict[str, Any] = {
        "environment": wire.to_plain(environment) if environment else None,
        "results": [_result(state) for state in states if state.result is not None],
    }
    sweeps = sweeps_of(store, states)
    if sweeps:
        found["sweeps"] = [sweep_plain(store.sweeps[item.workload], item) for item in sweeps]
    if store.hello is not None and store.hello.problems:
        found["problems"] = list(store.hello.problems)
    return found


def _result(state: RunState) -> dict[str, Any]:
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
    """The result with NVML's figure for the process put in, where the monitor saw one."""
    path = "memory.process_peak"
    if state.conditions is None or state.conditions.process_peak is None:
        return result
    absent = {key: reason for key, reason in result.unavailable.items() if key != path}
    peak = replace(result.memory, process_peak=state.conditions.process_peak)
    return replace(result, memory=peak, unavailable=absent)


# ---- sweeps ------------------------------------------------------------------------------------


def sweeps_of(store: Store, states: Sequence[RunState]) -> list[Swept]:
    """The sweeps that were run, with the devices they ran on."""
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


def sweep_plain(sweep: Sweep, found: Swept) -> dict[str, Any]:
    """A sweep as plain data: its charts by name, the crossovers, and why points are missing."""
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
