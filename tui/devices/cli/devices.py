"""``gpu-workbench devices``: one look at the devices and the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tui.core.text import numbers as fmt
from tui.core.text.glyphs import rows_of_text
from tui.devices.cli.sample import read_sample
from tui.devices.monitor.messages import Sample
from tui.devices.state.devices import CPU, NOT_ASKED, DeviceView, pair
from tui.kit.command_line.options import Subcommand, add_common
from tui.kit.command_line.output import print_json, print_text
from tui.kit.command_line.progress import run_to_exit
from tui.kit.command_line.values import python_to_use
from tui.runs.session.runner_supervisor import query_runner
from workloads.protocol import messages, wire
from workloads.protocol.results import TorchDevice

if TYPE_CHECKING:
    from tui.core.settings import Value


@dataclass(frozen=True, slots=True)
class DevicesOptions:
    """Whose torch names them, and how they are printed."""

    given: Mapping[str, Value] = field(default_factory=dict)
    json: bool = False


def devices(options: DevicesOptions) -> int:
    """Print one sample; returns the exit code."""
    python = python_to_use(options.given).path

    async def work() -> int:
        sample = await read_sample()
        reason = "no NVML device to pair it with"
        torch_devices: tuple[TorchDevice, ...] = ()
        # Without NVML torch may see what it cannot; without any driver there is nothing to see.
        if sample.devices or (sample.driver.error and not sample.driver.missing):
            torch_devices, reason = await torch_names(python)
        sample, views = _paired(sample, torch_devices, reason)
        if options.json:
            print_json(_plain(sample))
        else:
            print_text(as_text(sample, views))
        return 0

    return run_to_exit(work())


async def torch_names(python: str) -> tuple[tuple[TorchDevice, ...], str]:
    """Return the devices as a Python's torch sees them, or none and the reason."""
    answer = await query_runner(python)
    if isinstance(answer, messages.Unusable):
        return (), answer.reason
    return answer.environment.devices, answer.environment.unavailable.get("devices", "")


def _paired(
    sample: Sample, torch_devices: tuple[TorchDevice, ...], reason: str
) -> tuple[Sample, tuple[DeviceView, ...]]:
    no_nvml = NOT_ASKED if sample.driver.error else ""
    views = pair(sample.devices, torch_devices, no_nvml=no_nvml)
    named = []
    for view in views:
        if view.nvml is not None:
            absent = dict(view.nvml.unavailable)
            if view.torch is None:
                absent["torch"] = view.unpaired or reason
            named.append(replace(view.nvml, torch=view.torch, unavailable=absent))
    return replace(sample, devices=tuple(named)), views


def _plain(sample: Sample) -> dict[str, Any]:
    plain: dict[str, Any] = wire.to_plain(sample)
    del plain["watched"]
    return plain


def as_text(sample: Sample, views: tuple[DeviceView, ...]) -> str:
    """Return a line for each device, the host last."""
    lines = []
    driver = sample.driver
    if driver.error:
        lines.append(driver.error)
    elif driver.version:
        lines.append(f"driver {driver.version}  CUDA {driver.cuda or 'n/a'}")
    lines += [_gpu_line(view) for view in views if view.key != CPU]
    cpu, memory = sample.host.cpu, sample.host.memory
    load = fmt.percent(cpu.load_percent)
    used = fmt.size_pair(memory.used, memory.total)
    lines.append(f"cpu       {cpu.model}, {cpu.cores_usable} cores usable  {load}  {used}")
    return rows_of_text(lines)


def _gpu_line(view: DeviceView) -> str:
    label, device = view.label, view.nvml
    if device is None:
        total = view.torch_device.total_memory if view.torch_device else None
        return f"{label:<9} {view.name}  total {fmt.size(total)}  n/a: {view.unpaired}"
    if device.lost is not None:
        return f"{label:<9} {device.name}  lost: {device.lost}"
    parts = [
        f"{label:<9} {device.name}",
        fmt.percent(device.utilization.gpu),
        fmt.size_pair(device.memory.used, device.memory.total),
        fmt.temperature(device.temperature_c),
        fmt.power(device.power_w, device.power_limit_w),
        fmt.megahertz(device.clocks_mhz.sm),
    ]
    if device.throttle:
        parts.append(", ".join(device.throttle))
    return "  ".join(parts)


SUBCOMMAND = Subcommand(
    "Show the devices once and exit.", DevicesOptions, add_common, devices, place=10
)
