"""Keep-alive requests, which show children on a host that this program still runs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from tui.core.child.process import ChildProcess
from workloads.protocol.keep_alive import EVERY_S, KeepAlive


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
