"""Waiting for a condition on what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], patience_s: float = 60) -> Any:
    """Wait until a condition gives something that counts as true, and return it."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it never came")
