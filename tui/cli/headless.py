"""What commands without a screen ask of the children, and how they wait for it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from tui.cli.output import Failure, ProgressLine, UsageError, not_known, say
from tui.core.child.launch import FOLDER, own_command, too_many_files
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.child.request import NoAnswerError, first_answer
from tui.devices.monitor.messages import MONITOR_EVENTS, MonitorEvent, Sample
from tui.kit.terminal.ending import SIGNALS
from tui.runs.session.runner_supervisor import VARIABLES, runner_command
from tui.runs.state.parameters import Invalid, Valid, read_sweep
from tui.snapshots import STANDARD_INPUT
from tui.snapshots.reader.messages import (
    VERSION,
    Answer,
    Estimated,
    Export,
    Exported,
    Load,
    Loaded,
    Progress,
    ReaderEvent,
    ReaderHello,
    Refused,
    Request,
    numbered,
)
from tui.snapshots.session.snapshot_reader import death_in_words, names, reader
from workloads.protocol import messages
from workloads.protocol.messages import Event

if TYPE_CHECKING:
    from tui.runs.session.session import Session
    from tui.runs.state.state import RunsState

INTERVAL_S = 0.5
"""Between two samples of the devices while workloads run."""
TORCH_S = 90.0
"""For a runner to import torch and say what it sees."""
END_S = 3.0
"""After a signal, for what was measured by then to arrive."""
T = TypeVar("T")
A = TypeVar("A", bound=Answer)


async def look() -> Sample:
    """Return one sample of the monitor.

    Raises:
        Failure: it gave none.
    """
    command = own_command("tui.devices.monitor", "once")
    child: ChildProcess[MonitorEvent] = ChildProcess(command, MONITOR_EVENTS, folder=FOLDER)
    try:
        return await first_answer(child, (Sample,))
    except NoAnswerError as error:
        raise Failure(f"the monitor {error}") from error


async def query_runner(python: str) -> messages.Ready | messages.Unusable:
    """Return what a runner says of its torch; it is started for that.

    Args:
        python: that runs the workloads.
    """
    child: ChildProcess[Event] = ChildProcess(runner_command(python), messages.EVENTS, VARIABLES)
    kinds: tuple[type[messages.Ready | messages.Unusable], ...]
    kinds = (messages.Ready, messages.Unusable)
    try:
        return await asyncio.wait_for(first_answer(child, kinds), TORCH_S)
    except asyncio.TimeoutError:
        reason = f"torch gave no answer within {TORCH_S:g} s"
    except NoAnswerError as error:
        reason = f"the runner {error}"
    except OSError as error:
        reason = too_many_files(error) or f"{python}: {error.strerror}"
    return messages.Unusable(reason, "give --python the path of a Python that has torch")


class Waiter:
    """Waits for the states to become what a command needs, and for what would end it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changed = asyncio.Event()
        self.signalled: signal.Signals | None = None
        self._error: BaseException | None = None
        session.state.bus.on_change(lambda _parts: self._changed.set())
        session.on_error(self._note_error)
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # as nohup wants it, and a shell that starts it in the background
            loop.add_signal_handler(number, self._note_signal, number)

    def _note_signal(self, number: signal.Signals) -> None:
        self.signalled = number
        self._changed.set()

    def _note_error(self, error: BaseException) -> None:
        self._error = error
        self._changed.set()

    async def until(self, holds: Callable[[], bool], tell: Callable[[], None]) -> bool:
        """Wait until it holds, telling each change; ``False`` if a signal came first.

        Raises:
            Failure: an error of our own, after which it never would.
        """
        while not holds():
            if self._error is not None:
                text = f"failed: {type(self._error).__name__}: {self._error}"
                raise Failure(text) from self._error
            if self.signalled is not None:
                return False
            self._changed.clear()
            tell()
            await self._changed.wait()
        return True

    async def ready(self, progress: ProgressLine) -> bool:
        """Wait until torch is imported; ``False`` if a signal came first.

        Raises:
            Failure: it cannot be used.
        """
        state = self._session.state.runs

        def tell() -> None:
            runner = state.runner
            # A first start has a reason only where it is silent.
            silent = runner.status == "starting" and runner.reason
            words = f"{runner.reason}; {runner.advice}" if silent else ""
            progress.show_silence(words, f"runner: {runner.status} {runner.reason}")

        def known() -> bool:
            return state.machine.environment is not None or state.runner.status in (
                "unusable",
                "restarting",
            )

        reached = await self.until(known, tell)
        progress.clear()
        if reached and state.machine.environment is None:
            runner = state.runner
            report = f" (report: {runner.report})" if runner.report else ""
            raise Failure(f"{runner.reason}; {runner.advice}{report}")
        return reached

    async def finish(self, progress: ProgressLine) -> None:
        """After a signal: cancel what runs and wait a little for what was measured."""
        self._session.cancel()
        deadline = asyncio.get_running_loop().time() + END_S
        while self._session.state.runs.pending():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except asyncio.TimeoutError:
                break
        progress.clear()

    def exit_code(self, code: int) -> int:
        """128 plus the signal that ended it, or the code given."""
        return code if self.signalled is None else 128 + int(self.signalled)


def print_problems(hello: messages.Hello | None) -> None:
    """Print a line on stderr for each problem with the user's files of workloads."""
    for problem in hello.problems if hello else ():
        say(problem)


