"""The processes that use torch, as the runner has them: started, asked, and ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workloads import START
from workloads.limits import ceilings
from workloads.protocol import process, wire
from workloads.protocol.messages import (
    EVENTS,
    Cancel,
    Event,
    KnownCeilings,
    TellMemory,
    WorkerEnded,
    WorkerStarted,
)
from workloads.protocol.process import Channel
from workloads.protocol.results import Ceiling, Environment, FlagInfo

CAN_FORK = sys.platform == "linux"
PROBE_S = 60.0


@dataclass
class ProcessHandle:
    """A process that was started here, and the channel to it."""

    pid: int
    channel: Channel
    reaped: bool = False
    """Its pid may be somebody else's by now."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and to what it started."""
        if self.reaped:
            # What it started may live on in its group, whose number is not given anew till then.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
            return
        for send in (os.killpg, os.kill):
            try:
                send(self.pid, number)
            except (ProcessLookupError, PermissionError):
                # It has ended, or has not made its group yet: then the pid alone is right.
                continue
            else:
                return

    def reap(self, patience: float) -> int | None:
        """Return the wait status, or ``None`` if the process outlives ``patience`` seconds."""
        if self.reaped:
            return 0
        deadline = time.monotonic() + patience
        while True:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.reaped = True
                return 0
            if pid:
                self.reaped = True
                return status
            if time.monotonic() > deadline:
                return None
            time.sleep(0.005)

    def close(self) -> None:
        """Close the channel's descriptors."""
        os.close(self.channel.reading)
        os.close(self.channel.writing)


class Launcher:
    """Starts the processes that use torch, in one environment.

    Args:
        malloc: what ``fix_thresholds`` said here; a fork inherits it.
        private: descriptors that no process started here may keep.
        options: arguments of a process that is not forked.
    """

    def __init__(self, malloc: str, private: tuple[int, ...], options: Sequence[str] = ()) -> None:
        self._malloc = malloc
        self._options = options
        self._private = private
        self._hide_cuda = False

    def worker(self) -> ProcessHandle:
        """Start a process that runs workloads."""

        def target(reading: int, writing: int) -> None:
            # It imports torch, which the runner does after its hello.
            from workloads.runner.worker import work

            work(reading, writing)

        return self._start("worker", target)

    def describe_environment(self) -> Environment:
        """Describe the environment, as a process of its own sees it.

        Raises:
            RuntimeError: torch could not look even at the CPU; the text says why.
        """
        environment, problem = self._probe()
        if environment is not None:
            return environment
        self._hide_cuda = True
        environment, again = self._probe()
        if environment is None:
            raise RuntimeError(f"{problem}; without CUDA: {again}")
        reason = f"CUDA is left out: looking at its devices failed: {problem}"
        return replace(environment, unavailable={**environment.unavailable, "devices": reason})

    def _probe(self) -> tuple[Environment | None, str]:
        def target(_reading: int, writing: int) -> None:
            # It imports torch too.
            from workloads.measure.environment import probe

            probe(writing, self._malloc)

        child = self._start("probe", target)
        line, deadline = b"", time.monotonic() + PROBE_S
        while not line.endswith(b"\n") and time.monotonic() < deadline:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([child.channel.reading], [], [], left)
            if ready:
                chunk = os.read(child.channel.reading, 65_536)
                if not chunk:
                    break
                line += chunk
        child.close()
        status = child.reap(1.0)
        if status is None:
            child.signal(signal.SIGKILL)
            child.reap(1.0)
        try:
            return wire.decode(line, (Environment,)), ""
        except wire.WireError:
            if status is None:
                return None, f"no answer within {PROBE_S:g} s"
            return None, process.exit_in_words(status)

    def _start(self, mode: str, target: Callable[[int, int], None]) -> ProcessHandle:
        down_out, down_in = os.pipe()
        up_out, up_in = os.pipe()
        inherited = (down_in, up_out, *self._private)
        if CAN_FORK:
            pid = self._fork(target, down_out, up_in, inherited)
        else:
            pid = self._spawn(mode, down_out, up_in)
        os.close(down_out)
        os.close(up_in)
        return ProcessHandle(pid, Channel(up_out, down_in, EVENTS))

    def _fork(
        self,
        target: Callable[[int, int], None],
        reading: int,
        writing: int,
        inherited: tuple[int, ...],
    ) -> int:
        parent = os.getpid()
        # A signal between the fork and its own handling would run the parent's handler in it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            return pid
        status = 1
        try:
            for descriptor in inherited:
                os.close(descriptor)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            process.die_with_parent(parent, signal.SIGKILL)
            if self._hide_cuda:
                os.environ["CUDA_VISIBLE_DEVICES"] = ""
            target(reading, writing)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 (a fork must never return into its parent's code)
            with contextlib.suppress(OSError):
                traceback.print_exc()
                sys.stderr.flush()
        finally:
            os._exit(status)

    def _spawn(self, mode: str, reading: int, writing: int) -> int:
        environment = dict(os.environ)
        if self._hide_cuda:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        return os.posix_spawn(
            sys.executable,
            [sys.executable, *START, mode, *self._options],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_DUP2, writing, 1),
            ],
        )


ASK_S = 0.6
"""A worker that was asked to stop has this long before it is ended."""
TERM_S = 0.3


