"""The rows of the workload table: each run's figures by device, and the order of rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.devices import CPU
from tui.kit.lines import Line, Span, TextStyle, paragraph
from tui.kit.table import largest_first
from tui.runs.state import parameters
from tui.runs.state.result_format import find_peak, format_median, format_rates, format_speed_up
from tui.runs.state.runs import EarlierResult, RunState, are_comparable, get_median, get_result
from tui.runs.state.state import RunsState, runs_on
from tui.runs.sweeps.sweep_result import choose_shown_point, collect_sweep, format_settings
from tui.runs.views.backend import format_flag_title, format_verdict, list_newest
from tui.runs.views.workload_state import (
    Forms,
    format_state,
    format_sweep_name,
    format_sweep_state,
    mark_doubt,
)
from workloads.protocol.flag_words import format_switched
from workloads.protocol.results import Comparison, RunResult, Setting, WorkloadInfo


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One workload; its cells are formatted text, and its state is everything but the figures."""

    workload: str
    name: Span
    cells: dict[str, Span] = field(default_factory=dict)
    state: Line = ()
    shorter: tuple[Line, ...] = ()
    """The state in ever fewer words, for narrow columns."""
    least: int = 0
    """Cells of the name that are needed to identify the workload."""
    brief: Span | None = None
    """The name with the changed parameters alone, for a row that is not under the cursor;
    ``None`` for a name that is never shortened."""
    dimmed: bool = False
    """It cannot run here, for a reason that the title gives."""
    title: str = ""
    """What the workload does, if it has no run: a tall table says so in place of figures."""
    running: bool = False
    """One of its runs goes on: the state stays at one place while its words change."""


@dataclass(frozen=True, slots=True)
class Group:
    """The heading of a group of workloads."""

    name: str
    folded: bool
    size: int

    @property
    def key(self) -> str:
        """A key that differs from the key of a workload of the same name."""
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
"""The sort orders, in the order in which a key cycles through them."""
NOT_RUN: tuple[Span, ...] = ()
"""The state of a workload without a run: the title counts them once for all."""
CHANGED = "*"
"""Marks a workload, or a parameter in the detail, that differs from the catalogue."""


def get_entry_key(entry: Entry) -> str:
    """Return the key of an entry, by which the cursor stays on it."""
    return entry.key if isinstance(entry, Group) else entry.workload


def list_devices(state: RunsState) -> tuple[str, ...]:
    """Return torch's names for the timing columns: the CPU and the selected GPU, if any."""
    gpu = state.machine.gpu_column
    return (CPU, gpu.torch) if gpu and gpu.torch else (CPU,)


def has_ended_run(state: RunsState, workload: str | None) -> bool:
    """Return whether a workload, if there is one, has run on a device of the timing columns."""
    if workload is None:
        return False
    runs = (state.latest_run(workload, device) for device in list_devices(state))
    return any(run is not None and run.ended for run in runs)


def explain_no_match(pattern: str, cells: int) -> list[Line]:
    """Return the text that replaces a table without matches."""
    words = (
        f"No workload matches {pattern.strip()} in name, group, title or meaning. "
        "Escape clears the filter."
    )
    return paragraph(words, cells, TextStyle.NOTE)


def format_not_run(state: RunsState) -> str:
    """Return how many workloads have no run with their present parameters.

    A comparison that stands for a run counts as one. Empty if all have one, and before the first.
    """
    devices = list_devices(state)
    missing = sum(
        info.name not in state.sweeps
        and not any(find_shown_runs(state, info.name, devices).values())
        and find_compared(state, info) is None
        for info in state.catalogue
    )
    return f"{missing} not run" if 0 < missing < len(state.catalogue) else ""


def format_no_gpu(state: RunsState) -> str:
    """Return that torch sees none of the machine's GPUs, which some workloads need; else empty."""
    lacking = any(lacks_gpu(state, info) for info in state.catalogue)
    seen = any(view.nvml for view in state.machine.devices)
    return "torch sees no GPU" if lacking and seen else ""


def lacks_gpu(state: RunsState, info: WorkloadInfo) -> bool:
    """Return whether a workload runs on GPUs alone, and torch is known to see none."""
    if state.machine.environment is None or info.devices != ("cuda",):
        return False
    return all(device.id == CPU for device in state.machine.environment.devices)


