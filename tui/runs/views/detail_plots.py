"""Plots of several workloads in the detail pane: a group's bars, a device's roofline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from tui.core.text import numbers as text
from tui.core.text.numbers import number
from tui.devices.state.devices import CPU
from tui.kit.bars import draw_bar
from tui.kit.lines import Line, Span, TextStyle, cell_len, fit_line, left, line, paragraph, right
from tui.kit.plot import (
    HEIGHT,
    LEAST_CELLS,
    LEAST_HEIGHT,
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
from tui.runs.state.parameters import format_short
from tui.runs.state.result_format import format_median, format_speed_up
from tui.runs.state.runs import RunState, get_median, get_timed_result
from tui.runs.state.state import CEILINGS, RunsState
from tui.runs.sweeps.roofline import Roof, Roofline, RooflinePoint, build_roofline
from tui.runs.sweeps.sweep_result import choose_base_device, compute_speed_up
from tui.runs.views.chart import draw_beside
from tui.runs.views.detail import detail_lines, format_for_clipboard
from tui.runs.views.device_colors import style_of_device
from tui.runs.views.workload_table import find_shown_runs, list_devices
from workloads.protocol.results import DataColumn, Table

TIME_CELLS = 8
ROOF_ROW = 1.3
"""Rows from the upper edge of a roofline down to its highest roof, whose name stands above it."""


# ---- the bars of a group -------------------------------------------------------------------------


def group_lines(state: RunsState, group: str, names: Sequence[str], cells: int) -> list[Line]:
    """Draw bars of the time per call for each timed workload of a group.

    Each workload has its own scale: the bar of its slowest device is full.

    Args:
        state: the state of the runs.
        group: name of the group.
        names: names of its workloads.
        cells: width of a line.
    """
    where = list_devices(state)
    rows = paragraph(f"{group}: time of a call on {' and '.join(where)}", cells, TextStyle.STRONG)
    known = [(name, find_shown_runs(state, name, where)) for name in names]
    timed = [(name, runs) for name, runs in known if any(map(get_median, runs.values()))]
    measured = {name for name, _ in timed}
    failed = [
        name for name, runs in known if name not in measured and any(map(_failed, runs.values()))
    ]
    waiting = [name for name in names if name not in measured and name not in failed]
    if timed:
        words = "bars are relative to the slowest device of each workload"
        rows += paragraph(words, cells, TextStyle.QUIET)
        label_cells = max(map(cell_len, where))

        def draw(number: int, room: int) -> list[Line]:
            return _draw_bars(*timed[number], room, label_cells)

        rows += draw_beside(draw, len(timed), cells)
    if failed:
        rows += paragraph(f"{len(failed)} failed: {', '.join(failed)}", cells, TextStyle.BAD)
    if waiting:
        words = f"{len(waiting)} not run: {', '.join(waiting)}; r runs the group"
        rows += paragraph(words, cells, TextStyle.QUIET)
    return rows


def _failed(run: RunState | None) -> bool:
    return run is not None and run.result is not None and run.result.status == "failed"


def _draw_bars(
    name: str, runs: dict[str, RunState | None], cells: int, label_cells: int
) -> list[Line]:
    """Return the workload with its speed-up, and below it a bar for each timed device."""
    times = {device: time for device, run in runs.items() if (time := get_median(run))}
    full = max(times.values())
    base = choose_base_device(list(times))
    room = max(1, cells - 2 - label_cells - 1 - 1 - TIME_CELLS)
    others = [device for device in times if device != base]
    results = {device: get_timed_result(run) for device, run in runs.items()}
    formatted = "  ".join(
        format_speed_up(base_result.time, result.time)
        for device in others
        if compute_speed_up(runs[device], runs[base]) is not None
        and (result := results[device])
        and result.time
        and (base_result := results[base])
        and base_result.time
    )
    head = line(
        Span(name, TextStyle.KEY), Span(f"  {formatted}" if formatted else "", TextStyle.STRONG)
    )
    rows = [fit_line(head, cells)]
    for device, time in times.items():
        result = get_timed_result(runs[device])
        assert result is not None
        assert result.time is not None
        drawn = Span(left(draw_bar(time / full, room), room), style_of_device(device))
        words = Span(f" {right(format_median(result.time), TIME_CELLS)}")
        if _failed(runs[device]):
            words = Span(f"{words.text} failed", TextStyle.BAD)
        rows.append(fit_line(line(f"  {left(device, label_cells)} ", drawn, words), cells))
    return rows


# ---- the roofline of a device --------------------------------------------------------------------


def choose_roofline_device(state: RunsState) -> str:
    """Return the device of the shown roofline: the selected device, else the GPU column's."""
    gpu = state.machine.gpu_column
    return state.machine.selected_device.torch or (gpu.torch if gpu else None) or "cpu"


