"""Waiting for a condition on what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import psutil

TIMEOUT_S = 60.0


def until(condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> Any:
    """Wait until a condition gives something that counts as true, and return it."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it never came")


def assert_gone(processes: Iterable[psutil.Process], timeout_s: float = TIMEOUT_S) -> None:
    """Wait until the processes have ended; none may be left."""
    assert psutil.wait_procs(list(processes), timeout=timeout_s)[1] == []