def build_row(state: RunsState, info: WorkloadInfo) -> WorkloadRow:
    """Build the row of a workload with its present parameters on the timing columns' devices."""
    names = list_devices(state)
    if info.name in state.sweeps:
        return _build_sweep_row(state, info, names)
    runs = find_shown_runs(state, info.name, names)
    forms = format_state(state, runs) if any(runs.values()) else (explain_not_run(state, info),)
    present = state.parameters.get(info.name, {})
    name = f"{mark_name(info, present)} {parameters.format_changed_first(info, present)}".strip()
    cells = _build_cells(info, runs)
    earlier = find_earlier(state, info, runs) if state.earlier else {}
    if earlier:
        # In parentheses and without color, as they are not from this session.
        cells |= {
            device: Span(f"({_format_earlier_cell(result)})", TextStyle.QUIET)
            for device, result in earlier.items()
        }
        forms = (*_add_earlier(state, forms, earlier, alone=not any(runs.values())), *forms)
    compared = None if earlier or any(runs.values()) else find_compared(state, info)
    if compared is not None:
        # Without color, as it is of no run.
        time = _get_present_time(state, compared)
        cells[compared.device] = Span(text.seconds(time), TextStyle.QUIET)
        forms = _compared_forms(state, compared)
    lacking = lacks_gpu(state, info)
    if lacking and not any(runs.values()):
        forms = (NOT_RUN,)
    changed = parameters.find_changed(info, present)
    brief = f"{mark_name(info, present)} {parameters.format_changed_first(info, changed)}".strip()
    return WorkloadRow(
        info.name,
        Span(name),
        cells,
        forms[0],
        forms[1:],
        brief=Span(brief),
        dimmed=lacking,
        title="" if earlier or compared or any(runs.values()) else info.title,
        running=_is_running(runs.values()),
    )


def _is_running(runs: Iterable[RunState | None]) -> bool:
    return any(run is not None and run.progress and not run.result for run in runs)


def find_compared(state: RunsState, info: WorkloadInfo) -> Comparison | None:
    """Return the newest comparison of a flag that stands for a run with the present settings.

    It ended well, with the parameters of the table, and its other flags are as they are now.
    """
    defaults = parameters.get_defaults(info)
    present = {**defaults, **state.parameters.get(info.name, {})}
    for compared in list_newest(state):
        request, comparison = compared.request, compared.comparison
        if (
            request.workload == info.name
            and compared.done
            and comparison is not None
            and comparison.status == "ok"
            and comparison.device in list_devices(state)
            and comparison.ratio is not None
            and {**defaults, **request.parameters} == present
            and all(state.flags.get(name, on) == on for name, on in request.flags.items())
            and _get_present_time(state, comparison) is not None
        ):
            return comparison
    return None


def _get_present_time(state: RunsState, comparison: Comparison) -> float | None:
    """Return the median with the flag as it is set now."""
    present = state.flags.get(comparison.flag)
    return next((arm.median_s for arm in comparison.arms if arm.setting == present), None)


def _compared_forms(state: RunsState, comparison: Comparison) -> Forms:
    """Return the verdict on the flag, ``benchmark 1.91x faster``, and without the flag's name.

    Without its name, a flag that was switched off would seem to be the faster or the slower one.
    """
    titles = {flag.name: format_flag_title(flag) for flag in state.known_flags}
    verdict = format_verdict(comparison)[:1]
    new = comparison.arms[1].setting
    name = format_switched(comparison.flag, new, titles.get(comparison.flag, ""))
    named = (Span(f"{name} "), *verdict)
    return (named, verdict) if new else (named,)


def _add_earlier(
    state: RunsState, forms: Forms, earlier: Mapping[str, EarlierResult], *, alone: bool
) -> Forms:
    """Return the state with the age of earlier results.

    Args:
        state: the state of the runs.
        forms: the state without them.
        earlier: the earlier results by device.
        alone: there are no results of this session.
    """
    full = format_earlier(state, earlier)
    doubtful = [name for name, result in earlier.items() if not (result.trusted or result.failure)]
    doubt, place = mark_doubt(doubtful, earlier)
    if alone and forms[0] == NOT_RUN:
        alike = len(set(_format_ages(state, earlier).values())) == 1
        short = full.partition(",")[0] if alike else "earlier"
        return tuple((*doubt, Span(form, TextStyle.QUIET), *place) for form in (full, short))
    if alone or not forms[0]:
        return ()
    return ((*forms[0], Span("; ", TextStyle.QUIET), *doubt, Span(full, TextStyle.QUIET), *place),)


def _format_earlier_cell(earlier: EarlierResult) -> str:
    return "failed" if earlier.failure else format_median(earlier)


def find_earlier(
    state: RunsState, info: WorkloadInfo, runs: Mapping[str, RunState | None]
) -> dict[str, EarlierResult]:
    """Return the earlier results on the devices that have no run in this session."""
    results = {
        name: state.earlier_result(info, name)
        for name, run in runs.items()
        if run is None and runs_on(info, name)
    }
    return {name: result for name, result in results.items() if result is not None}


