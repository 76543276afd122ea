"""Run a program in a real pseudo-terminal and read its screen through a terminal emulator."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import psutil
import pyte

if TYPE_CHECKING:
    from typing_extensions import Self

TIMEOUT_S = 60.0
_KITTY_KEYS = re.compile(rb"\x1b\[[<>=?][0-9;]*u")
"""Escapes that pyte does not know: it would print their last letter."""
PROGRAM = (sys.executable, "-m", "tui")


class Terminal:
    """Starts a program on a terminal of a given size; ends it with the ``with`` block."""

    def __init__(
        self,
        argv: Sequence[str] = PROGRAM,
        columns: int = 80,
        rows: int = 24,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.master, slave = pty.openpty()
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.output = b""
        self.resize(columns, rows)
        environment = {**os.environ, "TERM": "xterm-256color", **(variables or {})}
        # The terminal has its own size; readline, once imported, sets these to another.
        for name in ("COLUMNS", "LINES"):
            environment.pop(name, None)
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        family = self.family()
        self.process.kill()
        self.process.wait()
        if self.master >= 0:
            os.close(self.master)
        psutil.wait_procs(family, timeout=TIMEOUT_S)

    def family(self) -> list[psutil.Process]:
        """Return the program and all its descendants."""
        try:
            program = psutil.Process(self.process.pid)
            return [program, *program.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def resize(self, columns: int, rows: int) -> None:
        """Change the size, as a window manager does."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def read(self, timeout: float = 0.05) -> bool:
        """Read and draw the program's output; return ``False`` once the terminal is closed."""
        chunk = self.read_chunk(timeout)
        if chunk:
            self.draw(chunk)
        return chunk != b""

    def read_chunk(self, timeout: float) -> bytes | None:
        """Read the program's output: ``None`` if nothing yet, empty once the terminal is closed."""
        ready, _, _ = select.select([self.master], [], [], timeout)
        if not ready:
            return None
        try:
            chunk = os.read(self.master, 65_536)
        except OSError:
            # Linux reports the last close of the other side as an input/output error.
            return b""
        self.output += chunk
        return chunk

    def draw(self, chunk: bytes) -> None:
        """Draw the program's output on the screen."""
        self._stream.feed(_KITTY_KEYS.sub(b"", chunk))

    def rows(self) -> list[str]:
        """Return the rows of the screen."""
        return [row.rstrip() for row in self._screen.display]

    def text(self) -> str:
        """Return the screen as one text."""
        return "\n".join(self.rows())

    def until(self, holds: Callable[[str], bool], timeout_s: float = TIMEOUT_S) -> str:
        """Wait until the condition holds for the screen's text, and return the text."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            alive = self.read()
            if holds(self.text()):
                return self.text()
            if not alive:
                break
        raise AssertionError(f"the screen never came:\n{self.text()}")

    def until_shows(self, *words: str) -> str:
        """Wait until all words are on the screen, and return its text."""
        return self.until(lambda text: all(word in text for word in words))

    def keys(self, *keys: str) -> None:
        """Type."""
        for key in keys:
            os.write(self.master, key.encode())

    def signal(self, number: signal.Signals) -> None:
        """Send the program a signal."""
        self.process.send_signal(number)

    def hang_up(self) -> None:
        """Close the terminal's side, as a dropped connection does."""
        os.close(self.master)
        self.master = -1

    def exit_code(self, timeout_s: float = TIMEOUT_S) -> int:
        """Read until the program has ended, and return its exit code."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.master >= 0:
                self.read(0.02)
            code = self.process.poll()
            if code is not None:
                while (
                    self.master >= 0 and self.read(0) and select.select([self.master], [], [], 0)[0]
                ):
                    pass
                return code
        raise AssertionError(f"it goes on:\n{self.text()}")
