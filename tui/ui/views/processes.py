"""Who holds the memory of a device, in a column that adds up to the device's figure. Pure."""

from __future__ import annotations

from typing import Literal

from tui.memory.figures import device_age, why_old
from tui.monitor.messages import Device, GpuProcess, Sample
from tui.state.age import stale_after
from tui.state.pairing import CPU, DeviceView
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, fit_line, left, line, paragraph, right
from workloads.protocol.frozen import frozen

Order = Literal["memory", "pid", "user", "age"]
ORDERS: tuple[Order, ...] = ("memory", "pid", "user", "age")
PID, USER, SIZE, KIND, AGE = 8, 10, 10, 9, 6
KIND_FROM = 64
"""Cells from which the kind has a column."""
CONTAINER = (
    "NVML lists the host's processes, and a container sees none of them, or numbers that are the "
    "host's: start the container with --pid=host to have them named"
)
RESIDENT = (
    "resident memory counts the pages that processes share once for each of them, so the column "
    "can add up to more than is used"
)


@frozen
class Remainder:
    """A line below the processes: what no process of the list accounts for."""

    label: str
    memory: int | None
    about: str
    strong: bool = False


@frozen
class Holders:
    """Who holds the memory of one device."""

    processes: tuple[GpuProcess, ...]
    remainders: tuple[Remainder, ...]
    notes: tuple[str, ...]
    """What is to be known of the list, a line each."""


def holders(view: DeviceView, sample: Sample | None, order: Order, now: float) -> Holders:
    """The processes of a device in the order asked for, and what is left to its figure.

    Args:
        view: the device.
        sample: the monitor's newest; ``None`` before the first.
        order: of the rows; those whose value is not known come last.
        now: Unix time.
    """
    if sample is None:
        return Holders((), (), ("waiting for the monitor",))
    if view.key == CPU:
        return _of_host(sample, order, now)
    if view.nvml is None:
        return Holders((), (), (view.unpaired or "NVML does not know this device",))
    return _of_gpu(view.nvml, view.before_loss, sample, order, now)


def _of_gpu(
    device: Device, before_loss: Device | None, sample: Sample, order: Order, now: float
) -> Holders:
    notes: list[str] = []
    seconds = device_age(device, sample, now)
    if device.lost and before_loss is not None:
        read = text.age(now - before_loss.read_at)
        notes.append(f"lost: {device.lost}; these are its last figures, read {read}")
        device = before_loss
    elif device.lost:
        notes.append(f"lost: {device.lost}")
    elif seconds > stale_after(sample):
        notes.append(f"old figures, read {text.age(seconds)}: {why_old(sample)}")
    rows = device.processes
    memory = device.memory
    if rows is None:
        reason = device.unavailable.get("processes", "NVML lists no processes here")
        notes.append(f"processes n/a: {reason}")
    unnamed = [row for row in rows or () if row.memory is None]
    known = sum(row.memory for row in rows or () if row.memory is not None)
    if not rows and memory.used:
        notes.append(CONTAINER)
    found = [_unattributed(memory.used, known, len(unnamed), listed=rows is not None)]
    used_about = "device used, by NVML"
    if memory.used is None:
        used_about = device.unavailable.get("memory.used", "not reported")
    found.append(Remainder("device used", memory.used, used_about, strong=True))
    if memory.driver_reserved is not None:
        found.append(Remainder("driver", memory.driver_reserved, "kept by the driver for itself"))
    found.append(Remainder("free", memory.free, ""))
    found.append(Remainder("total", memory.total, ""))
    return Holders(in_order(rows or (), order), tuple(found), tuple(notes))


def _unattributed(used: int | None, known: int, unnamed: int, *, listed: bool) -> Remainder:
    """What is used, less what the processes of the list hold."""
    if used is None:
        return Remainder("unattributed", None, "the device's own figure is not known")
    rest = used - known
    if rest < 0:
        about = "more than used: memory that processes share, or figures of two moments"
        return Remainder("counted twice", -rest, about)
    if unnamed:
        who = text.count(unnamed, "process", "processes")
        return Remainder("unattributed", rest, f"{who} above without a figure, or others unseen")
    if not listed:
        return Remainder("unattributed", rest, "no list of processes to attribute it to")
    about = "processes that NVML does not list, and the driver's part" if rest else ""
    return Remainder("unattributed", rest, about)


