"""Records of workloads, flags and devices, and of the results of runs and comparisons."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Union

from workloads.protocol.wire import field_values

Setting = Union[bool, int, float, str]
"""A value of a parameter or of a flag."""

Need = Literal["2 GPUs", "a C++ compiler", "Triton", "torch.distributed"]
"""``2 GPUs``: torch must see them; a C++ compiler, which torch.compile needs on the CPU; Triton,
which it needs on a GPU; ``torch.distributed``, which some builds omit."""

Convolutions = Literal["none", "some", "only"]
"""The convolutions of a workload: none, beside other operations, or alone."""


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """One parameter of a workload: its default and its accepted values."""

    name: str
    default: Setting
    about: str
    choices: tuple[Setting, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    auto: bool = False
    """0 lets the workload choose the number; users see and type ``auto``."""
    form: str = ""
    """For a text: a regular expression that it must match in full."""
    form_about: str = ""
    """The regular expression in words."""


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    """A workload's description, available without torch."""

    name: str
    group: str
    """A key of :data:`workloads.protocol.groups.QUESTIONS`, or a user's own."""
    title: str
    about: str
    look_for: str
    parameters: tuple[ParameterInfo, ...]
    devices: tuple[str, ...]
    """Supported device types: cpu, cuda, mps."""
    needs: tuple[Need, ...] = ()
    """Requirements beside torch and a device."""
    compared: bool = False
    """Switching a backend flag starts a comparison at once; for others, on request only."""
    ranks: bool = False
    """The workload runs in several processes that torchrun starts."""
    fresh_process: bool = False
    """Each run needs a new process, since it shows what happens the first time."""
    code: str = ""
    """The timed functions of the script, or the timed lines; empty before they are read."""
    convolutions: Convolutions = "none"
    """Decides which flags act on the workload (:mod:`workloads.protocol.flag_words`)."""
    question: str = ""
    """One question that a run answers; each of the first steps has one."""
    choices: tuple[str, ...] = ()
    """Possible answers to pick from, numbered from 1; empty if the question has none."""
    right_choice: int = 0
    """Number of the right one; 0 without choices."""
    answer: str = ""
    """The right answer, and why it is."""
    script: str = ""
    """The text of a program with the timed functions, which imports only torch and the standard
    library; empty for a workload of a user's file, and before it is read."""


@dataclass(frozen=True, slots=True)
class FlagInfo:
    """A switch of a torch backend."""

    name: str
    """Name on the command line: ``cudnn.benchmark``."""
    title: str
    about: str
    device_types: tuple[str, ...]
    fresh_process: bool
    """The flag takes effect only in a process that has not run the operation yet."""
    default: bool
    unavailable: str | None
    """Why the flag has no effect here; ``None`` where it has one."""


@dataclass(frozen=True, slots=True)
class TorchDevice:
    """A device as torch numbers it."""

    id: str
    """``cuda:0``, ``mps`` or ``cpu``."""
    name: str
    uuid: str | None = None
    """UUID in NVML's form, ``GPU-…``, to match torch's device with NVML's."""
    pci_bus_id: str | None = None
    total_memory: int | None = None
    capability: str | None = None
    multi_processors: int | None = None
    clock_hz: float | None = None
    """The highest clock of the multiprocessors."""
    l2_bytes: int | None = None
    memory_clock_hz: float | None = None
    """The highest memory clock; data is transferred at both edges."""
    memory_bus_bits: int | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """Conditions of a figure besides the device: the runner's Python, torch and threads."""

    python: str
    executable: str
    torch: str
    cuda: str | None
    cudnn: str | None
    cpu: str
    cpus_usable: int
    threads: int
    interop_threads: int
    malloc: str
    variables: dict[str, str]
    """Environment variables that change timings, as found."""
    devices: tuple[TorchDevice, ...]
    flags: tuple[FlagInfo, ...]
    unavailable: dict[str, str] = field(default_factory=dict)


