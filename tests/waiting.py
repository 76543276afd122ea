"""Waiting for a condition on what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import psutil

PATIENCE_S = 60.0


def until(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Wait until a condition gives something that counts as true, and return it."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it never came")


def assert_gone(processes: Iterable[psutil.Process], patience_s: float = PATIENCE_S) -> None:
    """Wait until the processes have ended; none may be left."""
    assert psutil.wait_procs(list(processes), timeout=patience_s)[1] == []