def _of_host(sample: Sample, order: Order, now: float) -> Holders:
    memory, listed = sample.host.memory, sample.host_processes
    total = [
        Remainder("used", memory.used, "of the host, or of the container's limit", strong=True),
        Remainder("available", memory.available, "to allocate without swapping"),
        Remainder("total", memory.total, ""),
    ]
    if listed is None:
        return Holders((), tuple(total), ("waiting for the list of the host's processes",))
    notes = [RESIDENT]
    if now - sample.at > stale_after(sample):
        notes.insert(0, f"old figures, read {text.age(now - sample.at)}: {why_old(sample)}")
    if listed.hidden:
        who = text.count(listed.hidden, "process", "processes")
        notes.append(f"{who} of other users not shown: their memory needs root")
    rest: list[Remainder] = []
    if listed.others_memory:
        who = text.count(listed.others, "smaller process", "smaller processes")
        rest.append(Remainder("others", listed.others_memory, who))
    known = sum(row.memory or 0 for row in listed.rows) + listed.others_memory
    if known < memory.used:
        about = "the kernel, shared memory and what is not shown"
        rest.append(Remainder("unattributed", memory.used - known, about))
    else:
        rest.append(Remainder("counted twice", known - memory.used, "shared pages, at least"))
    return Holders(in_order(listed.rows, order), (*rest, *total), tuple(notes))


def in_order(rows: tuple[GpuProcess, ...], order: Order) -> tuple[GpuProcess, ...]:
    """The rows sorted; what is not known comes last, equal ones by PID."""
    if order == "memory":
        return tuple(
            sorted(rows, key=lambda row: (row.memory is None, -(row.memory or 0), row.pid))
        )
    if order == "user":
        return tuple(sorted(rows, key=lambda row: (row.user is None, row.user or "", row.pid)))
    if order == "age":
        return tuple(
            sorted(rows, key=lambda row: (row.started_at is None, row.started_at or 0.0, row.pid))
        )
    return tuple(sorted(rows, key=lambda row: row.pid))


# ---- lines -------------------------------------------------------------------------------------


def heading(order: Order, cells: int) -> Line:
    """The columns' names; the one that the rows are sorted by is marked with its word."""

    def name(word: str, cells: int, *, from_right: bool = False) -> Span:
        place = right(word, cells) if from_right else left(word, cells)
        return Span(place, TextStyle.KEY if word == order else TextStyle.QUIET)

    spans = [name("pid", PID, from_right=True), Span(" "), name("user", USER)]
    spans.append(name("memory", SIZE, from_right=True))
    if cells >= KIND_FROM:
        spans += [Span("  "), name("kind", KIND)]
    spans += [name("age", AGE, from_right=True), Span("  "), name("command", 8)]
    return fit_line(tuple(spans), cells)


def process_line(row: GpuProcess, worker_pid: int | None, now: float, cells: int) -> Line:
    """One process; ours is named as what it is."""
    worker = row.pid == worker_pid and row.started_at is not None
    ours = worker or row.ours
    known_age = row.started_at is not None
    spans = [
        Span(right(str(row.pid), PID), TextStyle.STRONG if ours else TextStyle.PLAIN),
        Span(f" {left(row.user or text.NA, USER)}"),
        Span(right(text.size(row.memory), SIZE), TextStyle.STRONG),
    ]
    if cells >= KIND_FROM:
        spans.append(Span(f"  {left(row.kind, KIND)}", TextStyle.QUIET))
    age = text.old(max(0.0, now - row.started_at)) if row.started_at is not None else text.NA
    spans.append(Span(right(age, AGE), TextStyle.PLAIN if known_age else TextStyle.QUIET))
    what = "this workbench's worker" if worker else row.command or text.NA
    if ours and not worker:
        what = f"of this workbench: {what}"
    why = "; ".join(dict.fromkeys(row.unavailable.values()))
    words = f"  {what}" + (f" ({why})" if why else "")
    return fit_line((*spans, Span(words)), cells)


def remainder_lines(found: Holders, cells: int) -> list[Line]:
    """What is below the processes, each with its figure at the place of the column."""
    lines: list[Line] = []
    for item in found.remainders:
        style = TextStyle.STRONG if item.strong else TextStyle.PLAIN
        head = line(
            Span(right(item.label, PID + 1 + USER), style),
            Span(right(text.size(item.memory), SIZE), TextStyle.STRONG),
            Span(f"  {item.about}", TextStyle.QUIET),
        )
        lines.append(fit_line(head, cells))
    for note in found.notes:
        lines += paragraph(note, cells, TextStyle.NOTE)
    return lines


def selected_lines(row: GpuProcess | None, cells: int) -> list[Line]:
    """The whole command of a process and why something of it is not known."""
    if row is None:
        return []
    lines = paragraph(f"{row.pid}  {row.command or text.NA}", cells)
    for name, reason in row.unavailable.items():
        lines += paragraph(f"{name} n/a: {reason}", cells, TextStyle.QUIET)
    return lines
