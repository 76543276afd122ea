"""The loop that starts a child, applies its events, and restarts it."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from tui.core.child.process import ChildProcess, MalformedMessage
from workloads.protocol.keep_alive import EVERY_S, KeepAlive

E = TypeVar("E")

BACK_OFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between the end of a child and its next start; the last one from then on."""


def back_off(failures: int, waits: Sequence[float] = BACK_OFF_S) -> float:
    """Return the seconds to wait after so many ends in a row of a child that was no use."""
    return waits[min(failures, len(waits) - 1)]


class ChildSupervisor(ABC, Generic[E]):
    """Keeps one child running.

    A subclass makes the child and applies its events. It sets :attr:`is_useful` once the child has
    done useful work; the wait before the next restart is then short.
    """

    waits_s: Sequence[float] = BACK_OFF_S
    """Seconds before each further start, by the number of useless starts before."""

    def __init__(self) -> None:
        self.child: ChildProcess[E] | None = None
        """The newest, running or not."""
        self.is_useful = False

    async def supervise(self) -> None:
        """Start the child, and start it again whenever it has ended; never returns."""
        failures = 0
        while True:
            self.is_useful = False
            reason = await self._run_once()
            failures = 0 if self.is_useful else failures + 1
            await self.wait_for_next_start(reason, back_off(failures, self.waits_s))

    def send(self, message: object) -> bool:
        """Send a request; return ``False`` if no child is there to read it."""
        return self.child is not None and self.child.send(message)

    async def _run_once(self) -> str:
        """Start the child and pass its events on until it ends; return how it ended."""
        self.child = child = self.make_child()
        try:
            await child.start()
        except OSError as error:
            return self.report_no_start(error)
        self.send_first_requests()
        async for event in child.events():
            if isinstance(event, MalformedMessage):
                self.report_malformed(event)
            else:
                self.apply_event(event)
        return await child.ended()

    @abstractmethod
    def make_child(self) -> ChildProcess[E]:
        """Return the child to start."""

    @abstractmethod
    def apply_event(self, event: E) -> None:
        """Apply an event of the child."""

    @abstractmethod
    async def wait_for_next_start(self, reason: str, seconds: float) -> None:
        """Report how the child ended, and return when it is to be started again.

        Args:
            reason: how it ended, or why it did not start.
            seconds: to wait, by the number of useless starts before.
        """

    def send_first_requests(self) -> None:
        """Send the requests that arrived while the child was starting."""

    def report_no_start(self, error: OSError) -> str:
        """Return why the child does not start."""
        return str(error)

    def report_malformed(self, message: MalformedMessage) -> None:
        """Report a line that is no message."""


async def send_keep_alives(children: Callable[[], Iterable[ChildProcess[Any] | None]]) -> None:
    """Send a keep-alive to each child every ``EVERY_S`` seconds; never returns.

    Args:
        children: returns the current children.
    """
    for number in itertools.count():
        for child in children():
            if child is not None:
                child.send(KeepAlive(number))
        await asyncio.sleep(EVERY_S)
