"""End a process of the list: with SIGTERM, and never one that has got its number since.

SIGTERM is the one signal that this program sends to a process of others.
"""

from __future__ import annotations

import os
import signal

import psutil

from tui.devices.monitor.messages import GpuProcess

SLACK_S = 2.0
"""A start time is told to the second: the kernel's boot time, which it is counted from, is."""


def refusal(row: GpuProcess) -> str | None:
    """Why a process of the list cannot be sent a signal; ``None`` where it can."""
    if row.started_at is None:
        reason = next(
            iter(row.unavailable.values()), "it cannot be matched to a process on this machine"
        )
        return f"{row.pid} is not ended: {reason}"
    if row.pid == 1:
        return "1 is init: its end is that of the machine, or of the container"
    if row.pid == os.getpid():
        return f"{row.pid} is this workbench: q quits it"
    return None


def terminate(row: GpuProcess) -> str | None:
    """Send SIGTERM to a process of the list, if it is still the same one.

    The process is held by a descriptor while its start is compared, so that the signal cannot
    reach another that has got its number meanwhile (Linux 5.3; elsewhere the comparison comes
    right before the signal).

    Returns:
        Why it was not sent, in one line; ``None`` where it was.
    """
    problem = refusal(row)
    if problem is not None:
        return problem
    held: int | None = None
    try:
        held = os.pidfd_open(row.pid) if hasattr(os, "pidfd_open") else None
        if not _is_still(row):
            return f"{row.pid} is not ended: the PID belongs to another process by now"
        if held is None:
            os.kill(row.pid, signal.SIGTERM)
        else:
            signal.pidfd_send_signal(held, signal.SIGTERM)
    except ProcessLookupError:
        return f"{row.pid} has ended already"
    except PermissionError:
        return f"{row.pid} is not ended: it belongs to {row.user or 'another user'}, not to you"
    except OSError as error:
        return f"{row.pid} is not ended: {error.strerror}"
    finally:
        if held is not None:
            os.close(held)
    return None


def _is_still(row: GpuProcess) -> bool:
    try:
        started_at = psutil.Process(row.pid).create_time()
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError from error
    except psutil.AccessDenied as error:
        raise PermissionError from error
    return row.started_at is not None and abs(started_at - row.started_at) <= SLACK_S
