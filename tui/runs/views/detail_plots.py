"""What the detail pane plots of several workloads: a group's bars, a device's roofline. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.text import numbers as text
from tui.core.text.numbers import number
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    cell_len,
    fit_line,
    left,
    line,
    paragraph,
    right,
)
from tui.kit.plot import (
    HEIGHT,
    LEAST_CELLS,
    Axis,
    Curve,
    Level,
    Plot,
    mark_of,
    plot_lines,
    style_of,
)
from tui.kit.scale import Scale, above, below
from tui.kit.tables import table_lines
from tui.runs.state.parameters import short
from tui.runs.state.result_words import median
from tui.runs.state.runs import RunState, median_of, result_of
from tui.runs.state.state import RunsState
from tui.runs.sweeps.roofline import Roof, Roofline, RooflinePoint, roofline
from tui.runs.sweeps.sweep_result import base_device, speed_up
from tui.runs.views.chart import bar, beside
from tui.runs.views.workload_table import devices, figures_of
from workloads.protocol.results import DataColumn, Table

TIME_CELLS = 8


# ---- the bars of a group -------------------------------------------------------------------------


def group_lines(state: RunsState, group: str, names: Sequence[str], cells: int) -> list[Line]:
    """Bars of the time of a call for each workload of a group that has been timed.

    Each workload has a scale of its own: its slowest device's bar is full.

    Args:
        state: of the runs.
        group: its name.
        names: its workloads.
        cells: width of a line.
    """
    where = devices(state)
    rows = paragraph(f"{group}: time of a call on {' and '.join(where)}", cells, TextStyle.STRONG)
    known = [(name, figures_of(state, name, where)) for name in names]
    timed = [(name, runs) for name, runs in known if any(map(median_of, runs.values()))]
    waiting = len(names) - len(timed)
    if timed:
        words = "the slowest device of each workload has the full bar"
        rows += paragraph(words, cells, TextStyle.QUIET)
        label_cells = max(map(cell_len, where))

        def draw(number: int, room: int) -> list[Line]:
            return _bars(*timed[number], room, label_cells)

        rows += beside(draw, len(timed), cells)
    if waiting:
        words = f"{text.count(waiting, 'workload')} without a time: r runs the group"
        rows += paragraph(words, cells, TextStyle.QUIET)
    return rows


def _bars(name: str, runs: dict[str, RunState | None], cells: int, label_cells: int) -> list[Line]:
    """Return the workload with its speed-up, and below it a bar for each device that has a time."""
    times = {device: time for device, run in runs.items() if (time := median_of(run))}
    full = max(times.values())
    base = base_device(list(times))
    room = max(1, cells - 2 - label_cells - 1 - 1 - TIME_CELLS)
    others = [device for device in times if device != base]
    ratios = [speed_up(runs[device], runs[base]) for device in others]
    said = "  ".join(text.ratio(ratio) for ratio in ratios if ratio is not None)
    head = line(Span(name, TextStyle.KEY), Span(f"  {said}" if said else "", TextStyle.STRONG))
    rows = [fit_line(head, cells)]
    for place, (device, time) in enumerate(times.items()):
        result = result_of(runs[device])
        assert result is not None
        assert result.time is not None
        drawn = Span(left(bar(time / full, room), room), style_of(place))
        words = right(median(result.time), TIME_CELLS)
        rows.append(fit_line(line(f"  {left(device, label_cells)} ", drawn, f" {words}"), cells))
    return rows


# ---- the roofline of a device --------------------------------------------------------------------


def roofline_device(state: RunsState) -> str:
    """Return the device of the shown roofline: the selected one, else the GPU column's."""
    gpu = state.machine.gpu_column
    return state.machine.selected_device.torch or (gpu.torch if gpu else None) or "cpu"


