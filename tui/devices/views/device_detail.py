"""All known facts of one device, in sections, and the page that shows them. Pure.

Unknown facts show a reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from tui.core.text import numbers as text
from tui.devices.memory.figures import compute_device_age, explain_age
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import stale_after
from tui.devices.views.devices import WAITING
from tui.monitor.messages import Device, DeviceDetail, NvLink, PcieTraffic, Sample

T = TypeVar("T")
Fact = tuple[str, str]
"""A label and its text."""


class DeviceSection(NamedTuple):
    """Facts of one kind."""

    title: str
    facts: tuple[Fact, ...]


def device_detail(
    view: DeviceView, sample: Sample | None, now: float, lost: str = ""
) -> list[Fact]:
    """Return the labels and values of a device in display order, without sections.

    Args:
        view: the device.
        sample: the monitor's newest; ``None`` before the first.
        now: Unix time.
        lost: why the monitor's host is not connected; empty while it is.
    """
    return [fact for part in device_sections(view, sample, now, lost) for fact in part.facts]


def device_sections(
    view: DeviceView, sample: Sample | None, now: float, lost: str = ""
) -> tuple[DeviceSection, ...]:
    """Return all facts of a device, by section in display order.

    Args:
        view: the device.
        sample: the monitor's newest; ``None`` before the first.
        now: Unix time.
        lost: why the monitor's host is not connected; empty while it is.
    """
    if view.key == CPU:
        return (DeviceSection("host", tuple(_cpu(view, sample, now, lost))),)
    names = _names(view)
    if view.nvml is None:
        why = view.unpaired or lost or WAITING
        if sample is not None and sample.driver.error:
            why = sample.driver.error
        return (DeviceSection("device", (*names, ("NVML", f"{text.NA}: {why}"))),)
    state = _state(view.nvml, sample, now, lost)
    if view.before_loss is not None:
        state.append(("last figures", f"read {text.age(now - view.before_loss.read_at)}"))
    device = view.before_loss or view.nvml
    detail = sample.detail if sample is not None else None
    traffic = sample.traffic if sample is not None else None
    reader = _Facts(
        device,
        detail if detail is not None and detail.id == device.id else None,
        traffic if traffic is not None and traffic.id == device.id else None,
    )
    return (
        DeviceSection("device", (*names, *reader.identity(), *_driver(sample))),
        DeviceSection("state", tuple(state)),
        DeviceSection("clocks, power, heat", reader.clocks()),
        DeviceSection("PCIe", reader.pcie()),
        DeviceSection("memory", reader.memory()),
        DeviceSection("video", reader.video()),
        DeviceSection("NVLink", reader.nvlink()),
    )


def _names(view: DeviceView) -> tuple[Fact, ...]:
    facts = [("name", view.name), ("torch name", _torch_name(view))]
    torch = view.torch_device
    if torch is not None and torch.capability:
        facts.append(("compute capability", torch.capability))
    if torch is not None and torch.multi_processors:
        facts.append(("multiprocessors", text.count(torch.multi_processors)))
    if torch is not None and torch.l2_bytes:
        facts.append(("L2 cache", text.size(torch.l2_bytes)))
    return tuple(facts)


class _Facts:
    """The facts of a device that NVML knows, each a figure or the reason for its absence."""

    def __init__(
        self, device: Device, detail: DeviceDetail | None, traffic: PcieTraffic | None
    ) -> None:
        self._device = device
        self._detail = detail
        self._traffic = traffic

    def _figure(self, path: str, value: T | None, format_value: Callable[[T], str]) -> str:
        return _or_reason(path, value, format_value, self._device.unavailable)

    def _detailed(self, path: str, value: T | None, format_value: Callable[[T], str]) -> str:
        return _or_reason(
            path, value, format_value, self._detail.unavailable if self._detail else {}
        )

    def identity(self) -> tuple[Fact, ...]:
        device = self._device
        facts = [
            ("UUID", device.id),
            ("NVML index", str(device.nvml_index)),
            ("VBIOS", self._figure("vbios", device.vbios, str)),
            ("MIG mode", self._figure("mig", device.mig, _on_off)),
        ]
        if device.parent:
            facts.append(("MIG instance of", device.parent))
        return tuple(facts)

    def clocks(self) -> tuple[Fact, ...]:
        device, clocks, detail = self._device, self._device.clocks_mhz, self._detail
        most_sm = detail.max_sm_clock_mhz if detail else None
        most_memory = detail.max_memory_clock_mhz if detail else None
        default_w = detail.default_power_limit_w if detail else None
        slowdown = device.slowdown_c

        def power(value: float) -> str:
            limit = self._figure("power_limit_w", device.power_limit_w, text.watts)
            lowered = default_w is not None and default_w != device.power_limit_w
            usual = f", by default {text.watts(default_w)}" if lowered else ""
            return f"{text.watts(value)}, cap {limit}{usual}"

        def heat(value: float) -> str:
            threshold = "" if slowdown is None else f", slows down at {text.temperature(slowdown)}"
            return text.temperature(value) + threshold

        return (
            ("GPU busy", self._figure("utilization.gpu", device.utilization.gpu, text.percent)),
            ("SM clock", self._figure("clocks_mhz.sm", clocks.sm, _clock(most_sm))),
            ("memory clock", self._figure("clocks_mhz.memory", clocks.memory, _clock(most_memory))),
            ("performance state", self._figure("pstate", device.pstate, lambda at: f"P{at}")),
            ("clocks limited by", self._figure("throttle", device.throttle, format_reasons)),
            ("power", self._figure("power_w", device.power_w, power)),
            ("temperature", self._figure("temperature_c", device.temperature_c, heat)),
            ("fan", self._figure("fan_percent", device.fan_percent, text.percent)),
        )

    def pcie(self) -> tuple[Fact, ...]:
        device, traffic = self._device, self._traffic
        facts = [
            ("PCI bus", self._figure("pci_bus_id", device.pci_bus_id, str)),
            ("PCIe link", _link(device)),
        ]
        if traffic is not None:
            for label, path, value in (
                ("to the GPU", "received", traffic.received),
                ("from the GPU", "sent", traffic.sent),
            ):
                rate = _or_reason(path, value, format_rate, traffic.unavailable)
                facts.append((label, rate))
        if self._detail is not None:
            replays = self._detailed("pcie_replays", self._detail.pcie_replays, text.count)
            facts.append(("replays", replays))
        return tuple(facts)

    def memory(self) -> tuple[Fact, ...]:
        device, detail, memory = self._device, self._detail, self._device.memory
        uncorrected = self._figure("ecc_uncorrected", device.ecc_uncorrected, text.count)
        busy = self._figure("utilization.memory", device.utilization.memory, text.percent)
        total = self._figure("memory.total", memory.total, text.size)
        facts = [
            ("used", f"{self._figure('memory.used', memory.used, text.size)} of {total}"),
            ("memory busy", busy),
        ]
        if detail is not None:
            facts.append(("ECC mode", self._detailed("ecc", detail.ecc, _on_off)))
        facts.append(("ECC, uncorrected", uncorrected))
        if detail is not None:
            ever = self._detailed("ecc_uncorrected_ever", detail.ecc_uncorrected_ever, text.count)
            facts += [
                ("ECC, lifetime", ever),
                (
                    "ECC, corrected",
                    self._detailed("ecc_corrected", detail.ecc_corrected, text.count),
                ),
            ]
        return tuple(facts)

    def video(self) -> tuple[Fact, ...]:
        detail = self._detail
        if detail is None:
            return ()
        return (
            ("encoder", self._detailed("encoder_percent", detail.encoder_percent, text.percent)),
            ("decoder", self._detailed("decoder_percent", detail.decoder_percent, text.percent)),
        )

    def nvlink(self) -> tuple[Fact, ...]:
        detail = self._detail
        if detail is None:
            return ()
        return (("NVLinks", self._detailed("nvlinks", detail.nvlinks, format_nvlinks)),)


def _or_reason(
    path: str, value: T | None, format_value: Callable[[T], str], absent: Mapping[str, str]
) -> str:
    if value is not None:
        return format_value(value)
    return f"{text.NA}: {absent.get(path, 'not reported')}"


def _on_off(value: bool) -> str:
    return "on" if value else "off"


def _clock(most: int | None) -> Callable[[float], str]:
    """Return a function that formats a clock beside its maximum."""
    at_most = "" if most is None else f", at most {text.megahertz(most)}"
    return lambda value: text.megahertz(value) + at_most


def format_rate(value: float) -> str:
    """Return bytes per second in words; a rate below the driver's resolution is zero."""
    return text.rate(value, "B/s") if value else "0 B/s"


