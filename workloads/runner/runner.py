"""The runner's loop over requests, worker events and the clock, and its output to the front end.

It does nothing slow, so that it always receives a cancel, and it never waits for a reader.
"""

from __future__ import annotations

import os
import select
import selectors
import time
from collections import deque

from workloads.measure.comparison import PAIRS_KEPT
from workloads.protocol import process, wire
from workloads.protocol.messages import (
    Cancel,
    CeilingMeasured,
    Compare,
    Compared,
    EmptyCache,
    Event,
    Finished,
    Heartbeat,
    HostHeap,
    KnownCeilings,
    Measured,
    Progress,
    Rejected,
    ReportMemory,
    ResetPeaks,
    Run,
    TorchMemory,
    WorkerEnded,
)
from workloads.protocol.process import Channel
from workloads.protocol.results import Environment, Status
from workloads.protocol.wire import EncodedMessage
from workloads.runner.jobs import BlocksJob, Job, ProcessesJob, RunJob
from workloads.runner.workers import Launcher, WorkerSupervisor

BACKLOG = 1000
"""Lines queued for a front end that does not read; beyond it, samples are dropped."""

TIMEOUT_S = 5.0
"""Seconds to wait for a front end that does not read, before torch's import and at the end."""

_DROPPABLE = (Progress, Measured, Heartbeat, HostHeap, TorchMemory)


