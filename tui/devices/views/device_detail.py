"""All known facts of one device and the parts of its memory. Pure.

Unknown facts show a reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tui.core.text import numbers as text
from tui.devices.memory.figures import compute_device_age, explain_age
from tui.devices.monitor.messages import Device, Sample
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import stale_after
from tui.devices.views.devices import WAITING
from tui.kit.lines import Line, Span, TextStyle, flow, line, paragraph

T = TypeVar("T")
Fact = tuple[str, str]
"""A label and its text."""
CONTAINER = (
    "NVML lists the host's processes, and a container sees none of them, or numbers that are the "
    "host's: start the container with --pid=host to have them named"
)
RESIDENT = (
    "resident memory counts the pages that processes share once for each of them, so the column "
    "can add up to more than is used"
)


def device_detail(view: DeviceView, sample: Sample | None, now: float) -> list[Fact]:
    """Return the labels and values of a device in display order.

    Args:
        view: the device.
        sample: the monitor's newest; ``None`` before the first.
        now: Unix time.
    """
    if view.key == CPU:
        return _cpu(view, sample, now)
    facts = [("name", view.name), ("torch name", _torch_name(view))]
    torch = view.torch_device
    if torch is not None and torch.capability:
        facts.append(("compute capability", torch.capability))
    if torch is not None and torch.multi_processors:
        facts.append(("multiprocessors", text.count(torch.multi_processors)))
    if torch is not None and torch.l2_bytes:
        facts.append(("L2 cache", text.size(torch.l2_bytes)))
    if view.nvml is None:
        why = view.unpaired or WAITING
        if sample is not None and sample.driver.error:
            why = sample.driver.error
        return [*facts, ("NVML", f"{text.NA}: {why}")]
    state = _state(view.nvml, sample, now)
    if view.before_loss is not None:
        state.append(("last figures", f"read {text.age(now - view.before_loss.read_at)}"))
    return [*facts, *state, *_gpu(view.before_loss or view.nvml), *_driver(sample)]


def _torch_name(view: DeviceView) -> str:
    if view.torch:
        return view.torch
    return f"{text.NA}: {view.unpaired or 'torch has not said yet which devices it sees'}"


def _state(device: Device, sample: Sample | None, now: float) -> list[Fact]:
    if device.lost:
        since = f" {text.age(now - device.lost_at)}" if device.lost_at is not None else ""
        facts = [("lost", f"{device.lost}{f' (found{since})' if since else ''}")]
        if device.lost_at is not None:
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(device.lost_at))
            facts.append(("lost at", at))
        return facts
    if sample is None:
        return []
    seconds = compute_device_age(device, sample, now)
    if seconds > stale_after(sample):
        return [("old figures", f"read {text.age(seconds)}: {explain_age(sample)}")]
    return []


def _gpu(device: Device) -> list[Fact]:
    def format_figure(path: str, value: T | None, format_value: Callable[[T], str]) -> str:
        if value is not None:
            return format_value(value)
        return f"{text.NA}: {device.unavailable.get(path, 'not reported')}"

    def yes_no(value: bool) -> str:
        return "on" if value else "off"

    use, clocks, pcie = device.utilization, device.clocks_mhz, device.pcie
    facts = [
        ("UUID", device.id),
        ("NVML index", str(device.nvml_index)),
        ("PCI bus", format_figure("pci_bus_id", device.pci_bus_id, str)),
        ("PCIe link", _link(device, format_figure("pcie.generation", pcie.generation, str))),
        ("GPU busy", format_figure("utilization.gpu", use.gpu, text.percent)),
        ("memory busy", format_figure("utilization.memory", use.memory, text.percent)),
        ("temperature", format_figure("temperature_c", device.temperature_c, text.temperature)),
        ("power", format_figure("power_w", device.power_w, text.watts)),
        ("power limit", format_figure("power_limit_w", device.power_limit_w, text.watts)),
        ("SM clock", format_figure("clocks_mhz.sm", clocks.sm, text.megahertz)),
        ("memory clock", format_figure("clocks_mhz.memory", clocks.memory, text.megahertz)),
        ("performance state", format_figure("pstate", device.pstate, lambda state: f"P{state}")),
        ("throttle reasons", format_figure("throttle", device.throttle, _reasons)),
        ("fan", format_figure("fan_percent", device.fan_percent, text.percent)),
        ("ECC, uncorrected", format_figure("ecc_uncorrected", device.ecc_uncorrected, text.count)),
        ("MIG mode", format_figure("mig", device.mig, yes_no)),
    ]
    if device.parent:
        facts.append(("MIG instance of", device.parent))
    return facts


def _link(device: Device, generation: str) -> str:
    width = device.pcie.width
    if device.pcie.generation is None:
        return generation
    if width is None:
        why = device.unavailable.get("pcie.width", "not reported")
        return f"generation {generation}, width {text.NA}: {why}"
    return f"generation {generation}, {width} lanes"


def _reasons(reasons: tuple[str, ...]) -> str:
    return ", ".join(reasons) if reasons else "none"


def _driver(sample: Sample | None) -> list[Fact]:
    if sample is None:
        return []
    driver = sample.driver
    if driver.error:
        return [("driver", f"{text.NA}: {driver.error}")]
    cuda = f", CUDA up to {driver.cuda}" if driver.cuda else ""
    return [("driver", f"{driver.version or text.NA}{cuda}")]


def _cpu(view: DeviceView, sample: Sample | None, now: float) -> list[Fact]:
    if sample is None:
        return [("name", view.name), ("host", f"{text.NA}: {WAITING}")]
    cpu, memory = sample.host.cpu, sample.host.memory

    def format_figure(path: str, value: T | None, format_value: Callable[[T], str]) -> str:
        return (
            format_value(value)
            if value is not None
            else f"{text.NA}: {cpu.unavailable.get(path, 'not reported')}"
        )

    seconds = now - sample.at
    old = [("old figures", f"read {text.age(seconds)}: {explain_age(sample)}")]
    facts = [
        ("name", cpu.model),
        ("host", sample.host.name),
        *(old if seconds > stale_after(sample) else []),
        ("cores", f"{cpu.cores_usable} usable of {cpu.cores} (affinity, cgroup quota)"),
        ("busy", format_figure("load_percent", cpu.load_percent, text.percent)),
        ("clock", format_figure("frequency_mhz", cpu.frequency_mhz, text.megahertz)),
        ("memory", f"{text.size(memory.used)} used of {text.size(memory.total)}"),
    ]
    if not sample.devices:
        what = "NVML" if sample.driver.error and not sample.driver.missing else "GPU"
        facts += [(what, f"{text.NA}: {sample.driver.error or 'the driver lists no GPU'}")]
    return facts


# ---- the parts of its memory -------------------------------------------------------------------


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


def holders(view: DeviceView, sample: Sample | None, now: float) -> Holders:
    """Return the total memory of a device's processes, and the remainder of its used memory.

    Args:
        view: the device.
        sample: the monitor's newest; ``None`` before the first.
        now: Unix time.
    """
    if sample is None:
        return Holders((), (WAITING,))
    if view.key == CPU:
        return _host_holders(sample, now)
    if view.nvml is None:
        return Holders((), (view.unpaired or "NVML does not know this device",))
    return _gpu_holders(view.nvml, view.before_loss, sample, now)


def _gpu_holders(device: Device, before_loss: Device | None, sample: Sample, now: float) -> Holders:
    notes: list[str] = []
    seconds = compute_device_age(device, sample, now)
    if device.lost and before_loss is not None:
        read = text.age(now - before_loss.read_at)
        notes.append(f"lost: {device.lost}; these are its last figures, read {read}")
        device = before_loss
    elif device.lost:
        notes.append(f"lost: {device.lost}")
    elif seconds > stale_after(sample):
        notes.append(f"old figures, read {text.age(seconds)}: {explain_age(sample)}")
    rows = device.processes
    memory = device.memory
    if rows is None:
        reason = device.unavailable.get("processes", "NVML lists no processes on this machine")
        notes.append(f"processes n/a: {reason}")
    unnamed = [row for row in rows or () if row.memory is None]
    known = sum(row.memory for row in rows or () if row.memory is not None)
    if not rows and memory.used:
        notes.append(CONTAINER)
    found = [Remainder("processes", known if rows is not None else None, "")]
    found += [_unattributed(memory.used, known, len(unnamed), listed=rows is not None)]
    used_about = "by NVML"
    if memory.used is None:
        used_about = device.unavailable.get("memory.used", "not reported")
    found.append(Remainder("device used", memory.used, used_about, strong=True))
    if memory.driver_reserved is not None:
        found.append(
            Remainder("driver", memory.driver_reserved, "reserved by the driver for itself")
        )
    found.append(Remainder("free", memory.free, ""))
    found.append(Remainder("total", memory.total, ""))
    return Holders(tuple(found), tuple(notes))


def _unattributed(used: int | None, known: int, unnamed: int, *, listed: bool) -> Remainder:
    """Return the used memory minus the memory of the listed processes."""
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


def _host_holders(sample: Sample, now: float) -> Holders:
    memory, listed = sample.host.memory, sample.host_processes
    total = [
        Remainder("used", memory.used, "of the host, or of the container's limit", strong=True),
        Remainder("available", memory.available, "to allocate without swapping"),
        Remainder("total", memory.total, ""),
    ]
    if listed is None:
        return Holders(tuple(total), ("waiting for the list of the host's processes",))
    notes = [RESIDENT]
    if now - sample.at > stale_after(sample):
        notes.insert(0, f"old figures, read {text.age(now - sample.at)}: {explain_age(sample)}")
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
    return Holders((*rest, *total), tuple(notes))


def remainder_lines(found: Holders, label: str, cells: int) -> list[Line]:
    """Return the parts of a device's used memory: the processes and the remainder.

    Args:
        found: the account of one device.
        label: the device's name on the screen.
        cells: width of a line.
    """
    parts = [
        line(
            Span(f"{item.label} ", TextStyle.STRONG if item.strong else TextStyle.PLAIN),
            Span(text.size(item.memory), TextStyle.STRONG),
            Span(f" ({item.about})" if item.about else "", TextStyle.QUIET),
        )
        for item in found.remainders
    ]
    lines = flow([line(Span(label, TextStyle.KEY)), *parts], cells, gap="  ", indent="  ")
    for note in found.notes:
        lines += paragraph(note, cells, TextStyle.NOTE)
    return lines