def format_earlier(state: RunsState, earlier: Mapping[str, EarlierResult]) -> str:
    """Format the age of earlier results: ``2 d ago, driver 580.65``; per device if ages differ.

    The driver, or without one torch, is named if it is not the present one.
    """
    ages = _format_ages(state, earlier)
    # Not "failed 2 d, cpu 3 d ago": it did not fail for two days.
    each, last = (" ago", "") if any(old.failure for old in earlier.values()) else ("", " ago")
    main = list(earlier.values())[-1]
    sample, environment = state.machine.sample, state.machine.environment
    if main.driver:
        component, version = "driver", main.driver
        present = sample.driver.version if sample else None
    else:
        component, version = "torch", main.torch
        present = environment.torch if environment else None
    short = ".".join(version.split(".")[:2])
    software = f", {component} {short}" if version and version != present else ""
    if len({*ages.values()}) == 1:
        words = f"{ages.popitem()[1]}{each}"
    else:
        words = ", ".join(f"{name} {age}{each}" for name, age in reversed(ages.items()))
    return f"{words}{last}{software}"


def _format_ages(state: RunsState, earlier: Mapping[str, EarlierResult]) -> dict[str, str]:
    """Return the ages of earlier results by device: ``2 d``, ``failed 2 d``."""
    return {
        name: f"{'failed ' if result.failure else ''}{text.old(state.now - result.at)}"
        for name, result in earlier.items()
    }


def find_shown_runs(
    state: RunsState, workload: str, names: tuple[str, ...]
) -> dict[str, RunState | None]:
    """Return the runs in the workload's row by device; for a sweep, the runs of one point."""
    if workload in state.sweeps:
        sweep = collect_sweep(state, workload, names)
        shown = choose_shown_point(sweep) if sweep else None
        return dict(shown[1]) if shown else dict.fromkeys(names)
    return {name: state.latest_run(workload, name) for name in names}


def mark_name(info: WorkloadInfo, present: Mapping[str, Setting]) -> str:
    """Return the workload's name, with a mark if its parameters differ from the defaults.

    The mark follows the name, because the parameters may not fit.
    """
    return f"{info.name}{CHANGED}" if parameters.find_changed(info, present) else info.name


def _build_sweep_row(state: RunsState, info: WorkloadInfo, names: tuple[str, ...]) -> WorkloadRow:
    sweep = state.sweeps[info.name]
    swept = collect_sweep(state, info.name, names)
    assert swept is not None
    rest = {name: sweep.points[0][name] for name in sweep.points[0] if name not in sweep.texts}
    name, swept_words = Span(mark_name(info, rest)), format_sweep_name(sweep, rest)
    shown = choose_shown_point(swept)
    if shown is None:
        shown = ({}, dict.fromkeys(names))
    else:
        name = Span(f"{name.text} {format_settings(sweep, shown[0])}")
        swept_words = f"(sweep) {swept_words}"
    whole = Span(f"{name.text} {swept_words}")
    forms = format_sweep_state(swept, sweep)
    cells = _build_cells(info, shown[1])
    running = swept.running is not None
    return WorkloadRow(info.name, whole, cells, forms[0], forms[1:], name.width, running=running)


def _build_cells(info: WorkloadInfo, runs: Mapping[str, RunState | None]) -> dict[str, Span]:
    """Return the figures of the newest runs; columns without a device show the last device."""
    cells = {name: _format_time_cell(info, name, run) for name, run in runs.items()}
    results = [get_result(run) for run in runs.values()]
    main = results[-1]
    cells[SPEED_UP] = _format_speed_up(results)
    if main is not None and main.status == "failed":
        # What follows from a wrong result's time is no result: its cells have room for the reason.
        return cells
    above = main is not None and main.limit is not None and main.limit.exceeded
    cells[RATE] = _make_cell(format_rate(main))
    cells[LIMIT] = _make_cell(format_limit(main), TextStyle.BAD if above else TextStyle.PLAIN)
    cells[PEAK] = _make_cell(_format_peak(main))
    return cells


def _make_cell(words: str, style: TextStyle = TextStyle.PLAIN) -> Span:
    return Span(words, TextStyle.QUIET if words == text.NA else style)


def explain_not_run(state: RunsState, info: WorkloadInfo) -> tuple[Span, ...]:
    """Explain why a workload cannot run here, if that is known without a run."""
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


# ---- cells -------------------------------------------------------------------------------------