class WorkerSupervisor:
    """Starts the worker when there is something for it to do, and ends it.

    Args:
        launcher: starts it.
        tell: takes the events of its start and its end.
    """

    def __init__(self, launcher: Launcher, tell: Callable[[Event], None]) -> None:
        self._launcher = launcher
        self._tell = tell
        self._worker: ProcessHandle | None = None
        self._dying: list[ProcessHandle] = []
        """Killed, and not ended yet: releasing the memory of a GPU takes a while."""
        self._flags: dict[str, bool] = {}
        """Settings that the worker has run under."""
        self._ceilings: tuple[Ceiling, ...] = ()
        """Known to the front end or measured by a worker: for the workers to come."""
        self._memory_asked = False
        """The worker has been asked for its memory, and has not told it yet."""
        self._steps: list[tuple[float, signal.Signals]] = []
        """When a cancel sends which signal."""

    @property
    def channel(self) -> Channel | None:
        """To the worker; ``None`` if there is none."""
        return None if self._worker is None else self._worker.channel

    @property
    def dying(self) -> bool:
        """One that was ended still holds its memory."""
        return bool(self._dying)

    def learn(self, known: tuple[Ceiling, ...]) -> None:
        """Keep ceilings for the workers to come."""
        self._ceilings = ceilings.newest((*self._ceilings, *known))

    # ---- to the worker ----

    def send(self, message: object) -> None:
        """Tell the worker something.

        Raises:
            RuntimeError: there is none.
        """
        if self._worker is None:
            raise RuntimeError("there is no worker to be told anything")
        try:
            self._worker.channel.send(message)
        except BrokenPipeError:
            # Its end is read from its channel, with the reason.
            return

    def request_memory(self) -> None:
        """Ask the worker what memory it holds; nothing where there is none.

        One that hangs is asked once: its pipe must not fill with questions.
        """
        if self._worker is not None and not self._memory_asked:
            self._memory_asked = True
            self.send(TellMemory())

    def allow_memory_request(self) -> None:
        """Allow asking for memory again, now that the worker has said what it holds."""
        self._memory_asked = False

    def submit(self, request: object, flags: dict[str, bool]) -> None:
        """Give the worker a request; one is started where there is none.

        Args:
            request: for it.
            flags: settings that the request runs under.
        """
        if self._worker is None:
            self._worker = self._launcher.worker()
            self._flags = {}
            self._memory_asked = False
            self._tell(WorkerStarted(self._worker.pid))
            self.send(KnownCeilings(self._ceilings))
        self._flags.update(flags)
        self.send(request)

    def needs_fresh_process(self, flags: tuple[FlagInfo, ...], wanted: dict[str, bool]) -> bool:
        """Return whether the worker has run under a setting that only a fresh process can change.

        Args:
            flags: that there are.
            wanted: settings by name.
        """
        return any(
            flag.fresh_process
            and flag.name in wanted
            and self._flags.get(flag.name, flag.default) != wanted[flag.name]
            for flag in flags
        )

    # ---- its end ----

    def end(self, reason: str) -> None:
        """End the worker, on purpose."""
        pid = self.kill()
        self._tell(WorkerEnded(pid, reason, expected=True))

    def kill(self) -> int:
        """Kill the worker and what it started; returns its pid.

        Its end is not waited for: a driver can take seconds to let go of a process.
        """
        assert self._worker is not None
        worker, self._worker = self._worker, None
        worker.signal(signal.SIGKILL)
        worker.close()
        self._dying.append(worker)
        return worker.pid

    def reap(self, patience: float) -> tuple[int, int | None]:
        """Take the wait status of a worker that has closed its channel, and end what it started.

        Args:
            patience: seconds that it has to end by itself.

        Returns:
            Its pid and its wait status; ``None`` for one that does not end.
        """
        assert self._worker is not None
        status = self._worker.reap(patience)
        return self.kill(), status

    def reap_dying(self) -> None:
        """Forget those killed earlier that have ended meanwhile."""
        self._dying = [each for each in self._dying if each.reap(0.0) is None]

    def close(self) -> None:
        """End the worker and wait a while for all of them."""
        if self._worker is not None:
            self.kill()
        for each in self._dying:
            each.reap(1.0)

    # ---- a cancel, in steps ----

    def request_cancel(self, job_id: str) -> None:
        """Ask the worker to end a job; one that goes on gets SIGTERM, then SIGKILL."""
        self.send(Cancel(job_id))
        now = time.monotonic()
        self._steps = [
            (now + ASK_S, signal.SIGTERM),
            (now + ASK_S + TERM_S, signal.SIGKILL),
        ]

    def clear_cancel(self) -> None:
        """Take no further step: what was to be cancelled has ended."""
        self._steps = []

    @property
    def next_step(self) -> float | None:
        """When the next signal is due, by the monotonic clock; ``None`` without a cancel."""
        return self._steps[0][0] if self._steps else None

    def escalate(self) -> bool:
        """Send the signals that are due; whether SIGKILL is: the worker is to be ended."""
        while self._steps and time.monotonic() >= self._steps[0][0]:
            _, number = self._steps.pop(0)
            if self._worker is not None and number == signal.SIGKILL:
                return True
            if self._worker is not None:
                self._worker.signal(number)
        return False
