"""A study's chart that compares its device with the CPU: its names and its crossing. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from tui.core.text.numbers import place as place_text
from tui.devices.state.devices import CPU
from tui.kit.lines import TextStyle
from tui.kit.plot import Event
from tui.runs.state.runs import RunState
from workloads.protocol.results import Chart, RunResult, Series


def drop_contained(runs: Mapping[str, RunState | None]) -> dict[str, RunResult]:
    """Leave out the CPU's charts whose series another device's chart of that name contains.

    A chart that still grows stands for the places to come, so that one plot grows.

    Args:
        runs: runs of one workload by device.

    Returns:
        The finished and unfinished results.
    """
    results = {
        device: result
        for device, run in runs.items()
        if run is not None and (result := run.result or run.so_far)
    }
    others = [
        (chart, run.result is None)
        for device, run in runs.items()
        if device != CPU and run is not None and device in results
        for chart in results[device].charts
    ]
    return {
        device: replace(result, charts=tuple(c for c in result.charts if not _is_in(c, others)))
        if device == CPU
        else result
        for device, result in results.items()
    }


def _is_in(chart: Chart, others: list[tuple[Chart, bool]]) -> bool:
    """Return whether a chart of that name has the CPU's series, over the same places.

    Args:
        chart: the CPU's.
        others: the charts of other devices, and whether each still grows.
    """
    own = _find_series(chart, CPU)
    if own is None:
        return False
    return any(
        other.name == chart.name
        and ({*chart.places} <= {*other.places} or (grows and other.places))
        and (shared := _find_series(other, CPU)) is not None
        and shared.unit == own.unit
        for other, grows in others
    )


def name_devices(chart: Chart, device: str) -> Chart:
    """Name the series of the CPU, and of the device beside it, by torch's names.

    Args:
        chart: with series like ``CUDA``, ``CPU`` and ``overhead``.
        device: torch's name of the chart's device.
    """
    kind = device.partition(":")[0]
    if kind == CPU:
        own = (
            replace(item, name=CPU) if item.name.lower() == CPU else item for item in chart.series
        )
        return replace(chart, series=tuple(own))
    if not kind or not (_find_series(chart, kind) and _find_series(chart, CPU)):
        return chart
    names = {kind: device, CPU: CPU}
    series = tuple(
        replace(item, name=names.get(item.name.lower(), f"{item.name}, {device}"))
        for item in chart.series
    )
    return replace(chart, series=series)


def find_wins(chart: Chart, device: str) -> tuple[Event, ...]:
    """Return the first measured place after the last crossing with the CPU, and who is faster.

    Args:
        chart: with series named by torch's names of devices.
        device: torch's name of the chart's device.

    Returns:
        An event at that place; none if the lines do not cross.
    """
    crossings = _find_crossings(chart, device)
    if not crossings:
        return ()
    place, ahead = crossings[-1]
    winner = device if ahead else CPU
    style = TextStyle.GOOD if len(crossings) == 1 else TextStyle.NOTE
    return (Event(f"{winner} wins from {chart.axis} {place_text(place)}", place, style),)


def change_order_often(chart: Chart, device: str) -> bool:
    """Return whether the lines of the device and the CPU cross more than once, as noise does."""
    return len(_find_crossings(chart, device)) > 1


def _find_crossings(chart: Chart, device: str) -> list[tuple[float, bool]]:
    """Return the first place after each crossing, and whether the device is faster there."""
    ours, cpu = _find_series(chart, device), _find_series(chart, CPU)
    if device == CPU or chart.labels or not ours or not cpu or {ours.unit, cpu.unit} != {"s"}:
        return []
    leads = [
        (place, own < theirs)
        for place, own, theirs in zip(chart.places, ours.values, cpu.values, strict=True)
        if own and theirs and own != theirs
    ]
    return [after for before, after in pairwise(leads) if before[1] != after[1]]


def _find_series(chart: Chart, name: str) -> Series | None:
    return next((series for series in chart.series if series.name.lower() == name), None)