def can_measure_roof(state: RunsState, device: str) -> bool:
    """Return whether a run would show a device's memory bandwidth, which is unknown so far."""
    if state.find_workload(CEILINGS) is None:
        return False
    run = state.latest_run(CEILINGS, device)
    return (run is None or run.ended) and build_roofline(state, device).memory is None


def roofline_lines(
    state: RunsState,
    device: str,
    selected: str | None,
    cells: int,
    height: int = HEIGHT,
    rows_shown: int = 0,
    *,
    offered: bool = False,
) -> list[Line]:
    """Return the plot, the limits with their sources, and the figures of every point.

    Args:
        state: the state of the runs.
        device: torch's name of the device.
        selected: the workload whose points are highlighted.
        cells: width of a line.
        height: rows of the plot.
        rows_shown: rows of the pane, into which the plot shrinks with its limits; 0 for no limit.
        offered: True if enter runs the workload that measures the limits.
    """
    roofline = build_roofline(state, device)
    rows: list[Line] = []
    limits: list[Line] = [(), *_limit_lines(roofline, cells, offered=offered)]
    # Without a point, the roof alone says where memory stops being the limit.
    drawable = bool(roofline.points or (roofline.memory and roofline.compute))
    if not drawable or cells < LEAST_CELLS:
        rows += paragraph(_format_roofline_title(roofline), cells, TextStyle.STRONG)
    if not roofline.points:
        words = (
            f"no valid run on {device} has operations and bytes yet: matmul and matmul_shapes "
            "report both, also swept"
        )
        rows += paragraph(words, cells, TextStyle.QUIET)
    if drawable and cells >= LEAST_CELLS:
        drawn = plot_lines(_build_roofline_plot(roofline, selected, height), cells, height)
        over = len(rows) + len(drawn) + len(limits) - rows_shown if rows_shown else 0
        if over > 0 and height > LEAST_HEIGHT:
            height = max(LEAST_HEIGHT, height - over)
            drawn = plot_lines(_build_roofline_plot(roofline, selected, height), cells, height)
        rows += drawn
    rows += limits
    if roofline.points:
        rows += [(), *table_lines(_build_point_table(roofline, selected), {}, cells)]
    return rows


EMPTY_ROOF = 1000
"""Times the lowest rate of a roofline without points that the highest roof is."""
EMPTY_SLOPE = 64
"""Times its lowest intensity that the ridge is at."""


def _build_roofline_plot(roofline: Roofline, selected: str | None, height: int) -> Plot:
    places = [point.flop_per_byte for point in roofline.points]
    values = [point.flop_per_s for point in roofline.points]
    memory = roofline.memory
    ridges = [roof.value / memory.value for roof in roofline.compute] if memory else []
    before = 4 if places else EMPTY_SLOPE
    across = Scale(below(min(places + ridges) / before), above(max(places + ridges) * 2), True)
    top = max([roof.value for roof in roofline.compute] + values)
    low = below(min(values, default=top / EMPTY_ROOF) / 2)
    # The highest roof lies at the bottom of its row, so that points just below it do not.
    upright = Scale(low, top * (top / low) ** (ROOF_ROW / (height - ROOF_ROW)), True)
    names = dict.fromkeys(point.workload for point in roofline.points)
    # The selected workload first: it gets the first mark, and leads the legend.
    order = sorted(names, key=lambda name: name != selected)
    curves = [_make_curve(name, number, roofline) for number, name in enumerate(order)]
    levels = [
        Level(roof.label, roof.value, roof.value / memory.value if memory else None)
        for roof in roofline.compute
    ]
    if memory is not None:
        end = max([*ridges, across.low])
        start = max(across.low, upright.low / memory.value)
        slope = ((start, memory.value * start), (end, memory.value * end))
        label = _format_roof(memory, "B/s")
        curves.append(Curve(label, slope if start < end else (), style=TextStyle.NOTE))
    return Plot(
        Axis("", "FLOP/B", across),
        Axis("", "FLOP/s", upright, last_tick=top),
        tuple(curves),
        tuple(levels),
        title=_format_roofline_title(roofline),
    )


