"""The table of workloads as rows of cells: what each run says, by device. Pure; no widths here."""

from __future__ import annotations

from dataclasses import dataclass, field

from tui import format as text
from tui import glyphs, parameters
from tui.lines import Span, Tone
from tui.pairing import CPU
from tui.store import RunState, Store
from workloads.protocol import Progress, RunResult, Timing, WorkloadInfo


@dataclass(frozen=True)
class Row:
    """One workload; the cells are ready text, the state is everything that is no figure."""

    workload: str
    name: Span
    cells: dict[str, Span] = field(default_factory=dict)
    state: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Group:
    """The heading of a group of workloads."""

    name: str
    folded: bool
    size: int

    @property
    def key(self) -> str:
        """Tells it from a workload of the same name."""
        return f"group {self.name}"


Entry = Row | Group

NAME, SPEED_UP, RATE, LIMIT, PEAK, STATE = (
    "name",
    "speed-up",
    "rate",
    "of limit",
    "peak memory",
    "state",
)


def entry_key(entry: Entry) -> str:
    """What the cursor holds on to."""
    return entry.key if isinstance(entry, Group) else entry.workload


def devices(store: Store) -> tuple[str, ...]:
    """Torch names of the timing columns: the CPU and, where there is one, the selected GPU."""
    gpu = store.gpu_column
    return (CPU, gpu.torch) if gpu and gpu.torch else (CPU,)


def matches(info: WorkloadInfo, pattern: str) -> bool:
    """Every word of the pattern stands in the workload's name, group or title."""
    haystack = f"{info.name} {info.group} {info.title}".lower()
    return all(word in haystack for word in pattern.lower().split())


def entries(store: Store, pattern: str = "", folded: frozenset[str] = frozenset()) -> list[Entry]:
    """Groups in the order of their first appearance, each with its workloads.

    Args:
        store: what is known.
        pattern: words that a workload must match; a match is shown even in a folded group.
        folded: names of groups whose workloads are hidden.
    """
    groups: dict[str, list[WorkloadInfo]] = {}
    for info in store.catalogue:
        if matches(info, pattern):
            groups.setdefault(info.group, []).append(info)
    found: list[Entry] = []
    for name, members in groups.items():
        hide = name in folded and not pattern.strip()
        found.append(Group(name, hide, len(members)))
        if not hide:
            found.extend(row(store, info) for info in members)
    return found


def row(store: Store, info: WorkloadInfo) -> Row:
    """One workload with its present parameters on the devices of the timing columns."""
    names = devices(store)
    runs = {name: store.latest_run(info.name, name) for name in names}
    cells = {name: _time_cell(info, name, run) for name, run in runs.items()}
    main = _result(runs[names[-1]])
    cells[SPEED_UP] = _speed_up([_result(run) for run in runs.values()])
    cells[RATE] = Span(rate(main))
    cells[LIMIT] = Span(of_limit(main))
    cells[PEAK] = Span(_peak(main))
    settings = _settings(store, info)
    return Row(info.name, Span(f"{info.name} {settings}".strip()), cells, _state(store, runs))


def _settings(store: Store, info: WorkloadInfo) -> str:
    """The parameters in short; changed ones come first, as the end may have no room."""
    present = store.parameters.get(info.name, {})
    defaults = {parameter.name: parameter.default for parameter in info.parameters}
    names = sorted(present, key=lambda name: present[name] == defaults.get(name))
    return parameters.short({name: present[name] for name in names})


# ---- cells -------------------------------------------------------------------------------------


def half_width(time: Timing) -> float | None:
    """Half of the 95 % interval over the median."""
    if time.ci95_s is None or not time.median_s:
        return None
    return (time.ci95_s[1] - time.ci95_s[0]) / 2 / time.median_s


def median(time: Timing) -> str:
    """The median with the digits that its interval supports."""
    return text.seconds(time.median_s, half_width(time))


def _result(run: RunState | None) -> RunResult | None:
    return run.result if run else None


def _runs_on(info: WorkloadInfo, device: str) -> bool:
    return device.partition(":")[0] in info.devices


def _time_cell(info: WorkloadInfo, device: str, run: RunState | None) -> Span:
    if not _runs_on(info, device):
        return Span(text.NA, Tone.QUIET)
    if run is None:
        return Span("")
    if run.result is not None:
        if run.result.time is not None:
            return Span(median(run.result.time))
        return Span(glyphs.GLYPHS.dash, Tone.QUIET)  # the state column says why
    if run.progress is None:
        return Span("queued", Tone.QUIET)
    if run.progress.estimate_s is None:
        return Span(glyphs.GLYPHS.ellipsis, Tone.KEY)
    return Span(text.seconds(run.progress.estimate_s, run.progress.half_width or 0.1), Tone.KEY)


_TONES = {"failed": Tone.BAD, "skipped": Tone.QUIET, "cancelled": Tone.NOTE}


def _speed_up(results: list[RunResult | None]) -> Span:
    times = [result.time for result in results if result and result.time]
    if len(times) < 2 or not times[1].median_s:
        return Span("")
    widths = [half_width(time) for time in times]
    # Relative errors of independent medians add in quadrature.
    known = None if None in widths else sum((width or 0.0) ** 2 for width in widths) ** 0.5
    return Span(text.ratio(times[0].median_s / times[1].median_s, known))


