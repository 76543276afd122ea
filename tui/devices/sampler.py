"""Joins what was read of the devices and of the host into one sample; reads nothing itself."""

from __future__ import annotations

from dataclasses import replace

from tui.devices.look import NvmlState
from tui.devices.messages import Host, HostProcesses, Sample, WatchedProcess


def assemble(
    *,
    at: float,
    host: Host,
    nvml: NvmlState,
    silent_s: float | None,
    watched: tuple[WatchedProcess, ...] = (),
    host_processes: HostProcesses | None = None,
) -> Sample:
    """One look at everything.

    Args:
        at: Unix time.
        host: Read just now.
        nvml: The newest that is known from NVML; each device tells when it was read.
        silent_s: Seconds for which NVML has owed an answer; ``None`` while it is prompt.
        watched: Host memory of the processes that were asked for.
        host_processes: Who holds the host's memory, where that was asked for.
    """
    driver = nvml.driver
    if silent_s is not None:
        state = "is still starting: no answer" if nvml.looks == 0 else "has not answered"
        advice = "wait, or look in `dmesg` for lines with NVRM"
        driver = replace(driver, error=f"NVML {state} for {silent_s:.0f} s; {advice}")
    return Sample(
        at=at,
        took_s=nvml.took_s,
        host=host,
        driver=driver,
        devices=nvml.devices,
        watched=watched,
        nvml_silent_s=silent_s,
        problems=(nvml.problem,) if nvml.problem else (),
        host_processes=host_processes,
    )
