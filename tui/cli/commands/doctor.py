"""``gpu-workbench doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from tui import reports
from tui.child.process import ChildProcess
from tui.cli import bundle
from tui.cli.errors import Failure
from tui.cli.look import ask_runner, look
from tui.cli.options import add_common
from tui.cli.output import print_json, run_to_exit
from tui.cli.python_choice import PythonChoice
from tui.cli.resolve import python_to_use
from tui.cli.streams import print_text, say
from tui.cli.subcommand import Subcommand
from tui.monitor.messages import GpuProcess, Sample
from tui.state.driver import NOT_ASKED, as_torch_knows, uses_cuda
from tui.state.pairing import pair
from tui.text.clean import rows_of_text
from tui.text.numbers import count, size
from tui.watch.launch import EXAMPLE
from tui.watch.permission import Refusal, refusal_of_running
from workloads.protocol import messages
from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import Environment
from workloads.protocol.messages import Event

if TYPE_CHECKING:
    from tui.cli.options import Parser
    from tui.settings import Value

Outcome = Literal["passed", "warning", "failed"]
PACKAGES = ("textual", "nvidia-ml-py", "psutil")
LOOK_S = 20.0
"""For the monitor, which waits 15 s for NVML; without it there are still the host's figures."""
STATE_S = 5.0
"""For the state folder, which a network may have to give."""
CONTEXT_BYTES = 512 * 2**20
"""A GPU with less is full: a CUDA context with torch's kernels takes 300 to 600 MiB."""
HOLDERS = 3
"""So many of the processes that fill a GPU are named."""
NO_STATE = "reports of crashes are not saved; set GPU_WORKBENCH_STATE to a folder that can be"
T = TypeVar("T")


@frozen
class Finding:
    """One check: what was found and, where it is not well, what to do."""

    name: str
    outcome: Outcome
    found: str
    advice: str = ""
    device: str = ""
    """Of which GPU, where it is of one; what is found of several is told once for all of them."""
    key: str = ""
    """The UUID of that GPU."""


@frozen
class DoctorOptions:
    """What to look at, and where what is found goes."""

    given: Mapping[str, Value] = field(default_factory=dict)
    json: bool = False
    bundle: str = ""
    """File to write all that was found to; empty for none."""
    with_names: bool = False
    """Leave the names of users, hosts and folders in it."""


def add_options(parser: Parser) -> None:
    """How it is printed, and the file that is sent to somebody."""
    add_common(parser)
    parser.add_argument(
        "--bundle",
        metavar="FILE",
        help="write all that was found to a file, without names of users, hosts and folders",
    )
    parser.add_argument("--with-names", action="store_true", help="leave those names in it")


def doctor(options: DoctorOptions) -> int:
    """Print the findings; returns the exit code, 1 if a check failed.

    Raises:
        UsageError: the settings name a Python that is not there.
    """
    return examine(python_to_use(options.given), options)


def examine(python: PythonChoice, options: DoctorOptions) -> int:
    """The same with a Python that need not be there.

    Args:
        python: that is to run the workloads.
        options: what was asked for, of which ``given`` is not looked at.
    """

    async def work() -> int:
        sample, environment = await asyncio.gather(_sample(), _environment(python.path))
        findings = [
            *_program(),
            _terminal(),
            await within(STATE_S, _state_folder, _silent_state_folder()),
            *driver_findings(sample, environment),
            *(room_findings(sample) if isinstance(sample, Sample) else ()),
            *torch_findings(python, environment),
            watch_finding(refusal_of_running()),
        ]
        if isinstance(sample, Sample) and isinstance(environment, Environment):
            findings += pairing_findings(sample, environment)
        if options.bundle:
            _write_bundle(options, findings, sample, environment)
        if options.json:
            print_json({"checks": findings})
        else:
            print_text(as_text(findings))
        return 1 if any(finding.outcome == "failed" for finding in findings) else 0

    return run_to_exit(work())


def as_text(findings: list[Finding]) -> str:
    """A line for each check, and one more where there is something to do."""
    alike: dict[Finding, list[Finding]] = {}
    for finding in findings:
        alike.setdefault(replace(finding, device="", key=""), []).append(finding)
    lines = []
    for finding, each in alike.items():
        names = indices([one.device for one in each if one.device])
        words = f"{names}: {finding.found}" if names else finding.found
        if len(each) == 1 and each[0].key:
            words += f" ({each[0].key})"
        lines.append(f"{finding.outcome:<8} {finding.name:<14} {words}")
        if finding.advice:
            lines.append(f"{'':<23} → {finding.advice}")
    return rows_of_text(lines)