def _format_time_cell(info: WorkloadInfo, device: str, run: RunState | None) -> Span:
    if not runs_on(info, device):
        return Span(text.NA, TextStyle.QUIET)
    if run is None:
        return Span("")
    known = run.result or run.so_far
    if known is not None and known.time is not None:
        style = TextStyle.KEY if run.result is None else TextStyle.PLAIN
        # A wrong result's time is no result: the state gives the reason.
        return Span(format_median(known.time), TextStyle.QUIET if run.failed else style)
    if run.result is not None:
        return Span(glyphs.GLYPHS.dash, TextStyle.QUIET)  # the state column gives the reason
    if run.progress is None:
        return Span("queued", TextStyle.QUIET)
    if run.progress.estimate_s is None:
        return Span(glyphs.GLYPHS.ellipsis, TextStyle.KEY)
    return Span(
        text.seconds(run.progress.estimate_s, run.progress.half_width or 0.1), TextStyle.KEY
    )


def _format_speed_up(results: list[RunResult | None]) -> Span:
    timed = [result for result in results if result and result.time]
    times = [result.time for result in timed if result.time]
    if len(times) < 2 or not times[1].median_s:
        return Span("")
    if not are_comparable(timed[0], timed[1]):
        return Span(text.NA, TextStyle.QUIET)  # the detail gives the sizes or the failed check
    return Span(format_speed_up(times[0], times[1]))


def format_rate(result: RunResult | None) -> str:
    """Format the workload's main rate: floating point, else bytes, else items."""
    if result is None or result.time is None:
        return ""
    return next(iter(format_rates(result)), text.NA)


def format_limit(result: RunResult | None) -> str:
    """Format the share of the limit with its short name: ``76% float32``, or impossible."""
    if result is None or result.time is None:
        return ""
    if result.limit is None:
        return text.NA
    mark = glyphs.GLYPHS.warning if result.limit.exceeded else ""
    # The limit of the memory; the link to the host is named PCIe.
    name = result.limit.name.partition(" (")[0]
    name = name.removeprefix("memory ").removeprefix("one-way ")
    return f"{mark}{text.share(result.limit.fraction)} {name}"


def _format_peak(result: RunResult | None) -> str:
    if result is None or result.time is None:
        return ""
    return text.size(find_peak(result.memory))


# ---- order -------------------------------------------------------------------------------------


def find_next_order(state: RunsState, order: Order) -> Order:
    """Return the next order that a workload has a value for; the first follows the last."""
    at = ORDERS.index(order) + 1
    following = (*ORDERS[at:], *ORDERS[:at])
    return next(other for other in following if _has_values(state, other))


def _has_values(state: RunsState, order: Order) -> bool:
    if order not in _VALUES:
        return True
    names = list_devices(state)
    return any(
        _VALUES[order](list(find_shown_runs(state, info.name, names).values())) is not None
        for info in state.catalogue
    )


def format_order(order: Order) -> str:
    """Return the order as the title names it: ``by share of limit``."""
    return "by share of limit" if order == LIMIT else f"by {order}"


def sort_entries(state: RunsState, entries: Sequence[Entry], order: Order) -> list[Entry]:
    """Sort the entries.

    Args:
        state: the state of the runs.
        entries: groups with their workloads, in the order of the catalogue.
        order: ``catalogue`` changes nothing. Every other order drops the group headings and puts
            the largest value first; entries without a value come last, in their old order.
    """
    if order == "catalogue":
        return list(entries)
    rows = [entry for entry in entries if isinstance(entry, WorkloadRow)]
    if order == "name":
        return [*sorted(rows, key=lambda row: row.workload)]
    names = list_devices(state)
    values = {
        row.workload: _VALUES[order](list(find_shown_runs(state, row.workload, names).values()))
        for row in rows
    }
    return [*largest_first(rows, lambda row: values[row.workload])]


_Runs = Sequence[RunState | None]
"""Runs of the timing columns in their order: the CPU, and the GPU if there is one."""


def _get_time(runs: _Runs) -> float | None:
    """Return the time on the GPU, else on the CPU, in seconds."""
    return next((time for time in map(get_median, reversed(runs)) if time is not None), None)


def _compute_ratio(runs: _Runs) -> float | None:
    if len(runs) < 2:
        return None
    cpu, gpu = get_median(runs[0]), get_median(runs[1])
    return cpu / gpu if cpu is not None and gpu else None


def _get_share(runs: _Runs) -> float | None:
    main = get_result(runs[-1])
    return main.limit.fraction if main is not None and main.limit is not None else None


def _find_peak(runs: _Runs) -> float | None:
    main = get_result(runs[-1])
    return find_peak(main.memory) if main is not None else None


_VALUES: dict[str, Callable[[_Runs], float | None]] = {
    "time": _get_time,
    SPEED_UP: _compute_ratio,
    LIMIT: _get_share,
    PEAK: _find_peak,
}
