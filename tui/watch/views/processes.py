"""The processes of a watched run as a table, and a process's memory over time or steps. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tui.allocators.messages import CPU_BUILD, NO_TENSOR_YET, NO_TORCH, NOT_USED_YET
from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.glyphs import clean
from tui.core.text.numbers import plain, significant
from tui.kit.lines import Line, Span, TextStyle, cell_len, paragraph
from tui.kit.table import REST, Column, Layout, fit_columns, heading_line, row_line
from tui.watch.runs.ooms import Oom
from tui.watch.state.run import WatchedDevice
from workloads.protocol.messages import TorchMemory

RATE_DIGITS = 0.005
"""Half width of the displayed steps per second, as a share: three digits."""


_FormatRow = Callable[[WatchedDevice], str]


def _figure_text(
    pick: Callable[[TorchMemory], int], render: Callable[[int], str] = text.size
) -> _FormatRow:
    """Return a function for the text of an allocator figure."""

    def format_row(row: WatchedDevice) -> str:
        return text.NA if row.figures is None else render(pick(row.figures))

    return format_row


def _at_oom(pick: Callable[[TorchMemory | Oom], int]) -> _FormatRow:
    """Return a function for an allocator figure, at the OOM if an OOM ended the process.

    The last reading may be later than the OOM, and an exception frees memory as it propagates.
    """

    def format_row(row: WatchedDevice) -> str:
        source = row.at_oom or row.figures
        return text.NA if source is None else text.size(pick(source))

    return format_row


def _allocated(row: WatchedDevice) -> str:
    """Return the allocated bytes, or one word on why they are missing."""
    if row.at_oom is not None:
        return text.size(row.at_oom.allocated)
    if row.figures is None:
        # The column before says what a CPU build of torch computes on.
        word = "" if row.process.reason == CPU_BUILD else clean(row.process.word)
        return word or text.NA
    return text.size(row.figures.allocated)


def _device(row: WatchedDevice) -> str:
    return clean(row.device) or ("cpu" if row.process.reason == CPU_BUILD else text.NA)


def _rank(row: WatchedDevice) -> str:
    rank = row.process.rank
    return text.NA if rank is None else str(rank)


def _steps(row: WatchedDevice) -> str:
    return text.count(row.steps)


def _rate(row: WatchedDevice) -> str:
    value = row.steps_per_s
    if row.stalled_s is not None:
        return glyphs.GLYPHS.dash  # the state column shows the duration
    if value is None:
        return text.NA
    return "0" if not value else plain(significant(value, RATE_DIGITS * value))


def _figure_cell(render: _FormatRow) -> Callable[[WatchedDevice], Span]:
    """Return a cell, dim for an ended row and for a row without figures."""

    def cell(row: WatchedDevice) -> Span:
        quiet = bool(row.ended) or row.figures is None
        return Span(render(row), TextStyle.QUIET if quiet else TextStyle.PLAIN)

    return cell


def _process(row: WatchedDevice) -> str:
    """Return NVML's figure of the process, unless it is older than torch's and too small by now."""
    process, figures = row.placed.process, row.figures
    if process is None or figures is None or row.ended or figures.reserved <= process:
        return text.size(process)
    return "changing"


def _state(row: WatchedDevice) -> Span:
    return Span(*describe_state(row))


COLUMNS: tuple[Column[WatchedDevice], ...] = (
    Column("rank", 4, _figure_cell(_rank), gap=1),
    Column("pid", 7, _figure_cell(lambda row: str(row.process.pid)), gap=1),
    Column("device", 7, _figure_cell(_device), "left", gap=1),
    Column("allocated", 10, _figure_cell(_allocated), gap=1),
    Column("reserved", 9, _figure_cell(_at_oom(lambda figures: figures.reserved)), gap=1),
    Column(
        "peak",
        9,
        _figure_cell(_figure_text(lambda figures: figures.allocated_peak)),
        gap=1,
        drop_order=5,
        leaves=3,
    ),
    Column(
        "process", 9, _figure_cell(_process),
        gap=1, drop_order=3, leaves=9,
    ),
    Column(
        "cached", 9, _figure_cell(_at_oom(lambda figures: figures.reserved - figures.allocated)),
        gap=1, drop_order=2, leaves=9,
    ),
    Column(
        "retries", 7, _figure_cell(_figure_text(lambda figures: figures.alloc_retries, text.count)),
        gap=1, drop_order=1, leaves=9,
    ),
    Column(
        "host", 9, _figure_cell(lambda row: text.size(row.host_rss)), gap=1, drop_order=0, leaves=15
    ),
    Column("step", 8, _figure_cell(_steps), gap=1, drop_order=6, leaves=3),
    Column("steps/s", 7, _figure_cell(_rate), gap=1, drop_order=4, leaves=3),
    Column("state", 1, _state, "left", grows=(REST,)),
)  # fmt: skip
"""All columns from the left; add a column here to show another figure."""


def _host_cell(render: _FormatRow) -> Callable[[WatchedDevice], Span]:
    """Return a cell of host memory, dim for an ended row."""

    def cell(row: WatchedDevice) -> Span:
        return Span(render(row), TextStyle.QUIET if row.ended else TextStyle.PLAIN)

    return cell


CPU_COLUMNS: tuple[Column[WatchedDevice], ...] = (
    Column("rank", 4, _host_cell(_rank), gap=1),
    Column("pid", 7, _host_cell(lambda row: str(row.process.pid)), gap=1),
    Column("device", 7, _host_cell(_device), "left", gap=1),
    Column("host memory", 11, _host_cell(lambda row: text.size(row.host_rss)), gap=1),
    Column(
        "peak", 9, _host_cell(lambda row: text.size(row.host_peak)), gap=1, drop_order=0, leaves=9
    ),
    Column("state", 1, _state, "left", grows=(REST,)),
)
"""The columns of a run on the CPU, which has none of the other figures."""


def is_on_cpu(devices: Sequence[WatchedDevice]) -> bool:
    """Return whether the torch of all processes is built for the CPU."""
    return bool(devices) and all(row.process.reason == CPU_BUILD for row in devices)


Columns = tuple[Column[WatchedDevice], ...]


def choose_columns(devices: Sequence[WatchedDevice]) -> Columns:
    """Return the columns for these rows: ranks only if a launcher has given one."""
    columns = CPU_COLUMNS if is_on_cpu(devices) else COLUMNS
    if any(row.process.rank is not None for row in devices):
        return columns
    return tuple(column for column in columns if column.name != "rank")


@functools.lru_cache(maxsize=8)
def _fit(cells: int, columns: Columns) -> Layout[WatchedDevice]:
    return fit_columns(columns, cells)


def column_names(cells: int) -> frozenset[str]:
    """Return the names of the columns that fit into a width beside a rank."""
    return frozenset(fitted.column.name for fitted in _fit(cells, COLUMNS))


def key_of(row: WatchedDevice) -> str:
    """Return the key of a row, which distinguishes two processes with the same PID."""
    return f"{row.process.pid} {row.process.start} {row.device}"


def heading(cells: int, columns: Columns = COLUMNS) -> Line:
    """Return the column names."""
    return heading_line(_fit(cells, columns))


def device_line(row: WatchedDevice, cells: int, columns: Columns = COLUMNS) -> Line:
    """Return the line of one device of a process."""
    return row_line(_fit(cells, columns), row)


def ended_by_oom(row: WatchedDevice) -> bool:
    """Return whether the newest OOM on the device ended the process."""
    return bool(row.ended) and row.last_oom is not None and row.last_oom.handled is False


def describe_state(row: WatchedDevice) -> tuple[str, TextStyle]:
    """Return the state of the process in a few words."""
    ooms = max(row.figures.ooms if row.figures else 0, row.log.oom_count if row.log else 0)
    if ended_by_oom(row):
        return f"ran out, {ooms} OOMs" if ooms > 1 else "ran out", TextStyle.BAD
    parts = [text.count(ooms, "OOM")] if ooms else []
    if row.ended:
        parts.append(clean(row.ended))
    elif row.agent is None:
        # No agent ever starts on the CPU: its absence needs no word.
        words = {
            CPU_BUILD: [],
            NO_TORCH: ["no torch yet"],
            NOT_USED_YET: ["no CUDA yet"],
            NO_TENSOR_YET: ["no tensor yet"],
        }
        parts += words.get(row.process.reason, ["no agent"])
    elif row.agent.recording:
        parts.append("records")
    if row.stalled_s is not None:
        parts.append(f"no step for {text.duration(row.stalled_s)}")
    if not parts:
        return "runs", TextStyle.QUIET
    return ", ".join(parts), TextStyle.BAD if ooms else TextStyle.QUIET


def _describe_requested(oom: Oom) -> str:
    """Return the requested bytes if the allocator has rounded them up by an amount that shows."""
    if oom.requested is None:
        return ""
    allocated, requested = text.size(oom.allocated), text.size(oom.requested)
    return "" if allocated == requested else f": {allocated} allocated for {requested} requested"


def shows_whole_state(row: WatchedDevice, cells: int) -> bool:
    """Return whether the state fits into its column."""
    return cell_len(describe_state(row)[0]) <= _fit(cells, COLUMNS)[-1].width


ON_CPU = (
    "This torch is built for the CPU: it has no GPU allocator, and its steps are not counted. "
    "A GPU needs a CUDA build of torch."
)


def missing_lines(
    row: WatchedDevice, cells: int, *, has_banner: bool = False, on_cpu: bool = False
) -> list[Line]:
    """Return paragraphs on the end of a row's process and on missing figures, with advice.

    Args:
        row: the device.
        cells: width of a line.
        has_banner: the lines above the table tell how the process ended.
        on_cpu: the run has a row of the CPU's columns.
    """
    if on_cpu:
        return paragraph(ON_CPU, cells, TextStyle.QUIET, indent="  ")
    reasons: dict[str, list[str]] = {}

    def missing(name: str, why: str) -> None:
        reasons.setdefault(why or "not known", []).append(name)

    if row.figures is None and row.at_oom is None:
        advice = f"; {row.process.advice}" if row.process.advice else ""
        missing("allocated, reserved", f"{row.process.reason or 'not read yet'}{advice}")
    if row.placed.process is None and row.figures is not None:
        missing("process", row.placed.why_no_process)
    if row.steps is None:
        missing("step", row.why_no_agent or "the agent has not reported it")
    elif row.agent is None and not row.ended and row.why_no_agent:
        missing("agent", row.why_no_agent)
    lines: list[Line] = []
    words, style = describe_state(row)
    if row.ended and not has_banner and not shows_whole_state(row, cells):
        lines += paragraph(f"{row.process.pid}: {words}", cells, style, indent="  ")
    if row.at_oom is not None:
        words = f"allocated, reserved and cached are as of its OOM{_describe_requested(row.at_oom)}"
        lines += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    for why, names in reasons.items():
        words = f"{', '.join(names)} {text.NA}: {why}"
        lines += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    return lines
