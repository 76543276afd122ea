"""A workload's findings beyond its main time: variants, steps, figures, curves, log. No torch.

The workload builds a study step by step (``Case.study``). Its findings can be shown while it runs,
and survive a cancel.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Union

from workloads.declare.tools import Call, ClockName, MemoryInUse, Tools
from workloads.measure import estimates
from workloads.measure.cpu_share import Others
from workloads.protocol.results import (
    Ceiling,
    Cell,
    Chart,
    DataColumn,
    Figure,
    Limit,
    MeasuredSpan,
    Series,
    Table,
)

NamedColumn = Union[str, tuple[str, str]]
"""A table's column: its name, or its name and the unit of its numbers."""
MEMORY_COLUMNS = tuple((name, "byte") for name in ("allocated", "reserved", "used", "nvml"))
"""The columns of :attr:`~workloads.declare.tools.MemoryInUse.values`."""
NOT_FINITE = "what it was computed from gave no finite number"


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several ways to compute the same thing."""

    name: str
    median_s: float
    ratio: float
    """Time of the first variant over this one's: above 1, this one is faster."""
    ci95: tuple[float, float] | None
    verdict: str
    """The verdict against the first: ``faster``, ``slower``, ``same`` or ``unclear``."""

    @property
    def doubt(self) -> str:
        """Return why the ratio is no finding; empty if it is one."""
        return "no clear difference" if self.verdict == "unclear" else ""

    @property
    def interval(self) -> str:
        """Return the ratio's interval, such as ``1.38 to 1.46``; empty where it is unknown."""
        return "" if self.ci95 is None else " to ".join(map(_three_digits, self.ci95))


@dataclass(frozen=True, slots=True)
class CheckedRate:
    """A rate, beside the main one, that is checked against a limit."""

    name: str
    rate: float
    """FLOP/s or byte/s."""
    kind: str | None = None
    """Kind of the limit, as in ``limit_lookup.LimitQuery``; ``None`` for the run's own kind."""


def _three_digits(ratio: float) -> str:
    # %g would write 1370 as 1.37e+03.
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.3g}"


