"""The checks of ``doctor``, each with one or more findings, and the findings as text."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, TypeVar, cast

from tui.allocators.process_files import Refusal
from tui.core import reports
from tui.core.text.commands import EXAMPLE
from tui.core.text.glyphs import rows_of_text
from tui.core.text.numbers import count, size
from tui.devices.state.devices import NVML_UNAVAILABLE, pair, reconcile_driver, uses_cuda
from tui.monitor.messages import GpuProcess, Sample
from workloads.protocol import messages, wire
from workloads.protocol.results import Environment

T = TypeVar("T")
Outcome = Literal["passed", "warning", "failed"]
WORST_FIRST: tuple[Outcome, ...] = ("failed", "warning", "passed")
PACKAGES = ("textual", "nvidia-ml-py", "psutil")
STATE_S = 5.0
"""Seconds to wait for the state folder, which may be on a network."""
CONTEXT_BYTES = 512 * 2**20
"""A GPU with less is full: a CUDA context with torch's kernels takes 300 to 600 MiB."""
HOLDERS = 3
"""The most processes named for a full GPU."""
NO_STATE = "reports of crashes are not saved; set GPU_WORKBENCH_STATE to a folder that can be"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, with advice if something is wrong."""

    name: str
    outcome: Outcome
    found: str
    advice: str = ""
    device: str = ""
    """The GPU of the finding, if any; a finding on several GPUs is shown once for all of them."""
    key: str = ""
    """The UUID of that GPU."""


def program_findings() -> list[CheckResult]:
    """Check the Python that runs this program, and its packages."""
    findings = [CheckResult("python", "passed", f"{platform.python_version()} at {sys.executable}")]
    for package in PACKAGES:
        try:
            findings.append(CheckResult(package, "passed", version(package)))
        except PackageNotFoundError:
            advice = f"pip install {package}"
            findings.append(CheckResult(package, "failed", "not installed", advice))
    return findings


def terminal_finding() -> CheckResult:
    """Check whether the terminal can draw the screens, and with which characters."""
    term = os.environ.get("TERM", "")
    fact = f"TERM={term or 'not set'}, {sys.stdout.encoding}"
    if not sys.stdout.isatty():
        return CheckResult("terminal", "passed", f"standard output is not a terminal ({fact})")
    if term in ("", "dumb", "unknown"):
        advice = "set TERM to your terminal's type, such as xterm-256color"
        return CheckResult("terminal", "warning", fact, advice)
    if "utf" not in sys.stdout.encoding.lower():
        advice = "blocks are drawn in ASCII; set a UTF-8 locale for the finer ones"
        return CheckResult("terminal", "warning", fact, advice)
    return CheckResult("terminal", "passed", fact)


def state_folder_finding() -> CheckResult:
    """Check whether crash reports can be saved, and who can read them; may hang."""
    place = reports.folder()
    try:
        trial = place / f"doctor-{os.getpid()}"
        reports.write_private(trial, b"x")
        trial.unlink()
        open_to_others = place.stat().st_mode & 0o077
    except OSError as error:
        return CheckResult("state folder", "warning", str(error), NO_STATE)
    if open_to_others and sys.platform != "win32":
        advice = f"chmod 700 {place}; files written there are private anyway"
        return CheckResult("state folder", "warning", f"{place}: others can read it", advice)
    return CheckResult("state folder", "passed", str(place))


def silent_state_folder_finding() -> CheckResult:
    """Return the finding for a check that took longer than :data:`STATE_S`."""
    fact = f"{reports.folder()} gave no answer within {STATE_S:g} s"
    return CheckResult("state folder", "warning", fact, NO_STATE)


def driver_findings(
    sample: Sample | str, environment: Environment | messages.Unusable | None = None
) -> list[CheckResult]:
    """Check NVML and find lost GPUs.

    Args:
        sample: the monitor's sample, or the reason for its absence.
        environment: torch's view, or the reason that torch is unusable.
    """
    if isinstance(sample, str):
        return [
            CheckResult("monitor", "failed", sample, "start gpu-workbench and read its log (l)")
        ]
    torch = environment if isinstance(environment, Environment) else None
    driver = reconcile_driver(sample.driver, torch)
    if driver.error:
        advice = "workloads run on the CPU; if this machine has a GPU, fix this first"
        if uses_cuda(torch):
            advice = (
                "workloads still run on the GPU; its clocks, power, temperature and other "
                "processes are unknown"
            )
        return [CheckResult("NVML", "warning", driver.error, advice)]
    devices = count(len(sample.devices), "device")
    fact = f"driver {driver.version}, CUDA {driver.cuda}, {devices}"
    findings = [CheckResult("NVML", "passed", fact)]
    for device in sample.devices:
        if device.lost is not None:
            advice = "look at dmesg for its Xid; a lost GPU comes back with a reset or a reboot"
            words, label = f"{device.name} is lost: {device.lost}", f"nvml:{device.nvml_index}"
            findings.append(
                CheckResult("device", "failed", words, advice=advice, device=label, key=device.id)
            )
    return findings


def room_findings(sample: Sample) -> list[CheckResult]:
    """Find the GPUs without room for a new process."""
    findings = []
    for device in sample.devices:
        free = device.memory.free
        if free is None or free >= CONTEXT_BYTES or device.memory.unified:
            continue
        words = f"{device.name} is full: {size(free)} of {size(device.memory.total)} are free"
        if device.processes is not None:
            words += f", held by {_holders(device.processes)}"
        advice = (
            "a run needs about 500 MiB for its context alone: end these processes, or choose "
            "another GPU"
        )
        where = f"nvml:{device.nvml_index}"
        findings.append(CheckResult("memory", "failed", words, advice, device=where, key=device.id))
    return findings


def _holders(rows: tuple[GpuProcess, ...]) -> str:
    if not rows:
        return "no process that NVML lists"
    largest = sorted(rows, key=lambda row: -(row.memory or 0))[:HOLDERS]
    pids = ", ".join(f"pid {row.pid}" for row in largest)
    return f"{count(len(rows), 'process', 'processes')} ({pids})"


def torch_findings(
    python: str, environment: Environment | messages.Unusable, option: str = "--python"
) -> list[CheckResult]:
    """Check torch, the devices it can use, and conditions that disturb its timings.

    Args:
        python: path of the Python that runs the workloads, and the reason for the choice.
        environment: its torch's view, or the reason that torch is unusable.
        option: names another Python.
    """
    if isinstance(environment, messages.Unusable):
        return [CheckResult("torch", "failed", environment.reason, environment.advice)]
    fact = f"{environment.torch} in Python {environment.python} at {python}"
    findings = [CheckResult("torch", "passed", fact)]
    if environment.cuda is None:
        advice = f"for a GPU, install a CUDA build of torch, or choose one with {option}"
        lacking = environment.unavailable.get("cuda", "this torch has no CUDA and gives no reason")
        findings.append(CheckResult("CUDA", "warning", lacking, advice))
    elif why := environment.unavailable.get("devices"):
        findings.append(
            CheckResult("CUDA", "warning", why, "see NVML above, and torch's own message")
        )
    else:
        fact = f"CUDA {environment.cuda}, cuDNN {environment.cudnn or 'n/a'}"
        findings.append(CheckResult("CUDA", "passed", fact))
    if environment.variables.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        advice = "unset it: every launch waits, and no GPU timing is taken"
        findings.append(CheckResult("variables", "failed", "CUDA_LAUNCH_BLOCKING is set", advice))
    for name, value in environment.variables.items():
        if name not in ("CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING"):
            findings.append(
                CheckResult(
                    "variables", "passed", f"{name}={value} is set, and acts on every figure"
                )
            )
    threads = f"{environment.threads} threads on {environment.cpus_usable} usable cores"
    if environment.threads > environment.cpus_usable:
        advice = "more threads than cores make CPU timings noisy; set OMP_NUM_THREADS"
        findings.append(CheckResult("threads", "warning", threads, advice))
    else:
        findings.append(CheckResult("threads", "passed", threads))
    malloc = environment.malloc
    if "could not" in malloc or "not set" in malloc:
        advice = "CPU timings may include page faults; these are counted and marked"
        findings.append(CheckResult("malloc", "warning", malloc, advice))
    else:
        findings.append(CheckResult("malloc", "passed", malloc))
    return findings


def watch_finding(refused: Refusal | None) -> CheckResult:
    """Check whether running training can be watched, and which facts explain an OOM.

    Args:
        refused: the reason that processes of this user are unreadable; ``None`` if readable.
    """
    if refused is None:
        fact = f"your torch processes can be read; for an OOM: {EXAMPLE}"
        return CheckResult("watch", "passed", fact)
    return CheckResult("watch", "warning", refused.reason, f"{EXAMPLE} explains an OOM anyway")


def pairing_findings(sample: Sample, environment: Environment) -> list[CheckResult]:
    """Check which GPUs both NVML and torch report."""
    findings = []
    no_nvml = NVML_UNAVAILABLE if sample.driver.error else ""
    for view in pair(sample.devices, environment.devices, no_nvml=no_nvml):
        if view.nvml is not None and view.torch is not None:
            findings.append(
                CheckResult(
                    "device", "passed", view.name, advice="", device=view.torch, key=view.key
                )
            )
        elif view.unpaired is not None:
            words = f"{view.name}: {view.unpaired}"
            advice = "no workload can run on it; NVML's figures are shown"
            if view.torch is not None:
                advice = "workloads run on it; its clocks, power, heat and processes are not known"
            findings.append(
                CheckResult(
                    "device", "warning", words, advice=advice, device=view.label, key=view.key
                )
            )
    return findings


async def run_with_timeout(seconds: float, check: Callable[[], T], otherwise: T) -> T:
    """Return the result of a check that may hang, or a substitute after too long.

    The check continues in a thread, and the program exits without waiting for it.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(cast(T, value))

    def run_check() -> None:
        value, error = None, None
        try:
            value = check()
        except Exception as problem:  # noqa: BLE001 (raised again where it is waited for)
            error = problem
        with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits any longer
            loop.call_soon_threadsafe(deliver, value, error)

    threading.Thread(target=run_check, daemon=True, name="check").start()
    try:
        return await asyncio.wait_for(answer, seconds)
    except asyncio.TimeoutError:
        return otherwise


