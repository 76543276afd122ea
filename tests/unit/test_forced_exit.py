"""When a terminal takes nothing any more."""

from __future__ import annotations

import contextlib
import os
import pty
import time
from collections.abc import Iterator

import pytest

from tui.kit.terminal.ending import stalled

TIMEOUT_S = 60.0


@pytest.fixture
def ends() -> Iterator[list[int]]:
    """Open the two sides of a terminal; the second never blocks."""
    actual = list(pty.openpty())
    os.set_blocking(actual[1], False)
    yield actual
    for item in actual:
        with contextlib.suppress(OSError):  # a test may have closed it
            os.close(item)


def test_a_terminal_that_nobody_reads_is_stalled_once_it_is_full(ends: list[int]) -> None:
    _, terminal = ends
    assert not stalled(terminal)
    deadline = time.monotonic() + TIMEOUT_S
    # The kernel moves what was written to the other side a moment later: then there is room again.
    while not stalled(terminal):
        with contextlib.suppress(BlockingIOError):
            os.write(terminal, b"x" * 4096)
        assert time.monotonic() < deadline


def test_a_terminal_that_is_gone_is_stalled(ends: list[int]) -> None:
    other, terminal = ends
    os.close(other)
    assert stalled(terminal)
