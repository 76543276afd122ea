"""One look at the devices, and at what a Python's torch sees, by a child that is ended then."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tui.child.process import ChildProcess, Garbage
from tui.cli.errors import Failure
from tui.devices.messages import MONITOR_EVENTS, MonitorEvent, Sample
from tui.session.supervisors import VARIABLES, runner_command
from workloads import protocol
from workloads.protocol import Event

TORCH_S = 90.0
"""For a runner to import torch and say what it sees."""
T = TypeVar("T")


async def look() -> Sample:
    """One sample of the monitor.

    Raises:
        Failure: it gave none.
    """
    child: ChildProcess[MonitorEvent] = ChildProcess(
        (sys.executable, "-m", "tui.devices", "once"), MONITOR_EVENTS, folder="/"
    )
    try:
        await child.start()
        async for event in child.events():
            if isinstance(event, Sample):
                return event
            if isinstance(event, Garbage):
                raise Failure(f"the monitor says {event.line!r}: {event.reason}")
    finally:
        ended = await child.ended()
    raise Failure(f"the monitor ended without a sample: {ended} {' '.join(child.stderr.last(1))}")


async def ask_runner(
    python: str,
    question: Callable[[ChildProcess[Event]], Awaitable[T]],
    unanswered: Callable[[str], T],
) -> T:
    """Start a runner, ask it something, and end it.

    Args:
        python: that runs the workloads.
        question: reads the answer from the events of the runner, which is started.
        unanswered: makes an answer of the reason why there is none.
    """
    child: ChildProcess[Event] = ChildProcess(runner_command(python), protocol.EVENTS, VARIABLES)

    async def ask() -> T:
        await child.start()
        return await question(child)

    try:
        return await asyncio.wait_for(ask(), TORCH_S)
    except asyncio.TimeoutError:
        return unanswered(f"torch gave no answer within {TORCH_S:g} s")
    except OSError as error:
        return unanswered(f"{python}: {error.strerror}")
    finally:
        await child.stop()
