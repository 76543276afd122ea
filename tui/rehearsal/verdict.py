"""The conclusion of a rehearsal: does the program fit on the card?"""

from __future__ import annotations

import math
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tui.core.text import numbers as fmt
from tui.rehearsal.device.record import DeviceRecord
from tui.rehearsal.libraries import has_kernels
from tui.rehearsal.printed_error import PrintedError
from tui.rehearsal.run import ProcessPeak, Rehearsed
from tui.rehearsal.step_growth import describe_growth, describe_rising_peak, find_step_growth
from tui.watch.runs.agent_events import HostRead, LibraryVersion, RehearsedEvent
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.run_summary import describe_oom_kills, signal_name
from tui.watch.runs.runs import StartedRun

Answer = Literal["fits", "close", "does not fit", "unknown", "failed"]
EXIT_CODES: dict[Answer, int] = {
    "fits": 0,
    "does not fit": 1,
    "failed": 3,
    "close": 4,
    "unknown": 4,
}
"""Exit codes of the answers; 2 is wrong usage, as in every command."""
CLOSE = 0.1
"""Share of the card from which on torch may have to return cached memory to the driver, so that the
outcome depends on the card's exact total."""
NO_OBJECT = ("EOFError", ["Ran out of input"])
"""Kind and text of pickle's error where an object arrived without its bytes."""
NO_OBJECT_ADVICE = (
    " (an object that a rank sends others through NCCL arrives empty, as kernels compute nothing;"
    " the process group cpu:gloo,cuda:nccl sends it)"
)
ABORTED = 6
"""SIGABRT: torch's threads may abort the interpreter's exit after the program's own end."""


@dataclass(frozen=True, slots=True)
class Margin:
    """How much reserved memory on a real card may differ from the rehearsal's."""

    share: float
    reason: str


EAGER_MARGIN = Margin(0.01, "eager")
"""Of 22 public programs with snapshots from real GPUs, 20 were within 0.6%."""
COMPILED_MARGIN = Margin(0.05, "compiled")
"""Two compiled programs with snapshots from real GPUs differed by 3.4% and 3.8%."""
CUDNN_MARGIN = Margin(0.1, "cuDNN's workspaces are estimates")
"""Of five programs with convolutions or recurrent layers, three reserved 7 to 10% more on an
H100 (docs/readings)."""


@dataclass(frozen=True, slots=True)
class DeviceVerdict:
    """The memory of one device."""

    index: int
    record: DeviceRecord
    total: int
    """Total memory that torch reports, in bytes."""
    peaks: tuple[ProcessPeak, ...]
    """The peaks of the processes on it, the largest first."""

    @property
    def headroom(self) -> int:
        """Bytes that were free at the peak."""
        return max(0, self.total - self.record.peak)

    @property
    def peak_of_total(self) -> str:
        """The peak and the total memory, formatted for display."""
        return fmt.size_pair(self.record.peak, self.total, " of ")

    @property
    def contexts(self) -> int:
        """Bytes of CUDA contexts and libraries at the peak, assumed."""
        return max(0, self.record.peak - self.record.allocated - self.record.nccl)


@dataclass(frozen=True, slots=True)
class RehearsalVerdict:
    """The answer, the reason, and the figures."""

    answer: Answer
    reason: str
    """One line: why it does not fit, is unknown, or failed; or a remark where it fits."""
    devices: tuple[DeviceVerdict, ...]
    """The devices that were used, the fullest first."""
    steps: int | None
    """Steps of the process that made the most; ``None`` if it has no optimizer."""
    stopped: bool
    """True if it was ended on purpose after its steps or its time."""
    compiled: bool
    reads: tuple[HostRead, ...]
    """The lines at which the host read data of the device."""
    copies: int
    """Copies of device memory to the host."""
    libraries: tuple[LibraryVersion, ...] = ()
    """The libraries that the processes imported."""

    @property
    def margin(self) -> Margin:
        """How much reserved memory on a real card may differ."""
        return _margin(self.devices, compiled=self.compiled)

    @property
    def exit_code(self) -> int:
        """0 fits, 1 does not fit, 2 unknown, 3 the program itself failed."""
        return EXIT_CODES[self.answer]

    @property
    def fullest(self) -> DeviceVerdict | None:
        """The device with the least headroom; ``None`` if none was used."""
        return self.devices[0] if self.devices else None


