"""The workloads of a group side by side: the time of each on each device, as bars. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.state.runs import RunState
from tui.state.store import Store
from tui.state.sweep_curves import base_device, median_of, result_of, speed_up
from tui.text import numbers as text
from tui.ui.views.chart import bar, beside
from tui.ui.views.lines import (
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
from tui.ui.views.plot import style_of
from tui.ui.views.workload_state import median
from tui.ui.views.workload_table import devices, figures_of

TIME_CELLS = 8


def group_lines(store: Store, group: str, names: Sequence[str], cells: int) -> list[Line]:
    """Bars of the time of a call for each workload of a group that has been timed.

    Each workload has a scale of its own: its slowest device's bar is full.

    Args:
        store: what is known.
        group: its name.
        names: its workloads.
        cells: width of a line.
    """
    where = devices(store)
    rows = paragraph(f"{group}: time of a call on {' and '.join(where)}", cells, TextStyle.STRONG)
    known = [(name, figures_of(store, name, where)) for name in names]
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
    """The workload with its speed-up, and below it a bar for each device that has a time."""
    times = {device: time for device, run in runs.items() if (time := median_of(run))}
    full = max(times.values())
    base = base_device(list(times))
    room = max(1, cells - 2 - label_cells - 1 - 1 - TIME_CELLS)
    others = [device for device in times if device != base]
    ratios = [speed_up(runs[device], runs[base]) for device in others]
    said = "  ".join(text.ratio(ratio) for ratio in ratios if ratio is not None)
    head = line(Span(name, TextStyle.KEY), Span(f"  {said}" if said else "", TextStyle.STRONG))
    rows = [fit_line(head, cells)]
    for number, (device, time) in enumerate(times.items()):
        result = result_of(runs[device])
        assert result is not None
        assert result.time is not None
        drawn = Span(left(bar(time / full, room), room), style_of(number))
        words = right(median(result.time), TIME_CELLS)
        rows.append(fit_line(line(f"  {left(device, label_cells)} ", drawn, f" {words}"), cells))
    return rows