Status = Literal["ok", "failed", "skipped", "cancelled"]
OUT_OF_MEMORY = "out of memory: "
"""Beginning of the reason of a run for which the device had no memory."""
UNTRUSTED = "do not trust this figure"
"""End of a warning about a time that says nothing of the workload."""
IMPOSSIBLE = "of the limit is impossible"
"""Words of the warning that a rate exceeds what its device can reach: its time is wrong."""
UNTRUSTED_VERDICT = "do not trust this verdict"
"""End of a warning about a comparison that says nothing of its settings."""
Verdict = Literal["faster", "slower", "same", "unclear"]
Basis = Literal["published", "derived", "measured"]
"""Source of a limit: a datasheet, the device's properties, or a measurement on this machine."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call; the statistics are taken over blocks of calls, never over single calls."""

    median_s: float
    q1_s: float
    q3_s: float
    min_s: float
    p95_s: float | None
    """Percentile of single calls timed one by one; ``None`` for fewer than twenty."""
    ci95_s: tuple[float, float] | None
    """95% interval of the median by order statistics; needs six blocks."""
    blocks: int
    calls: int
    first_call_s: float
    first_call_cold: bool
    """The workload had not run in this process before: the first call loads and searches."""
    stopped_by: str
    clock: Literal["device", "wall"]
    wall_median_s: float
    device_median_s: float | None
    enqueue_s: float | None
    """Host time to launch one call without waiting for it."""
    faults_per_call: float | None
    """Minor page faults of this process per timed call; on the CPU they can be most of the time."""
    other_cpu_cores: float | None
    """Cores, of those we may use, that other processes kept busy meanwhile."""
    block_times_s: tuple[float, ...]
    measured_from: float
    """Unix time of the first block, to match it with samples of the device."""
    measured_to: float


@dataclass(frozen=True, slots=True)
class Rates:
    """The work of a workload per second; ``None`` for work that it does not count."""

    flop_per_s: float | None
    byte_per_s: float | None
    item_per_s: float | None


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a rate."""

    name: str
    value: float
    fraction: float
    """Measured rate over the limit: 1.0 is the limit itself."""
    source: str
    basis: Basis = "published"
    error: float = 0.03
    """Share by which a true rate can exceed ``value``."""
    disturbed: bool = False
    """Other processes kept the CPU busy during the measurement, so it may be too low."""

    @property
    def exceeded(self) -> bool:
        """Return whether the rate exceeds the limit by more than the limit's own error."""
        return self.fraction > 1 + self.error


COPY = "copy"
"""Kind of the ceiling of memory traffic; the other kinds are precisions."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The highest rate of one kind measured on a device."""

    kind: str
    """A precision of multiplications, as ``Case.precision``, or :data:`COPY`."""
    value: float
    """FLOP/s; for a copy byte/s, read and written bytes together."""
    how: str
    """The measurement and its duration."""
    measured_at: float
    """Unix time."""
    under: dict[str, str]
    """Its conditions, by name."""
    disturbed: bool = False
    """Other processes kept the CPU busy meanwhile: it may be too low, and is not stored."""


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """Peaks during the run, bytes; the allocator's are exact."""

    allocated_peak: int | None
    """Bytes of tensors, without cuBLAS's workspaces. On the CPU, the counted bytes of tensors plus
    the resident memory that one call needs."""
    reserved_peak: int | None
    process_peak: int | None
    workspace: int | None = None
    """cuBLAS's workspaces, which reserved bytes include and allocated bytes exclude."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A further number or fact of a workload."""

    value: float | str | None
    unit: str = ""
    about: str = ""


Cell = Union[float, str, None]
"""A table's cell; ``None`` is an unknown value."""


@dataclass(frozen=True, slots=True)
class DataColumn:
    """One column of a table."""

    name: str
    unit: str = ""
    """Unit of its numbers: s, byte, byte/s, FLOP/s, samples/s, x, %; none for text and counts."""


@dataclass(frozen=True, slots=True)
class Table:
    """Several settings side by side, or a sequence of steps."""

    name: str
    title: str
    columns: tuple[DataColumn, ...]
    rows: tuple[tuple[Cell, ...], ...] = ()
    unreliable: bool = False
    """Other programs used the CPU while it was timed."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: a value for each place on its axis, ``None`` where unknown."""

    name: str
    unit: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Values over a size, or over a sequence of steps."""

    name: str
    title: str
    axis: str
    """Quantity on the horizontal axis: a parameter's name, or ``step``."""
    places: tuple[float, ...]
    """Ascending values; for steps, their numbers from 1."""
    series: tuple[Series, ...]
    labels: tuple[str, ...] = ()
    """Names of the places, where they are steps."""
    marks: tuple[str, ...] = ()
    """The chart's main features, a line each, such as where one curve overtakes the other."""
    unreliable: bool = False
    """Other programs used the CPU while it was timed."""


@dataclass(frozen=True, slots=True)
class Check:
    """A comparison of the result with a reference."""

    passed: bool
    error: float | None
    """``None`` for an error that is not a number, which does not pass."""
    tolerance: float
    against: str


