"""Waiting for the session, for commands that run something."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from tui.cli.errors import Failure
from tui.cli.output import ProgressLine
from tui.cli.streams import say
from tui.session.session import Session
from tui.ui.terminal.ending import SIGNALS
from workloads.protocol import messages

END_S = 3.0


class Waiter:
    """Waits for the store to become what a command needs, and hears what would end it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changed = asyncio.Event()
        self.signalled: signal.Signals | None = None
        self._error: BaseException | None = None
        session.subscribe(lambda _parts: self._changed.set())
        session.on_error(self._take_error)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, *SIGNALS):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # as nohup wants it, and a shell that starts it in the background
            loop.add_signal_handler(number, self._take_signal, number)

    def _take_signal(self, number: signal.Signals) -> None:
        self.signalled = number
        self._changed.set()

    def _take_error(self, error: BaseException) -> None:
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
        store = self._session.store

        def tell() -> None:
            progress.show(f"runner: {store.runner.status} {store.runner.reason}")

        def known() -> bool:
            return store.environment is not None or store.runner.status in (
                "unusable",
                "restarting",
            )

        reached = await self.until(known, tell)
        progress.clear()
        if reached and store.environment is None:
            runner = store.runner
            report = f" (report: {runner.report})" if runner.report else ""
            raise Failure(f"{runner.reason}; {runner.advice}{report}")
        return reached

    async def finish(self, progress: ProgressLine) -> None:
        """After a signal: cancel what runs and wait a little for what was measured."""
        self._session.cancel()
        deadline = asyncio.get_running_loop().time() + END_S
        while self._session.store.pending():
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


def say_problems(hello: messages.Hello | None) -> None:
    """A line on stderr for each problem with the files of workloads that the user brought."""
    for problem in hello.problems if hello else ():
        say(problem)
