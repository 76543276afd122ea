"""Reports of a run: its progress, the interpretation of times and findings, its errors."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from workloads.declare.study import Study
from workloads.declare.workload import Case, ParameterError, Skip
from workloads.measure import cpu_share, environment, estimates, nvml, timing
from workloads.measure.cpu_share import Others
from workloads.measure.timing import Cancelled, Control
from workloads.protocol import wire
from workloads.protocol.figure_names import name_figure
from workloads.protocol.messages import (
    Compare,
    Finished,
    Measured,
    Phase,
    Progress,
    Run,
    make_empty_result,
)
from workloads.protocol.process import Channel
from workloads.protocol.results import (
    IMPOSSIBLE,
    OUT_OF_MEMORY,
    UNTRUSTED,
    UNTRUSTED_VERDICT,
    Check,
    Limit,
    Rates,
    RunResult,
    Status,
    Timing,
    drop_invalid_claims,
    first_line,
)

DEEPEST = 20
"""Frames of a traceback in the report: the innermost."""


_REFUSED = re.compile(r"CUDA error: out of memory|CU(BLAS|DNN)_STATUS_ALLOC_FAILED")
"""Out-of-memory texts of CUDA and its libraries; torch's allocator has a different one."""


def outcome(error: BaseException, device: str) -> tuple[Status, str]:
    """Return a run's status for a workload's exception, and the reason in one line.

    Args:
        error: the workload's exception.
        device: the device of the run.
    """
    if isinstance(error, Skip):
        return "skipped", str(error)
    if isinstance(error, Cancelled):
        return "cancelled", "before the first block"
    if isinstance(error, ParameterError):
        return "failed", str(error)
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "failed", f"{OUT_OF_MEMORY}{first_line(error)}"
    if isinstance(error, RuntimeError) and _REFUSED.search(first_line(error)):
        return "failed", f"{OUT_OF_MEMORY}{first_line(error)}: {_describe_refusal(device)}"
    if isinstance(error, SystemExit):
        return "failed", f"it called sys.exit with {_describe_exit(error)}"
    return "failed", f"{type(error).__name__}: {first_line(error)}"


def _describe_exit(error: SystemExit) -> str:
    """Describe the argument of ``sys.exit``: an exit status, nothing, or a message."""
    if error.code is None or isinstance(error.code, int):
        return f"exit status {int(error.code or 0)}"
    return f"the message {first_line(error)}"


def _describe_refusal(device: str) -> str:
    """Describe in a line a refusal of memory outside torch's allocator, with the free memory."""
    who = "CUDA, for itself or a library, or for pinned memory of the host, and not for a tensor"
    try:
        room = nvml.read_memory(environment.device(torch.device(device)).uuid)
    except (RuntimeError, nvml.NvmlError) as error:
        return f"it was {who}; what is free on {device} is not known: {first_line(error)}"
    free, total = f"{room.free / 2**20:.0f} MiB", f"{room.total / 2**30:.1f} GiB"
    return f"it was {who}; {free} of {total} are free on {device}"


_of_lost_devices: list[BaseException] = []


def retain_device_error(error: BaseException, reason: str) -> None:
    """Keep a device error, and the tensors in its frames, alive until this process ends.

    Freeing a tensor may call the device. An error in a destructor would end the process at once
    and, before the result is sent, lose it.
    """
    if is_device_lost(reason):
        _of_lost_devices.append(error)


def trace() -> str:
    """Return the traceback of the exception being handled."""
    return traceback.format_exc(limit=-DEEPEST)


def is_device_lost(reason: str | None) -> bool:
    """Return whether a CUDA error, as any but out of memory, has made the context unusable."""
    text = reason or ""
    if _REFUSED.search(text):
        return False
    return "CUDA error" in text or "AcceleratorError" in text or "device-side assert" in text


FAULT_S = 1e-6
"""Approximate cost of one minor page fault: 6242 of them took 11 ms."""
LAUNCH_BOUND = 0.95
"""From this share of launch time in the device's time, the device waits for Python.

If it does, a call takes as long as its launch. On an H200 that was 99% to 100% of the time, and 81%
of a call that moved 83% of the bytes which the memory can."""
DISTURBED = "other programs were running"
"""End of the reason to stop, where it would otherwise promise a reliable time."""
_OTHERS_USED = "other programs used "
"""Start of the warnings about them."""
NOISY_IQR = 0.10
"""torch.utils.benchmark warns from this value on."""
UNTRUSTED_IQR = 1.0
"""From here on the quartiles are further apart than the median is from zero."""


