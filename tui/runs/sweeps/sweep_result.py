"""The present findings of a sweep: curves, crossovers, a table, and gaps. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tui.core.text.numbers import count, quantity
from tui.core.text.numbers import place as place_text
from tui.devices.state.devices import CPU
from tui.runs.state import parameters
from tui.runs.state.parameters import Sweep
from tui.runs.state.result_format import format_end, label_limit
from tui.runs.state.runs import (
    RunState,
    are_comparable,
    find_last_ended,
    find_limited_rate,
    find_rate,
    get_median,
    get_result,
    get_valid_result,
    is_trusted,
    select_standing,
)
from tui.runs.state.state import RunsState
from workloads.protocol.results import (
    Basis,
    Cell,
    Chart,
    DataColumn,
    RunResult,
    Series,
    Setting,
    Table,
)

Runs = Mapping[str, RunState | None]
"""The runs of one point, by device."""


class Crossover(NamedTuple):
    """The place where one device overtakes another as the size grows."""

    device: str
    over: str
    after: float
    """The last place where it is certainly slower."""
    by: float
    """The first place where it is certainly faster."""
    place: float
    """The crossing of the lines between the medians, by ratios: interpolated, not measured."""
    variant: str = ""
    """The other swept settings."""
    trusted: bool = True
    """No time beside it is distrusted, and it is the only one of these settings."""

    @property
    def verb(self) -> str:
        """What is said of the device: ``overtakes``, or ``may overtake``."""
        return "overtakes" if self.trusted else "may overtake"


class SweepLimit(NamedTuple):
    """A limit for the rates of a device."""

    device: str
    name: str
    value: float
    unit: str
    """Unit of the rate: FLOP/s or byte/s."""
    basis: Basis

    @property
    def label(self) -> str:
        """The limit's name: ``cuda:0 float32 peak``, or ``cpu float32 ceiling`` if measured."""
        return f"{self.device} {label_limit(self.name, self.basis)}"


def choose_axis(sweep: Sweep) -> str:
    """Return the swept numeric parameter with the most values; empty if none is numeric."""
    numbers = [
        name
        for name in sweep.texts
        if all(
            isinstance(value, (int, float)) and not isinstance(value, bool)
            for value in sweep.values(name)
        )
    ]
    return max(numbers, key=lambda name: len(sweep.values(name)), default="")


def find_limits(runs: Iterable[RunState | None], unit: str) -> tuple[SweepLimit, ...]:
    """Return the limits of rates in a unit, the newest for each device and kind."""
    results = [result for run in runs if (result := get_valid_result(run)) is not None]
    known: dict[tuple[str, str], SweepLimit] = {}
    for result in sorted(results, key=lambda item: item.ended_at or 0.0):
        rate = find_limited_rate(result)
        if result.limit is not None and rate is not None and rate[1] == unit:
            limit = result.limit
            known[result.device, limit.name] = SweepLimit(
                result.device, limit.name, limit.value, unit, limit.basis
            )
    return tuple(known.values())


def get_valid_s(run: RunState | None) -> float | None:
    """Return the median of a run that may claim it, seconds per call."""
    return get_median(run) if get_valid_result(run) is not None else None


def compute_speed_up(first: RunState | None, second: RunState | None) -> float | None:
    """Return their time divided by ours.

    Returns:
        The ratio; ``None`` if a result is missing or wrong, or if the sizes differ.
    """
    result, other = get_valid_result(first), get_valid_result(second)
    if result is None or other is None or not are_comparable(result, other):
        return None
    time, over = get_median(first), get_median(second)
    return over / time if time and over else None


def choose_base_device(devices: Sequence[str]) -> str:
    """Return the base of the speed-up: the CPU where it ran, else the first device."""
    return CPU if CPU in devices else devices[0]


def format_settings(sweep: Sweep, point: Mapping[str, Setting], without: str = "") -> str:
    """Return the swept settings of a point: ``n=256 float32``."""
    settings = {name: point[name] for name in sweep.texts if name != without}
    return parameters.format_short(settings, sweep.autos)


def compare_speed(first: RunResult | None, second: RunResult | None) -> int | None:
    """Return 1 if ours is faster, -1 if slower, 0 if intervals overlap, ``None`` if unknown."""
    if first is None or second is None or first.time is None or second.time is None:
        return None
    if not are_comparable(first, second):
        return None
    low, high = first.time.ci95_s or (first.time.q1_s, first.time.q3_s)
    other_low, other_high = second.time.ci95_s or (second.time.q1_s, second.time.q3_s)
    if high < other_low:
        return 1
    return -1 if low > other_high else 0


