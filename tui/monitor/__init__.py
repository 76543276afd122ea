"""The monitor: a child process that samples NVML and the host. No Textual, no torch."""

from __future__ import annotations

import sys

FOLDER = "/"
"""Where it is started: ``-m`` would otherwise find a folder named tui where we are."""


def serving(interval: float) -> tuple[str, ...]:
    """The command that starts it, with so many seconds between two samples."""
    return (sys.executable, "-m", "tui.monitor", "serve", "--interval", str(interval))
