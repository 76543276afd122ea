"""The open run: following it, asking its agents, and sending signals to that run alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from tui.core.events import EventBus
from tui.core.tasks import Tasks
from tui.devices.session.shared_watch import SharedWatch
from tui.monitor.messages import Sample
from tui.watch.runs import runs, start
from tui.watch.runs.agents import AgentRequest, RankStacks, read_rank_stacks
from tui.watch.runs.runs import StartedRun, processes_of
from tui.watch.session.command_start import start_command
from tui.watch.session.followed_run import FollowedRun
from tui.watch.session.rehearsal_start import RehearsalRequest, start_rehearsal
from tui.watch.state.run import WatchedRun

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def send_signal(run: StartedRun, number: signal.Signals) -> str:
    """Send a signal to the processes of a run.

    Torchrun's workers have process groups of their own: torchrun forwards SIGINT and SIGTERM to
    them. It cannot forward SIGKILL, so SIGKILL also goes to each process of the run with an agent.

    Args:
        run: the run to signal.
        number: one of :data:`SIGNALS`.

    Returns:
        One line: which signal was sent, or why none was.

    Raises:
        ValueError: the signal is not in :data:`SIGNALS`.
    """
    if number not in SIGNALS:
        raise ValueError(f"no signal to end a run with: {number}")
    name = number.name
    if not run.is_of_this_machine:
        return f"{name} is not sent: it is a run of {run.host}; end it there"
    if run.pid is None:
        return f"{name} is not sent: --env has no process of its own; end it where it was started"
    try:
        sent = _signal_group(run, number)
        if number == signal.SIGKILL and _kill_each(run):
            sent = sent or "each process of the run that has an agent"
    except PermissionError:
        return f"{name} is not sent: it runs as another user; end it as that user"
    if not sent:
        return f"{name} is not sent: it has ended already"
    return f"{name} is sent to {sent}"


def _signal_group(run: StartedRun, number: signal.Signals) -> str:
    """Signal the first process's group, or only that process; returns the target, empty if gone."""
    pid = run.pid
    assert pid is not None
    group = f"the run's processes, group {pid}"
    # The kernel does not reuse the number of a group while a process is in it, nor the number
    # of a child before its end was collected.
    is_held = start.is_child(run) and not start.has_ended(run)
    with contextlib.suppress(ProcessLookupError):
        if is_held or (run.first_process_is_running and os.getpgid(pid) == pid):
            os.killpg(pid, number)
            return group
        if run.first_process_is_running:
            # The group belongs to the shell that started the command in place.
            _signal_process(pid, number, lambda _pid: run.first_process_is_running)
            return f"process {pid}"
        if _find_left_in_group(run):
            os.killpg(pid, number)
            return group
    return ""


def _signal_process(pid: int, number: signal.Signals, is_same: Callable[[int], bool]) -> bool:
    """Send a signal to one process; return whether it was sent.

    Args:
        pid: the process.
        number: the signal.
        is_same: returns whether the pid is still that of the process.

    Raises:
        ProcessLookupError: the process has ended.
    """
    handle = os.pidfd_open(pid)
    try:
        if is_same(pid):
            signal.pidfd_send_signal(handle, number)
            return True
        return False
    finally:
        os.close(handle)


def _find_left_in_group(run: StartedRun) -> list[int]:
    """Return the run's processes that remain in the group of the first one."""
    members = []
    for pid in processes_of(run.folder):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) == run.pid:
                members.append(pid)
    return members


def _kill_each(run: StartedRun) -> bool:
    """Send SIGKILL to each process with an agent; returns whether there was any."""
    sent = False
    for pid in processes_of(run.folder):
        with contextlib.suppress(ProcessLookupError):
            sent |= _signal_process(
                pid, signal.SIGKILL, lambda pid: pid in processes_of(run.folder)
            )
    return sent


END_CHECK_S = 0.5
"""Seconds between two checks whether a run that is not open has ended."""


class RunError(Exception):
    """A run that cannot be opened; the text is one line: what, why, what to do."""