def format_nvlinks(links: tuple[NvLink, ...]) -> str:
    """Return the number of active links, and the devices at their other ends."""
    active = [link for link in links if link.active]
    words = f"{len(active)} of {len(links)} active"
    if not active:
        return words
    if all(link.is_switch for link in active):
        return f"{words}, to NVSwitches"
    ends = sorted({link.remote for link in active if link.remote})
    return f"{words}, to {', '.join(ends)}" if ends else words


def _torch_name(view: DeviceView) -> str:
    if view.torch:
        return view.torch
    return f"{text.NA}: {view.unpaired or 'torch has not reported its devices yet'}"


def _state(device: Device, sample: Sample | None, now: float, lost: str) -> list[Fact]:
    if device.lost:
        since = f" {text.age(now - device.lost_at)}" if device.lost_at is not None else ""
        facts = [("lost", f"{device.lost}{f' (found{since})' if since else ''}")]
        if device.lost_at is not None:
            lost_time = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(device.lost_at))
            facts.append(("lost at", lost_time))
        return facts
    if sample is None:
        return []
    seconds = compute_device_age(device, sample, now)
    if seconds > stale_after(sample):
        return [("old figures", f"read {text.age(seconds)}: {explain_age(sample, lost)}")]
    return []


def _link(device: Device) -> str:
    pcie = device.pcie
    if pcie.generation is None:
        return _or_reason("pcie.generation", None, str, device.unavailable)
    if pcie.width is None:
        width = _or_reason("pcie.width", None, str, device.unavailable)
        return f"generation {pcie.generation}, width {width}"
    words = f"generation {pcie.generation}, {pcie.width} lanes"
    if pcie.max_generation is None or pcie.max_width is None:
        return words
    if (pcie.generation, pcie.width) == (pcie.max_generation, pcie.max_width):
        return f"{words} (maximum)"
    return f"{words}; at most generation {pcie.max_generation}, {pcie.max_width} lanes"


