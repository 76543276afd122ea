"""A session over real children, and what its store comes to say. No screen."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.children.driver import MISBEHAVING
from tui.session.session import Session
from tui.state.events import LogLine
from tui.state.runs import RunState

PATIENCE_S = 60.0


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
    session.subscribe(lambda _parts: changed.set())
    while not holds():
        changed.clear()
        await asyncio.wait_for(changed.wait(), PATIENCE_S)


async def ready(session: Session) -> None:
    await until(session, lambda: session.store.runner.status == "ready")


async def run(session: Session, workload: str = "conv2d") -> RunState:
    session.run([workload], ["cpu"], "quick")
    run_id = list(session.store.runs)[-1]
    await until(session, lambda: session.store.runs[run_id].ended)
    return session.store.runs[run_id]


def script(folder: Path, text: str) -> str:
    """A program to be given as the runner's Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def reason_of(state: RunState) -> str:
    assert state.result is not None
    assert state.result.reason is not None
    return state.result.reason


def lines(session: Session, level: str) -> list[LogLine]:
    return [line for line in session.store.log if line.level == level]


def misbehaving(folder: Path) -> str:
    """A runner's Python whose catalogue has the workloads that misbehave too."""
    return script(folder, f'exec {shlex.quote(sys.executable)} {MISBEHAVING} "$2"')