def describe_decided(axis: str, places: Sequence[float], decided: Mapping[float, int]) -> str:
    """Describe where a device is certainly faster, and where nothing is decided.

    Args:
        axis: name of the horizontal axis.
        places: all compared places, ascending.
        decided: at least one place with a verdict; all verdicts are the same.

    Returns:
        ``from n=128; undecided below``, or a list if the decided places are not contiguous.
    """
    first, last = min(decided), max(decided)
    inside = [place for place in places if first <= place <= last]
    if any(place not in decided for place in inside):
        at = ", ".join(place_text(place) for place in places if place in decided)
        open_at = ", ".join(place_text(place) for place in places if place not in decided)
        return f"at {axis}={at}; undecided at {open_at}"
    below, above = places[0] < first, places[-1] > last
    if not below and not above:
        return f"from {axis}={place_text(first)} to {place_text(last)}"
    if below and above:
        span = "at" if first == last else "from"
        to = "" if first == last else f" to {place_text(last)}"
        return f"{span} {axis}={place_text(first)}{to}; undecided below and above"
    if below:
        return f"from {axis}={place_text(first)}; undecided below"
    return f"up to {axis}={place_text(last)}; undecided above"


_NOT_TRUSTED = "some of these times are not trusted"


class Curves:
    """The points as curves: one for each device and each setting of the other parameters."""

    def __init__(
        self,
        sweep: Sweep,
        axis: str,
        devices: tuple[str, ...],
        points: Sequence[tuple[dict[str, Setting], Runs]],
    ) -> None:
        self._sweep, self._axis, self._devices = sweep, axis, devices
        self._runs: dict[tuple[str, Cell], Runs] = {}
        self._places: list[Cell] = []
        self._variants: list[str] = []
        for point, runs in points:
            variant = format_settings(sweep, point, axis) if axis else ""
            place: Cell = float(point[axis]) if axis else format_settings(sweep, point)
            self._runs[variant, place] = runs
            self._places += [place] if place not in self._places else []
            self._variants += [variant] if variant not in self._variants else []
        if axis:
            self._places.sort(key=lambda place: place if isinstance(place, float) else 0.0)

    def charts(self) -> tuple[tuple[Chart, ...], tuple[Crossover, ...], frozenset[str]]:
        """Return the charts of time, rate and speed-up, the crossovers, and the doubted marks."""
        over = self._axis or "settings"
        keys = [(device, variant) for device in self._devices for variant in self._variants]

        def time(runs: Runs, device: str) -> float | None:
            return get_valid_s(runs.get(device))

        times = [self._series(*key, time, "s") for key in keys]
        charts = [self._chart("time", f"time over {over}", times)]
        units = [
            rate[1]
            for runs in self._runs.values()
            for run in runs.values()
            if (rate := find_rate(get_valid_result(run))) is not None
        ]
        if units:

            def rate_of(runs: Runs, device: str) -> float | None:
                rate = find_rate(get_valid_result(runs.get(device)))
                return rate[0] if rate and rate[1] == units[0] else None

            rates = [self._series(*key, rate_of, units[0]) for key in keys]
            charts.append(self._chart("rate", f"rate over {over}", rates))
        crossovers: list[Crossover] = []
        doubted: list[str] = []
        if len(self._devices) > 1:
            series, marks = [], []
            base = choose_base_device(self._devices)

            def speed_up(runs: Runs, device: str) -> float | None:
                return compute_speed_up(runs.get(device), runs.get(base))

            for device, variant in keys:
                if device != base:
                    series.append(self._series(device, variant, speed_up, "x"))
                    crossing, words, trusted = self._crossing(device, base, variant)
                    crossovers += crossing
                    marks += [words] if words else []
                    doubted += [] if trusted else [words]
            title = f"speed-up over {base}"
            charts.append(self._chart("speed_up", title, series, tuple(marks)))
        return tuple(charts), tuple(crossovers), frozenset(doubted)

    def _runs_of(self, variant: str) -> list[tuple[Cell, Runs]]:
        """Return every place with the runs of a variant there."""
        return [(place, self._runs.get((variant, place), {})) for place in self._places]

    def _series(
        self, device: str, variant: str, value: Callable[[Runs, str], float | None], unit: str
    ) -> Series:
        values = tuple(value(runs, device) for _, runs in self._runs_of(variant))
        return Series(f"{device} {variant}".strip(), unit, values)

    def _chart(
        self, name: str, title: str, series: list[Series], marks: tuple[str, ...] = ()
    ) -> Chart:
        places = [
            place if isinstance(place, float) else float(step)
            for step, place in enumerate(self._places, 1)
        ]
        return Chart(
            name,
            title,
            self._axis or "step",
            places=tuple(places),
            series=tuple(series),
            labels=() if self._axis else tuple(map(str, self._places)),
            marks=marks,
        )

    def _crossing(self, device: str, base: str, variant: str) -> tuple[list[Crossover], str, bool]:
        """Return the crossovers of two devices, their description, and whether it is sure."""
        signs: list[tuple[float, int]] = []
        distrusted: set[float] = set()
        for place, runs in self._runs_of(variant):
            ours, theirs = (get_valid_result(runs.get(name)) for name in (device, base))
            sign = compare_speed(ours, theirs)
            if sign is None or ours is None or theirs is None or not isinstance(place, float):
                continue
            signs.append((place, sign))
            if not (is_trusted(ours) and is_trusted(theirs)):
                distrusted.add(place)
        decided = [(place, sign) for place, sign in signs if sign]
        if len(signs) < 2:
            return [], "", True
        about = f" ({variant})" if variant else ""
        if not decided:
            words = f"{device} and {base} do not differ clearly at any {self._axis}{about}"
            return [], words, True
        changes = [
            (before, after)
            for before, after in itertools.pairwise(decided)
            if before[1] != after[1]
        ]
        if not changes:
            winner, loser = (device, base) if decided[0][1] > 0 else (base, device)
            where = describe_decided(self._axis, [place for place, _ in signs], dict(decided))
            doubt = any(place in distrusted for place, _ in decided)
            verb = "may be" if doubt else "is"
            words = f"{winner} {verb} faster than {loser} {where}{about}: no crossover"
            return [], f"{words}, but {_NOT_TRUSTED}" if doubt else words, not doubt
        crossings: list[Crossover] = []
        for (after, _), (by, then) in changes:
            winner, loser = (device, base) if then > 0 else (base, device)
            place = self._find_meeting(device, base, variant, after, by)
            trusted = len(changes) == 1 and not {after, by} & distrusted
            crossings.append(Crossover(winner, loser, after, by, place, variant, trusted))
        return crossings, self._describe_crossings(crossings), all(c.trusted for c in crossings)

    def _describe_crossings(self, crossings: Sequence[Crossover]) -> str:
        """Return the crossovers of two devices in words."""
        last = crossings[-1]
        about = f" ({last.variant})" if last.variant else ""
        low, high = place_text(last.after), place_text(last.by)
        between = f"between {self._axis}={low} and {self._axis}={high}"
        if len(crossings) > 1:
            times = f"overtake each other {len(crossings)} times"
            return f"{last.device} and {last.over} {times}, last {between}{about}"
        doubt = "" if last.trusted else f": {_NOT_TRUSTED}"
        return f"{last.device} {last.verb} {last.over} {between}{about}{doubt}"

    def _find_meeting(self, device: str, base: str, variant: str, after: float, by: float) -> float:
        """Return where the lines between the medians cross between two places, by ratios."""
        ratios: list[tuple[float, float]] = []
        for place, runs in self._runs_of(variant):
            ratio = compute_speed_up(runs.get(device), runs.get(base))
            if isinstance(place, float) and after <= place <= by and ratio:
                ratios.append((place, math.log(ratio)))
        for (first, before), (then, behind) in itertools.pairwise(ratios):
            if before * behind <= 0 and before != behind:
                share = before / (before - behind)
                if first > 0:
                    return float(first * (then / first) ** share)
                return first + (then - first) * share
        return by


