"""Torch processes of this machine: what their allocators hold, read from outside. No Textual."""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.child.launch import own_command


def serving(
    interval: float,
    pids: Sequence[int] = (),
    listed: Sequence[int] = (),
    *,
    children: bool = True,
) -> tuple[str, ...]:
    """Return the command that starts the child.

    Args:
        interval: seconds between two readings.
        pids: watch these alone; none for all of this user's.
        listed: those that NVML says use a GPU.
        children: also those that ``pids`` have started.
    """
    words = ["serve", "--interval", str(interval)]
    if pids:
        words += ["--pids", ",".join(map(str, pids))]
    if not children:
        words.append("--no-children")
    if listed:
        words += ["--listed", ",".join(map(str, listed))]
    return own_command("tui.devices.allocators", *words)