class EventWriter:
    """Sends lines to the front end without ever blocking."""

    def __init__(self, writing: int) -> None:
        os.set_blocking(writing, False)
        self.fd = writing
        self._lines: deque[bytes] = deque()

    @property
    def waiting(self) -> bool:
        return bool(self._lines)

    def send(self, event: Event | EncodedMessage) -> None:
        """Queue an event and write as much as possible; an encoded one stays unchanged."""
        kind = event.kind if isinstance(event, EncodedMessage) else type(event)
        if len(self._lines) > BACKLOG and kind in _DROPPABLE:
            # An unread sample can be dropped, since newer ones will follow.
            return
        line = event.line if isinstance(event, EncodedMessage) else wire.encode(event)
        self._lines.append(line)
        self.flush()

    def flush(self) -> None:
        """Write until the pipe is full."""
        while self._lines:
            try:
                written = os.write(self.fd, self._lines[0])
            except BlockingIOError:
                return
            if written < len(self._lines[0]):
                self._lines[0] = self._lines[0][written:]
            else:
                self._lines.popleft()

    def finish(self) -> None:
        """Write the whole queue, up to a time limit."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._lines:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [self.fd], [], left)[1]:
                return
            self.flush()


HEARTBEAT_S = 1.0
REAP_S = 0.02
"""Interval between two checks of a dying worker while a request waits for its memory."""
DIE_S = 10.0
"""Longest wait of a request that needs a new process for the end of the previous one."""
ENDED_S = 0.3
"""Time for a worker that has closed its channel to end."""
ENDED_TO_CANCEL = "ended to cancel the run; the next one gets a new process"


class Runner:
    """The runner's loop.

    Args:
        requests: channel of requests from the front end.
        output: writer of events to the front end.
        launcher: starts the workers.
    """

    def __init__(self, requests: Channel, output: EventWriter, launcher: Launcher) -> None:
        self._requests = requests
        self._output = output
        self._supervisor = WorkerSupervisor(launcher, output.send)
        self._environment: Environment | None = None
        self._jobs: deque[Job] = deque()
        self._current: Job | None = None
        self._next_request: Run | Compare | None = None
        """Waits until dying workers have released their memory."""
        self._start_by = 0.0
        self._cancelling = False
        self._beat = 0.0

    def serve(self, environment: Environment) -> None:
        """Serve until a request to stop, or until the front end is gone."""
        self._environment = environment
        while True:
            self._start_next()
            self._wait()
            if self._requests.ended:
                break
            self._receive_requests()
            self._receive_events()
            self._escalate_cancel()
            self._supervisor.reap_dying()
            self._heartbeat()

    def close(self) -> None:
        """End the worker and its child processes."""
        self._supervisor.close()

    # ---- waiting ----

    def _wait(self) -> None:
        now = time.monotonic()
        step = self._supervisor.next_step
        deadlines = [self._beat + HEARTBEAT_S, *([] if step is None else [step])]
        if self._next_request is not None:
            deadlines.append(now + REAP_S)
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests.reading, selectors.EVENT_READ)
            if self._supervisor.channel is not None:
                selector.register(self._supervisor.channel.reading, selectors.EVENT_READ)
            if self._output.waiting:
                selector.register(self._output.fd, selectors.EVENT_WRITE)
            selector.select(max(0.0, min(deadlines) - now))
        self._output.flush()

    def _heartbeat(self) -> None:
        if time.monotonic() - self._beat >= HEARTBEAT_S:
            self._beat = time.monotonic()
            busy = self._current.id if self._current else None
            self._output.send(Heartbeat(time.time(), busy))

    # ---- requests ----

    def _receive_requests(self) -> None:
        for message in self._requests.receive(0.0):
            if isinstance(message, Run):
                self._jobs.append(RunJob(message))
            elif isinstance(message, Compare):
                self._queue_comparison(message)
            elif isinstance(message, Cancel):
                self._cancel(message.id)
            elif isinstance(message, (EmptyCache, ResetPeaks)):
                self._pass_on(message)
            elif isinstance(message, KnownCeilings):
                self._supervisor.learn(message.ceilings)
            elif isinstance(message, ReportMemory):
                self._supervisor.request_memory()

    def _queue_comparison(self, request: Compare) -> None:
        assert self._environment is not None
        flag = next((flag for flag in self._environment.flags if flag.name == request.flag), None)
        device_type = request.device.partition(":")[0]
        job: Job = BlocksJob(request)
        problem = None
        if flag is None:
            known = ", ".join(flag.name for flag in self._environment.flags)
            problem = f"no flag {request.flag!r}: one of {known}"
        elif flag.unavailable is not None:
            problem = f"{request.flag} has no effect here: {flag.unavailable}"
        elif device_type not in flag.device_types:
            problem = f"{request.flag} acts on {', '.join(flag.device_types)}, not on {device_type}"
        elif flag.fresh_process:
            job = ProcessesJob(request)
        if problem is not None:
            self._output.send(job.end("failed", problem))
        else:
            self._jobs.append(job)

    def _cancel(self, job_id: str) -> None:
        for job in [job for job in self._jobs if job_id in ("", job.id)]:
            self._jobs.remove(job)
            self._output.send(job.end("cancelled", "before it began"))
        if self._current is None or job_id not in ("", self._current.id):
            return
        if self._cancelling:
            return
        if self._supervisor.channel is None:
            # It waits for the end of an earlier process.
            self._output.send(self._current.end("cancelled", "before it began"))
            return
        self._cancelling = True
        self._supervisor.request_cancel(job_id)

    def _pass_on(self, message: EmptyCache | ResetPeaks) -> None:
        if self._supervisor.channel is None:
            reason = f"{message.device}: nothing has run yet, so there is no cache"
            self._output.send(Rejected("", reason))
        else:
            self._supervisor.send(message)

    # ---- the worker ----

    def _start_next(self) -> None:
        if self._current is not None and self._current.done:
            self._current = None
            self._supervisor.clear_cancel()
            self._cancelling, self._next_request = False, None
            if self._supervisor.is_ending:
                # Its result came just before the signal; another run would be lost with it.
                self._supervisor.end(ENDED_TO_CANCEL)
        if self._current is None and self._jobs:
            self._current = self._jobs.popleft()
            self._prepare_request(self._current)
        waited = not self._supervisor.dying or time.monotonic() > self._start_by
        if self._next_request is not None and waited:
            self._supervisor.submit(self._next_request, self._next_request.flags)
            self._next_request = None

    def _prepare_request(self, job: Job) -> None:
        assert self._environment is not None
        self._next_request, self._start_by = job.next_request(), time.monotonic() + DIE_S
        flags = self._environment.flags
        unfit = self._supervisor.needs_fresh_process(flags, self._next_request.flags)
        if self._supervisor.channel is not None and (job.fresh or unfit):
            subject = "the next run" if job.fresh else "another setting"
            self._supervisor.end(f"{subject} needs a fresh process")

    def _receive_events(self) -> None:
        channel = self._supervisor.channel
        if channel is None:
            return
        for received in channel.receive_encoded():
            self._apply_event(received)
        # An event may have ended the worker.
        if self._supervisor.channel is channel and channel.ended:
            self._reap_worker()

    def _apply_event(self, received: EncodedMessage) -> None:
        """Forward a worker's event, or the event that the job makes of it."""
        if received.kind is CeilingMeasured:
            self._supervisor.learn((received.decode(CeilingMeasured).ceiling,))
        if received.kind is HostHeap:
            self._supervisor.allow_memory_request()
        job = self._current
        event = received if job is None else job.apply(received)
        if event is not None:
            self._output.send(event)
        if received.kind in (Finished, Compared) and received.plain("worker_usable") is False:
            self._supervisor.end("a device error has left it unusable; the next run gets a new one")
        if job is not None and not job.done and received.kind is Finished:
            if self._cancelling:
                self._output.send(job.end("cancelled", PAIRS_KEPT))
            else:
                self._prepare_request(job)

    def _reap_worker(self) -> None:
        worker_pid, status = self._supervisor.reap(ENDED_S)
        words = "it does not end"
        if status is not None:
            words = process.describe_exit_code(os.waitstatus_to_exitcode(status))
        cancelled = self._cancelling
        running = self._current is not None and not self._current.done
        if cancelled:
            reason = ENDED_TO_CANCEL
        elif running:
            reason = f"the worker died: {words}; the next run gets a new one"
        else:
            reason = f"the worker ended: {words}; the next run gets a new one"
        if self._current is not None and running:
            status_text: Status = "cancelled" if cancelled else "failed"
            text = "its process had to be ended" if cancelled else reason
            self._output.send(self._current.end(status_text, text))
        self._output.send(WorkerEnded(worker_pid, reason, expected=cancelled or status == 0))

    def _escalate_cancel(self) -> None:
        if self._current is None or self._current.done or not self._supervisor.escalate():
            return
        # First the end of the run, then of its process, as when a worker dies by itself.
        self._output.send(self._current.end("cancelled", "its process had to be ended"))
        self._supervisor.end(ENDED_TO_CANCEL)
