"""Waiting for what a session knows of the run that it has open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tui.watch.session.watched_session import WatchedRunSession
from tui.watch.state.run import WatchedRun


async def until(
    session: WatchedRunSession, condition: Callable[[WatchedRun], Any], timeout_s: float = 60
) -> Any:
    """Wait until what is known gives something that counts as true, and return it."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while asyncio.get_running_loop().time() < deadline:
        found = session.state is not None and condition(session.state)
        if found:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"it never came: {session.state}")
