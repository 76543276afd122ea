"""The table of workloads in another order than the catalogue's: by what was measured. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from tui.state.store import Store
from tui.ui.views.workload_table import Entry, Row, devices, figures_of
from workloads.protocol.results import RunResult

Order = Literal["catalogue", "time", "speed-up", "of limit", "peak memory", "name"]
ORDERS: tuple[Order, ...] = ("catalogue", "time", "speed-up", "of limit", "peak memory", "name")
"""In the order in which a key goes through them."""


def following(order: Order) -> Order:
    """The next one, round the end."""
    return ORDERS[(ORDERS.index(order) + 1) % len(ORDERS)]


def ordered(store: Store, found: Sequence[Entry], order: Order) -> list[Entry]:
    """The entries in an order.

    Args:
        store: what was measured.
        found: groups with their workloads, as the catalogue has them.
        order: ``catalogue`` leaves all as it is. In any other the headings of the groups are left
            out; the largest value comes first, and what has no value last, as it was.
    """
    if order == "catalogue":
        return list(found)
    rows = [entry for entry in found if isinstance(entry, Row)]
    if order == "name":
        return [*sorted(rows, key=lambda row: row.workload)]
    names = devices(store)
    values = {row.workload: _VALUES[order](_results(store, row.workload, names)) for row in rows}
    known = [row for row in rows if values[row.workload] is not None]
    known.sort(key=lambda row: values[row.workload] or 0.0, reverse=True)
    return [*known, *(row for row in rows if values[row.workload] is None)]


Results = tuple[RunResult | None, ...]
"""Of the timing columns: the CPU's, and the GPU's where there is one."""


def _results(store: Store, workload: str, names: tuple[str, ...]) -> Results:
    runs = figures_of(store, workload, names)
    return tuple(run.result if run is not None else None for run in runs.values())


def _median(result: RunResult | None) -> float | None:
    return result.time.median_s if result is not None and result.time is not None else None


def _time(results: Results) -> float | None:
    """Of the GPU where it has one, else of the CPU, seconds."""
    return next((time for time in map(_median, reversed(results)) if time is not None), None)


def _speed_up(results: Results) -> float | None:
    if len(results) < 2:
        return None
    cpu, gpu = _median(results[0]), _median(results[1])
    return cpu / gpu if cpu is not None and gpu else None


def _of_limit(results: Results) -> float | None:
    main = results[-1]
    return main.limit.fraction if main is not None and main.limit is not None else None


def _peak(results: Results) -> float | None:
    main = results[-1]
    if main is None:
        return None
    memory = main.memory
    peak = memory.allocated_peak if memory.allocated_peak is not None else memory.process_peak
    return None if peak is None else float(peak)


_VALUES: dict[str, Callable[[Results], float | None]] = {
    "time": _time,
    "speed-up": _speed_up,
    "of limit": _of_limit,
    "peak memory": _peak,
}