class Study:
    """Collects a workload's findings.

    Args:
        median_s: the time of ``Case.timed``, seconds per call.
        clock: the clock that measured it.
        tools: the measuring tools.
        on_change: called after each finding.
        first_call_s: seconds of the first call of ``Case.timed``, compilation included.
    """

    def __init__(
        self,
        median_s: float,
        clock: ClockName,
        tools: Tools,
        on_change: Callable[[Study], None],
        first_call_s: float | None = None,
    ) -> None:
        self.median_s = median_s
        self.first_call_s = first_call_s
        self.quick = False
        """A quick look is enough; no precise measurement is needed."""
        self._clock = clock
        self._tools = tools
        self._on_change = on_change
        self._latest = Others()
        """CPU use of other processes during the newest times, which several findings may report."""
        self._latest_in: set[str] = set()
        self.figures: dict[str, Figure] = {}
        self.log: list[str] = []
        self.spans: list[MeasuredSpan] = []
        self.unavailable: dict[str, str] = {}
        self.checked_rates: list[CheckedRate] = []
        self.beside: dict[str, Others] = {}
        """CPU time of other processes during each finding's timings, by finding."""
        self._tables: dict[str, Table] = {}
        self._charts: dict[str, Chart] = {}

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(self._tables.values())

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(self._charts.values())

    # ---- measure ----

    def check_cancelled(self) -> None:
        """Check for a cancel, within a long operation.

        Raises:
            Cancelled: the run must end.
        """
        self._tools.check_cancelled()

    def time(self, call: Call, clock: ClockName | None = None) -> float:
        """Return the median seconds per call of a short timing, by the main clock unless given."""
        self._tools.check_cancelled()
        return self._tools.time(call, clock or self._clock)

    def watched(self) -> AbstractContextManager[None]:
        """Watch other processes while the workload times something without :meth:`time`.

        The next finding reports their CPU use.
        """
        return self._tools.watched()

    def peak(self, call: Call) -> int | None:
        """Return the bytes that one call needs beyond those already held; ``None`` if unknown."""
        self._tools.check_cancelled()
        return self._tools.peak(call)

    def memory_in_use(self) -> MemoryInUse:
        """Return the memory in use now."""
        return self._tools.memory_in_use()

    def ceiling(self, kind: str) -> Ceiling:
        """Measure the device's highest rate of a kind again, for this run and later ones.

        Args:
            kind: a precision as in ``Case.precision``, or ``copy``.

        Raises:
            RuntimeError: torch has no product of this precision here.
        """
        self._tools.check_cancelled()
        return self._tools.ceiling(kind)

    def limit(self, kind: str, rate: float) -> Limit | None:
        """Return the limit for a rate; ``None`` if it would need a measurement first.

        Args:
            kind: kind of the limit: a precision, ``memory``, ``pcie`` or ``nvlink``.
            rate: FLOP/s or byte/s.
        """
        return self._tools.limit(kind, rate)

    def compare(self, calls: Mapping[str, Call], clock: ClockName | None = None) -> list[Variant]:
        """Time several ways in turns, so that a drift of the machine affects all alike.

        Args:
            calls: functions by name; the first is the reference for the others.
            clock: the clock to use; the main one by default.
        """
        self._tools.check_cancelled()
        names = list(calls)
        rounds = self._tools.rounds(list(calls.values()), clock or self._clock)
        variants = []
        for index, name in enumerate(names):
            median = statistics.median([times[index] for times in rounds])
            if index == 0:
                variants.append(Variant(name, median, 1.0, None, ""))
                continue
            ratio = estimates.paired_ratio([times[0] / times[index] for times in rounds])
            word = estimates.verdict(ratio)
            variants.append(Variant(name, median, ratio.value, ratio.ci95, word))
        return variants

    # ---- findings ----

    def _record_others(self, finding: str, *units: str) -> None:
        """Record with a finding, once, other processes' CPU use during the newest times."""
        others = self._tools.others()
        if others.seconds > 0:
            self._latest, self._latest_in = others, set()
        timed = any(unit in ("s", "x") or unit.endswith("/s") for unit in units)
        if timed and finding not in self._latest_in:
            self._latest_in.add(finding)
            self.beside[finding] = self.beside.get(finding, Others()) + self._latest

    def figure(self, name: str, value: float | str, unit: str = "", about: str = "") -> None:
        """Add a number or a fact; a number that is not finite is recorded as unknown."""
        if isinstance(value, float) and not math.isfinite(value):
            self.absent(name, NOT_FINITE, unit, about)
            return
        self.figures[name] = Figure(value, unit, about)
        self._record_others(f"figure {name}", unit)
        self._changed()

    def factor(self, name: str, value: float, variant: Variant, about: str = "") -> None:
        """Add a factor computed from a variant's ratio; unknown where the ratio is no finding."""
        if variant.doubt:
            self.absent(name, variant.doubt, "x", about)
        else:
            self.figure(name, value, "x", about)

    def absent(self, name: str, reason: str, unit: str = "", about: str = "") -> None:
        """Add a figure that is unknown here, with the reason."""
        self.figures[name] = Figure(None, unit, about)
        self.unavailable[f"figures.{name}"] = reason
        self._changed()

    def check_rate(self, label: str, rate: float, kind: str | None = None) -> None:
        """Compare a rate with a limit: the run warns if the rate exceeds it.

        Args:
            label: the name of the thing with this rate, for the warning.
            rate: FLOP/s or byte/s.
            kind: kind of the limit; the run's own by default.
        """
        self.checked_rates.append(CheckedRate(label, rate, kind))

    def log_line(self, line: str) -> None:
        """Add a line to the log, such as an action or a message of torch."""
        self.log += line.splitlines() or [""]
        self._changed()

    def loaded(self, start: float, devices: Sequence[str]) -> None:
        """Report that devices were under load until now, so that their state then counts too.

        Args:
            start: start of the load, Unix time.
            devices: names such as ``cuda:0``.
        """
        self.spans.append(MeasuredSpan(start, time.time(), tuple(devices)))

    def table(self, name: str, title: str, *columns: NamedColumn) -> None:
        """Begin a table; :meth:`row` adds its rows."""
        self._tables[name] = Table(
            name,
            title,
            tuple(
                DataColumn(column) if isinstance(column, str) else DataColumn(*column)
                for column in columns
            ),
        )
        self._changed()

    def row(self, name: str, *cells: Cell) -> None:
        """Add a row to a table begun earlier.

        Raises:
            ValueError: the table has another number of columns.
        """
        table = self._tables[name]
        if len(cells) != len(table.columns):
            raise ValueError(f"table {name} has {len(table.columns)} columns, not {len(cells)}")
        self._tables[name] = replace(table, rows=(*table.rows, cells))
        self._record_others(f"table {name}", *(column.unit for column in table.columns))
        self._changed()

    def memory_row(self, name: str, memory: MemoryInUse, *cells: Cell) -> None:
        """Add a row that ends with the memory in use, in the columns of :data:`MEMORY_COLUMNS`."""
        self.unavailable |= {
            f"tables.{name}.{word}": reason for word, reason in memory.unavailable.items()
        }
        self.row(name, *cells, *memory.values)

    def variants(
        self,
        name: str,
        title: str,
        calls: Mapping[str, Call],
        *,
        per_call: tuple[float, str] | None = None,
        peaks: bool = False,
        check_rates: bool = False,
        clock: ClockName | None = None,
    ) -> list[Variant]:
        """Compare several ways and put them into a table.

        Args:
            name: the table's name.
            title: the table's title.
            calls: functions by name; the first is the reference for the others.
            per_call: amount of work in one call, and the rate's unit: ``(n, "byte/s")``.
            peaks: also measure each call's peak memory.
            check_rates: compare each rate with the run's own limit.
            clock: the clock to use; the main one by default.
        """
        comparisons = self.compare(calls, clock)
        columns: list[NamedColumn] = ["variant", ("time", "s")]
        columns += [("rate", per_call[1])] if per_call else []
        columns += [("peak memory", "byte")] if peaks else []
        columns += [("speed-up", "x"), "interval", "verdict"]
        self.table(name, title, *columns)
        for variant in comparisons:
            cells: list[Cell] = [variant.name, variant.median_s]
            if per_call:
                rate = per_call[0] / variant.median_s
                cells.append(rate)
                if check_rates:
                    self.check_rate(variant.name, rate)
            cells += [self.peak(calls[variant.name])] if peaks else []
            self.row(name, *cells, variant.ratio, variant.interval, variant.verdict)
        return comparisons

    def chart(
        self, name: str, title: str, axis: str, *series: tuple[str, str], steps: bool = False
    ) -> None:
        """Begin a chart.

        Args:
            name: the chart's name.
            title: the chart's title.
            axis: the quantity on the horizontal axis.
            series: name and unit of each line.
            steps: the places are named steps, not sizes.
        """
        lines = tuple(Series(label, unit, ()) for label, unit in series)
        self._charts[name] = Chart(name, title, "step" if steps else axis, (), lines)
        self._changed()

    def point(self, name: str, place: float | str, *values: float | None) -> None:
        """Add a place, a size or a step's name, to a chart begun earlier.

        Raises:
            ValueError: the chart has another number of series.
        """
        chart = self._charts[name]
        if len(values) != len(chart.series):
            raise ValueError(f"chart {name} has {len(chart.series)} series, not {len(values)}")
        named = isinstance(place, str)
        where = float(len(chart.places) + 1) if isinstance(place, str) else place
        self._record_others(f"chart {name}", *(series.unit for series in chart.series))
        self._charts[name] = replace(
            chart,
            places=(*chart.places, where),
            series=tuple(
                replace(series, values=(*series.values, value))
                for series, value in zip(chart.series, values, strict=True)
            ),
            labels=(*chart.labels, str(place)) if named else chart.labels,
        )
        self._changed()

    def mark(self, name: str, line: str) -> None:
        """Add a sentence on a chart's main feature."""
        chart = self._charts[name]
        self._charts[name] = replace(chart, marks=(*chart.marks, line))
        self._changed()

    def staircase(self, name: str, title: str) -> Callable[[str], MemoryInUse]:
        """Begin a table and a chart of the memory in use after each step.

        Returns:
            A function that takes the step's name, records the memory in use, and returns it.
        """
        self.table(name, title, "step", *MEMORY_COLUMNS)
        self.chart(name, title, "step", *MEMORY_COLUMNS, steps=True)

        def step(label: str) -> MemoryInUse:
            self._tools.check_cancelled()
            memory = self.memory_in_use()
            self.memory_row(name, memory, label)
            self.point(name, label, *memory.values)
            return memory

        return step

    def _changed(self) -> None:
        self._on_change(self)
        self._tools.check_cancelled()
