"""What a workload looks at beside the one time: variants, steps, figures, curves, words. No torch.

A study is written step by step by the workload (``Case.study``); what it has found can be shown
while it goes on, and is kept where it is cancelled.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from workloads.declare.tools import Call, ClockName, HeldMemory, Tools
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

NOT_FINITE = "what it was computed from gave no finite number"


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several ways to do a thing."""

    name: str
    median_s: float
    ratio: float
    """Time of the first variant over this one's: above 1, this one is faster."""
    ci95: tuple[float, float] | None
    verdict: str
    """Against the first: ``faster``, ``slower``, ``same`` or ``unclear``."""

    @property
    def interval(self) -> str:
        """``1.38 to 1.46``, of the ratio; empty where it is not known."""
        return "" if self.ci95 is None else " to ".join(map(_three_digits, self.ci95))


@dataclass(frozen=True, slots=True)
class HeldRate:
    """A rate beside the main one that cannot lie above a limit, if it is right."""

    what: str
    rate: float
    """FLOP/s or byte/s."""
    kind: str | None = None
    """Of the limit, as ``limit_lookup.LimitQuery`` has it; ``None``: that of the run itself."""


def _three_digits(ratio: float) -> str:
    # %g would write 1370 as 1.37e+03.
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.3g}"


class Study:
    """Collects what a workload finds out.

    Args:
        median_s: the time of ``Case.timed``, seconds per call.
        clock: the one that it was taken by.
        tools: to measure with.
        tell: called after each finding.
        first_call_s: seconds of the first call of ``Case.timed``, what it compiles among them.
    """

    def __init__(
        self,
        median_s: float,
        clock: ClockName,
        tools: Tools,
        tell: Callable[[Study], None],
        first_call_s: float | None = None,
    ) -> None:
        self.median_s = median_s
        self.first_call_s = first_call_s
        self.quick = False
        """A look is wanted rather than a measurement."""
        self._clock = clock
        self._tools = tools
        self._tell = tell
        self._latest = Others()
        """While the newest times were taken; they may be told in more than one place."""
        self._latest_in: set[str] = set()
        self.figures: dict[str, Figure] = {}
        self.log: list[str] = []
        self.spans: list[MeasuredSpan] = []
        self.unavailable: dict[str, str] = {}
        self.held_rates: list[HeldRate] = []
        self.beside: dict[str, Others] = {}
        """CPU time of other processes while the times of a finding were taken, by the finding."""
        self._tables: dict[str, Table] = {}
        self._charts: dict[str, Chart] = {}

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(self._tables.values())

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(self._charts.values())

    # ---- measure ----

    def look(self) -> None:
        """Look for a cancel, in the middle of something long.

        Raises:
            Cancelled: the run is to end.
        """
        self._tools.look()

    def time(self, call: Call, clock: ClockName | None = None) -> float:
        """Return the median seconds per call of a short timing, by the main clock if not told."""
        self._tools.look()
        return self._tools.time(call, clock or self._clock)

    def watched(self) -> AbstractContextManager[None]:
        """Watch other processes while something is timed by other means than :meth:`time`.

        What is found next is held to have been timed under it.
        """
        return self._tools.watched()

    def peak(self, call: Call) -> int | None:
        """Bytes that one call needs on top of what is held before; ``None`` if not known."""
        self._tools.look()
        return self._tools.peak(call)

    def held(self) -> HeldMemory:
        """Return the memory that is held now."""
        return self._tools.held()

    def ceiling(self, kind: str) -> Ceiling:
        """Measure the device's highest rate of a kind anew, for this run and those to come.

        Args:
            kind: a precision, as ``Case.precision``, or ``copy``.

        Raises:
            RuntimeError: torch has no product of such numbers here.
        """
        self._tools.look()
        return self._tools.ceiling(kind)

    def limit(self, kind: str, rate: float) -> Limit | None:
        """Return the limit for a rate; ``None`` where it would have to be measured first.

        Args:
            kind: of the limit: a precision, ``memory``, ``pcie`` or ``nvlink``.
            rate: FLOP/s or byte/s.
        """
        return self._tools.limit(kind, rate)

    def compare(self, calls: Mapping[str, Call], clock: ClockName | None = None) -> list[Variant]:
        """Time several ways in turns, so that a drift of the machine falls on all alike.

        Args:
            calls: by name; the first is what the others are held against.
            clock: by which; the main one if not told.
        """
        self._tools.look()
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

    # ---- tell ----

    def _record_others(self, finding: str, *units: str) -> None:
        """Hold against a finding what was beside the newest times, once for each."""
        others = self._tools.others()
        if others.seconds > 0:
            self._latest, self._latest_in = others, set()
        timed = any(unit in ("s", "x") or unit.endswith("/s") for unit in units)
        if timed and finding not in self._latest_in:
            self._latest_in.add(finding)
            self.beside[finding] = self.beside.get(finding, Others()) + self._latest

    def figure(self, name: str, value: float | str, unit: str = "", about: str = "") -> None:
        """Add a further number or fact; a number that is not finite is recorded as not known."""
        if isinstance(value, float) and not math.isfinite(value):
            self.absent(name, NOT_FINITE, unit, about)
            return
        self.figures[name] = Figure(value, unit, about)
        self._record_others(f"figure {name}", unit)
        self._changed()

    def absent(self, name: str, reason: str, unit: str = "", about: str = "") -> None:
        """Add a figure that is not known here, and why."""
        self.figures[name] = Figure(None, unit, about)
        self.unavailable[f"figures.{name}"] = reason
        self._changed()

    def hold(self, what: str, rate: float, kind: str | None = None) -> None:
        """Have a rate held against a limit: the run warns where it lies above.

        Args:
            what: has this rate, for the warning.
            rate: FLOP/s or byte/s.
            kind: of the limit; that of the run itself if not told.
        """
        self.held_rates.append(HeldRate(what, rate, kind))

    def say(self, line: str) -> None:
        """Add a line to the log: what was done, or what torch said."""
        self.log += line.splitlines() or [""]
        self._changed()

    def loaded(self, start: float, devices: Sequence[str]) -> None:
        """Say that devices were under load until this moment: how they fared then counts too.

        Args:
            start: of the load, Unix time.
            devices: as in ``cuda:0``.
        """
        self.spans.append(MeasuredSpan(start, time.time(), tuple(devices)))

    def table(self, name: str, title: str, *columns: DataColumn) -> None:
        """Begin a table, whose rows :meth:`row` adds."""
        self._tables[name] = Table(name, title, columns)
        self._changed()

    def row(self, name: str, *cells: Cell) -> None:
        """Add a row to a table that was begun.

        Raises:
            ValueError: the table has another number of columns.
        """
        table = self._tables[name]
        if len(cells) != len(table.columns):
            raise ValueError(f"table {name} has {len(table.columns)} columns, not {len(cells)}")
        self._tables[name] = replace(table, rows=(*table.rows, cells))
        self._record_others(f"table {name}", *(column.unit for column in table.columns))
        self._changed()

    def variants(
        self,
        name: str,
        title: str,
        calls: Mapping[str, Call],
        *,
        per_call: tuple[float, str] | None = None,
        peaks: bool = False,
        held: bool = False,
        clock: ClockName | None = None,
    ) -> list[Variant]:
        """Compare several ways and put them into a table.

        Args:
            name: of the table.
            title: of the table.
            calls: by name; the first is what the others are held against.
            per_call: what one call works through, and the rate's unit: ``(n, "byte/s")``.
            peaks: also the memory that one call of each needs at its highest.
            held: the rates are of the run's own kind, and held against its limit.
            clock: by which; the main one if not told.
        """
        found = self.compare(calls, clock)
        columns = [DataColumn("variant"), DataColumn("time", "s")]
        columns += [DataColumn("rate", per_call[1])] if per_call else []
        columns += [DataColumn("peak memory", "byte")] if peaks else []
        columns += [DataColumn("speed-up", "x"), DataColumn("interval"), DataColumn("verdict")]
        self.table(name, title, *columns)
        for variant in found:
            cells: list[Cell] = [variant.name, variant.median_s]
            if per_call:
                rate = per_call[0] / variant.median_s
                cells.append(rate)
                if held:
                    self.hold(variant.name, rate)
            cells += [self.peak(calls[variant.name])] if peaks else []
            self.row(name, *cells, variant.ratio, variant.interval, variant.verdict)
        return found

    def chart(
        self, name: str, title: str, axis: str, *series: tuple[str, str], steps: bool = False
    ) -> None:
        """Begin a chart.

        Args:
            name: of the chart.
            title: of the chart.
            axis: what runs from left to right.
            series: name and unit of each line.
            steps: the places are steps with a name, not sizes.
        """
        lines = tuple(Series(label, unit, ()) for label, unit in series)
        self._charts[name] = Chart(name, title, "step" if steps else axis, (), lines)
        self._changed()

    def point(self, name: str, place: float | str, *values: float | None) -> None:
        """Add a place to a chart that was begun: a size, or the name of a step.

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
        """Say what there is to see in a chart."""
        chart = self._charts[name]
        self._charts[name] = replace(chart, marks=(*chart.marks, line))
        self._changed()

    def staircase(self, name: str, title: str) -> Callable[[str], HeldMemory]:
        """Begin a table and a chart of the memory held after each step.

        Returns:
            A function that takes the step's name, notes what is held now, and returns it.
        """
        words = ("allocated", "reserved", "used", "nvml")
        self.table(name, title, DataColumn("step"), *(DataColumn(word, "byte") for word in words))
        self.chart(name, title, "step", *((word, "byte") for word in words), steps=True)

        def step(label: str) -> HeldMemory:
            self._tools.look()
            held = self.held()
            values = (held.allocated, held.reserved, held.used, held.nvml)
            self.unavailable |= {
                f"tables.{name}.{word}": reason for word, reason in held.unavailable.items()
            }
            self.row(name, label, *values)
            self.point(name, label, *values)
            return held

        return step

    def _changed(self) -> None:
        self._tell(self)
        self._tools.look()
