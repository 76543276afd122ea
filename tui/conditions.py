"""Under which conditions a run was measured: the device's samples that fall into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from tui.devices.messages import Device, Sample
from workloads.fact import fact
from workloads.statistics import median

HARMFUL = ("hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown")
"""Clocks event reasons that mean a fault or heat; a software power cap is normal under load."""
TOO_SHORT = "the run was shorter than the time between two samples"


@fact
class Conditions:
    """What NVML said of the device during a run."""

    samples: int
    sm_clock_mhz_min: int | None
    sm_clock_mhz_median: float | None
    power_w_max: float | None
    temperature_c_max: float | None
    throttle: tuple[str, ...]
    process_peak: int | None
    """Highest sampled memory of the worker on the device, bytes: a floor of the true peak."""
    warnings: tuple[str, ...] = ()
    unavailable: dict[str, str] = field(default_factory=dict)


def during(
    samples: Iterable[Sample], device_id: str, worker_pid: int | None, began: float, ended: float
) -> Conditions:
    """The conditions from ``began`` to ``ended``, Unix times."""
    seen = [
        device
        for sample in samples
        if began <= sample.at <= ended
        for device in sample.devices
        if device.id == device_id and device.lost is None
    ]
    if not seen:
        names = ("sm_clock_mhz_min", "sm_clock_mhz_median", "power_w_max", "temperature_c_max")
        absent = dict.fromkeys((*names, "process_peak"), TOO_SHORT)
        return Conditions(0, None, None, None, None, (), None, unavailable=absent)
    reasons = sorted({name for device in seen for name in device.throttle or ()})
    harmful = [name for name in reasons if name in HARMFUL]
    clocks = [device.clocks_mhz.sm for device in seen if device.clocks_mhz.sm is not None]
    return Conditions(
        samples=len(seen),
        sm_clock_mhz_min=min(clocks, default=None),
        sm_clock_mhz_median=median(clocks) if clocks else None,
        power_w_max=_highest([device.power_w for device in seen]),
        temperature_c_max=_highest([device.temperature_c for device in seen]),
        throttle=tuple(reasons),
        process_peak=_process_peak(seen, worker_pid),
        warnings=(f"throttled: {', '.join(harmful)}",) if harmful else (),
    )


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _process_peak(seen: Sequence[Device], pid: int | None) -> int | None:
    sizes = [
        process.memory
        for device in seen
        for process in device.processes or ()
        if process.pid == pid and process.memory is not None
    ]
    return max(sizes, default=None)
