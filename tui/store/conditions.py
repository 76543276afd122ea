"""Under which conditions something was measured: the device's samples, threads, versions, flags."""

from __future__ import annotations

from dataclasses import field

from workloads.fact import fact

# Why a figure is absent.
TOO_SHORT = "it was measured for less than the time between two samples"
NOT_GIVEN = "NVML did not give it"
NOT_SAMPLED = "only NVIDIA GPUs are sampled"
NO_MONITOR = "the monitor did not see this device"
SEVERAL = "not followed over the processes of a comparison"


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
    """torch's threads on the CPU."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the software by name; what is not there is left out."""
    flags: dict[str, bool] = field(default_factory=dict)
    """Backend flags it ran under; of a comparison those that both settings share."""
    devices: tuple[str, ...] = ()
    """torch's names of the devices that were sampled while they worked."""
