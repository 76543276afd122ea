"""A session over real children, and its store. No screen."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.children.driver import MISBEHAVING
from tests.screens.helpers import environment
from tui.core.events import LogLine
from tui.runs.session.session import Session
from tui.runs.state.runs import RunState
from workloads import catalog
from workloads.declare.workload import infos
from workloads.protocol import messages, wire

assert catalog
TIMEOUT_S = 60.0


@asynccontextmanager
async def session_with(
    python: str = sys.executable, interval: float | None = None
) -> AsyncIterator[Session]:
    session = Session(python, interval)
    await session.start()
    try:
        yield session
    finally:
        await session.stop()


async def until(session: Session, holds: Callable[[], bool]) -> None:
    changed = asyncio.Event()
    session.state.bus.on_change(lambda _parts: changed.set())
    while not holds():
        changed.clear()
        await asyncio.wait_for(changed.wait(), TIMEOUT_S)


async def ready(session: Session) -> None:
    await until(session, lambda: session.state.runs.runner.status == "ready")


async def run(session: Session, workload: str = "conv2d") -> RunState:
    session.run([workload], ["cpu"], "quick")
    return await ended(session, latest(session))


async def ended(session: Session, run: RunState) -> RunState:
    """Wait for a run's end, and return the run."""
    name = run.request.id
    await until(session, lambda: session.state.runs.book[name].ended)
    return session.state.runs.book[name]


def latest(session: Session) -> RunState:
    return list(session.state.runs.book.values())[-1]


def script(folder: Path, text: str) -> str:
    """Create a program that serves as the runner's Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def reason_of(state: RunState) -> str:
    assert state.result is not None
    assert state.result.reason is not None
    return state.result.reason


def lines(session: Session, level: str) -> list[LogLine]:
    return [line for line in session.state.log.lines if line.level == level]


def misbehaving(folder: Path, first: str = "") -> str:
    """Create a runner's Python whose catalogue also has the misbehaving workloads.

    Args:
        folder: the folder for it.
        first: shell commands to execute first.
    """
    return script(folder, f'{first}\nexec {shlex.quote(sys.executable)} {MISBEHAVING} "$3"')


def saying(folder: Path, *further: messages.Event, first: str = "") -> str:
    """Create a runner's Python without torch, which reports that it is ready and then idles.

    It ends with its front end, like a runner.

    Args:
        folder: the folder for it.
        further: further events to send.
        first: shell commands to execute first.
    """
    hello = messages.Hello(messages.VERSION, 1, "3", "python", infos())
    ready = messages.Ready(environment(), 0.1)
    said = folder / "said"
    said.write_bytes(b"".join(map(wire.encode, (hello, ready, *further))))
    return script(folder, f"{first}\ncat {shlex.quote(str(said))}\nexec 3>&1 cat >/dev/null")