class WatchedRunSession:
    """The state behind the run's page: one run at a time, in the event loop's thread.

    Leaving a run never affects it: its processes do not depend on this program.

    Args:
        watch: the watch of the session that shows this machine; unless given, the open run has a
            watch and a bus of its own, as beside a replay.
    """

    def __init__(self, watch: SharedWatch | None = None) -> None:
        self._tasks = Tasks()
        self._watch = SharedWatch(EventBus(), self._tasks.spawn) if watch is None else watch
        self._changed: Callable[[], None] = lambda: None
        self._followed: FollowedRun | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Task[None]] = set()
        """Tasks that wait for the ends of runs that this program started and that are not open."""
        self._visible = False
        self._sample: Sample | None = None

    def listen(self, changed: Callable[[], None]) -> None:
        """Register a function to call, in the event loop, when something must be redrawn."""
        self._changed = changed

    @property
    def state(self) -> WatchedRun | None:
        """The current state; ``None`` if no run is open. The same object until it changes."""
        return None if self._followed is None else self._followed.state()

    # ---- the open run ----

    def stored_runs(self) -> list[StartedRun]:
        """Return the stored runs, newest first."""
        return runs.stored_runs()

    def open(self, run: StartedRun) -> None:
        """Follow a live run, or replay an ended one; close any other open run.

        Raises:
            RunError: its folder is gone or cannot be read.
        """
        try:
            os.listdir(run.folder)  # noqa: PTH208 (whether it may be read)
        except OSError as error:
            raise RunError(
                f"{run.folder} cannot be read: {error.strerror}; gpu-workbench watch lists the runs"
            ) from error
        # This program may have started the run without having sampled it yet.
        starter = start.is_child(run) and not run.samples.exists()
        self._leave()
        followed = FollowedRun(run, self._announce, self._watch, starter=starter)
        followed.set_visible(self._visible)
        if self._sample is not None:
            followed.apply_devices(self._sample)
        self._followed = followed
        self._task = asyncio.create_task(followed.follow())
        self._task.add_done_callback(_report_error)
        self._changed()

    async def start(self, command: str) -> StartedRun:
        """Start a command as typed, which does not end with this program, and return its run.

        Raises:
            CommandError: it cannot be started.
        """
        return await start_command(command)

    async def rehearse(self, request: RehearsalRequest) -> StartedRun:
        """Start a rehearsal, which does not end with this program, and return its run.

        Raises:
            RehearsalError: it cannot be started.
        """
        return await start_rehearsal(request)

    def close(self) -> None:
        """Leave the run as it is; :attr:`state` is ``None`` from then on."""
        self._leave()
        self._changed()

    async def stop(self) -> None:
        """Leave the run for good: end this program's own children, not the run."""
        self._leave()
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._ending, *self._waiting, return_exceptions=True)
        await self._tasks.ended()

    # ---- input from the rest of the program ----

    def apply_devices(self, sample: Sample) -> None:
        """Take over NVML's newest sample, which shows each process's devices and memory."""
        self._sample = sample
        if self._followed is not None:
            self._followed.apply_devices(sample)

    def set_visible(self, visible: bool) -> None:
        """Set whether the page is visible: ten samples a second if it is, else two."""
        self._visible = visible
        if self._followed is not None:
            self._followed.set_visible(visible)

    # ---- requests ----

    def snapshot(self, pid: int) -> str:
        """Ask a process for a snapshot, which it takes at its next step.

        Returns:
            One line: the request, or why it was not sent and what would help. The snapshot appears
            as a mark on its devices and as the first of ``state.snapshots``.
        """
        agent, why = self._agent(pid)
        if agent is None:
            return f"no snapshot: {why}"
        agent("snapshot")
        return f"requested a snapshot of process {pid}: it comes with the next step"

    def record(self, pid: int, on: bool) -> str:
        """Ask a process to start or stop recording torch's memory history from its next step on.

        Returns:
            One line, as for :meth:`snapshot`. ``agent.recording`` shows when it took effect.
        """
        agent, why = self._agent(pid)
        if agent is None:
            return f"the history stays as it is: {why}"
        agent("record" if on else "record no more")
        does = "start" if on else "stop"
        return (
            f"requested that process {pid} {does} recording its memory history with the next step"
        )

    async def stacks(self) -> tuple[tuple[RankStacks, ...], str]:
        """Ask each process of the run where its threads are now.

        Returns:
            The processes by rank, and the reason if there are none.
        """
        if self._followed is None:
            return (), "no run is open"
        return await asyncio.to_thread(read_rank_stacks, self._followed.run)

    def end(self, number: signal.Signals) -> str:
        """Send SIGINT, SIGTERM or SIGKILL to the run's process group, if it still is this run's.

        Returns:
            One line: which signal was sent and to what, or why none was.
        """
        if self._followed is None:
            return "no run is open"
        return send_signal(self._followed.run, number)

    def freeze(self, frozen: bool) -> None:
        """Freeze the figures, or let them follow the run again; no data is lost meanwhile."""
        if self._followed is not None:
            self._followed.freeze(frozen)

    # ---- internals ----

    def _agent(self, pid: int) -> tuple[Callable[[AgentRequest], None] | None, str]:
        """Return a function that sends requests to a process's agent, or why there is none."""
        followed = self._followed
        if followed is None:
            return None, "no run is open"
        agent = followed.processes.agent(pid)
        sampler = followed.sampler
        if agent is not None and sampler is not None and not followed.over:
            name = agent.identity
            return (lambda request: sampler.request(name, request)), ""
        for device in followed.state().devices:
            if device.process.pid == pid and device.why_no_agent:
                return None, device.why_no_agent
        return None, f"the run has no process {pid}"

    def _announce(self) -> None:
        self._changed()

    def _leave(self) -> None:
        followed = self._followed
        if followed is not None and not followed.over and start.is_child(followed.run):
            waiting = asyncio.create_task(self._wait_for_end(followed.run))
            self._waiting.add(waiting)
            waiting.add_done_callback(self._waiting.discard)
        if self._task is not None:
            self._task.cancel()
            self._ending.add(self._task)
            self._task.add_done_callback(self._ending.discard)
            self._task = None
        self._followed = None

    async def _wait_for_end(self, run: StartedRun) -> None:
        """Wait for a run's end and write it down: no other program can observe it."""
        while not start.is_over(run):
            await asyncio.sleep(END_CHECK_S)
        start.with_end(run)
        self._changed()


def _report_error(task: asyncio.Task[None]) -> None:
    """Log an error of our own with its traceback; the page shows its text."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        task.get_loop().call_exception_handler({"message": "watching failed", "exception": error})
