"""Makes the conditions of a measurement from the device's samples, threads, versions and flags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from sys import intern
from typing import NamedTuple

from tui.devices.messages import Sample
from tui.devices.throttle import HARMFUL
from tui.store.conditions import NOT_GIVEN, TOO_SHORT, Conditions
from workloads.fact import fact
from workloads.inventory import Environment

_SAMPLED = (
    "sm_clock_mhz_min",
    "sm_clock_mhz_median",
    "power_w_max",
    "temperature_c_max",
    "throttle",
    "process_peak",
)


class SampledDevice(NamedTuple):
    """What conditions need of a device's sample: minutes of whole samples are large."""

    id: str
    read_at: float
    sm_clock_mhz: int | None
    power_w: float | None
    temperature_c: float | None
    throttle: tuple[str, ...] | None
    processes: tuple[tuple[int, int], ...]
    """Pids and their memory on the device, bytes, where it is known."""


def sampled(sample: Sample) -> tuple[SampledDevice, ...]:
    """The devices of a sample that are not lost."""
    return tuple(
        SampledDevice(
            intern(device.id),
            device.read_at,
            device.clocks_mhz.sm,
            device.power_w,
            device.temperature_c,
            None if device.throttle is None else tuple(map(intern, device.throttle)),
            tuple(
                (row.pid, row.memory)
                for row in device.processes or ()
                # As ``process_of``: else the same number may be somebody else's.
                if row.memory is not None and row.started_at is not None
            ),
        )
        for device in sample.devices
        if device.lost is None
    )


@fact
class Followed:
    """A device that worked while something was measured."""

    id: str
    """NVML's UUID of the device."""
    name: str
    """torch's name of the device, ``cuda:0``."""
    spans: tuple[tuple[float, float], ...]
    """Unix times of timed blocks: for clocks, power and heat, which are those of an idle device
    while data is prepared and results are checked."""

    def worked_at(self, moment: float) -> bool:
        return any(start <= moment <= end for start, end in self.spans)


def unsampled(reason: str) -> Conditions:
    """The conditions of a device that was not sampled."""
    return Conditions(
        0, None, None, None, None, (), None, unavailable=dict.fromkeys(_SAMPLED, reason)
    )


def under(
    seen: Conditions,
    environment: Environment | None,
    driver: str | None,
    flags: dict[str, bool],
) -> Conditions:
    """Conditions with threads, versions and flags added.

    Args:
        seen: what was sampled of the device.
        environment: of the runner.
        driver: the NVIDIA driver's version.
        flags: that it ran under.
    """
    if environment is None:
        return replace(seen, flags=flags)
    versions = {
        "python": environment.python,
        "torch": environment.torch,
        "cuda": environment.cuda,
        "cudnn": environment.cudnn,
        "driver": driver,
        "malloc": environment.malloc,
    }
    known = {name: version for name, version in versions.items() if version is not None}
    return replace(seen, threads=environment.threads, versions=known, flags=flags)


def during(
    samples: Iterable[tuple[SampledDevice, ...]],
    devices: Sequence[Followed],
    pids: Sequence[int],
    run: tuple[float, float],
) -> Conditions:
    """The conditions of a run.

    Args:
        samples: of the monitor, see :func:`sampled`.
        devices: that worked for it.
        pids: of the processes that ran it.
        run: from its beginning to its end, Unix times: for the memory of its processes.
    """
    followed = {device.id: device for device in devices}
    rows = [row for sample in samples for row in sample if row.id in followed]
    seen = [row for row in rows if followed[row.id].worked_at(row.read_at)]
    whole = [row for row in rows if run[0] <= row.read_at <= run[1]]
    clocks = [row.sm_clock_mhz for row in seen if row.sm_clock_mhz is not None]
    throttles = [row for row in seen if row.throttle is not None]
    found: dict[str, float | int | None] = {
        "sm_clock_mhz_min": min(clocks, default=None),
        "sm_clock_mhz_median": float(median(clocks)) if clocks else None,
        "power_w_max": _highest([row.power_w for row in seen]),
        "temperature_c_max": _highest([row.temperature_c for row in seen]),
        "process_peak": _process_peak(whole, pids),
    }
    absent = {name: NOT_GIVEN if seen else TOO_SHORT for name in found if found[name] is None}
    if not throttles:
        absent["throttle"] = NOT_GIVEN if seen else TOO_SHORT
    peak = found["process_peak"]
    return Conditions(
        samples=len(seen),
        sm_clock_mhz_min=min(clocks, default=None),
        sm_clock_mhz_median=found["sm_clock_mhz_median"],
        power_w_max=found["power_w_max"],
        temperature_c_max=found["temperature_c_max"],
        throttle=tuple(sorted({name for row in throttles for name in row.throttle or ()})),
        process_peak=None if peak is None else int(peak),
        warnings=_throttled(throttles, devices),
        unavailable=absent,
        devices=tuple(
            device.name for device in devices if any(row.id == device.id for row in seen)
        ),
    )


def _throttled(rows: Sequence[SampledDevice], devices: Sequence[Followed]) -> tuple[str, ...]:
    """A line for each device that was slowed down; which one is told where there are several."""
    lines = []
    for device in devices:
        reasons = {name for row in rows if row.id == device.id for name in row.throttle or ()}
        harmful = sorted(name for name in reasons if name in HARMFUL)
        if harmful:
            where = f"{device.name} " if len(devices) > 1 else ""
            lines.append(f"{where}throttled: {', '.join(harmful)}")
    return tuple(lines)


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _process_peak(seen: Sequence[SampledDevice], pids: Sequence[int]) -> int | None:
    sizes = [size for device in seen for of, size in device.processes if of in pids]
    return max(sizes, default=None)
