"""Handmade recordings: a session that ran one workload, and files of given lines."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.screens.helpers import gpu, sample
from tui.core.events import LogLine
from tui.monitor.messages import MonitorHello
from tui.recordings import lines
from tui.recordings.lines import GZIP, AnyEvent
from tui.recordings.recorder import Recorder
from tui.runs.state.events import RunQueued
from workloads.protocol import messages, wire

AT = 1_750_000_000.0


class Clock:
    """A clock that advances on request."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def script() -> list[tuple[float, AnyEvent]]:
    """Return seconds to wait, each with the event to send then."""
    run = messages.Run("run-1", "matmul", "cpu", {"n": 64, "dtype": "float32"}, {})
    return [
        (0.0, MonitorHello(1, 7)),
        (0.5, sample(gpu(), gpu(1))),
        (1.0, RunQueued(run)),
        (0.25, messages.Progress("run-1", "measuring", 0.5, "cpu", 3, 0.001)),
        (2.0, LogLine("runner", "[/x] a line\nof two", "warning")),
    ]


def recorded(
    path: Path,
    events: Sequence[tuple[float, AnyEvent]] | None = None,
    title: str = "",
    *,
    simulated: bool = False,
) -> list[AnyEvent]:
    """Record a script, and return its events."""
    clock = Clock()
    recorder = Recorder(path, title=title, now=lambda: AT, elapsed=clock, simulated=simulated)
    told = script() if events is None else list(events)
    for seconds, event in told:
        clock.wait(seconds)
        recorder.write(event)
    recorder.close()
    return [event for _, event in told]


def refusal(read: Callable[[], object]) -> str | None:
    """Return a reader's error; ``None`` if it accepts the file."""
    try:
        read()
    except ValueError as error:
        return str(error)
    return None


def header_line(**changes: object) -> bytes:
    values: dict[str, object] = {
        "version": lines.VERSION,
        "program": "0.1.0",
        "at": AT,
        "date": "2025-06-15T15:06:40+00:00",
        **changes,
    }
    return wire.encode(lines.Recording(**values))  # type: ignore[arg-type]


def packed(data: bytes) -> bytes:
    pack = zlib.compressobj(wbits=GZIP)
    return pack.compress(data) + pack.flush()
