"""The worker of a runner: at most one at work, and those before it that are still dying."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from workloads import ceilings
from workloads.inventory import FlagInfo
from workloads.launcher import Launcher, ProcessHandle
from workloads.process import Channel
from workloads.protocol import Event, KnownCeilings, WorkerEnded, WorkerStarted
from workloads.results import Ceiling

ASK_S = 0.6
"""A worker that was asked to stop has this long before it is ended."""
TERM_S = 0.3


class Crew:
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
        self._ladder: list[tuple[float, signal.Signals]] = []

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

    def give(self, request: object, flags: dict[str, bool]) -> None:
        """Give the worker a request; one is started where there is none.

        Args:
            request: for it.
            flags: settings that the request runs under.
        """
        if self._worker is None:
            self._worker = self._launcher.worker()
            self._flags = {}
            self._tell(WorkerStarted(self._worker.pid))
            self.send(KnownCeilings(self._ceilings))
        self._flags.update(flags)
        self.send(request)

    def unfit(self, flags: tuple[FlagInfo, ...], wanted: dict[str, bool]) -> bool:
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
        pid = self.let_die()
        self._tell(WorkerEnded(pid, reason, expected=True))

    def let_die(self) -> int:
        """Kill the worker and what it started; it is reaped when it is gone. Returns its pid.

        Not waited for: a driver can take seconds to let go of a process.
        """
        assert self._worker is not None
        worker, self._worker = self._worker, None
        worker.signal(signal.SIGKILL)
        worker.close()
        self._dying.append(worker)
        return worker.pid

    def bury(self, patience: float) -> tuple[int, int | None]:
        """Take leave of a worker that has closed its channel.

        Args:
            patience: seconds that it has to end by itself.

        Returns:
            Its pid and its wait status; ``None`` for one that does not end.
        """
        assert self._worker is not None
        status = self._worker.reap(patience)
        return self.let_die(), status

    def reap(self) -> None:
        """Look which of the dying are gone."""
        self._dying = [child for child in self._dying if child.reap(0.0) is None]

    def close(self) -> None:
        """End the worker and wait a while for all of them."""
        if self._worker is not None:
            self.let_die()
        for child in self._dying:
            child.reap(1.0)

    # ---- the ladder of a cancel ----

    def press(self) -> None:
        """Begin to insist, after the worker was asked: SIGTERM, then SIGKILL, each in its time."""
        now = time.monotonic()
        self._ladder = [
            (now + ASK_S, signal.SIGTERM),
            (now + ASK_S + TERM_S, signal.SIGKILL),
        ]

    def relent(self) -> None:
        """What was cancelled has ended."""
        self._ladder = []

    @property
    def next_rung(self) -> float | None:
        """When to insist next, by the monotonic clock; ``None`` where nothing is pressed for."""
        return self._ladder[0][0] if self._ladder else None

    def climb(self) -> bool:
        """Take the rungs that are due; whether the last is reached: the worker is to be ended."""
        while self._ladder and time.monotonic() >= self._ladder[0][0]:
            _, number = self._ladder.pop(0)
            if self._worker is not None and number == signal.SIGKILL:
                return True
            if self._worker is not None:
                self._worker.signal(number)
        return False