def roofline_lines(
    state: RunsState, device: str, selected: str | None, cells: int, height: int = HEIGHT
) -> list[Line]:
    """Return the plot, the limits with where they are from, and every point in figures.

    Args:
        state: of the runs.
        device: torch's name of it.
        selected: the workload whose points are told apart.
        cells: width of a line.
        height: rows of the plot.
    """
    found = roofline(state, device)
    rows: list[Line] = []
    if not found.points or cells < LEAST_CELLS:
        rows += paragraph(_roofline_title(found), cells, TextStyle.STRONG)
    if not found.points:
        words = (
            f"no run on {device} has told both its operations and its bytes yet: matmul and "
            "matmul_shapes do, also swept"
        )
        rows += paragraph(words, cells, TextStyle.QUIET)
    elif cells >= LEAST_CELLS:
        rows += plot_lines(_roofline_plot(found, selected), cells, height)
    rows += [(), *_limit_lines(found, cells)]
    if found.points:
        rows += [(), *table_lines(_point_table(found, selected), {}, cells)]
    return rows


def _roofline_plot(found: Roofline, selected: str | None) -> Plot:
    places = [point.flop_per_byte for point in found.points]
    values = [point.flop_per_s for point in found.points]
    memory = found.memory
    ridges = [roof.value / memory.value for roof in found.compute] if memory else []
    across = Scale(below(min(places + ridges) / 4), above(max(places + ridges) * 2), True)
    top = max([roof.value for roof in found.compute] + values)
    upright = Scale(below(min(values) / 2), above(top * 1.01), True)
    names = dict.fromkeys(point.workload for point in found.points)
    # The selected one first: it has the first mark, and stands first in the legend.
    order = sorted(names, key=lambda name: name != selected)
    curves = [_curve_of(name, number, found) for number, name in enumerate(order)]
    levels = [
        Level(roof.words, roof.value, roof.value / memory.value if memory else None)
        for roof in found.compute
    ]
    if memory is not None:
        end = max([*ridges, across.low])
        start = max(across.low, upright.low / memory.value)
        slope = ((start, memory.value * start), (end, memory.value * end))
        curves.append(Curve(memory.words, slope if start < end else (), style=TextStyle.NOTE))
    return Plot(
        Axis("", "FLOP/B", across),
        Axis("", "FLOP/s", upright),
        tuple(curves),
        tuple(levels),
        title=_roofline_title(found),
    )


def _roofline_title(found: Roofline) -> str:
    return f"Roofline of {found.device}"


def _curve_of(name: str, number: int, found: Roofline) -> Curve:
    points = sorted(
        (point.flop_per_byte, point.flop_per_s) for point in found.points if point.workload == name
    )
    return Curve(name, tuple(points), mark_of(number), style_of(number), joined=False)


def _named(roof: Roof, unit: str) -> str:
    return f"{roof.words} {text.rate(roof.value, unit)}"


def _limit_lines(found: Roofline, cells: int) -> list[Line]:
    """Return the slope and the flat parts in figures, or why they are not drawn."""
    rows: list[Line] = []
    if found.memory is None:
        words = (
            f"memory bandwidth {text.NA}: neither published nor measured of {found.device}; "
            "the workload ceiling measures it"
        )
        rows += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    else:
        rows += paragraph(f"slope: {_named(found.memory, 'B/s')}", cells, indent="  ")
    if not found.compute:
        words = f"compute limit {text.NA}: neither published nor measured of {found.device}"
        return [*rows, *paragraph(words, cells, TextStyle.QUIET, indent="  ")]
    for roof in found.compute:
        words = f"flat: {_named(roof, 'FLOP/s')}"
        if found.memory is not None:
            words += f", from {number(float(f'{roof.value / found.memory.value:.3g}'))} FLOP/B on"
        rows += paragraph(words, cells, indent="  ")
    return rows


def _point_table(found: Roofline, selected: str | None) -> Table:
    columns = (
        DataColumn("workload"),
        DataColumn("settings"),
        DataColumn("FLOP/B"),
        DataColumn("rate", "FLOP/s"),
        DataColumn("share of roof", "%"),
    )
    order = sorted(found.points, key=lambda one: (one.workload != selected, one.flop_per_byte))
    return Table("roofline", "points", columns, tuple(_point_row(found, point) for point in order))


def _point_row(found: Roofline, point: RooflinePoint) -> tuple[str | float | None, ...]:
    roof = found.roof(point)
    share = 100 * point.flop_per_s / roof if roof else None
    intensity = float(f"{point.flop_per_byte:.3g}")
    return (point.workload, short(point.parameters), intensity, point.flop_per_s, share)
