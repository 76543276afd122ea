"""The rows of the table of workloads: what each run says, by device, and their order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.devices import CPU
from tui.kit.lines import Line, Span, TextStyle, paragraph
from tui.kit.table import largest_first
from tui.runs.state import parameters
from tui.runs.state.result_words import half_width, median, peak_of, rate_words
from tui.runs.state.runs import EarlierResult, RunState, can_be_compared
from tui.runs.state.state import RunsState
from tui.runs.sweeps.sweep_result import settings_text, shown_point, swept
from tui.runs.views.workload_state import state_of, sweep_name, sweep_state
from workloads.protocol.results import RunResult, Setting, WorkloadInfo


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One workload; the cells are ready text, the state is everything that is no figure."""

    workload: str
    name: Span
    cells: dict[str, Span] = field(default_factory=dict)
    state: tuple[Span, ...] = ()
    least: int = 0
    """Cells of the name without which it is not said what the figures are of."""


@dataclass(frozen=True, slots=True)
class Group:
    """The heading of a group of workloads."""

    name: str
    folded: bool
    size: int

    @property
    def key(self) -> str:
        """Tells it from a workload of the same name."""
        return f"group {self.name}"


Entry = WorkloadRow | Group

NAME, SPEED_UP, RATE, LIMIT, PEAK, STATE = (
    "name",
    "speed-up",
    "rate",
    "of limit",
    "peak memory",
    "state",
)
Order = Literal["catalogue", "time", "speed-up", "of limit", "peak memory", "name"]
ORDERS: tuple[Order, ...] = ("catalogue", "time", "speed-up", "of limit", "peak memory", "name")
"""In the order in which a key goes through them."""
NOT_RUN = (Span("not run", TextStyle.QUIET),)
CHANGED = "*"
"""Marks a workload, and in the detail a parameter, that is not as the catalogue has it."""


def entry_key(entry: Entry) -> str:
    """Return the key that the cursor stays on."""
    return entry.key if isinstance(entry, Group) else entry.workload


def devices(state: RunsState) -> tuple[str, ...]:
    """Torch names of the timing columns: the CPU and, where there is one, the selected GPU."""
    gpu = state.machine.gpu_column
    return (CPU, gpu.torch) if gpu and gpu.torch else (CPU,)


def matches(info: WorkloadInfo, pattern: str) -> bool:
    """Every word of the pattern stands in the workload's name, group or title."""
    haystack = f"{info.name} {info.group} {info.title}".lower()
    return all(word in haystack for word in pattern.lower().split())


def entries(
    state: RunsState, pattern: str = "", folded: frozenset[str] = frozenset()
) -> list[Entry]:
    """Group the workloads, the groups in the order of their first appearance.

    Args:
        state: of the runs.
        pattern: words that a workload must match; a match is shown even in a folded group.
        folded: names of groups whose workloads are hidden.
    """
    groups: dict[str, list[WorkloadInfo]] = {}
    for info in state.catalogue:
        if matches(info, pattern):
            groups.setdefault(info.group, []).append(info)
    found: list[Entry] = []
    for name, members in groups.items():
        hide = name in folded and not pattern.strip()
        found.append(Group(name, hide, len(members)))
        if not hide:
            found.extend(row(state, info) for info in members)
    return found


def no_match(pattern: str, cells: int) -> list[Line]:
    """Return the text in place of a table that a filter leaves empty."""
    words = (
        f"No workload matches {pattern.strip()}: each word has to be in its name, group or title. "
        "Escape drops the filter."
    )
    return paragraph(words, cells, TextStyle.NOTE)


def row(state: RunsState, info: WorkloadInfo) -> WorkloadRow:
    """One workload with its present parameters on the devices of the timing columns."""
    names = devices(state)
    if info.name in state.sweeps:
        return _sweep_row(state, info, names)
    runs = figures_of(state, info.name, names)
    shown = state_of(state, runs) if any(runs.values()) else not_run(state, info)
    present = state.parameters.get(info.name, {})
    name = f"{marked(info, present)} {_settings(info, present)}".strip()
    cells = _cells(info, runs)
    earlier = earlier_of(state, info, runs) if state.earlier else {}
    if earlier:
        cells |= {device: old_time(one) for device, one in earlier.items()}
        told = earlier_words(state, earlier)
        if not any(runs.values()):
            shown = (Span(told, TextStyle.QUIET),) if shown == NOT_RUN else shown
        elif shown:
            shown = (*shown, Span(f"; {told}", TextStyle.QUIET))
    return WorkloadRow(info.name, Span(name), cells, shown)