def format_reasons(reasons: tuple[str, ...]) -> str:
    """Return NVML's reasons for lower clocks."""
    return ", ".join(reasons) if reasons else "nothing"


def _driver(sample: Sample | None) -> list[Fact]:
    if sample is None:
        return []
    driver = sample.driver
    if driver.error:
        return [("driver", f"{text.NA}: {driver.error}")]
    cuda = f", CUDA up to {driver.cuda}" if driver.cuda else ""
    return [("driver", f"{driver.version or text.NA}{cuda}")]


def _cpu(view: DeviceView, sample: Sample | None, now: float, lost: str) -> list[Fact]:
    if sample is None:
        return [("name", view.name), ("host", f"{text.NA}: {lost or WAITING}")]
    cpu, memory = sample.host.cpu, sample.host.memory
    load = _or_reason("load_percent", cpu.load_percent, text.percent, cpu.unavailable)
    clock = _or_reason("frequency_mhz", cpu.frequency_mhz, text.megahertz, cpu.unavailable)
    seconds = now - sample.at
    old = [("old figures", f"read {text.age(seconds)}: {explain_age(sample, lost)}")]
    facts = [
        ("name", cpu.model),
        ("host", sample.host.name),
        *(old if seconds > stale_after(sample) else []),
        ("cores", f"{cpu.cores_usable} usable of {cpu.cores} (affinity, cgroup quota)"),
        ("busy", load),
        ("clock", clock),
        ("memory", f"{text.size(memory.used)} used of {text.size(memory.total)}"),
    ]
    if not sample.devices:
        source = "NVML" if sample.driver.error and not sample.driver.missing else "GPU"
        facts += [(source, f"{text.NA}: {sample.driver.error or 'the driver lists no GPU'}")]
    return facts