@dataclass(frozen=True, slots=True)
class SweepResult:
    """A sweep with its runs."""

    workload: str
    axis: str
    """The parameter on the horizontal axis; empty if none is numeric."""
    devices: tuple[str, ...]
    points: tuple[tuple[dict[str, Setting], dict[str, RunState | None]], ...]
    """The runs whose figures are shown: a point that is measured again keeps them until its end."""
    charts: tuple[Chart, ...]
    table: Table
    crossovers: tuple[Crossover, ...]
    doubted: frozenset[str]
    """The marks of the charts that rest on distrusted times, or on devices that change places."""
    limits: tuple[SweepLimit, ...]
    """Limits of the rates, in the unit of their chart."""
    unavailable: dict[str, str]
    newest: tuple[RunState, ...]
    """The newest run of each point, in any state: they tell how far the sweep is."""
    total: int
    last: RunState | None
    """The run that ended last."""

    @property
    def done(self) -> int:
        """Number of points whose newest run has ended."""
        return sum(run.ended for run in self.newest)

    @property
    def running(self) -> RunState | None:
        """The current run; ``None`` if none of the sweep is running."""
        return next((run for run in self.newest if run.progress and not run.ended), None)


def collect_sweep(state: RunsState, workload: str, devices: Sequence[str]) -> SweepResult | None:
    """Return the present sweep of a workload on some torch devices; ``None`` if it has none."""
    sweep = state.sweeps.get(workload)
    if sweep is None:
        return None

    known = [
        (
            point,
            {
                device: [
                    run for run in state.book.newest_first(workload, device, point) if not run.demo
                ]
                for device in devices
            },
        )
        for point in sweep.points
    ]
    points = [
        (point, {device: _select_shown(runs) for device, runs in of_devices.items()})
        for point, of_devices in known
    ]
    states = [run for _, runs in points for run in runs.values() if run]
    newest = [select_standing(runs) for _, of_devices in known for runs in of_devices.values()]
    axis = choose_axis(sweep)
    charts, crossovers, doubted = Curves(sweep, axis, tuple(devices), points).charts()
    return SweepResult(
        workload=workload,
        axis=axis,
        devices=tuple(devices),
        points=tuple(points),
        charts=charts,
        table=_build_table(sweep, points, devices),
        crossovers=crossovers,
        doubted=doubted,
        limits=find_limits(states, next((item.series[0].unit for item in charts[1:2]), "")),
        unavailable=_find_gaps(sweep, points),
        newest=tuple(run for run in newest if run is not None),
        total=len(points) * len(devices),
        last=find_last_ended(states),
    )


