"""The runner's handles of processes that use torch: start, request, end."""

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
    ReportMemory,
    WorkerEnded,
    WorkerStarted,
)
from workloads.protocol.process import Channel
from workloads.protocol.results import Ceiling, Environment, FlagInfo

CAN_FORK = sys.platform == "linux"
PROBE_S = 60.0


@dataclass
class ProcessHandle:
    """A child process, and the channel to it."""

    pid: int
    channel: Channel
    reaped: bool = False
    """The pid may already belong to another process."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children."""
        if self.reaped:
            # Its children may live on in its group, whose id is not reused until they end.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
            return
        for send in (os.killpg, os.kill):
            try:
                send(self.pid, number)
            except (ProcessLookupError, PermissionError):
                # It has ended, or has not created its group yet: signal the pid alone.
                continue
            else:
                return

    def reap(self, timeout_s: float) -> int | None:
        """Return the wait status, or ``None`` if the process outlives ``timeout_s`` seconds."""
        if self.reaped:
            return 0
        deadline = time.monotonic() + timeout_s
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
        malloc: the result of ``fix_thresholds`` here; a fork inherits the settings.
        private: descriptors that child processes must close.
        options: arguments for a process started without fork.
    """

    def __init__(self, malloc: str, private: tuple[int, ...], options: Sequence[str] = ()) -> None:
        self._malloc = malloc
        self._options = options
        self._private = private
        self._hide_cuda = False

    def worker(self) -> ProcessHandle:
        """Start a process that runs workloads."""

        def target(reading: int, writing: int) -> None:
            # It imports torch, which the runner does after its greeting.
            from workloads.runner.worker import work

            work(reading, writing)

        return self._start("worker", target)

    def describe_environment(self) -> Environment:
        """Describe the environment, as seen by a separate process.

        Raises:
            RuntimeError: torch could not describe even the CPU; the text contains the reason.
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
            # It also imports torch.
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
            return None, process.describe_exit_code(os.waitstatus_to_exitcode(status))

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
        # A signal between the fork and the child's own setup would run the parent's handler there.
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


CANCEL_WAIT_S = 0.6
"""Time for a worker to stop on request before it is killed."""
TERM_S = 0.3


