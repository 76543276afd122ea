"""Crash reports of the children, in the platform's state folder."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

KEPT = 20


def folder() -> Path:
    """Where reports are kept: ``$GPU_WORKBENCH_STATE`` or the platform's state folder."""
    if chosen := os.environ.get("GPU_WORKBENCH_STATE"):
        return Path(chosen)
    from platformdirs import user_state_path

    return user_state_path("gpu-workbench")


def save(title: str, facts: Sequence[tuple[str, str]], stderr: Sequence[str]) -> Path:
    """Write a report and drop the oldest beyond :data:`KEPT`.

    Raises:
        OSError: it cannot be written, for one because the disk is full.
    """
    place = folder() / "reports"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = place / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.monotonic_ns()}.txt"
    lines = [title, "", *(f"{name}: {text}" for name, text in facts), "", "stderr:", *stderr]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="replace")
    for old in sorted(place.glob("*.txt"))[:-KEPT]:
        old.unlink(missing_ok=True)
    return path