def chosen(
    state: RunsState,
    names: Sequence[str],
    groups: Sequence[str] = (),
    *,
    everything: bool = False,
) -> list[str]:
    """Return the workloads that were asked for, in the order of the catalogue.

    Args:
        state: of the runs.
        names: of workloads.
        groups: of which all workloads are meant.
        everything: the whole catalogue is meant.

    Raises:
        UsageError: a name or a group that is not in it.
        Failure: the same, where a file that may declare it could not be read.
    """
    catalogue = state.catalogue
    error = Failure if state.hello and state.hello.problems else UsageError
    known = [info.name for info in catalogue]
    known_groups = list(dict.fromkeys(info.group for info in catalogue))
    for name in names:
        if name not in known:
            if "=" in name:
                raise error(f"no workload {name} (did you mean --set {name}?)")
            raise error(not_known("workload", name, known, "gpu-workbench list"))
    for group in groups:
        if group not in known_groups:
            raise error(not_known("group", group, known_groups))
    return [
        info.name for info in catalogue if everything or info.name in names or info.group in groups
    ]


def set_parameters(
    session: Session, names: Sequence[str], texts: Mapping[str, str], *, sweeps: bool = False
) -> None:
    """Set each parameter in every chosen workload that has it.

    Args:
        session: whose store takes them.
        names: of the chosen workloads.
        texts: the values as they were typed, by parameter.
        sweeps: several values of a parameter are allowed.

    Raises:
        UsageError: a value that is not allowed, or a parameter that none of them has.
    """
    infos = [info for info in session.state.runs.catalogue if info.name in names]
    for key in texts:
        if not any(key == parameter.name for info in infos for parameter in info.parameters):
            known = sorted({parameter.name for info in infos for parameter in info.parameters})
            raise UsageError(f"--set {key}: {not_known('parameter', key, known)}")
    for info in infos:
        own = {parameter.name for parameter in info.parameters}
        found = read_sweep(info, {key: text for key, text in texts.items() if key in own})
        if isinstance(found, Invalid):
            raise UsageError(f"--set {'; '.join(found.errors.values())}")
        if isinstance(found, Valid):
            session.set_parameters(info.name, found.parameters)
        elif not sweeps:
            several = " ".join(f"{key}={text}" for key, text in found.texts.items())
            raise UsageError(f"--set {several}: one value each; sweeps are for the run command")
        else:
            session.set_sweep(info.name, found)


def devices_to_use(session: Session, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the torch devices to run on.

    Raises:
        Failure: a device that torch does not have.
    """
    if not wanted:
        return session.state.machine.usual_devices
    environment = session.state.machine.environment
    known = [device.id for device in environment.devices] if environment else []
    devices = ["cuda:0" if device == "cuda" else device for device in wanted]
    for device in devices:
        if device not in known:
            why = environment.unavailable.get("devices", "") if environment else ""
            raise Failure(f"no device {device}: torch has {', '.join(known)}. {why}".rstrip())
    return tuple(devices)


class Reader:
    """A reader child that is asked one thing after the other."""

    def __init__(self, child: ChildProcess[ReaderEvent], paths: tuple[str, ...]) -> None:
        self._child = child
        self._paths = paths
        self._events = child.events()
        self._number = 0
        self._loaded = False
        self._words: Callable[[Progress], str] = str
        self._line = ProgressLine()

    def load(self, request: Load) -> None:
        """Have it read the files, which takes a while."""
        self._send(request)

    async def loaded(self, words: Callable[[Progress], str]) -> Loaded:
        """Return the loaded snapshot.

        Args:
            words: tells how far it is.

        Raises:
            Failure: the files cannot be read, or the reader died of them.
        """
        self._words = words
        loaded = await self._answer(Loaded)
        self._loaded = True
        self._line.clear()
        return loaded

    async def ask(self, request: Request, kind: type[A]) -> A:
        """One answer.

        Raises:
            Failure: there is none.
        """
        self._send(request)
        return await self._answer(kind)

    def _send(self, request: Request) -> None:
        self._number += 1
        self._child.send(numbered(request, self._number))

    async def _answer(self, kind: type[A]) -> A:
        async for event in self._events:
            if isinstance(event, MalformedMessage):
                raise Failure(f"the reader said what is no answer: {event.reason}")
            if isinstance(event, Refused):
                self._line.clear()
                raise Failure(event.reason)
            if isinstance(event, kind):
                return event
            self._tell(event)
        self._line.clear()
        how = await self._child.ended()
        last = next(iter(self._child.stderr.last(1)), "")
        raise Failure(death_in_words(self._paths, how, last, loaded=self._loaded))

    async def export(self, request: Export) -> str:
        """Return a whole report.

        Raises:
            Failure: there is none.
        """
        part = await self.ask(request, Exported)
        parts = [part.text]
        while part.more:
            event = await self._events.__anext__()
            if not isinstance(event, Exported):
                raise Failure("the reader broke off in the middle of its report")
            part = event
            parts.append(part.text)
        return "".join(parts)

    def _tell(self, event: ReaderEvent) -> None:
        if isinstance(event, ReaderHello) and event.version != VERSION:
            raise Failure("the reader is of another version: install gpu-workbench again")
        if isinstance(event, Estimated):
            self._line.show(f"{names(self._paths)}: {event.words}")
        elif isinstance(event, Progress):
            self._line.show(self._words(event))


@asynccontextmanager
async def reading(paths: Sequence[str]) -> AsyncIterator[Reader]:
    """Yield a reader of some files; end it with the block.

    Raises:
        Failure: it cannot be started.
    """
    # Under a number of its own: the child's standard input is the pipe that it is asked through.
    source = os.dup(sys.stdin.fileno()) if STANDARD_INPUT in paths else None
    child = reader(source)
    try:
        try:
            await child.start()
        finally:
            if source is not None:
                os.close(source)
        yield Reader(child, tuple(paths))
    except OSError as error:
        if too_many_files(error):
            raise
        raise Failure(f"the reader cannot be started: {error}") from error
    finally:
        child.kill()
        await child.stop()
