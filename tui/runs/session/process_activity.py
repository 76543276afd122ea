"""Read the current activity of a process from the kernel."""

from __future__ import annotations

import psutil

from tui.runs.session.silence import ProcessActivity


def inspect_process(pid: int, at: float) -> ProcessActivity | None:
    """Return the present state of a process; ``None`` if it does not exist or access is denied.

    Args:
        pid: number of the process.
        at: the present moment, for :attr:`ProcessActivity.at`.
    """
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
    return ProcessActivity(letters.get(state, state), times.user + times.system, at)
