"""The monitor child, which samples NVML and the host. Imports neither Textual nor torch."""

from __future__ import annotations

from tui.core.child.launch import own_command


def serve_command(interval: float) -> tuple[str, ...]:
    """Return the command that starts the monitor with an interval in seconds."""
    return own_command("tui.monitor", "serve", "--interval", str(interval))
