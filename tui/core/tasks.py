"""Tasks that go on beside the event loop's other work until they are stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

STOP_S = 1.0
"""A task that has not ended so long after it was cancelled is not waited for."""


def _tell_loop(error: BaseException) -> None:
    asyncio.get_running_loop().call_exception_handler(
        {"message": "the session failed", "exception": error}
    )


class Tasks:
    """Those of one session; an error in one is told, and the others go on."""

    def __init__(self) -> None:
        self.on_error: Callable[[BaseException], None] = _tell_loop
        """Called with an error of our own, with which a task has ended."""
        self._going_on: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin one more."""
        task = asyncio.create_task(work)
        self._going_on.add(task)
        task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._going_on.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.on_error(error)

    def cancel(self) -> None:
        """Ask all to end."""
        for task in self._going_on:
            task.cancel()

    async def ended(self) -> None:
        """Wait until all have ended, what they do at their end included."""
        if self._going_on:
            await asyncio.wait(self._going_on, timeout=STOP_S)
