"""``gpu-workbench doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from tui.child.process import ChildProcess
from tui.cli import bundle
from tui.cli.doctor_checks import (
    STATE_S,
    Finding,
    driver_findings,
    pairing_findings,
    program_findings,
    room_findings,
    silent_state_folder_finding,
    state_folder_finding,
    terminal_finding,
    torch_findings,
    watch_finding,
)
from tui.cli.errors import Failure
from tui.cli.look import ask_runner, look
from tui.cli.options import add_common
from tui.cli.output import print_json, run_to_exit
from tui.cli.python_choice import PythonChoice
from tui.cli.resolve import python_to_use
from tui.cli.streams import print_text, say
from tui.cli.subcommand import Subcommand
from tui.monitor.messages import Sample
from tui.text.glyphs import rows_of_text
from tui.watch.process_files import refusal_of_running
from workloads.protocol import messages
from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import Environment
from workloads.protocol.messages import Event

if TYPE_CHECKING:
    from tui.cli.options import Parser
    from tui.settings import Value

LOOK_S = 20.0
"""For the monitor, which waits 15 s for NVML; without it there are still the host's figures."""
T = TypeVar("T")


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
            *program_findings(),
            terminal_finding(),
            await within(STATE_S, state_folder_finding, silent_state_folder_finding()),
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


SUBCOMMAND = Subcommand(
    "what works here, what does not, and what to do",
    DoctorOptions,
    add_options,
    doctor,
    place=40,
)