def indices(names: list[str]) -> str:
    """``cuda:0-3,6`` of cuda:0, cuda:1, cuda:2, cuda:3 and cuda:6."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kind, _, index = name.partition(":")
        kinds.setdefault(kind, []).append(index)
    return ", ".join(
        f"{kind}:{_ranges([int(index) for index in found])}"
        if all(index.isdecimal() for index in found)
        else ", ".join(f"{kind}:{index}" if index else kind for index in found)
        for kind, found in kinds.items()
    )


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _write_bundle(
    options: DoctorOptions, findings: list[Finding], sample: Sample | str, environment: object
) -> None:
    name, with_names = options.bundle, options.with_names
    try:
        bundle.write(Path(name), findings, sample, environment, with_names=with_names)
    except OSError as error:
        raise Failure(f"--bundle {name}: {error.strerror}") from error
    left_out = "" if with_names else ", without names of users, hosts and folders"
    say(f"{name} is written{left_out}; read it before you send it")


async def within(seconds: float, check: Callable[[], T], otherwise: T) -> T:
    """What a check that may hang finds, or something else where it takes too long.

    It goes on in a thread that the end of the program does not wait for.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(found: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(cast(T, found))

    def work() -> None:
        found, error = None, None
        try:
            found = check()
        except Exception as problem:  # noqa: BLE001 (raised again where it is waited for)
            error = problem
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, found, error)

    threading.Thread(target=work, daemon=True, name="check").start()
    try:
        return await asyncio.wait_for(answer, seconds)
    except asyncio.TimeoutError:
        return otherwise


async def _sample() -> Sample | str:
    try:
        return await asyncio.wait_for(look(), LOOK_S)
    except Failure as failure:
        return str(failure)
    except asyncio.TimeoutError:
        return f"the monitor gave no sample within {LOOK_S:g} s"


async def _environment(python: str) -> Environment | messages.Unusable:
    advice = "give --python the path of a Python that has torch"

    async def read(child: ChildProcess[Event]) -> Environment | messages.Unusable:
        async for event in child.events():
            if isinstance(event, messages.Ready):
                return event.environment
            if isinstance(event, messages.Unusable):
                return event
        ended = await child.ended()
        last = " ".join(child.stderr.last(1))
        return messages.Unusable(f"the runner ended: {ended} {last}".rstrip(), advice)

    return await ask_runner(python, read, lambda reason: messages.Unusable(reason, advice))


def _program() -> list[Finding]:
    findings = [Finding("python", "passed", f"{platform.python_version()} at {sys.executable}")]
    for package in PACKAGES:
        try:
            findings.append(Finding(package, "passed", version(package)))
        except PackageNotFoundError:
            advice = f"pip install {package}"
            findings.append(Finding(package, "failed", "not installed", advice))
    return findings


def _terminal() -> Finding:
    term = os.environ.get("TERM", "")
    found = f"TERM={term or 'not set'}, {sys.stdout.encoding}"
    if not sys.stdout.isatty():
        return Finding("terminal", "passed", f"standard output is no terminal ({found})")
    if term in ("", "dumb", "unknown"):
        advice = "set TERM to what your terminal is, such as xterm-256color"
        return Finding("terminal", "warning", found, advice)
    if "utf" not in sys.stdout.encoding.lower():
        advice = "blocks are drawn in ASCII; set a UTF-8 locale for the finer ones"
        return Finding("terminal", "warning", found, advice)
    return Finding("terminal", "passed", found)


def _state_folder() -> Finding:
    place = reports.folder()
    try:
        trial = place / f"doctor-{os.getpid()}"
        reports.write_private(trial, b"x")
        trial.unlink()
        open_to_others = place.stat().st_mode & 0o077
    except OSError as error:
        return Finding("state folder", "warning", str(error), NO_STATE)
    if open_to_others and sys.platform != "win32":
        advice = f"chmod 700 {place}; what is written there is for its owner alone all the same"
        return Finding("state folder", "warning", f"{place}: others can look into it", advice)
    return Finding("state folder", "passed", str(place))


def _silent_state_folder() -> Finding:
    found = f"{reports.folder()} gave no answer within {STATE_S:g} s"
    return Finding("state folder", "warning", found, NO_STATE)


def driver_findings(
    sample: Sample | str, environment: Environment | messages.Unusable | None = None
) -> list[Finding]:
    """NVML, and the GPUs that are lost.

    Args:
        sample: the monitor's look, or why there is none.
        environment: what torch sees, or why it cannot be used.
    """
    if isinstance(sample, str):
        return [Finding("monitor", "failed", sample, "start gpu-workbench and read its log (l)")]
    torch = environment if isinstance(environment, Environment) else None
    driver = as_torch_knows(sample.driver, torch)
    if driver.error:
        advice = "workloads run on the CPU; if this machine has a GPU, fix this first"
        if uses_cuda(torch):
            advice = (
                "workloads run on the GPU all the same; its clocks, power, heat and who else holds "
                "its memory are not known"
            )
        return [Finding("NVML", "warning", driver.error, advice)]
    devices = count(len(sample.devices), "device")
    found = f"driver {driver.version}, CUDA {driver.cuda}, {devices}"
    findings = [Finding("NVML", "passed", found)]
    for device in sample.devices:
        if device.lost is not None:
            advice = "look at dmesg for its Xid; a lost GPU comes back with a reset or a reboot"
            words, label = f"{device.name} is lost: {device.lost}", f"nvml:{device.nvml_index}"
            findings.append(
                Finding("device", "failed", words, advice=advice, device=label, key=device.id)
            )
    return findings


