"""``gpu-workbench devices``: one look at the devices and the host."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui import format as fmt
from tui.child.process import ChildProcess, Garbage
from tui.devices.messages import MONITOR_EVENTS, Device, MonitorEvent, Sample
from tui.headless.output import Failure, print_json, run_to_exit
from tui.session.supervisors import VARIABLES, runner_command
from tui.store.pairing import DeviceView, pair
from workloads import protocol, wire
from workloads.inventory import TorchDevice
from workloads.protocol import Event

if TYPE_CHECKING:
    from tui.cli.arguments import Arguments

TORCH_S = 90.0


def devices(arguments: Arguments) -> int:
    """Print one sample; returns the exit code."""

    async def work() -> int:
        sample = await look()
        reason = "no NVML device to pair it with"
        torch_devices: tuple[TorchDevice, ...] = ()
        if sample.devices:
            torch_devices, reason = await torch_names(arguments.python)
        sample, views = _paired(sample, torch_devices, reason)
        if arguments.json:
            print_json(_plain(sample))
        else:
            sys.stdout.write(as_text(sample, views))
        return 0

    return run_to_exit(work())


async def look() -> Sample:
    """One sample of the monitor.

    Raises:
        Failure: it gave none.
    """
    child: ChildProcess[MonitorEvent] = ChildProcess(
        (sys.executable, "-m", "tui.devices", "once"), MONITOR_EVENTS, folder="/"
    )
    try:
        await child.start()
        async for event in child.events():
            if isinstance(event, Sample):
                return event
            if isinstance(event, Garbage):
                raise Failure(f"the monitor says {event.line!r}: {event.reason}")
    finally:
        ended = await child.ended()
    raise Failure(f"the monitor ended without a sample: {ended} {' '.join(child.stderr.last(1))}")


async def torch_names(python: str) -> tuple[tuple[TorchDevice, ...], str]:
    """The devices as a Python's torch sees them, or none and the reason."""
    child: ChildProcess[Event] = ChildProcess(runner_command(python), protocol.EVENTS, VARIABLES)

    async def ask() -> tuple[tuple[TorchDevice, ...], str]:
        await child.start()
        async for event in child.events():
            if isinstance(event, protocol.Ready):
                environment = event.environment
                return environment.devices, environment.unavailable.get("devices", "")
            if isinstance(event, protocol.Unusable):
                return (), event.reason
        return (), "the runner ended before it said what torch sees"

    try:
        return await asyncio.wait_for(ask(), TORCH_S)
    except asyncio.TimeoutError:
        return (), f"torch gave no answer within {TORCH_S:g} s"
    except OSError as error:
        return (), f"{python}: {error.strerror}"
    finally:
        await child.stop()


def _paired(
    sample: Sample, torch_devices: tuple[TorchDevice, ...], reason: str
) -> tuple[Sample, tuple[DeviceView, ...]]:
    views = pair(sample.devices, torch_devices)
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
    """A line for each device, the host last."""
    lines = []
    driver = sample.driver
    if driver.error:
        lines.append(driver.error)
    elif driver.version:
        lines.append(f"driver {driver.version}  CUDA {driver.cuda or 'n/a'}")
    lines += [_gpu_line(view.label, view.nvml) for view in views if view.nvml is not None]
    cpu, memory = sample.host.cpu, sample.host.memory
    load = fmt.percent(cpu.load_percent)
    used = fmt.size_pair(memory.used, memory.total)
    lines.append(f"cpu       {cpu.model}, {cpu.cores_usable} cores usable  {load}  {used}")
    return "\n".join(lines) + "\n"


def _gpu_line(label: str, device: Device) -> str:
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