def worst_outcome(findings: Iterable[CheckResult]) -> Outcome:
    """Return the outcome of all checks together: that of the worst finding."""
    outcomes = {finding.outcome for finding in findings}
    return next((outcome for outcome in WORST_FIRST if outcome in outcomes), "passed")


def answer_line(findings: Sequence[CheckResult]) -> str:
    """Return which checks failed, and which gave a warning, in a line."""
    failed, warned = (
        list(dict.fromkeys(finding.name for finding in findings if finding.outcome == outcome))
        for outcome in ("failed", "warning")
    )
    if not failed and not warned:
        return "All checks passed"
    words = f"{count(len(failed), 'check')} failed: {', '.join(failed)}"
    if not failed:
        words = "No check failed"
    return words + (f"; {count(len(warned), 'warning')}: {', '.join(warned)}" if warned else "")


def encode_check(finding: CheckResult) -> dict[str, str]:
    """Return a finding as plain data, without ``device`` and ``key`` if it is of no GPU."""
    plain: dict[str, str] = wire.to_plain(finding)
    return {name: text for name, text in plain.items() if text or name not in ("device", "key")}


def as_text(findings: Sequence[CheckResult]) -> str:
    """Return one line per check, the worst first, and a line below with advice if there is any."""
    alike: dict[CheckResult, list[CheckResult]] = {}
    for finding in sorted(findings, key=lambda item: WORST_FIRST.index(item.outcome)):
        alike.setdefault(replace(finding, device="", key=""), []).append(finding)
    lines = []
    for finding, results in alike.items():
        names = format_indices([result.device for result in results if result.device])
        words = f"{names}: {finding.found}" if names else finding.found
        if len(results) == 1 and results[0].key:
            words += f" ({results[0].key})"
        lines.append(f"{finding.outcome:<8} {finding.name:<14} {words}")
        if finding.advice:
            lines.append(f"{'':<23} → {finding.advice}")
    return rows_of_text(lines)


def format_indices(names: list[str]) -> str:
    """Abbreviate names: cuda:0, cuda:1, cuda:2, cuda:3 and cuda:6 become ``cuda:0-3,6``."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kind, _, index = name.partition(":")
        kinds.setdefault(kind, []).append(index)
    return ", ".join(
        f"{kind}:{_format_ranges([int(index) for index in indices])}"
        if all(index.isdecimal() for index in indices)
        else ", ".join(f"{kind}:{index}" if index else kind for index in indices)
        for kind, indices in kinds.items()
    )


def _format_ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
