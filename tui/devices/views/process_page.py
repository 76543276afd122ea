"""The page of one process: facts from the system, from NVML and from its environment. Pure."""

from __future__ import annotations

from tui.core.text import numbers as text
from tui.devices.session.process_details import ProcessDetails
from tui.devices.state.devices import CPU
from tui.devices.views.device_detail import DeviceSection, Fact
from tui.devices.views.device_page import section_heading, section_lines
from tui.kit.lines import Line, Span, TextStyle, fit, left, line, paragraph, right, wrap
from tui.monitor.messages import GpuProcess

MOST_THREADS = 12
NAME_CELLS = 20
GPU_WORDS = ("CUDA", "NVIDIA", "NCCL", "TORCH", "PYTORCH", "CUDNN", "CUBLAS", "OMP", "MKL", "RANK")
"""Beginnings of the names of variables that change a GPU program's behavior; they come first."""


def process_page(
    row: GpuProcess, gpu: str, details: ProcessDetails | None, now: float, cells: int
) -> list[Line]:
    """Return the whole page.

    Args:
        row: the process as it is listed.
        gpu: name of its device, or the CPU's.
        details: facts from the system; ``None`` while they are read.
        now: Unix time.
        cells: width of a line.
    """
    lines = section_lines(DeviceSection("process", tuple(_facts(row, gpu, details, now))), cells)
    return [*lines, *detail_lines(details, cells)]


def detail_lines(details: ProcessDetails | None, cells: int) -> list[Line]:
    """Return the sections on threads, the tree and the environment.

    Args:
        details: facts from the system; ``None`` while they are read.
        cells: width of a line.
    """
    if details is None:
        return [(), *paragraph("reading threads and environment", cells, TextStyle.QUIET)]
    if "process" in details.unavailable:
        words = f"threads, tree, environment n/a: {details.unavailable['process']}"
        return [(), *paragraph(words, cells, TextStyle.QUIET)]
    return [
        (),
        *_tree_lines(details, cells),
        (),
        *_thread_lines(details, cells),
        (),
        *_environment_lines(details, cells),
    ]


def _facts(row: GpuProcess, gpu: str, details: ProcessDetails | None, now: float) -> list[Fact]:
    def format_fact(name: str, value: object) -> str:
        if value is not None:
            return str(value)
        absent = {**row.unavailable, **(details.unavailable if details else {})}
        return f"{text.NA}: {absent.get(name) or 'not reported'}"

    age = None if row.started_at is None else text.old(max(0.0, now - row.started_at))
    memory = None if row.memory is None else text.size(row.memory)
    host = None if row.host_memory is None else text.size(row.host_memory)
    busy = None if row.sm_percent is None else text.percent(row.sm_percent)
    cpu = None if row.cpu_percent is None else text.percent(row.cpu_percent)
    facts = [
        ("pid", str(row.pid)),
        ("command", format_fact("command", row.command)),
        ("user", format_fact("user", row.user)),
        ("running for", format_fact("started_at", age)),
        ("processor", format_fact("cpu_percent", cpu and f"{cpu} of one core")),
        ("host memory", format_fact("host_memory", host)),
    ]
    if gpu != CPU:
        facts += [
            (f"memory on {gpu}", format_fact("memory", memory)),
            ("multiprocessors", format_fact("sm_percent", busy and f"{busy} busy")),
            ("kind", row.kind or text.NA),
        ]
    if details is not None and "process" not in details.unavailable:
        facts += [
            ("state", format_fact("state", details.state)),
            ("executable", format_fact("executable", details.executable)),
            ("folder", format_fact("folder", details.folder)),
            ("open files", format_fact("open_files", details.open_files)),
        ]
    return facts


def _absent(details: ProcessDetails, name: str, cells: int) -> list[Line]:
    reason = details.unavailable.get(name, "not reported")
    return paragraph(f"{text.NA}: {reason}", cells, TextStyle.QUIET)


def _tree_lines(details: ProcessDetails, cells: int) -> list[Line]:
    lines = [section_heading("tree", cells)]
    if details.tree is None:
        return [*lines, *_absent(details, "tree", cells)]
    for relative in details.tree:
        style = TextStyle.STRONG if relative.pid == details.pid else TextStyle.PLAIN
        words = f"{right(str(relative.pid), 8)}  {'  ' * relative.depth}{relative.command}"
        lines.append(line(Span(fit(words, cells), style)))
    return lines


def _thread_lines(details: ProcessDetails, cells: int) -> list[Line]:
    threads = details.threads
    count = "threads" if threads is None else text.count(len(threads), "thread")
    lines = [section_heading(f"{count}, by processor time", cells)]
    if threads is None:
        return [*lines, *_absent(details, "threads", cells)]
    for thread in threads[:MOST_THREADS]:
        spent = right(text.duration(thread.cpu_s), 10)
        words = f"{right(str(thread.id), 8)}  {left(thread.name or text.NA, NAME_CELLS)}{spent}"
        lines.append(line(fit(words, cells)))
    if len(threads) > MOST_THREADS:
        rest = threads[MOST_THREADS:]
        spent = text.duration(sum(thread.cpu_s for thread in rest))
        lines.append(line(Span(f"{len(rest)} more, {spent} together", TextStyle.QUIET)))
    return lines


def _environment_lines(details: ProcessDetails, cells: int) -> list[Line]:
    lines = [section_heading("environment, likely secrets masked", cells)]
    if details.environment is None:
        return [*lines, *_absent(details, "environment", cells)]
    if not details.environment:
        return [*lines, line(Span("empty", TextStyle.QUIET))]
    indent = " " * min(4, cells // 4)
    ordered = sorted(details.environment, key=lambda item: not item[0].startswith(GPU_WORDS))
    for name, value in ordered:
        rows = wrap(f"{name}={value}", cells, indent)
        head = min(len(name), len(rows[0]))
        first = line(Span(rows[0][:head], TextStyle.KEY), rows[0][head:])
        lines += [first, *(line(row) for row in rows[1:])]
    return lines
