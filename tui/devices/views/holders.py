"""The parts of a device's used memory: its processes and the remainder. Pure.

Unknown facts show a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tui.core.text import numbers as text
from tui.devices.memory.figures import compute_device_age, explain_age, explain_no_processes
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import stale_after
from tui.devices.views.devices import WAITING
from tui.kit.lines import Line, Span, TextStyle, flow, line, paragraph
from tui.monitor.messages import Device, Sample

CONTAINER = "NVML lists the host's processes, which a container sees only with --pid=host"
NO_SIMULATED = "the driver of the simulated GPU lists none"
_ORDER = ("processes", "unattributed", "counted twice", "device used", "driver", "free", "total")
"""Labels of a GPU's account, in their order."""
RESIDENT = "resident memory counts shared pages once for each process"


@dataclass(frozen=True, slots=True)
class Remainder:
    """A line below the processes: memory that no listed process accounts for."""

    label: str
    memory: int | None
    about: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Holders:
    """The processes and the remainders that make up the memory of one device."""

    remainders: tuple[Remainder, ...]
    notes: tuple[str, ...]
    """Remarks about the list, one per line."""


def holders(
    view: DeviceView,
    sample: Sample | None,
    now: float,
    lost: str = "",
    *,
    simulated: bool = False,
) -> Holders:
    """Return the total memory of a device's processes, and the remainder of its used memory.

    Args:
        view: the device.
        sample: the monitor's newest; ``None`` before the first.
        now: Unix time.
        lost: why the monitor's host is not connected; empty while it is.
        simulated: the GPUs are simulated, and their driver lists no processes.
    """
    if sample is None:
        return Holders((), (lost or WAITING,))
    if view.key == CPU:
        return _host_holders(sample, now, lost)
    if view.nvml is None:
        return Holders((), (view.unpaired or "NVML does not know this device",))
    return _gpu_holders(view.nvml, view.before_loss, sample, now, lost, simulated=simulated)


def _gpu_holders(
    device: Device,
    before_loss: Device | None,
    sample: Sample,
    now: float,
    lost: str,
    *,
    simulated: bool,
) -> Holders:
    notes: list[str] = []
    seconds = compute_device_age(device, sample, now)
    if device.lost and before_loss is not None:
        read = text.age(now - before_loss.read_at)
        notes.append(f"lost: {device.lost}; these are its last figures, read {read}")
        device = before_loss
    elif device.lost:
        notes.append(f"lost: {device.lost}")
    elif seconds > stale_after(sample):
        notes.append(f"old figures, read {text.age(seconds)}: {explain_age(sample, lost)}")
    rows = device.processes
    memory = device.memory
    if rows is None:
        reason = NO_SIMULATED if simulated else explain_no_processes(device)
        notes.append(f"processes n/a: {reason}")
    unnamed = [row for row in rows or () if row.memory is None]
    known = sum(row.memory for row in rows or () if row.memory is not None)
    if not rows and memory.used and not simulated:
        notes.append(CONTAINER)
    remainders = [Remainder("processes", known if rows is not None else None, "")]
    remainders += [_unattributed(memory.used, known, len(unnamed), listed=rows is not None)]
    used_about = "by NVML"
    if memory.used is None:
        used_about = device.unavailable.get("memory.used", "not reported")
    remainders.append(Remainder("device used", memory.used, used_about, strong=True))
    if memory.driver_reserved is not None:
        remainders.append(
            Remainder("driver", memory.driver_reserved, "reserved by the driver for itself")
        )
    remainders.append(Remainder("free", memory.free, ""))
    remainders.append(Remainder("total", memory.total, ""))
    return Holders(tuple(remainders), tuple(notes))


def _unattributed(used: int | None, known: int, unnamed: int, *, listed: bool) -> Remainder:
    """Return the used memory minus the memory of the listed processes."""
    if used is None:
        return Remainder("unattributed", None, "the device's own figure is unknown")
    rest = used - known
    if rest < 0:
        about = "shared memory, or figures of two moments"
        return Remainder("counted twice", -rest, about)
    if unnamed:
        owners = text.count(unnamed, "process", "processes")
        return Remainder("unattributed", rest, f"{owners} without a figure, or others unseen")
    if not listed:
        return Remainder("unattributed", rest, "no list of processes to attribute it to")
    about = "processes that NVML does not list, or the driver" if rest else ""
    return Remainder("unattributed", rest, about)


def _host_holders(sample: Sample, now: float, lost: str) -> Holders:
    memory, listed = sample.host.memory, sample.host_processes
    total = [
        Remainder("used", memory.used, "", strong=True),
        Remainder("available", memory.available, ""),
        Remainder("total", memory.total, ""),
    ]
    if listed is None:
        return Holders(tuple(total), (lost or "waiting for the list of the host's processes",))
    notes = [RESIDENT]
    if now - sample.at > stale_after(sample):
        notes.insert(
            0, f"old figures, read {text.age(now - sample.at)}: {explain_age(sample, lost)}"
        )
    if listed.hidden:
        owners = text.count(listed.hidden, "process", "processes")
        notes.append(f"{owners} of other users not shown: their memory needs root")
    rest: list[Remainder] = []
    if listed.others_memory:
        owners = text.count(listed.others, "smaller process", "smaller processes")
        rest.append(Remainder("others", listed.others_memory, owners))
    known = sum(row.memory or 0 for row in listed.rows) + listed.others_memory
    if known < memory.used:
        about = "kernel, shared memory, and what is not shown"
        rest.append(Remainder("unattributed", memory.used - known, about))
    else:
        rest.append(Remainder("counted twice", known - memory.used, "shared pages, at least"))
    return Holders((*rest, *total), tuple(notes))


def add_holders(accounts: Sequence[Holders]) -> Holders:
    """Return the accounts of several GPUs as one: unknown where a figure of one GPU is.

    Args:
        accounts: at least one.
    """
    if len(accounts) == 1:
        return accounts[0]
    rows: dict[str, list[Remainder]] = {label: [] for label in _ORDER}
    for account in accounts:
        for row in account.remainders:
            rows.setdefault(row.label, []).append(row)
    notes = dict.fromkeys(note for account in accounts for note in account.notes)
    return Holders(tuple(_add_rows(same) for same in rows.values() if same), tuple(notes))


def _add_rows(rows: Sequence[Remainder]) -> Remainder:
    """Return the sum of rows with one label, or the first one that is unknown."""
    unknown = next((row for row in rows if row.memory is None), None)
    if unknown is not None:
        return unknown
    about = next((row.about for row in rows if row.about), "")
    return replace(rows[0], memory=sum(row.memory or 0 for row in rows), about=about)


def remainder_lines(holders: Holders, label: str, cells: int) -> list[Line]:
    """Return the parts of a device's used memory: the processes and the remainder.

    Args:
        holders: the account of one device.
        label: the device's name on the screen.
        cells: width of a line.
    """
    parts = [
        line(
            Span(f"{item.label} ", TextStyle.STRONG if item.strong else TextStyle.PLAIN),
            Span(text.size(item.memory), TextStyle.STRONG),
            Span(f" ({item.about})" if item.about else "", TextStyle.QUIET),
        )
        for item in holders.remainders
    ]
    lines = flow([line(Span(label, TextStyle.KEY)), *parts], cells, gap="  ", indent="  ")
    for note in holders.notes:
        lines += paragraph(note, cells, TextStyle.NOTE)
    return lines