def rates(case: Case, seconds: float) -> Rates:
    """Return a call's work per second; ``None`` for work that the workload does not count.

    Args:
        case: the case with its counts.
        seconds: median time per call.
    """

    def per_second(count: int | None) -> float | None:
        return None if count is None or seconds <= 0 else count / seconds

    return Rates(per_second(case.flop), per_second(case.byte), per_second(case.item))


def absences(measured: Timing, rate: Rates) -> dict[str, str]:
    """Return the reasons for missing times and rates, by their dotted paths."""
    absent = {}
    for name, value in (
        ("flop_per_s", rate.flop_per_s),
        ("byte_per_s", rate.byte_per_s),
        ("item_per_s", rate.item_per_s),
    ):
        if value is None:
            absent[f"rates.{name}"] = "this workload does not count them"
    if measured.ci95_s is None:
        absent["time.ci95_s"] = _explain_missing_interval(measured)
    if measured.p95_s is None:
        short = measured.clock == "device" and measured.median_s < timing.SHORTEST_SINGLE_S
        few = f"fewer than {timing.P95_CALLS} calls could be timed one by one"
        absent["time.p95_s"] = "a single call is too short for its events" if short else few
    if measured.device_median_s is None:
        reason = "this device has no timed events"
        absent |= {"time.device_median_s": reason, "time.enqueue_s": reason}
    return absent


def _explain_missing_interval(measured: Timing) -> str:
    if measured.blocks < estimates.FEWEST_BLOCKS:
        return "an interval needs six blocks"
    if measured.stopped_by.endswith(DISTURBED):
        return "other programs disturbed the run"
    worth = estimates.independent_blocks(measured.block_times_s)
    return f"neighbouring blocks are too much alike: they count as {worth:.1f} independent ones"


def _is_disturbed(measured: Timing, device_type: str) -> bool:
    others = measured.other_cpu_cores
    return device_type == "cpu" and cpu_share.disturbed(others, torch.get_num_threads())


def drop_unreliable_interval(measured: Timing, device_type: str) -> Timing:
    """Return the timing, without its interval where other processes were at work.

    Their share is similar in consecutive blocks, so the blocks' spread does not show how far the
    median is from that of an idle machine.
    """
    if not _is_disturbed(measured, device_type) or measured.ci95_s is None:
        return measured
    reason = measured.stopped_by
    if reason.startswith(timing.KNOWN):
        reason = "its target"
    return replace(measured, ci95_s=None, stopped_by=f"{reason}; {DISTURBED}")


def drop_unreliable_p95(measured: Timing) -> tuple[Timing, dict[str, str]]:
    """Return the timing without a p95 below its median, and the reason by its dotted path.

    Single calls are timed after the blocks, when the machine may have become faster, as after the
    end of another process. Their percentile then says nothing of the time in the blocks.
    """
    if measured.p95_s is None or measured.p95_s >= measured.median_s:
        return measured, {}
    reason = "the single calls after the blocks were faster than these: the machine has changed"
    return replace(measured, p95_s=None), {"time.p95_s": reason}


def warnings(measured: Timing, device_type: str) -> tuple[str, ...]:
    """Return doubts about a time: other processes, page faults, launch time, spread."""
    lines = []
    if device_type == "cpu":
        others, threads = measured.other_cpu_cores, torch.get_num_threads()
        lost = cpu_share.lost_cores(others, threads)
        if cpu_share.has_unknown_effect(others, threads):
            lines.append(f"{_OTHERS_USED}{others:.1f} cores: {UNTRUSTED}")
        elif lost > cpu_share.NOTICEABLE:
            lines.append(f"up to {lost:.0%} of the time may be that of other programs")
    faults = measured.faults_per_call or 0.0
    if faults * FAULT_S > 0.01 * measured.median_s:
        number = f"{faults:.0f} page faults" if faults >= 1.5 else f"{faults:.1g} page faults"
        lines.append(f"{number} per call are part of the time")
    # A call that waits for the device itself, such as .item(), is not bound by launching.
    if measured.clock == "device" and measured.device_median_s and measured.enqueue_s:
        # Flushes between calls are launched too, and the device is busy with them.
        share = measured.enqueue_s / max(measured.device_median_s, measured.wall_median_s)
        if share >= LAUNCH_BOUND:
            lines.append(f"launch-bound: launching takes {share:.0%} of the time")
    spread = (measured.q3_s - measured.q1_s) / measured.median_s if measured.median_s else 0.0
    if spread >= UNTRUSTED_IQR:
        times = f"{spread:.1f}" if spread < 10 else f"{float(f'{spread:.1g}'):.0f}"
        lines.append(f"noisy: quartiles {times}x the median apart: {UNTRUSTED}")
    elif spread > NOISY_IQR:
        lines.append(f"noisy: quartiles {spread:.0%} apart")
    return tuple(lines)