@dataclass(frozen=True, slots=True)
class MeasuredSpan:
    """Start and end of a measurement, Unix times, to match it with samples of the devices."""

    start: float
    end: float
    devices: tuple[str, ...]
    """Devices of this host in use meanwhile, by torch's names."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run of one workload on one device."""

    id: str
    workload: str
    device: str
    parameters: dict[str, Setting]
    flags: dict[str, bool]
    status: Status
    reason: str | None = None
    time: Timing | None = None
    rates: Rates = Rates(None, None, None)
    limit: Limit | None = None
    memory: PeakMemory = PeakMemory(None, None, None)
    figures: dict[str, Figure] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    log: tuple[str, ...] = ()
    """Messages of the workload's study, line by line."""
    check: Check | None = None
    started_at: float | None = None
    """Unix time, to match the run with samples of the device."""
    ended_at: float | None = None
    warnings: tuple[str, ...] = ()
    trace: str | None = None
    unavailable: dict[str, str] = field(default_factory=dict)
    spans: tuple[MeasuredSpan, ...] = ()
    """Spans of the timed blocks, and of further loads beside them."""
    pids: tuple[int, ...] = ()
    """Processes of this host that executed it; empty where the worker itself did."""
    chosen: dict[str, Setting] = field(default_factory=dict)
    """The values in use of parameters that may depend on the type of device."""


NOT_PASSED = "the check of the result has not passed"
NOT_CHECKED = "the result is not checked yet"
_RATIOS = ("x", "%")
RATIO_COLUMNS = ("speed-up", "more time")
"""Columns of a table with the ratio of a variant to the first, as a factor or as a percentage."""
OF_A_RATIO = ("interval", "verdict")
"""Columns that say something about the ratio beside them."""


def is_performance_claim(unit: str) -> bool:
    """Return whether a unit's numbers measure performance: a rate, a speed-up, a share."""
    return unit in _RATIOS or unit.endswith("/s")


def may_claim(result: RunResult) -> bool:
    """Return whether a run may claim a speed: its check passed, or it ended well without one."""
    return result.check.passed if result.check is not None else result.status == "ok"


def drop_invalid_claims(result: RunResult) -> RunResult:
    """Return a result, unchanged if :func:`may_claim`, else without its claims."""
    return result if may_claim(result) else drop_claims(result, NOT_PASSED)


def drop_claims(result: RunResult, reason: str) -> RunResult:
    """Return a result without rates, shares of a limit and speed-ups.

    A wrong answer can take no time at all. The time itself stays, as do sizes and counts.

    Args:
        result: a run's result, ended or not.
        reason: why they are absent.
    """
    why = dict(result.unavailable)
    for name, value in field_values(result.rates).items():
        if value is not None:
            why[f"rates.{name}"] = reason
    if result.limit is not None:
        why["limit"] = reason
    figures = dict(result.figures)
    for name, figure in result.figures.items():
        if is_performance_claim(figure.unit) and figure.value is not None:
            figures[name] = replace(figure, value=None)
            why[f"figures.{name}"] = reason
    return replace(
        result,
        rates=Rates(None, None, None),
        limit=None,
        figures=figures,
        tables=tuple(_drop_table_claims(table) for table in result.tables),
        charts=tuple(_drop_chart_claims(chart) for chart in result.charts),
        unavailable=why,
    )


def _drop_table_claims(table: Table) -> Table:
    claims = [is_performance_claim(column.unit) for column in table.columns]
    if not any(claims):
        return table
    names = [column.name for column in table.columns]
    has_ratio = any(name in RATIO_COLUMNS for name in names)
    blank = [has_ratio and name in OF_A_RATIO for name in names]
    rows = tuple(
        tuple(
            None if claim else "" if blanked else cell
            for claim, blanked, cell in zip(claims, blank, row, strict=True)
        )
        for row in table.rows
    )
    return replace(table, rows=rows)


def _drop_chart_claims(chart: Chart) -> Chart:
    if not any(is_performance_claim(series.unit) for series in chart.series):
        return chart
    valid = tuple(
        replace(series, values=(None,) * len(series.values))
        if is_performance_claim(series.unit)
        else series
        for series in chart.series
    )
    return replace(chart, series=valid, marks=())


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the two settings of a comparison; medians over its pairs."""

    setting: bool
    median_s: float | None
    first_call_s: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two compared settings of a flag; ``ratio`` is time A / time B: above 1, B is faster."""

    id: str
    workload: str
    device: str
    parameters: dict[str, Setting]
    flag: str
    arms: tuple[Arm, Arm]
    ratio: float | None
    ci95: tuple[float, float] | None
    pairs: int
    pairs_wanted: int
    verdict: Verdict
    break_even_calls: float | None
    fresh_process: bool
    pair_ratios: tuple[float, ...] = ()
    measured: tuple[tuple[float, float], ...] = ()
    """Start and end, Unix times, of each timed stretch, to match them with samples."""
    devices: tuple[str, ...] = ()
    """Devices in use meanwhile; empty for ``device`` alone."""
    status: Status = "ok"
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    unavailable: dict[str, str] = field(default_factory=dict)


def first_line(error: BaseException) -> str:
    """Return an exception's text in one line, or its class name where the text is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