def rate(result: RunResult | None) -> str:
    """The rate that the workload is about: floating point, else bytes, else items."""
    if result is None or result.time is None:
        return ""
    width, rates = half_width(result.time), result.rates
    if rates.flop_per_s is not None:
        return text.rate(rates.flop_per_s, "FLOP/s", width)
    if rates.byte_per_s is not None:
        return text.rate(rates.byte_per_s, "B/s", width)
    if rates.item_per_s is not None:
        return text.rate(rates.item_per_s, "items/s", width)
    return text.NA


def of_limit(result: RunResult | None) -> str:
    """The share of the limit and the limit's name: ``76% float32``."""
    if result is None or result.time is None:
        return ""
    if result.limit is None:
        return text.NA
    return f"{text.share(result.limit.fraction)} {result.limit.name}"


def _peak(result: RunResult | None) -> str:
    if result is None or result.time is None:
        return ""
    memory = result.memory
    return text.size(
        memory.allocated_peak if memory.allocated_peak is not None else memory.process_peak
    )


# ---- the state ---------------------------------------------------------------------------------


def progress_words(progress: Progress) -> str:
    """How far a run is: ``block 7 ±1.1%, ≤3 s left``."""
    if progress.phase != "measuring":
        return progress.phase
    words = f"block {progress.blocks}"
    if progress.half_width is not None:
        words += f" {text.spread(progress.half_width)}"
    if progress.remaining_s is not None:
        words += f", {glyphs.GLYPHS.at_most}{text.duration(progress.remaining_s)} left"
    return words


def other_flags(store: Store, run: RunState) -> tuple[str, ...]:
    """Flags of the run's device that were set otherwise than they are now."""
    kind = run.request.device.partition(":")[0]
    flags = store.environment.flags if store.environment else ()
    return tuple(
        flag.name
        for flag in flags
        if kind in flag.device_types
        and flag.unavailable is None
        and run.request.flags.get(flag.name) not in (None, store.flags.get(flag.name))
    )


def _state(store: Store, runs: dict[str, RunState | None]) -> tuple[Span, ...]:
    """One phrase per device; the device is named unless there is only one or all say the same."""
    said = {device: _phrase(store, run) for device, run in runs.items() if run}
    if not said:
        return (Span("not run", Tone.QUIET),)
    results = [run.result for run in runs.values() if run is not None and run.result]
    if len(results) == len(said) and all(result.status == "ok" for result in results):
        return _all_ok(store, [run for run in runs.values() if run is not None])
    if len(runs) == 1:  # no GPU: the only column says whose state it is
        return next(iter(said.values()))
    spans: list[Span] = []
    # A time stands in its column: that it is well says nothing more beside what is not.
    said = {name: phrase for name, phrase in said.items() if phrase[0].tone is not Tone.GOOD}
    # What goes on or went wrong is read first.
    for device, phrase in sorted(said.items(), key=lambda item: _urgency(runs[item[0]])):
        spans.extend((Span("; " if spans else ""), Span(f"{device} "), *phrase))
    return tuple(spans)


def _urgency(run: RunState | None) -> int:
    if run is None:
        return 5
    if run.result is None:
        return 0 if run.progress else 3
    return {"failed": 1, "skipped": 4, "cancelled": 2, "ok": 4}[run.result.status]


def _phrase(store: Store, run: RunState) -> tuple[Span, ...]:
    if run.result is None:
        if run.progress is None:
            return (Span("queued", Tone.QUIET),)
        return (Span(progress_words(run.progress), Tone.KEY),)
    result = run.result
    if result.status == "ok":
        return _all_ok(store, [run])
    words = f"{result.status}: {result.reason}" if result.reason else result.status
    return (Span(words, _TONES[result.status]), *_marks(store, [run]))


def _all_ok(store: Store, runs: list[RunState]) -> tuple[Span, ...]:
    results = [run.result for run in runs if run.result]
    checks = [result.check for result in results if result.check]
    if any(not check.passed for check in checks):
        return (Span("wrong result", Tone.BAD), *_marks(store, runs))
    widths = [half_width(result.time) for result in results if result.time]
    known = [width for width in widths if width is not None]
    spread = f" {text.spread(max(known))}" if known else ""
    return (Span("ok", Tone.GOOD), Span(spread), *_marks(store, runs))


def warnings_of(run: RunState) -> tuple[str, ...]:
    """The run's own warnings and those of the device while it ran."""
    own = run.result.warnings if run.result else ()
    return own + (run.conditions.warnings if run.conditions else ())


def _marks(store: Store, runs: list[RunState]) -> tuple[Span, ...]:
    """What keeps a result from being taken as it stands."""
    marks = []
    warnings = sum(len(warnings_of(run)) for run in runs)
    if warnings:
        mark = glyphs.GLYPHS.warning
        marks.append(Span(f" {mark} {text.count(warnings, 'warning')}", Tone.NOTE))
    if any(other_flags(store, run) for run in runs):
        marks.append(Span(" other flags", Tone.NOTE))
    return tuple(marks)