def earlier_of(
    state: RunsState, info: WorkloadInfo, runs: Mapping[str, RunState | None]
) -> dict[str, EarlierResult]:
    """Return the earlier results of the devices without a run in this session."""
    found = {
        name: state.earlier_result(info, name)
        for name, run in runs.items()
        if run is None and _runs_on(info, name)
    }
    return {name: one for name, one in found.items() if one is not None}


def old_time(one: EarlierResult) -> Span:
    """Return a time in parentheses: not a figure of this session, without colours either."""
    return Span(f"({text.seconds(one.median_s, half_width(one))})", TextStyle.QUIET)


def earlier_words(state: RunsState, earlier: Mapping[str, EarlierResult]) -> str:
    """``2 d ago, driver 580``; where the devices' ages differ, each with its own."""
    now = state.machine.sample.at if state.machine.sample else state.earlier.at
    ages = {name: text.old(now - one.at) for name, one in earlier.items()}
    main = list(earlier.values())[-1]
    version, what = (main.driver, "driver") if main.driver else (main.torch, "torch")
    short = version.partition(".")[0] if main.driver else ".".join(version.split(".")[:2])
    software = f", {what} {short}" if version else ""
    if len({*ages.values()}) == 1:
        return f"{ages.popitem()[1]} ago{software}"
    each = ", ".join(f"{name} {age}" for name, age in reversed(ages.items()))
    return f"{each} ago{software}"


def figures_of(
    state: RunsState, workload: str, names: tuple[str, ...]
) -> dict[str, RunState | None]:
    """Return the runs behind the workload's row by device; of a sweep those of one point."""
    if workload in state.sweeps:
        found = swept(state, workload, names)
        shown = shown_point(found) if found else None
        return dict(shown[1]) if shown else dict.fromkeys(names)
    return {name: state.latest_run(workload, name) for name in names}


def marked(info: WorkloadInfo, present: Mapping[str, Setting]) -> str:
    """Return the workload's name, with a mark where its parameters are not the defaults.

    The mark stands at the name, as there may be no room for the parameters.
    """
    return f"{info.name}{CHANGED}" if parameters.changed(info, present) else info.name


def _sweep_row(state: RunsState, info: WorkloadInfo, names: tuple[str, ...]) -> WorkloadRow:
    sweep = state.sweeps[info.name]
    found = swept(state, info.name, names)
    assert found is not None
    rest = {name: sweep.points[0][name] for name in sweep.points[0] if name not in sweep.texts}
    name, swept_words = Span(marked(info, rest)), sweep_name(sweep, rest)
    shown = shown_point(found)
    if shown is None:
        shown = ({}, dict.fromkeys(names))
    else:
        name = Span(f"{name.text} {settings_text(sweep, shown[0])}")
        swept_words = f"of the sweep {swept_words}"
    whole = Span(f"{name.text} {swept_words}")
    return WorkloadRow(
        info.name, whole, _cells(info, shown[1]), sweep_state(found, sweep), name.width
    )


def _cells(info: WorkloadInfo, runs: Mapping[str, RunState | None]) -> dict[str, Span]:
    """Return the figures of the newest runs; those without a device are the last one's."""
    cells = {name: _time_cell(info, name, run) for name, run in runs.items()}
    main = _result(list(runs.values())[-1])
    cells[SPEED_UP] = _speed_up([_result(run) for run in runs.values()])
    cells[RATE] = Span(rate(main))
    above = main is not None and main.limit is not None and main.limit.exceeded
    cells[LIMIT] = Span(of_limit(main), TextStyle.BAD if above else TextStyle.PLAIN)
    cells[PEAK] = Span(_peak(main))
    return cells


def not_run(state: RunsState, info: WorkloadInfo) -> tuple[Span, ...]:
    """Why it cannot be run here, as far as that is known before it is tried."""
    if state.machine.environment is not None:
        types = [device.id.partition(":")[0] for device in state.machine.environment.devices]
        if not set(info.devices) & set(types):
            kind = "GPU" if "cuda" in info.devices else " or ".join(info.devices)
            needs = "needs 2 GPUs" if "2 GPUs" in info.needs else f"needs a {kind}"
            if "cuda" in info.devices and any(view.nvml for view in state.machine.devices):
                needs = "torch sees no GPU"
            return (Span(needs, TextStyle.NOTE),)
        if "2 GPUs" in info.needs and types.count("cuda") < 2:
            return (Span("needs 2 GPUs", TextStyle.NOTE),)
    return NOT_RUN


def _settings(info: WorkloadInfo, present: Mapping[str, Setting]) -> str:
    """Return the parameters in short; changed ones come first, as the end may have no room."""
    settings = {**parameters.changed(info, present), **present}
    return parameters.short(settings, parameters.autos(info))


# ---- cells -------------------------------------------------------------------------------------


def _result(run: RunState | None) -> RunResult | None:
    return run.result if run else None


