"""The monitor: a child process that samples NVML and the host. No Textual, no torch."""

from __future__ import annotations

from tui.core.child.launch import own_command


def serve_command(interval: float) -> tuple[str, ...]:
    """Return the command that starts it, with so many seconds between two samples."""
    return own_command("tui.devices.monitor", "serve", "--interval", str(interval))
