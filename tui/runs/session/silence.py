"""What is known of a silent runner or worker.

A worker says nothing during one long call, so its silence alone tells little, and a long compute is
not called dead. What the kernel says of it, its state and its processor time, tells a stopped
process from one at work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

AT_WORK = 0.05
"""Cores: whoever takes more processor time than this is at work."""
Who = Literal["runner", "worker"]


@dataclass(frozen=True, slots=True)
class Seen:
    """A process at one moment."""

    state: str
    """The kernel's letter: R, S, D, T, t, Z, I (proc(5)); another word where there is none."""
    cpu_s: float
    """Of all its threads so far."""
    at: float
    """Seconds since any fixed moment."""


@dataclass(frozen=True, slots=True)
class Silence:
    """What to tell: what is known, and what can be done."""

    reason: str = ""
    advice: str = ""


def look(pid: int, at: float) -> Seen | None:
    """Return the process as it is now; ``None`` where there is none or it may not be looked at.

    Args:
        pid: its number.
        at: the present moment, for :attr:`Seen.at`.
    """
    # Only a silent process needs it: psutil takes longer to import than the rest of the session.
    import psutil

    letters = {
        psutil.STATUS_RUNNING: "R",
        psutil.STATUS_SLEEPING: "S",
        psutil.STATUS_DISK_SLEEP: "D",
        psutil.STATUS_STOPPED: "T",
        psutil.STATUS_TRACING_STOP: "t",
        psutil.STATUS_ZOMBIE: "Z",
        psutil.STATUS_IDLE: "I",
    }
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times, state = process.cpu_times(), process.status()
    except psutil.Error:
        return None
    return Seen(letters.get(state, state), times.user + times.system, at)


def silence(who: Who, pid: int, seconds: float, before: Seen | None, now: Seen | None) -> Silence:
    """Return the message on a process that has been silent for a while.

    Args:
        who: which one it is.
        pid: its number.
        seconds: since its last word.
        before: the process at an earlier look, if there was one.
        now: the process at this look.
    """
    head = f"no word from the {who} for {seconds:.0f} s"
    if now is None:
        return Silence(f"{head}: process {pid} cannot be looked at")
    let_go_on = f"kill -CONT {pid} lets it go on, kill -KILL {pid} ends it"
    if now.state == "T":
        return Silence(f"{head}: stopped (state T)", let_go_on)
    if now.state == "t":
        return Silence(f"{head}: stopped by a debugger (state t)", "continue it there")
    if now.state == "Z":
        return Silence(f"{head}: it has ended (state Z)", "its parent has not taken note yet")
    if now.state == "D":
        return Silence(
            f"{head}: it waits in the kernel, for a disk or a driver (state D)",
            "nothing ends it before that answers",
        )
    if before is None or now.at <= before.at:
        return Silence(f"{head}: state {now.state}")
    cores = (now.cpu_s - before.cpu_s) / (now.at - before.at)
    if cores > AT_WORK:
        return Silence(f"{head}: at work, {cores:.1f} cores busy; one call may take long")
    return Silence(
        f"{head}: it waits and takes no processor time (state {now.state})",
        f"py-spy dump --pid {pid} shows where",
    )


def reading(files: Sequence[str], seconds: float) -> Silence:
    """Return what to say of a runner that has not yet said what it can run.

    Args:
        files: of workloads that it imports first; at least one.
        seconds: since it was started.
    """
    names = ", ".join(Path(file).name for file in files)
    one = "the file" if len(files) == 1 else "one of these files"
    return Silence(
        f"no answer for {seconds:.0f} s: the runner still imports {names}",
        f"if {one} never returns from import, end this and correct it",
    )