class WorkerSupervisor:
    """Starts the worker when needed, and ends it.

    Args:
        launcher: starts the worker.
        on_event: receives the events of its start and its end.
    """

    def __init__(self, launcher: Launcher, on_event: Callable[[Event], None]) -> None:
        self._launcher = launcher
        self._on_event = on_event
        self._worker: ProcessHandle | None = None
        self._dying: list[ProcessHandle] = []
        """Workers killed but not gone: releasing the memory of a GPU takes a while."""
        self._flags: dict[str, bool] = {}
        """Settings under which the worker has run."""
        self._ceilings: tuple[Ceiling, ...] = ()
        """Ceilings from the front end or from workers, for later workers."""
        self._memory_requested = False
        """The worker has received a memory request and not answered yet."""
        self._steps: list[tuple[float, signal.Signals]] = []
        """The times and signals of a cancel's remaining steps."""
        self._terminated = False
        """The worker has received SIGTERM."""

    @property
    def channel(self) -> Channel | None:
        """The channel to the worker; ``None`` without one."""
        return None if self._worker is None else self._worker.channel

    @property
    def is_ending(self) -> bool:
        """Return whether the worker has received SIGTERM, so that it may end at any time."""
        return self._worker is not None and self._terminated

    @property
    def dying(self) -> bool:
        """Return whether an ended worker still holds its memory."""
        return bool(self._dying)

    def learn(self, known: tuple[Ceiling, ...]) -> None:
        """Store ceilings for later workers."""
        self._ceilings = ceilings.newest((*self._ceilings, *known))

    # ---- to the worker ----

    def send(self, message: object) -> None:
        """Send the worker a message.

        Raises:
            RuntimeError: no worker exists.
        """
        if self._worker is None:
            raise RuntimeError("there is no worker to send a message to")
        try:
            self._worker.channel.send(message)
        except BrokenPipeError:
            # The read from its channel reports its end, with the reason.
            return

    def request_memory(self) -> None:
        """Ask the worker for its memory figures; do nothing without a worker.

        A hung worker gets one request only: its pipe must not fill up.
        """
        if self._worker is not None and not self._memory_requested:
            self._memory_requested = True
            self.send(ReportMemory())

    def allow_memory_request(self) -> None:
        """Allow the next memory request, once the worker has answered."""
        self._memory_requested = False

    def submit(self, request: object, flags: dict[str, bool]) -> None:
        """Send the worker a request, starting a worker if necessary.

        Args:
            request: the request to send.
            flags: the settings of the request.
        """
        if self._worker is None:
            self._worker = self._launcher.worker()
            self._flags = {}
            self._memory_requested = self._terminated = False
            self._on_event(WorkerStarted(self._worker.pid))
            self.send(KnownCeilings(self._ceilings))
        self._flags.update(flags)
        self.send(request)

    def needs_fresh_process(self, flags: tuple[FlagInfo, ...], settings: dict[str, bool]) -> bool:
        """Return whether the worker has run under a setting that only a new process can change.

        Args:
            flags: all known flags.
            settings: settings by name.
        """
        return any(
            flag.fresh_process
            and flag.name in settings
            and self._flags.get(flag.name, flag.default) != settings[flag.name]
            for flag in flags
        )

    # ---- its end ----

    def end(self, reason: str) -> None:
        """End the worker on purpose."""
        pid = self.kill()
        self._on_event(WorkerEnded(pid, reason, expected=True))

    def kill(self) -> int:
        """Kill the worker and its children, and return its pid.

        It does not wait for the end: a driver can take seconds to release a process.
        """
        assert self._worker is not None
        worker, self._worker = self._worker, None
        worker.signal(signal.SIGKILL)
        worker.close()
        self._dying.append(worker)
        return worker.pid

    def reap(self, timeout_s: float) -> tuple[int, int | None]:
        """Reap a worker that has closed its channel, and end its children.

        Args:
            timeout_s: seconds for it to end by itself.

        Returns:
            Its pid and its wait status; ``None`` if it does not end.
        """
        assert self._worker is not None
        status = self._worker.reap(timeout_s)
        return self.kill(), status

    def reap_dying(self) -> None:
        """Forget killed workers that have ended meanwhile."""
        self._dying = [worker for worker in self._dying if worker.reap(0.0) is None]

    def close(self) -> None:
        """End the worker, and wait a limited time for all workers."""
        if self._worker is not None:
            self.kill()
        for worker in self._dying:
            worker.reap(1.0)

    # ---- a cancel, in steps ----

    def request_cancel(self, job_id: str) -> None:
        """Ask the worker to end a job; if it continues, send SIGTERM, then SIGKILL."""
        self.send(Cancel(job_id))
        now = time.monotonic()
        self._steps = [
            (now + CANCEL_WAIT_S, signal.SIGTERM),
            (now + CANCEL_WAIT_S + TERM_S, signal.SIGKILL),
        ]

    def clear_cancel(self) -> None:
        """Drop the remaining steps, since the cancelled job has ended."""
        self._steps = []

    @property
    def next_step(self) -> float | None:
        """Return when the next signal is due, by the monotonic clock; ``None`` without a cancel."""
        return self._steps[0][0] if self._steps else None

    def escalate(self) -> bool:
        """Send the due signals, and return whether the caller must kill the worker."""
        while self._steps and time.monotonic() >= self._steps[0][0]:
            _, number = self._steps.pop(0)
            if self._worker is not None and number == signal.SIGKILL:
                return True
            if self._worker is not None:
                self._worker.signal(number)
                self._terminated = True
        return False