def judge(rehearsed: Rehearsed) -> RehearsalVerdict:
    """Return the verdict on a rehearsal."""
    devices = _devices(rehearsed)
    compiled = any(report.compiled for report in rehearsed.reports)
    answer, reason = _answer(rehearsed, devices, _margin(devices, compiled=compiled).share)
    steps = [log.steps for log in rehearsed.logs if log.steps]
    return RehearsalVerdict(
        answer,
        reason,
        devices,
        max(steps) if steps else None,
        any(report.stopped for report in rehearsed.reports),
        compiled,
        _collect_reads(rehearsed.reports),
        sum(record.reads for record in rehearsed.records),
        tuple(
            dict.fromkeys(library for report in rehearsed.reports for library in report.libraries)
        ),
    )


def _margin(devices: Sequence[DeviceVerdict], *, compiled: bool) -> Margin:
    if any(device.record.estimated for device in devices):
        return CUDNN_MARGIN
    return COMPILED_MARGIN if compiled else EAGER_MARGIN


def _devices(rehearsed: Rehearsed) -> tuple[DeviceVerdict, ...]:
    total = rehearsed.rehearsal.card.total
    used = []
    for index, record in enumerate(rehearsed.records):
        if record.contexts:
            peaks = [peak for peak in rehearsed.peaks if peak.account.device == index]
            peaks.sort(key=lambda peak: -peak.account.live)
            used.append(DeviceVerdict(index, record, total, tuple(peaks)))
    return tuple(sorted(used, key=lambda device: device.headroom))


def _answer(
    rehearsed: Rehearsed, devices: Sequence[DeviceVerdict], margin: float
) -> tuple[Answer, str]:
    ended = [log for log in rehearsed.logs if any(oom.handled is False for oom in log.ooms)]
    failed = _failure(rehearsed)
    if ended or (
        failed and any(oom.handled is not True for log in rehearsed.logs for oom in log.ooms)
    ):
        lines = [explanation.line for _, explanation in rehearsed.ooms]
        return "does not fit", lines[0] if lines else "it ran out of memory"
    if failed:
        return "failed", failed
    unknown = _why_unknown(rehearsed, devices)
    if unknown:
        return "unknown", unknown
    least = devices[0]
    caught = _why_not_known_to_go_on(rehearsed.logs)
    if caught:
        return "unknown", caught
    if least.headroom < margin * least.total:
        return "close", (
            f"the peak is within {100 * margin:.0f}% of the card's memory, which is the margin"
        )
    growing = _describe_step_growth(rehearsed, devices)
    if growing:
        return "unknown", growing
    handled = sum(log.oom_count for log in rehearsed.logs)
    if handled:
        return "fits", f"the program continued after {fmt.count(handled, 'out-of-memory error')}"
    if least.record.refused:
        return "fits", "torch had to return cached memory to the driver, which takes time"
    if least.headroom < CLOSE * least.total:
        return "fits", f"less than {100 * CLOSE:.0f}% of the card's memory is left"
    rising = (describe_rising_peak(rehearsed.reports, device.index) for device in devices)
    return "fits", next(filter(None, rising), "")


def _describe_step_growth(rehearsed: Rehearsed, devices: Sequence[DeviceVerdict]) -> str:
    """Return the growth that would fill a device soonest; empty for none."""
    found = [
        find_step_growth(rehearsed.reports, device.index, device.headroom) for device in devices
    ]
    growths = [growth for growth in found if growth is not None]
    if not growths:
        return ""
    return describe_growth(min(growths, key=lambda growth: growth.full_at))


def _why_unknown(rehearsed: Rehearsed, devices: Sequence[DeviceVerdict]) -> str:
    """Return why nothing follows from a program that did not fail; empty if something does."""
    if rehearsed.time_is_up and not rehearsed.reports:
        return "the time ran out before it reported its memory: increase --for"
    if not devices:
        return "the program used no GPU"
    if not rehearsed.reports:
        return "no process reported its peaks: it was killed, or left by os._exit"
    return _lacks_kernels(rehearsed)


