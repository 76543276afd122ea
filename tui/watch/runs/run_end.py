"""The end of a run without a waiting parent: ``--here``, which becomes the command, or ``--env``.

The agent of a process writes an event at the interpreter's end. A process that was killed, or
that never imported torch, writes none: then the newest of its files is its last sign.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from tui.watch.runs.untrusted import UntrustedError, check_time, parse_object

_TAIL_BYTES = 64 << 10
"""Bytes at the end of an agent's file; its last event is shorter: it contains one exception."""
_NO_SIGN = frozenset({"run.json", "kept-for-good"})
"""Files that other programs write after the run."""


@dataclass(frozen=True, slots=True)
class LastSign:
    """The last sign of life that a run left."""

    at: float
    """Unix time."""
    is_end: bool
    """True if the first process recorded its own end, which does not include the exit code."""


def last_sign(folder: Path, pid: int | None, start_ticks: int | None) -> LastSign | None:
    """Find the last sign of a run that has ended.

    Args:
        folder: folder of the run.
        pid: its first process; ``None`` if unknown.
        start_ticks: start time of that process, in the kernel's ticks.

    Returns:
        The sign; ``None`` if the folder contains nothing of the run.
    """
    if pid is not None and start_ticks is not None:
        ends = [_end_in(path) for path in folder.glob(f"*-{pid}-{start_ticks}*.jsonl")]
        known = [at for at in ends if at is not None]
        # A process that executed another program has a file for each.
        if known:
            return LastSign(max(known), is_end=True)
    written = 0.0
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name not in _NO_SIGN:
                with contextlib.suppress(OSError):
                    written = max(written, path.lstat().st_mtime)
    return LastSign(min(written, time.time()), is_end=False) if written else None


def _end_in(path: Path) -> float | None:
    """Return the Unix time of the end that an agent recorded; ``None`` if it recorded none."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).splitlines()
        event = parse_object(lines[-1]) if lines else {}
        at = event.get("at")
        if event.get("event") != "end" or isinstance(at, bool) or not isinstance(at, (int, float)):
            return None
        return check_time(float(at))
    except (OSError, UntrustedError):
        return None


def describe_unseen_end(sign: LastSign | None) -> str:
    """Describe the end of a run that no program waited for."""
    if sign is None:
        return "end unknown"
    if sign.is_end:
        return "ended; its exit code is known to the shell that started it alone"
    at = time.strftime("%H:%M:%S", time.localtime(sign.at))
    return f"end unknown; last sign {at}"
