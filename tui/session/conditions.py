"""Under which conditions something was measured: the device's samples, threads, versions, flags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from statistics import median
from sys import intern
from typing import NamedTuple

from tui.devices.messages import Sample
from tui.devices.throttle import HARMFUL
from workloads.fact import fact
from workloads.inventory import Environment

TOO_SHORT = "it was measured for less than the time between two samples"
NOT_GIVEN = "NVML did not give it"
NOT_SAMPLED = "only NVIDIA GPUs are sampled"
NO_MONITOR = "the monitor did not see this device"
SEVERAL = "not followed over the processes of a comparison"
_SAMPLED = (
    "sm_clock_mhz_min",
    "sm_clock_mhz_median",
    "power_w_max",
    "temperature_c_max",
    "throttle",
    "process_peak",
)


class SampledDevice(NamedTuple):
    """What of one look at a device conditions are made of: minutes of whole samples are large."""

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
    """Its UUID."""
    name: str
    """In torch's words, ``cuda:0``."""
    spans: tuple[tuple[float, float], ...]
    """Of timed blocks, Unix times: for clocks, power and heat, which are those of an idle device
    while data is prepared and results are checked."""

    def worked_at(self, moment: float) -> bool:
        return any(start <= moment <= end for start, end in self.spans)


@fact
class Conditions:
    """What NVML said of the devices during a run or a comparison, and what else it depends on.

    Of several devices, the lowest and highest values are over all of them.
    """

    samples: int
    sm_clock_mhz_min: int | None
    sm_clock_mhz_median: float | None
    power_w_max: float | None
    temperature_c_max: float | None
    throttle: tuple[str, ...]
    process_peak: int | None
    """Highest sampled memory of one of its processes on one device, bytes: the true peak is no
    lower."""
    warnings: tuple[str, ...] = ()
    unavailable: dict[str, str] = field(default_factory=dict)
    threads: int | None = None
    """Of torch on the CPU."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of the software, by name; what is not there is left out."""
    flags: dict[str, bool] = field(default_factory=dict)
    """Backend flags it ran under; of a comparison those that both settings share."""
    devices: tuple[str, ...] = ()
    """That were sampled while they worked, in torch's words."""


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
    """The same with threads, versions and flags.

    Args:
        seen: of the device.
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
    looks = [look for sample in samples for look in sample if look.id in followed]
    seen = [look for look in looks if followed[look.id].worked_at(look.read_at)]
    whole = [look for look in looks if run[0] <= look.read_at <= run[1]]
    clocks = [look.sm_clock_mhz for look in seen if look.sm_clock_mhz is not None]
    throttles = [look for look in seen if look.throttle is not None]
    found: dict[str, float | int | None] = {
        "sm_clock_mhz_min": min(clocks, default=None),
        "sm_clock_mhz_median": float(median(clocks)) if clocks else None,
        "power_w_max": _highest([look.power_w for look in seen]),
        "temperature_c_max": _highest([look.temperature_c for look in seen]),
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
        throttle=tuple(sorted({name for look in throttles for name in look.throttle or ()})),
        process_peak=None if peak is None else int(peak),
        warnings=_throttled(throttles, devices),
        unavailable=absent,
        devices=tuple(
            device.name for device in devices if any(look.id == device.id for look in seen)
        ),
    )


def _throttled(looks: Sequence[SampledDevice], devices: Sequence[Followed]) -> tuple[str, ...]:
    """A line for each device that was slowed down; which one is told where there are several."""
    lines = []
    for device in devices:
        reasons = {name for look in looks if look.id == device.id for name in look.throttle or ()}
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
