"""What a sweep has found so far: time, rate and speed-up over the swept size, and gaps. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.state import parameters
from tui.state.runs import RunState, standing
from tui.state.store import Store
from tui.state.sweep import Sweep
from tui.state.sweep_curves import (
    Crossover,
    Curves,
    Runs,
    SweptLimit,
    axis_of,
    base_device,
    limits_of,
    median_of,
    rate_of,
    result_of,
    settings_text,
    speed_up,
)
from tui.text.quantity import quantity
from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import Setting
from workloads.protocol.results import Cell, Chart, Column, RunResult, Table


@frozen
class Swept:
    """A sweep with its runs."""

    workload: str
    axis: str
    """The parameter that runs from left to right; empty where none is a number."""
    devices: tuple[str, ...]
    points: tuple[tuple[dict[str, Setting], dict[str, RunState | None]], ...]
    charts: tuple[Chart, ...]
    table: Table
    crossovers: tuple[Crossover, ...]
    limits: tuple[SweptLimit, ...]
    """What the rates are held against, in the unit of their chart."""
    unavailable: dict[str, str]
    done: int
    wanted: int
    last: RunState | None
    """The run that ended last."""


def swept(store: Store, workload: str, devices: Sequence[str]) -> Swept | None:
    """The present sweep of a workload on some torch devices; ``None`` where it has none."""
    sweep = store.sweeps.get(workload)
    if sweep is None:
        return None

    def newest(device: str, point: dict[str, Setting]) -> RunState | None:
        runs = store.runs.newest_first(workload, device, point)
        return standing(run for run in runs if not run.demo)

    points = [
        (point, {device: newest(device, point) for device in devices}) for point in sweep.points
    ]
    states = [run for _, runs in points for run in runs.values() if run]
    ended = [run for run in reversed(states) if run.ended]
    last = max(
        ended, key=lambda run: run.result.ended_at or 0.0 if run.result else 0.0, default=None
    )
    axis = axis_of(sweep)
    lines = Curves(sweep, axis, tuple(devices), tuple(points))
    charts, crossovers = lines.charts()
    return Swept(
        workload=workload,
        axis=axis,
        devices=tuple(devices),
        points=tuple(points),
        charts=charts,
        table=_table(sweep, points, devices),
        crossovers=crossovers,
        limits=limits_of(states, next((item.series[0].unit for item in charts[1:2]), "")),
        unavailable=_gaps(sweep, points),
        done=len(ended),
        wanted=len(points) * len(devices),
        last=last,
    )


def shown_point(found: Swept) -> tuple[dict[str, Setting], Runs] | None:
    """The point whose figures stand for the sweep in one line; ``None`` before any has ended.

    Of the points with a time, the one that ended last on all devices, so that its figures can be
    held against each other.
    """
    ended = [(point, runs) for point, runs in found.points if any(map(_result, runs.values()))]
    return max(reversed(ended), key=lambda item: _standing(item[1]), default=None)


def _standing(runs: Runs) -> tuple[bool, bool, float]:
    results = [result for result in map(_result, runs.values()) if result]
    timed = any(result.time for result in results)
    return timed, len(results) == len(runs), max(result.ended_at or 0.0 for result in results)


def _result(run: RunState | None) -> RunResult | None:
    return run.result if run else None


def _table(
    sweep: Sweep, points: Sequence[tuple[dict[str, Setting], Runs]], devices: Sequence[str]
) -> Table:
    rates = {
        device: unit[1]
        for _, runs in points
        for device, run in runs.items()
        if (unit := rate_of(result_of(run)))
    }
    base = base_device(devices)
    columns = [Column(name) for name in sweep.texts]
    for device in devices:
        columns.append(Column(f"{device} time", "s"))
        columns += [Column(f"{device} rate", rates[device])] if device in rates else []
        columns += [Column(f"{device} speed-up", "x")] if device != base else []
    columns.append(Column("state"))
    rows: list[tuple[Cell, ...]] = []
    for point, runs in points:
        cells: list[Cell] = [
            parameters.text_of(point[name], auto=name in sweep.autos) for name in sweep.texts
        ]
        for device in devices:
            run = runs.get(device)
            rate = rate_of(result_of(run))
            cells.append(median_of(run))
            cells += [rate[0] if rate else None] if device in rates else []
            cells += [speed_up(run, runs.get(base))] if device != base else []
        cells.append(", ".join(dict.fromkeys(map(_state, runs.values()))))
        rows.append(tuple(cells))
    return Table("sweep", "sweep", tuple(columns), tuple(rows))


def _state(run: RunState | None) -> str:
    if run is None:
        return "not run"
    if run.result is not None:
        return run.result.status
    return "running" if run.progress else "queued"


def _gaps(sweep: Sweep, points: Sequence[tuple[dict[str, Setting], Runs]]) -> dict[str, str]:
    """Why points have no time, by device and setting."""
    return {
        f"charts.time.{device} {settings_text(sweep, point)}": (
            f"{run.result.status}: {run.result.reason}"
        )
        for point, runs in points
        for device, run in runs.items()
        if run is not None and run.result is not None and run.result.time is None
    }


def progress_text(found: Swept) -> str:
    """How far it is: ``3 of 12 runs``, and what did not end well."""
    words = f"{found.done} of {quantity(float(found.wanted))} runs"
    states = [
        run.result.status
        for _, runs in found.points
        for run in runs.values()
        if run and run.result and run.result.status != "ok"
    ]
    return ", ".join(
        [words, *(f"{states.count(state)} {state}" for state in dict.fromkeys(states))]
    )