def _why_not_known_to_go_on(logs: Sequence[ProcessLog]) -> str:
    """Return why the program may have ended early by an OOM that it caught; empty if it did not.

    Code 0 proves nothing: a program that logs the error and returns has the same.
    """
    for log in logs:
        for oom in log.ooms:
            if oom.handled is None:
                path, _, line = (oom.where or "").rpartition(":")
                at = f" at {path.rpartition('/')[2]}:{line}" if path else ""
                return f"it ran out of memory{at}; {oom.why_not_known}"
    return ""


def _failure(rehearsed: Rehearsed) -> str:
    """Return why the program failed by itself; empty if it did not."""
    run = rehearsed.run
    raised = [log for log in rehearsed.logs if log.kind]
    finished = rehearsed.reports and not raised
    if run.code == 0:
        return _failure_beside(rehearsed, raised)
    if run.signal == ABORTED and finished:
        return ""
    if rehearsed.time_is_up and (finished or (not raised and _was_killed(run))):
        return ""
    killed = describe_oom_kills(run)
    if killed:
        most = fmt.size(rehearsed.host_peak)
        return f"{killed}; it had {most} at most: build the model on the device"
    printed = rehearsed.printed
    own = _first_raised(raised, printed)
    if own is not None:
        return _describe_error(own)
    code = run.code if printed.rank is None else printed.code
    number = run.signal
    if printed.rank is not None and code is not None and code < 0:
        number = -code
    how = f"exit code {code}"
    if number is not None:
        how = f"ended by {signal_name(number)}"
    elif code is None:
        how = "its exit code is not known"
    rank = "" if printed.rank is None else f"rank {printed.rank}: "
    if printed.raised:
        return f"{rank}{printed.line}"
    return f"{rank}{printed.line} ({how})" if printed.line else f"{rank}{how}"


def _was_killed(run: StartedRun) -> bool:
    """Return whether SIGKILL ended a run, and not for the host's memory."""
    return run.signal == signal.SIGKILL and not describe_oom_kills(run)


def _describe_error(log: ProcessLog) -> str:
    text = log.text.strip().splitlines()
    error = f"{log.kind}: {text[0]}" if text else log.kind
    if (log.kind, text[:1]) == NO_OBJECT:
        error += NO_OBJECT_ADVICE
    return error if log.rank is None else f"rank {log.rank}: {error}"


def _failure_beside(rehearsed: Rehearsed, raised: Sequence[ProcessLog]) -> str:
    """Return the error of a process whose parent was ended before it could see it.

    A program that comes to its own end, with code 0, has handled what its children raised.
    """
    first = _first_raised(raised, rehearsed.printed)
    if first is None or not any(report.stopped for report in rehearsed.reports):
        return ""
    words = _describe_error(first)
    return words if first.rank is not None else f"process {first.pid}: {words}"


def _first_raised(raised: Sequence[ProcessLog], printed: PrintedError) -> ProcessLog | None:
    """Return the process whose exception came first; others may have failed because of it."""
    if printed.pid is not None:
        return next((log for log in raised if log.pid == printed.pid), None)
    return min(raised, key=lambda log: log.ended_at or math.inf, default=None)


def _lacks_kernels(rehearsed: Rehearsed) -> str:
    """Return why the card cannot run torch's kernels; empty if it can."""
    card = rehearsed.rehearsal.card
    for log in rehearsed.logs:
        archs = log.rehearsed.architectures if log.rehearsed is not None else ()
        if not has_kernels(archs, card.capability):
            major, minor = divmod(card.capability, 10)
            return (
                f"torch {log.torch} has no kernels for compute capability {major}.{minor}; another "
                "build of torch would be another program"
            )
    return ""


def _collect_reads(reports: Sequence[RehearsedEvent]) -> tuple[HostRead, ...]:
    counts: Counter[tuple[str, int, str]] = Counter()
    for report in reports:
        for read in report.reads:
            counts[read.filename, read.line, read.name] += read.count
    return tuple(HostRead(*place, count) for place, count in counts.most_common())
