"""One sample of the monitor, for commands without a screen, and its parts as text and JSON."""

from __future__ import annotations

from typing import Any

from tui.core.child.launch import FOLDER, own_command
from tui.core.child.process import ChildProcess, NoAnswerError, first_answer
from tui.core.text import numbers as fmt
from tui.kit.command_line.output import Failure
from tui.monitor.messages import MONITOR_EVENTS, Device, Host, MonitorEvent, Sample
from workloads.protocol import wire

_OF_SCREENS = ("host_processes", "traffic", "detail")
"""Parts of a sample that are read only where a screen shows them."""


async def read_sample() -> Sample:
    """Return one sample of the monitor.

    Raises:
        Failure: the monitor returned no sample.
    """
    command = own_command("tui.monitor", "once")
    child: ChildProcess[MonitorEvent] = ChildProcess(command, MONITOR_EVENTS, folder=FOLDER)
    try:
        return await first_answer(child, (Sample,))
    except NoAnswerError as error:
        raise Failure(f"the monitor {error}") from error


def sample_json(sample: Sample) -> dict[str, Any]:
    """Return a sample as an object of ``--json``, with the reasons for its missing values.

    It has no processes of the program itself, and none of what only the screens sample.
    """
    plain: dict[str, Any] = wire.to_plain(sample)
    del plain["watched"]
    for name in _OF_SCREENS:
        if plain[name] is None:
            del plain[name]
    why = sample.driver.error or "the driver does not tell"
    unavailable = {
        f"driver.{name}": why for name in ("version", "cuda") if plain["driver"][name] is None
    }
    return {**plain, "unavailable": unavailable}


def format_figures(device: Device) -> list[str]:
    """Return utilization, memory, temperature, power and clock of a device."""
    return [
        fmt.percent(device.utilization.gpu),
        fmt.size_pair(device.memory.used, device.memory.total),
        fmt.temperature(device.temperature_c),
        fmt.power(device.power_w, device.power_limit_w),
        fmt.megahertz(device.clocks_mhz.sm),
    ]


def format_host(host: Host) -> str:
    """Return the processor of a host with its load, and the host's memory."""
    used = fmt.size_pair(host.memory.used, host.memory.total)
    load = fmt.percent(host.cpu.load_percent)
    return f"{host.cpu.model}, {host.cpu.cores_usable} cores usable  {load}  {used}"
