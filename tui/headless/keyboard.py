"""Reads single keys from the terminal, without Enter, while a command waits for one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator

MOST_BYTES = 64
"""One key can send several bytes, such as an arrow key's escape sequence."""


def is_interactive() -> bool:
    """Return whether a user can answer: all three standard streams are terminals."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream.isatty() for stream in streams)


@contextlib.contextmanager
def read_keys(on_key: Callable[[str], None]) -> Iterator[None]:
    """Call a function for each key typed on standard input within the block.

    Keys do not wait for Enter and are not shown; those typed before the block are dropped. The
    terminal is as before after the block.

    Args:
        on_key: gets the characters of the key; empty if the terminal is gone.
    """
    loop = asyncio.get_running_loop()
    terminal = sys.stdin.fileno()
    modes = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSAFLUSH)
    loop.add_reader(terminal, lambda: on_key(_read(terminal)))
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSANOW, modes)


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
