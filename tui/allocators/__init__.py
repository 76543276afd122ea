"""Allocator figures of this machine's torch processes, read from outside. No Textual."""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.child.launch import own_command

MODULE = "tui.allocators"


def serve_arguments(
    interval: float,
    pids: Sequence[int] = (),
    listed: Sequence[int] = (),
    *,
    children: bool = True,
    others: bool = False,
    keep_alive_s: float | None = None,
    steps: bool = False,
    changes: bool = False,
) -> tuple[str, ...]:
    """Return the arguments of the child.

    Args:
        interval: seconds between two readings.
        pids: watch only these processes; empty for all processes of this user.
        listed: the processes that NVML lists on a GPU.
        children: also watch the descendants of ``pids``.
        others: also watch the other processes of this user.
        keep_alive_s: seconds without a request after which the child ends; ``None`` for never.
        steps: also ask the agents of the processes for their steps.
        changes: write figures as changes, for a ``ChangeReader``.
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
    if keep_alive_s is not None:
        words += ["--keep-alive", str(keep_alive_s)]
    if steps:
        words.append("--steps")
    if changes:
        words.append("--changes")
    return tuple(words)


def serving(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the command that starts the child on this machine.

    Args:
        arguments: those of :func:`serve_arguments`.
    """
    return own_command(MODULE, *arguments)
