"""Everything that is known of one device, with the reason of each value that is not. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tui.memory.figures import device_age, why_old
from tui.monitor.messages import Device, Sample
from tui.state.devices import CPU, DeviceView
from tui.state.history import stale_after
from tui.text import numbers as text

T = TypeVar("T")
Fact = tuple[str, str]
"""A label and what is to be said."""


def device_detail(view: DeviceView, sample: Sample | None, now: float) -> list[Fact]:
    """Labels and values of a device, in the order in which they are read.

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
        why = view.unpaired or "waiting for the monitor"
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
    seconds = device_age(device, sample, now)
    if seconds > stale_after(sample):
        return [("old figures", f"read {text.age(seconds)}: {why_old(sample)}")]
    return []


def _gpu(device: Device) -> list[Fact]:
    def known(path: str, value: T | None, say: Callable[[T], str]) -> str:
        if value is not None:
            return say(value)
        return f"{text.NA}: {device.unavailable.get(path, 'not reported')}"

    def yes_no(value: bool) -> str:
        return "on" if value else "off"

    use, clocks, pcie = device.utilization, device.clocks_mhz, device.pcie
    facts = [
        ("UUID", device.id),
        ("NVML index", str(device.nvml_index)),
        ("PCI bus", known("pci_bus_id", device.pci_bus_id, str)),
        ("PCIe link", _link(device, known("pcie.generation", pcie.generation, str))),
        ("GPU busy", known("utilization.gpu", use.gpu, text.percent)),
        ("memory busy", known("utilization.memory", use.memory, text.percent)),
        ("temperature", known("temperature_c", device.temperature_c, text.temperature)),
        ("power", known("power_w", device.power_w, text.watts)),
        ("power limit", known("power_limit_w", device.power_limit_w, text.watts)),
        ("SM clock", known("clocks_mhz.sm", clocks.sm, text.megahertz)),
        ("memory clock", known("clocks_mhz.memory", clocks.memory, text.megahertz)),
        ("performance state", known("pstate", device.pstate, lambda state: f"P{state}")),
        ("throttle reasons", known("throttle", device.throttle, _reasons)),
        ("fan", known("fan_percent", device.fan_percent, text.percent)),
        ("ECC, uncorrected", known("ecc_uncorrected", device.ecc_uncorrected, text.count)),
        ("MIG mode", known("mig", device.mig, yes_no)),
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
        return [("name", view.name), ("host", f"{text.NA}: waiting for the monitor")]
    cpu, memory = sample.host.cpu, sample.host.memory

    def known(path: str, value: T | None, say: Callable[[T], str]) -> str:
        return (
            say(value)
            if value is not None
            else f"{text.NA}: {cpu.unavailable.get(path, 'not reported')}"
        )

    seconds = now - sample.at
    old = [("old figures", f"read {text.age(seconds)}: {why_old(sample)}")]
    facts = [
        ("name", cpu.model),
        ("host", sample.host.name),
        *(old if seconds > stale_after(sample) else []),
        ("cores", f"{cpu.cores_usable} usable of {cpu.cores} (affinity, cgroup quota)"),
        ("busy", known("load_percent", cpu.load_percent, text.percent)),
        ("clock", known("frequency_mhz", cpu.frequency_mhz, text.megahertz)),
        ("memory", f"{text.size(memory.used)} used of {text.size(memory.total)}"),
    ]
    if not sample.devices:
        what = "NVML" if sample.driver.error and not sample.driver.missing else "GPU"
        facts += [(what, f"{text.NA}: {sample.driver.error or 'the driver lists no GPU'}")]
    return facts
