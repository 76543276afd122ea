"""What the tests of terminal faults share: a runner that never comes, and what "restored" means."""

from __future__ import annotations

import fcntl
import struct
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from tests.terminal.terminal import TIMEOUT_S, Terminal
from tests.tiers import VARIANT
from tui.kit.terminal.ending import SIGNALS

MODES = (1049, 1000, 1003, 1006, 2004)
"""Private modes that the program turns on: alternate screen, mouse, bracketed paste."""


FIRST = "SIGTERM"
"""The signal that the default run tries; other tests of it press Ctrl-C."""
USUAL = ("SIGINT", "SIGHUP", "SIGUSR1")
"""Further signals that people, terminals, batch systems and timers send."""


def each_signal() -> list[Any]:
    """Return every signal with a name that would end a program, as parameters of a test."""
    marks: dict[str, Any] = {FIRST: (), **dict.fromkeys(USUAL, VARIANT)}
    return [
        pytest.param(each, id=each.name, marks=marks.get(each.name, pytest.mark.slow))
        for each in SIGNALS
    ]


def without_torch(folder: Path) -> tuple[str, ...]:
    """Return a command that starts the program with a runner that says nothing.

    It reads its requests, and so ends with the program however that ends.
    """
    python = folder / "silent-python"
    python.write_text("#!/bin/sh\nexec 3>&1 cat >/dev/null\n")
    python.chmod(0o755)
    return (sys.executable, "-m", "tui", "--python", str(python))


def assert_restored(terminal: Terminal) -> None:
    """Assert that the program left its screen and restored cursor, mouse and paste mode."""
    read_to_end(terminal)
    for mode in MODES:
        on, off = f"\x1b[?{mode}h".encode(), f"\x1b[?{mode}l".encode()
        assert terminal.output.rfind(on) < terminal.output.rfind(off), f"mode {mode} is left on"
    assert terminal.output.rfind(b"\x1b[?25l") < terminal.output.rfind(b"\x1b[?25h")
    local = termios.tcgetattr(terminal.master)[3]
    assert local & termios.ICANON
    assert local & termios.ECHO


def read_to_end(terminal: Terminal) -> None:
    """Read what a program has written that has ended; the kernel hands it on piece by piece."""
    deadline = time.monotonic() + TIMEOUT_S
    while terminal.read(0.2):
        assert time.monotonic() < deadline, "the terminal is still open"


def waiting(terminal: Terminal) -> int:
    """Bytes that the program has written and nobody has read."""
    found: int = struct.unpack("i", fcntl.ioctl(terminal.master, termios.FIONREAD, bytes(4)))[0]
    return found


def stall(terminal: Terminal) -> None:
    """Stop reading until the program is stuck in a write: nothing comes although keys are typed."""
    before, same = -1, 0
    deadline = time.monotonic() + TIMEOUT_S
    while same < 10:
        assert time.monotonic() < deadline, "the terminal never filled up"
        terminal.keys("2", "1")
        time.sleep(0.05)
        now = waiting(terminal)
        same = same + 1 if now == before and now > 0 else 0
        before = now
