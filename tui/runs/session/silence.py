"""Messages about a silent runner or worker.

A worker sends nothing during one long call, so silence alone does not mean that it is dead. The
kernel's process state and processor time distinguish a stopped process from a busy one. One that
waits for a compiler is busy as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SILENT_S = 5.0
"""Seconds of silence after which a child is inspected."""
AT_WORK = 0.05
"""Cores; a process that uses more processor time than this is busy."""
SilentChild = Literal["runner", "worker"]


@dataclass(frozen=True, slots=True)
class ProcessActivity:
    """A process at one moment."""

    state: str
    """The kernel's letter: R, S, D, T, t, Z, I (proc(5)); another word on other systems."""
    cpu_s: float
    """Processor time of all its threads, in seconds."""
    at: float
    """Seconds since any fixed moment."""
    child: str = ""
    """A process that it has started and that runs, such as ``cc1plus (pid 71)``; else empty."""


@dataclass(frozen=True, slots=True)
class SilenceMessage:
    """A message: the known facts, and the possible actions."""

    reason: str = ""
    advice: str = ""


def describe_silence(
    name: SilentChild,
    pid: int,
    seconds: float,
    before: ProcessActivity | None,
    now: ProcessActivity | None,
    workload: str = "",
) -> SilenceMessage:
    """Return the message on a process that has been silent for a while.

    Empty if it is not known yet whether the process computes: only a second inspection can tell.

    Args:
        name: runner or worker.
        pid: number of the process.
        seconds: seconds since its last message.
        before: its activity at an earlier inspection, if any.
        now: its activity at this inspection.
        workload: what a worker runs.
    """
    head = f"no word from the {name} for {seconds:.0f} s"
    if now is None:
        return SilenceMessage(f"{head}: process {pid} cannot be inspected")
    advice = f"kill -CONT {pid} continues it, kill -KILL {pid} ends it"
    if now.state == "T":
        return SilenceMessage(f"{head}: stopped (state T)", advice)
    if now.state == "t":
        return SilenceMessage(f"{head}: stopped by a debugger (state t)", "continue it there")
    if now.state == "Z":
        return SilenceMessage(f"{head}: it has ended (state Z)", "its parent has not reaped it yet")
    if now.state == "D":
        return SilenceMessage(
            f"{head}: it waits in the kernel, for a disk or a driver (state D)",
            "it cannot be ended before that answers",
        )
    computing = f"still computing after {seconds:.0f} s: {workload or f'the {name}'}"
    if before is None or now.at <= before.at:
        return SilenceMessage(f"{computing}, one call may take long" if now.state == "R" else "")
    cores = (now.cpu_s - before.cpu_s) / (now.at - before.at)
    if cores > AT_WORK:
        return SilenceMessage(f"{computing}, {cores:.1f} cores busy; one call may take long")
    if now.child:
        return SilenceMessage(f"{computing}, waiting for {now.child}")
    return SilenceMessage(
        f"{head}: it waits and takes no processor time (state {now.state})",
        f"py-spy dump --pid {pid} shows where",
    )


def describe_file_import(files: Sequence[str], seconds: float) -> SilenceMessage:
    """Return the message on a runner that has not yet sent its catalogue.

    Args:
        files: the workload files that it imports first; at least one.
        seconds: seconds since its start.
    """
    names = ", ".join(Path(file).name for file in files)
    subject = "the file" if len(files) == 1 else "one of these files"
    return SilenceMessage(
        f"no answer for {seconds:.0f} s: the runner still imports {names}",
        f"if {subject} never returns from import, end this and correct it",
    )