def _runs_on(info: WorkloadInfo, device: str) -> bool:
    return device.partition(":")[0] in info.devices


def _time_cell(info: WorkloadInfo, device: str, run: RunState | None) -> Span:
    if not _runs_on(info, device):
        return Span(text.NA, TextStyle.QUIET)
    if run is None:
        return Span("")
    known = run.result or run.so_far
    if known is not None and known.time is not None:
        return Span(median(known.time), TextStyle.PLAIN if run.result else TextStyle.KEY)
    if run.result is not None:
        return Span(glyphs.GLYPHS.dash, TextStyle.QUIET)  # the state column says why
    if run.progress is None:
        return Span("queued", TextStyle.QUIET)
    if run.progress.estimate_s is None:
        return Span(glyphs.GLYPHS.ellipsis, TextStyle.KEY)
    return Span(
        text.seconds(run.progress.estimate_s, run.progress.half_width or 0.1), TextStyle.KEY
    )


def _speed_up(results: list[RunResult | None]) -> Span:
    timed = [result for result in results if result and result.time]
    times = [result.time for result in timed if result.time]
    if len(times) < 2 or not times[1].median_s:
        return Span("")
    if not can_be_compared(timed[0], timed[1]):
        return Span(text.NA, TextStyle.QUIET)  # the detail names the sizes, or the failed check
    widths = [half_width(time) for time in times]
    # Relative errors of independent medians add in quadrature.
    known = None if None in widths else sum((width or 0.0) ** 2 for width in widths) ** 0.5
    return Span(text.ratio(times[0].median_s / times[1].median_s, known))


def rate(result: RunResult | None) -> str:
    """Return the rate that the workload is about: floating point, else bytes, else items."""
    if result is None or result.time is None:
        return ""
    return next(iter(rate_words(result)), text.NA)


def of_limit(result: RunResult | None) -> str:
    """Return the share of the limit with its short name: ``76% float32``, or impossible."""
    if result is None or result.time is None:
        return ""
    if result.limit is None:
        return text.NA
    mark = glyphs.GLYPHS.warning if result.limit.exceeded else ""
    # Of the memory; the link to the host is called PCIe.
    name = result.limit.name.removeprefix("memory ").partition(" (")[0]
    return f"{mark}{text.share(result.limit.fraction)} {name}"


def _peak(result: RunResult | None) -> str:
    if result is None or result.time is None:
        return ""
    return text.size(peak_of(result.memory))


# ---- order -------------------------------------------------------------------------------------


def following(order: Order) -> Order:
    """Return the next one, round the end."""
    return ORDERS[(ORDERS.index(order) + 1) % len(ORDERS)]


def ordered(state: RunsState, found: Sequence[Entry], order: Order) -> list[Entry]:
    """Return the entries in an order.

    Args:
        state: of the runs.
        found: groups with their workloads, as the catalogue has them.
        order: ``catalogue`` leaves all as it is. In any other the headings of the groups are left
            out; the largest value comes first, and what has no value last, as it was.
    """
    if order == "catalogue":
        return list(found)
    rows = [entry for entry in found if isinstance(entry, WorkloadRow)]
    if order == "name":
        return [*sorted(rows, key=lambda row: row.workload)]
    names = devices(state)
    values = {row.workload: _VALUES[order](_results(state, row.workload, names)) for row in rows}
    return [*largest_first(rows, lambda row: values[row.workload])]


_Results = tuple[RunResult | None, ...]
"""Of the timing columns, in their order: the CPU's, and the GPU's where there is one."""


def _results(state: RunsState, workload: str, names: tuple[str, ...]) -> _Results:
    runs = figures_of(state, workload, names)
    return tuple(run.result if run is not None else None for run in runs.values())


def _median(result: RunResult | None) -> float | None:
    return result.time.median_s if result is not None and result.time is not None else None


def _time_s(results: _Results) -> float | None:
    """Of the GPU where it has one, else of the CPU, seconds."""
    return next((time for time in map(_median, reversed(results)) if time is not None), None)


def _ratio(results: _Results) -> float | None:
    if len(results) < 2:
        return None
    cpu, gpu = _median(results[0]), _median(results[1])
    return cpu / gpu if cpu is not None and gpu else None


def _share(results: _Results) -> float | None:
    main = results[-1]
    return main.limit.fraction if main is not None and main.limit is not None else None


def _peak_bytes(results: _Results) -> float | None:
    main = results[-1]
    if main is None:
        return None
    peak = peak_of(main.memory)
    return None if peak is None else float(peak)


_VALUES: dict[str, Callable[[_Results], float | None]] = {
    "time": _time_s,
    SPEED_UP: _ratio,
    LIMIT: _share,
    PEAK: _peak_bytes,
}
