"""Allocator figures of this machine's torch processes, read from outside. No Textual."""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.child.launch import own_command


def serving(
    interval: float,
    pids: Sequence[int] = (),
    listed: Sequence[int] = (),
    *,
    children: bool = True,
    others: bool = False,
) -> tuple[str, ...]:
    """Return the command that starts the child.

    Args:
        interval: seconds between two readings.
        pids: watch only these processes; empty for all processes of this user.
        listed: the processes that NVML lists on a GPU.
        children: also watch the descendants of ``pids``.
        others: also watch the other processes of this user.
    """
    words = ["serve", "--interval", str(interval)]
    if pids:
        words += ["--pids", ",".join(map(str, pids))]
    if not children:
        words.append("--no-children")
    if others:
        words.append("--others")
    if listed:
        words += ["--listed", ",".join(map(str, listed))]
    return own_command("tui.devices.allocators", *words)