def checked(result: RunResult, check: Check) -> RunResult:
    """Return the result with its check, as failed if the check did not pass."""
    result = replace(result, check=check)
    if check.passed:
        return result
    error = "not a number" if check.error is None else f"{check.error:.2g}"
    reason = f"wrong result: error {error}, tolerance {check.tolerance:.2g}"
    return replace(result, status="failed", reason=f"{reason}, against {check.against}")


def add_findings(result: RunResult, study: Study | None) -> RunResult:
    """Return the result with a study's present findings."""
    if study is None:
        return result
    busy = _find_disturbed(study, result.device)
    return replace(
        result,
        figures=dict(study.figures),
        tables=tuple(
            replace(table, unreliable=f"table {table.name}" in busy) for table in study.tables
        ),
        charts=tuple(
            replace(chart, unreliable=f"chart {chart.name}" in busy) for chart in study.charts
        ),
        log=tuple(study.log),
        spans=(*result.spans, *study.spans),
        unavailable={**result.unavailable, **study.unavailable},
        warnings=_warn_beside(study, result, busy),
    )


def _find_disturbed(study: Study, device: str) -> dict[str, float]:
    """Return the tables, charts and figures timed beside other processes, with their CPU cores."""
    if device != "cpu":
        return {}
    threads = torch.get_num_threads()
    return {
        name: others.cores
        for name, others in study.beside.items()
        if others.cores is not None and cpu_share.has_unknown_effect(others.cores, threads)
    }


def _warn_beside(study: Study, result: RunResult, busy: Mapping[str, float]) -> tuple[str, ...]:
    """Return the warnings, also of tables, charts and figures timed beside other processes.

    A warning that doubts the time for the same reason becomes one with theirs.

    Args:
        study: the findings.
        result: has the warnings so far.
        busy: the disturbed findings, with the cores that others used.
    """
    if not busy:
        return result.warnings
    *others, last = (_label_finding(study, finding) for finding in busy)
    findings = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    kept = tuple(line for line in result.warnings if not line.startswith(_OTHERS_USED))
    doubted = len(kept) < len(result.warnings)
    most = max(busy.values())
    if doubted and result.time is not None:
        most = max(most, result.time.other_cpu_cores or 0.0)
    warning = f"{_OTHERS_USED}up to {most:.1f} cores: {findings} unreliable"
    return (*kept, f"{warning}; {UNTRUSTED}" if doubted else warning)


def _label_finding(study: Study, finding: str) -> str:
    """Return a table or a chart with its title, and a figure with its name as words."""
    kind, _, name = finding.partition(" ")
    if kind == "figure":
        known = study.figures.get(name)
        label = name_figure(name, known.unit if known else "")
    elif kind == "table":
        label = next((table.title for table in study.tables if table.name == name), "") or name
    else:
        label = next((chart.title for chart in study.charts if chart.name == name), "") or name
    return f'the {kind} "{label}"'


def find_pair_warning(others: Others, device: str) -> tuple[str, ...]:
    """Return a warning if other processes disturbed a comparison; none on a GPU.

    Args:
        others: their CPU use while the pairs were measured.
        device: the device of the comparison.
    """
    cores = others.cores
    if torch.device(device).type != "cpu" or cores is None:
        return ()
    if not cpu_share.has_unknown_effect(cores, torch.get_num_threads()):
        return ()
    return (f"{_OTHERS_USED}{cores:.1f} cores: {UNTRUSTED_VERDICT}",)


