"""Signals that end a listed process, but never a process that has reused its PID.

SIGINT, SIGTERM and SIGKILL are the only signals that this program sends to processes it has not
started, each after a confirmation.
"""

from __future__ import annotations

import os
import signal

import psutil

from tui.monitor.messages import GpuProcess

SLACK_S = 2.0
"""Tolerance of start times in seconds: they count from the kernel's boot time, which has a
resolution of one second."""


def explain_unmatched(row: GpuProcess) -> str | None:
    """Return why a listed process is matched to no process here; ``None`` if it is matched."""
    if row.started_at is not None:
        return None
    return next(iter(row.unavailable.values()), "it cannot be matched to a process on this machine")


def refusal(row: GpuProcess) -> str | None:
    """Return the reason that a listed process cannot receive a signal, or ``None`` if it can."""
    unmatched = explain_unmatched(row)
    if unmatched is not None:
        return f"{row.pid} was not ended: {unmatched}"
    if row.pid == 1:
        return "1 is init: ending it ends the machine or the container"
    if row.pid == os.getpid():
        return f"{row.pid} is this workbench: q quits it"
    return None


def send_signal(row: GpuProcess, number: signal.Signals) -> str | None:
    """Send a signal to a listed process if it is still the same process.

    A descriptor refers to the process while its start is compared, so that the signal cannot
    reach another process that has reused the PID (Linux 5.3; elsewhere the comparison comes
    right before the signal).

    Args:
        row: the process as it was listed.
        number: the signal.

    Returns:
        ``None`` after sending the signal, else the reason for not sending it, in one line.
    """
    problem = refusal(row)
    if problem is not None:
        return problem
    handle: int | None = None
    try:
        handle = os.pidfd_open(row.pid) if hasattr(os, "pidfd_open") else None
        if not is_still(row):
            return f"{row.pid} was not ended: the PID belongs to another process by now"
        if handle is None:
            os.kill(row.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return f"{row.pid} has ended already"
    except PermissionError:
        return f"{row.pid} was not ended: it belongs to {row.user or 'another user'}, not to you"
    except OSError as error:
        return f"{row.pid} was not ended: {error.strerror}"
    finally:
        if handle is not None:
            os.close(handle)
    return None


def is_still(row: GpuProcess) -> bool:
    """Return whether a listed process is still the same process.

    Raises:
        ProcessLookupError: it has ended.
        PermissionError: the system refuses its start.
    """
    try:
        started_at = psutil.Process(row.pid).create_time()
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError from error
    except psutil.AccessDenied as error:
        raise PermissionError from error
    return row.started_at is not None and abs(started_at - row.started_at) <= SLACK_S