def room_findings(sample: Sample) -> list[Finding]:
    """The GPUs on which no process has room to begin."""
    findings = []
    for device in sample.devices:
        free = device.memory.free
        if free is None or free >= CONTEXT_BYTES or device.memory.unified:
            continue
        words = f"{device.name} is full: {size(free)} of {size(device.memory.total)} are free"
        if device.processes is not None:
            words += f", held by {_holders(device.processes)}"
        advice = (
            "a run needs some 500 MiB for its context alone: end what holds it, or choose another"
        )
        where = f"nvml:{device.nvml_index}"
        findings.append(Finding("memory", "failed", words, advice, device=where, key=device.id))
    return findings


def _holders(rows: tuple[GpuProcess, ...]) -> str:
    if not rows:
        return "no process that NVML lists"
    largest = sorted(rows, key=lambda row: -(row.memory or 0))[:HOLDERS]
    pids = ", ".join(f"pid {row.pid}" for row in largest)
    return f"{count(len(rows), 'process', 'processes')} ({pids})"


def torch_findings(
    python: PythonChoice, environment: Environment | messages.Unusable
) -> list[Finding]:
    """Torch, what it can use, and what keeps its timings from being quiet.

    Args:
        python: that runs the workloads.
        environment: what its torch sees, or why it cannot be used.
    """
    if isinstance(environment, messages.Unusable):
        return [Finding("torch", "failed", environment.reason, environment.advice)]
    found = f"{environment.torch} in Python {environment.python} at {python.path}, {python.why}"
    findings = [Finding("torch", "passed", found)]
    if environment.cuda is None:
        advice = "for a GPU, install a CUDA build of torch, or choose one with --python"
        lacking = environment.unavailable.get("cuda", "this torch has no CUDA and gives no reason")
        findings.append(Finding("CUDA", "warning", lacking, advice))
    elif why := environment.unavailable.get("devices"):
        findings.append(Finding("CUDA", "warning", why, "see NVML above, and torch's own message"))
    else:
        found = f"CUDA {environment.cuda}, cuDNN {environment.cudnn or 'n/a'}"
        findings.append(Finding("CUDA", "passed", found))
    if environment.variables.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        advice = "unset it: every launch waits, and no GPU timing is taken"
        findings.append(Finding("variables", "failed", "CUDA_LAUNCH_BLOCKING is set", advice))
    for name, value in environment.variables.items():
        if name not in ("CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING"):
            findings.append(
                Finding("variables", "passed", f"{name}={value} is part of each figure")
            )
    threads = f"{environment.threads} threads on {environment.cpus_usable} usable cores"
    if environment.threads > environment.cpus_usable:
        advice = "more threads than cores make CPU timings noisy; set OMP_NUM_THREADS"
        findings.append(Finding("threads", "warning", threads, advice))
    else:
        findings.append(Finding("threads", "passed", threads))
    malloc = environment.malloc
    if "could not" in malloc or "not set" in malloc:
        advice = "CPU timings may hold page faults; they are counted and marked"
        findings.append(Finding("malloc", "warning", malloc, advice))
    else:
        findings.append(Finding("malloc", "passed", malloc))
    return findings


def watch_finding(refused: Refusal | None) -> Finding:
    """Whether training can be looked at that runs already, and what explains where memory ends.

    Args:
        refused: why processes of this user may not be read; ``None`` where they may.
    """
    if refused is None:
        found = f"torch processes of yours can be read; {EXAMPLE} explains where memory runs out"
        return Finding("watch", "passed", found)
    return Finding(
        "watch", "warning", refused.reason, f"{EXAMPLE} explains where memory runs out all the same"
    )


def pairing_findings(sample: Sample, environment: Environment) -> list[Finding]:
    """Which GPUs NVML and torch both know."""
    findings = []
    no_nvml = NOT_ASKED if sample.driver.error else ""
    for view in pair(sample.devices, environment.devices, no_nvml=no_nvml):
        if view.nvml is not None and view.torch is not None:
            findings.append(
                Finding("device", "passed", view.name, advice="", device=view.torch, key=view.key)
            )
        elif view.unpaired is not None:
            words = f"{view.name}: {view.unpaired}"
            advice = "no workload can run on it; what NVML says of it is shown"
            if view.torch is not None:
                advice = "workloads run on it; its clocks, power, heat and processes are not known"
            findings.append(
                Finding("device", "warning", words, advice=advice, device=view.label, key=view.key)
            )
    return findings


SUBCOMMAND = Subcommand(
    "what works here, what does not, and what to do",
    DoctorOptions,
    add_options,
    doctor,
    place=40,
)