def _select_shown(runs: Sequence[RunState]) -> RunState | None:
    """Return the run with the figures of a point, from its runs, newest first."""
    ended = (run for run in runs if run.ended and not run.cancelled)
    return next(ended, None) or select_standing(runs)


def choose_shown_point(sweep_result: SweepResult) -> tuple[dict[str, Setting], Runs] | None:
    """Return the point that represents the sweep in one line; ``None`` before the first end.

    It is the timed point that ended last on all devices, so that its figures can be compared.
    """
    ended = [
        (point, runs) for point, runs in sweep_result.points if any(map(get_result, runs.values()))
    ]
    return max(reversed(ended), key=lambda item: _rank_runs(item[1]), default=None)


def _rank_runs(runs: Runs) -> tuple[bool, bool, float]:
    results = [result for result in map(get_result, runs.values()) if result]
    timed = any(map(get_valid_result, runs.values()))
    return timed, len(results) == len(runs), max(result.ended_at or 0.0 for result in results)


def _build_table(
    sweep: Sweep, points: Sequence[tuple[dict[str, Setting], Runs]], devices: Sequence[str]
) -> Table:
    rates = {
        device: unit[1]
        for _, runs in points
        for device, run in runs.items()
        if (unit := find_rate(get_valid_result(run)))
    }
    base = choose_base_device(devices)
    columns = [DataColumn(name) for name in sweep.texts]
    for device in devices:
        columns.append(DataColumn(f"{device} time", "s"))
        columns += [DataColumn(f"{device} rate", rates[device])] if device in rates else []
        columns += [DataColumn(f"{device} speed-up", "x")] if device != base else []
    columns.append(DataColumn("state"))
    rows: list[tuple[Cell, ...]] = []
    for point, runs in points:
        cells: list[Cell] = [
            parameters.format_value(point[name], auto=name in sweep.autos) for name in sweep.texts
        ]
        for device in devices:
            run = runs.get(device)
            rate = find_rate(get_valid_result(run))
            cells.append(get_valid_s(run))
            cells += [rate[0] if rate else None] if device in rates else []
            cells += [compute_speed_up(run, runs.get(base))] if device != base else []
        cells.append(_format_states(runs))
        rows.append(tuple(cells))
    return Table("sweep", "sweep", tuple(columns), tuple(rows))


def _format_states(runs: Runs) -> str:
    """Format the states of a point: ``ok``, or ``cpu not trusted; cuda:0 ok, 1 warning``."""
    states = {device: _format_state(run) for device, run in runs.items()}
    if len(set(states.values())) == 1:
        return next(iter(states.values()))
    return "; ".join(f"{device} {state}" for device, state in states.items())


def _format_state(run: RunState | None) -> str:
    if run is None:
        return "not run"
    if run.result is not None:
        if run.result.status != "ok":
            return run.result.status
        if not is_trusted(run.result):
            return "not trusted"
        many = len(run.warnings)
        return f"ok, {count(many, 'warning')}" if many else "ok"
    return "running" if run.progress else "queued"


def _find_gaps(sweep: Sweep, points: Sequence[tuple[dict[str, Setting], Runs]]) -> dict[str, str]:
    """Return the reasons for points without a valid time, by device and setting."""
    return {
        f"charts.time.{device} {format_settings(sweep, point)}": format_end(
            run.result.status, run.result.reason
        )
        for point, runs in points
        for device, run in runs.items()
        if run is not None and run.result is not None and get_valid_result(run) is None
    }


def format_sweep_progress(sweep_result: SweepResult) -> str:
    """Format the progress of a sweep: ``3 of 12 runs``, and the runs that ended badly.

    A cancelled run is none of the first number.
    """
    states = [
        run.result.status for run in sweep_result.newest if run.result and run.result.status != "ok"
    ]
    done = sweep_result.done - states.count("cancelled")
    words = f"{done} of {quantity(float(sweep_result.total))} runs"
    return ", ".join(
        [words, *(f"{states.count(state)} {state}" for state in dict.fromkeys(states))]
    )
