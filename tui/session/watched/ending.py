"""End a run: a signal to its process group, and never to a number that is another's by now."""

from __future__ import annotations

import contextlib
import os
import signal

from tui.watch import launch
from tui.watch.runs import Run, processes_of

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def send(run: Run, number: signal.Signals) -> str:
    """Send a signal to what a run has started.

    Torchrun's workers have groups of their own: it hands SIGINT and SIGTERM on to them. SIGKILL it
    cannot, so that goes to each process of the run that has an agent, too.

    Args:
        run: which one.
        number: of :data:`SIGNALS`.

    Returns:
        One line: what was sent, or why nothing was.

    Raises:
        ValueError: another signal.
    """
    if number not in SIGNALS:
        raise ValueError(f"no signal to end a run with: {number}")
    name = number.name
    if not run.is_of_this_machine:
        return f"{name} is not sent: it is a run of {run.host}; end it there"
    if run.pid is None:
        return f"{name} is not sent: --env has no process of its own; end it where it was started"
    try:
        sent = _to_group(run, number)
        if number == signal.SIGKILL:
            sent = _to_each(run) or sent
    except PermissionError:
        return f"{name} is not sent: it runs as another user; end it as that user"
    if not sent:
        return f"{name} is not sent: it has ended already"
    return f"{name} is sent to the run's processes, group {run.pid}"


def _to_group(run: Run, number: signal.Signals) -> bool:
    """To the group of the first process; whether there was one."""
    pid = run.pid
    assert pid is not None
    # The number of a group is not given to a new process while one is in it; nor is that of a
    # child before its end was seen.
    is_held = launch.is_child(run) and launch.end_of(run) is None
    with contextlib.suppress(ProcessLookupError):
        if is_held or (run.goes_on and os.getpgid(pid) == pid):
            os.killpg(pid, number)
            return True
        if run.goes_on:
            _to_one(pid, number, run)  # the group is the shell's that has started it in place
            return True
        if _in_group(run):
            os.killpg(pid, number)
            return True
    return False


def _to_one(pid: int, number: signal.Signals, run: Run) -> None:
    held = os.pidfd_open(pid)
    try:
        if run.goes_on:  # it is still that process, which the descriptor keeps
            signal.pidfd_send_signal(held, number)
    finally:
        os.close(held)


def _in_group(run: Run) -> list[int]:
    """Those of the run's processes that are left in the group of the first one."""
    found = []
    for pid in processes_of(run.folder):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) == run.pid:
                found.append(pid)
    return found


def _to_each(run: Run) -> bool:
    """SIGKILL to each process with an agent; whether there was one."""
    sent = False
    for pid in processes_of(run.folder):
        with contextlib.suppress(ProcessLookupError):
            held = os.pidfd_open(pid)
            try:
                if pid in processes_of(run.folder):
                    signal.pidfd_send_signal(held, signal.SIGKILL)
                    sent = True
            finally:
                os.close(held)
    return sent
