"""The conditions of a measurement, made from device samples, threads, versions and flags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

from tui.devices.session.monitor_supervisor import SampledDevice
from tui.monitor.messages import HARMFUL_REASONS
from tui.runs.state.events import ConditionsRecorded
from tui.runs.state.runs import NO_MONITOR, NOT_GIVEN, NOT_SAMPLED, SEVERAL, TOO_SHORT, Conditions
from tui.runs.state.state import RunsState
from workloads.protocol import messages
from workloads.protocol.results import Comparison, Environment, MeasuredSpan, RunResult

_SAMPLED = (
    "sm_clock_mhz_min",
    "sm_clock_mhz_median",
    "power_w_max",
    "temperature_c_max",
    "throttle",
    "process_peak",
)


class MeasuredDevice(NamedTuple):
    """A device that worked during a measurement."""

    id: str
    """NVML's UUID of the device."""
    name: str
    """torch's name of the device, ``cuda:0``."""
    spans: tuple[tuple[float, float], ...]
    """Unix times of timed blocks. Clocks, power and heat are sampled only within them, because the
    device is idle while data is prepared and results are checked."""

    def worked_at(self, moment: float) -> bool:
        return any(start <= moment <= end for start, end in self.spans)


def make_unsampled_conditions(reason: str) -> Conditions:
    """Return the conditions without samples, and the reason for their absence."""
    return Conditions(
        samples=0,
        sm_clock_mhz_min=None,
        sm_clock_mhz_median=None,
        power_w_max=None,
        temperature_c_max=None,
        throttle=(),
        process_peak=None,
        unavailable=dict.fromkeys(_SAMPLED, reason),
    )


def add_environment(
    seen: Conditions, environment: Environment | None, driver: str | None, flags: dict[str, bool]
) -> Conditions:
    """Return the conditions with threads, versions and flags added.

    Args:
        seen: the conditions from the device's samples.
        environment: the environment of the runner.
        driver: the NVIDIA driver's version.
        flags: the flags of the run.
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


def summarize_samples(
    samples: Iterable[tuple[SampledDevice, ...]],
    devices: Sequence[MeasuredDevice],
    pids: Sequence[int],
    run: tuple[float, float],
) -> Conditions:
    """Summarize the samples taken during a run.

    Args:
        samples: samples of the monitor.
        devices: the devices that worked for the run.
        pids: the processes that ran it.
        run: its start and end, Unix times, for the memory of its processes.
    """
    followed = {device.id: device for device in devices}
    rows = [row for sample in samples for row in sample if row.id in followed]
    seen = [row for row in rows if followed[row.id].worked_at(row.read_at)]
    whole = [row for row in rows if run[0] <= row.read_at <= run[1]]
    clocks = [row.sm_clock_mhz for row in seen if row.sm_clock_mhz is not None]
    throttles = [row for row in seen if row.throttle is not None]
    figures: dict[str, Any] = {
        "sm_clock_mhz_min": min(clocks, default=None),
        "sm_clock_mhz_median": float(median(clocks)) if clocks else None,
        "power_w_max": _find_highest([row.power_w for row in seen]),
        "temperature_c_max": _find_highest([row.temperature_c for row in seen]),
        "process_peak": max(
            (size for row in whole for pid, size in row.processes if pid in pids), default=None
        ),
    }
    absent = [name for name, value in figures.items() if value is None]
    absent += [] if throttles else ["throttle"]
    return Conditions(
        samples=len(seen),
        **figures,
        throttle=tuple(sorted({name for row in throttles for name in row.throttle or ()})),
        warnings=_format_throttling(throttles, devices),
        unavailable=dict.fromkeys(absent, NOT_GIVEN if seen else TOO_SHORT),
        devices=tuple(
            device.name for device in devices if any(row.id == device.id for row in seen)
        ),
    )


def _format_throttling(
    rows: Sequence[SampledDevice], devices: Sequence[MeasuredDevice]
) -> tuple[str, ...]:
    """Return a line for each throttled device, with its name if there are several devices."""
    lines = []
    for device in devices:
        reasons = {name for row in rows if row.id == device.id for name in row.throttle or ()}
        harmful = sorted(name for name in reasons if name in HARMFUL_REASONS)
        if harmful:
            where = f"{device.name} " if len(devices) > 1 else ""
            lines.append(f"{where}throttled: {', '.join(harmful)}")
    return tuple(lines)


def _find_highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


Samples = Iterable[tuple[SampledDevice, ...]]


def build_conditions(
    event: messages.Finished | messages.Compared,
    runs: RunsState,
    samples: Samples | None,
    pid: int | None,
) -> ConditionsRecorded | None:
    """Return the conditions of a run or a comparison; ``None`` if nothing was measured.

    Args:
        event: the end of the run or comparison.
        runs: state with the devices, the environment and the requests.
        samples: the stored samples of the monitor; ``None`` without a monitor.
        pid: process of the worker that ran it.
    """
    measured: RunResult | Comparison
    if isinstance(event, messages.Compared):
        measured = event.comparison
        names = measured.devices or (measured.device,)
        spans = tuple(MeasuredSpan(start, end, names) for start, end in measured.measured)
    else:
        measured, time = event.result, event.result.time
        spans = measured.spans
        if time and not spans:
            # Old recordings have results without spans.
            spans = (MeasuredSpan(time.measured_from, time.measured_to, (measured.device,)),)
    if not spans:
        return None
    driver = runs.machine.sample.driver.version if runs.machine.sample else None
    seen = _summarize_devices(measured, spans, runs, samples, pid)
    seen = add_environment(seen, runs.machine.environment, driver, _find_flags(measured, runs))
    return ConditionsRecorded(measured.id, seen)


def _summarize_devices(
    outcome: RunResult | Comparison,
    spans: tuple[MeasuredSpan, ...],
    runs: RunsState,
    samples: Samples | None,
    pid: int | None,
) -> Conditions:
    if not outcome.device.startswith("cuda"):
        return make_unsampled_conditions(NOT_SAMPLED)
    devices = _find_measured_devices(spans, runs)
    if samples is None or not devices:
        return make_unsampled_conditions(NO_MONITOR)
    start, end = spans[0].start, spans[-1].end
    if isinstance(outcome, RunResult):
        run = (outcome.started_at or start, outcome.ended_at or end)
        pids = outcome.pids or (() if pid is None else (pid,))
        return summarize_samples(samples, devices, pids, run)
    seen = summarize_samples(samples, devices, (), (start, end))
    return replace(seen, unavailable={**seen.unavailable, "process_peak": SEVERAL})


def _find_measured_devices(
    spans: tuple[MeasuredSpan, ...], runs: RunsState
) -> list[MeasuredDevice]:
    """Return the devices that worked and that the monitor sees, each with its times."""
    keys = {
        view.torch: view.key
        for view in runs.machine.devices
        if view.torch and view.nvml is not None
    }
    names = dict.fromkeys(name for span in spans for name in span.devices if name in keys)
    return [
        MeasuredDevice(
            keys[name],
            name,
            tuple((span.start, span.end) for span in spans if name in span.devices),
        )
        for name in names
    ]


def _find_flags(outcome: RunResult | Comparison, runs: RunsState) -> dict[str, bool]:
    if isinstance(outcome, RunResult):
        return outcome.flags
    state = runs.comparisons.get(outcome.id)
    return dict(state.request.flags) if state else {}