def _format_roofline_title(roofline: Roofline) -> str:
    return f"Roofline of {roofline.device}"


def _make_curve(name: str, number: int, roofline: Roofline) -> Curve:
    own = [point for point in roofline.points if point.workload == name]
    points = sorted((point.flop_per_byte, point.flop_per_s) for point in own)
    shares = [point.flop_per_s / roof for point in own if (roof := roofline.roof(point))]
    most = "up to " if len(shares) > 1 else ""
    of = " of the roof" if number == 0 else ""
    label = f"{name} {most}{text.percent(100 * max(shares))}{of}" if shares else name
    return Curve(label, tuple(points), mark_of(number), style_of(number), joined=False)


def _format_roof(roof: Roof, unit: str) -> str:
    return f"{roof.label} {text.rate(roof.value, unit)}"


def _limit_lines(roofline: Roofline, cells: int, *, offered: bool) -> list[Line]:
    """Return the figures of the flat parts, or the reason why a limit is absent.

    Args:
        roofline: the limits.
        cells: width of a line.
        offered: True if a key runs the workload that measures the limits.
    """
    rows: list[Line] = []
    unknown = "not measured yet" if roofline.device == CPU else "not published or measured yet"
    if roofline.memory is None:
        words = f"memory bandwidth {text.NA}: {unknown}"
        words += f"; enter runs {CEILINGS}, which measures it" if offered else ""
        words += ". Percentages are of the compute limit" if roofline.compute else ""
        rows += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    if not roofline.compute:
        words = f"compute limit {text.NA}: {unknown}"
        return [*rows, *paragraph(words, cells, TextStyle.QUIET, indent="  ")]
    for roof in roofline.compute:
        words = f"flat: {_format_roof(roof, 'FLOP/s')}"
        if roofline.memory is not None:
            words += (
                f", from {number(float(f'{roof.value / roofline.memory.value:.3g}'))} FLOP/B on"
            )
        rows += paragraph(words, cells, indent="  ")
    return rows


def _build_point_table(roofline: Roofline, selected: str | None) -> Table:
    columns = (
        DataColumn("workload"),
        DataColumn("settings"),
        DataColumn("FLOP/B"),
        DataColumn("rate", "FLOP/s"),
        DataColumn("share of roof", "%"),
    )
    order = sorted(
        roofline.points, key=lambda point: (point.workload != selected, point.flop_per_byte)
    )
    return Table(
        "roofline", "points", columns, tuple(_build_point_row(roofline, point) for point in order)
    )


def _build_point_row(roofline: Roofline, point: RooflinePoint) -> tuple[str | float | None, ...]:
    roof = roofline.roof(point)
    share = 100 * point.flop_per_s / roof if roof else None
    intensity = float(f"{point.flop_per_byte:.3g}")
    return (point.workload, format_short(point.parameters), intensity, point.flop_per_s, share)


# ---- all views of the pane -----------------------------------------------------------------------


class RooflineView(Protocol):
    """:func:`roofline_lines`."""

    def __call__(
        self,
        state: RunsState,
        device: str,
        selected: str | None,
        cells: int,
        height: int,
        rows_shown: int,
        *,
        offered: bool,
    ) -> list[Line]:
        """Return the lines of the roofline."""


class DetailViews(NamedTuple):
    """The views of the detail pane that a start does not show, which the pane imports together."""

    detail: Callable[[RunsState, str | None, int, int, int], list[Line]]
    group: Callable[[RunsState, str, Sequence[str], int], list[Line]]
    roofline: RooflineView
    choose_roofline_device: Callable[[RunsState], str]
    can_measure_roof: Callable[[RunsState, str], bool]
    format_for_clipboard: Callable[[RunsState, str | None], str]


DETAIL_VIEWS = DetailViews(
    detail_lines,
    group_lines,
    roofline_lines,
    choose_roofline_device,
    can_measure_roof,
    format_for_clipboard,
)
