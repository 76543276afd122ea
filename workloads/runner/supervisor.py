"""The worker of a runner: at most one at work, and those before it that are still dying."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from workloads.limits import ceilings
from workloads.protocol.inventory import FlagInfo
from workloads.protocol.messages import (
    Cancel,
    Event,
    KnownCeilings,
    TellMemory,
    WorkerEnded,
    WorkerStarted,
)
from workloads.protocol.process import Channel
from workloads.protocol.results import Ceiling
from workloads.runner.launcher import Launcher, ProcessHandle

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

    def ask_memory(self) -> None:
        """Ask the worker what memory it holds; nothing where there is none.

        One that hangs is asked once: its pipe must not fill with questions.
        """
        if self._worker is not None and not self._memory_asked:
            self._memory_asked = True
            self.send(TellMemory())

    def memory_told(self) -> None:
        """The worker has said what memory it holds: it can be asked again."""
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
        """Whether the worker has run under a setting that only a fresh process can change.

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
        self._dying = [process for process in self._dying if process.reap(0.0) is None]

    def close(self) -> None:
        """End the worker and wait a while for all of them."""
        if self._worker is not None:
            self.kill()
        for process in self._dying:
            process.reap(1.0)

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
