"""Background tasks of the event loop that are stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

STOP_S = 1.0
"""Seconds to wait for a task after its cancellation."""


def _report_to_loop(error: BaseException) -> None:
    asyncio.get_running_loop().call_exception_handler(
        {"message": "the session failed", "exception": error}
    )


class Tasks:
    """The tasks of one session; an error in one is reported, and the others continue."""

    def __init__(self) -> None:
        self.on_error: Callable[[BaseException], None] = _report_to_loop
        """Called with an error of our own that ended a task."""
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start another task; returns it."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_end)
        return task

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.on_error(error)

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._running:
            task.cancel()

    async def ended(self) -> None:
        """Wait until all tasks have ended, including their cleanup."""
        if self._running:
            await asyncio.wait(self._running, timeout=STOP_S)