def add_impossible_warnings(
    result: RunResult, others: Sequence[tuple[str, Limit]] = ()
) -> RunResult:
    """Return the result with a warning for rates above their limit.

    Args:
        result: the result, whose own rate and naive rate are checked.
        others: names and limits of further rates; for each exceeded limit, the warning names the
            highest rate.
    """
    lines: list[str] = []
    if result.limit is not None:
        lines += [*_exceeded(result.limit), *_warn_disturbed(result.limit)]
        lines += _find_naive_warning(result.limit, result)
    highest: dict[str, tuple[str, Limit]] = {}
    for label, limit in sorted(others, key=lambda other: other[1].fraction):
        highest[limit.name] = (label, limit)
    lines += [f"{label}: {line}" for label, limit in highest.values() for line in _exceeded(limit)]
    return replace(result, warnings=(*result.warnings, *lines))


def _exceeded(limit: Limit) -> tuple[str, ...]:
    if not limit.exceeded:
        return ()
    if limit.basis == "measured":
        words = "of the ceiling measured here: the ceiling is too low or the time is wrong"
    else:
        words = f"{IMPOSSIBLE}: the time is wrong, or less was done than counted"
    return (f"{limit.fraction:.0%} {words}",)


def _warn_disturbed(limit: Limit) -> tuple[str, ...]:
    if not limit.disturbed:
        return ()
    return (
        "its ceiling may be too low: other processes used the CPU while it was measured; run the "
        "workload ceiling once they are gone",
    )


def _find_naive_warning(limit: Limit, result: RunResult) -> tuple[str, ...]:
    """Return a warning if the naive rate exceeds the limit: the naive time is then wrong."""
    implied = result.figures.get("naive_flop_per_s")
    if implied is None or not isinstance(implied.value, float):
        return ()
    share = implied.value / limit.value
    if share <= 1 + limit.error:
        return ()
    return (f"the naive rate is {share:.1f} times the {limit.name} limit: impossible",)


PROGRESS_S = 0.2
"""Interval between two progress events of the same phase."""


class Reporter(Control):
    """Sends progress; subclasses add further work and the way to end a run.

    Args:
        channel: the channel to the runner.
        request: the current request.
    """

    def __init__(self, channel: Channel, request: Run | Compare) -> None:
        self._channel = channel
        self._request = request
        self._began = time.monotonic()
        self._phase: Phase | None = None
        self._reported = -1e9

    def report(
        self,
        phase: Phase,
        blocks: int = 0,
        estimate_s: float | None = None,
        half_width: float | None = None,
        remaining_s: float | None = None,
    ) -> None:
        """See the base class; sends at once when the phase changes."""
        now = time.monotonic()
        if phase != self._phase or now - self._reported >= PROGRESS_S:
            self._phase, self._reported = phase, now
            run, elapsed = self._request, now - self._began
            self._channel.send(
                Progress(
                    id=run.id,
                    phase=phase,
                    elapsed_s=elapsed,
                    device=run.device,
                    blocks=blocks,
                    estimate_s=estimate_s,
                    half_width=half_width,
                    remaining_s=remaining_s,
                )
            )
        self.on_report(now)

    def measured(self, result: RunResult) -> None:
        """Send the results known after the timing."""
        try:
            line = wire.encode_checked(Measured(drop_invalid_claims(result)))
        except wire.WireError:
            # The final event reports content that cannot be encoded, once.
            return
        self._channel.write(line)

    def on_report(self, now: float, /) -> None:
        """Do additional work at every report.

        Args:
            now: the time of the monotonic clock.

        Raises:
            Cancelled: the run must end.
        """


def finished(result: RunResult, *, worker_usable: bool = True) -> tuple[RunResult, bytes]:
    """Return the final result of a run, and the line that ends the run with it.

    The result is the given one or, if part of it cannot be encoded, a failure that names the part.

    Args:
        result: the run's result.
        worker_usable: no device error has made this process unusable.
    """
    result = drop_invalid_claims(result)
    try:
        return result, wire.encode_checked(Finished(result, worker_usable))
    except wire.WireError as error:
        reason = f"the result contains a value that is not a number: {error}"
        failed = make_empty_result(result, reason)
        return failed, wire.encode(Finished(failed, worker_usable))
