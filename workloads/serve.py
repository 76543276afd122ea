"""The runner: takes requests, keeps one worker, and outlives every worker that dies.

It imports torch and never uses it, so that it can fork; it does nothing that takes time, so that a
cancel is always heard.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import platform
import selectors
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Sequence
from types import FrameType

from workloads import catalog, ceilings, own, process, wire, workload
from workloads.ceilings import Ceiling
from workloads.inventory import Environment
from workloads.jobs import BlocksJob, Job, ProcessesJob, RunJob, Task
from workloads.malloc import keep_freed_memory
from workloads.nursery import CAN_FORK, Child, Nursery
from workloads.process import Channel
from workloads.protocol import (
    EVENTS,
    REQUESTS,
    VERSION,
    Cancel,
    CeilingMeasured,
    Compare,
    Compared,
    EmptyCache,
    Event,
    Finished,
    Heartbeat,
    Hello,
    HostHeap,
    KnownCeilings,
    Measured,
    Progress,
    Ready,
    Rejected,
    ResetPeaks,
    Run,
    TorchMemory,
    Unusable,
    WorkerEnded,
    WorkerStarted,
)
from workloads.results import Status

HEARTBEAT_S = 1.0
ASK_S = 0.6
"""A worker that was asked to stop has this long before it is ended."""
TERM_S = 0.3
REAP_S = 0.02
"""Between two looks at a worker that is dying while a task waits for its memory."""
DIE_S = 10.0
"""A task that needs a fresh process waits at most so long for the one before to be gone."""
BACKLOG = 1000
"""Lines that wait for a front end that does not read; beyond it, samples are dropped."""

_DROPPABLE = (Progress, Measured, Heartbeat, HostHeap, TorchMemory)
assert catalog


class Stopped(Exception):  # noqa: N818 (the way out of the loop)
    """SIGTERM came."""


class Output:
    """Lines to the front end, without ever waiting for it."""

    def __init__(self, writing: int) -> None:
        os.set_blocking(writing, False)
        self.fd = writing
        self._lines: deque[bytes] = deque()

    @property
    def waiting(self) -> bool:
        return bool(self._lines)

    def send(self, event: Event) -> None:
        """Queue an event and write what can be written."""
        if len(self._lines) > BACKLOG and isinstance(event, _DROPPABLE):
            # Those that wait are as good to someone who does not read; newer ones will come.
            return
        self._lines.append(wire.encode(event))
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


class Runner:
    """The loop over requests, the worker's events and the clock."""

    def __init__(self, requests: Channel, output: Output, nursery: Nursery) -> None:
        self._requests = requests
        self._output = output
        self._nursery = nursery
        self._environment: Environment | None = None
        self._jobs: deque[Job] = deque()
        self._current: Job | None = None
        self._worker: Child | None = None
        self._dying: list[Child] = []
        """Killed, and not ended yet: releasing the memory of a GPU takes a while."""
        self._task: Task | None = None
        """Waits for the dying to give back what they hold."""
        self._task_by = 0.0
        self._worker_flags: dict[str, bool] = {}
        self._ceilings: tuple[Ceiling, ...] = ()
        """Known to the front end or measured by a worker: for the workers to come."""
        self._ladder: list[tuple[float, signal.Signals]] = []
        self._cancelling = False
        self._beat = 0.0

    def serve(self, environment: Environment) -> None:
        """Serve until told to stop, or until the front end is gone."""
        self._environment = environment
        while True:
            self._start_next()
            self._wait()
            if self._requests.ended:
                break
            self._take_requests()
            self._take_events()
            self._climb_ladder()
            self._reap()
            self._heartbeat()

    def close(self) -> None:
        """End the worker and what it started."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self._worker is not None:
            self._let_die()
        for child in self._dying:
            child.reap(1.0)

    # ---- waiting ----

    def _wait(self) -> None:
        now = time.monotonic()
        deadlines = [self._beat + HEARTBEAT_S, *(at for at, _ in self._ladder[:1])]
        if self._task is not None:
            deadlines.append(now + REAP_S)
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests.reading, selectors.EVENT_READ)
            if self._worker is not None:
                selector.register(self._worker.channel.reading, selectors.EVENT_READ)
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

    def _take_requests(self) -> None:
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
                self._ceilings = ceilings.newest((*self._ceilings, *message.ceilings))

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
        if self._worker is None:
            # It waits for an earlier process to be gone.
            self._output.send(self._current.end("cancelled", "before it began"))
            return
        self._cancelling = True
        self._tell_worker(Cancel(job_id))
        now = time.monotonic()
        self._ladder = [
            (now + ASK_S, signal.SIGTERM),
            (now + ASK_S + TERM_S, signal.SIGKILL),
        ]

    def _pass_on(self, message: EmptyCache | ResetPeaks) -> None:
        if self._worker is None:
            reason = f"{message.device}: nothing has run yet, so no cache is held"
            self._output.send(Rejected("", reason))
        else:
            self._tell_worker(message)

    def _tell_worker(self, message: object) -> None:
        assert self._worker is not None
        try:
            self._worker.channel.send(message)
        except BrokenPipeError:
            # Its end is read from its channel, with the reason.
            return

    # ---- the worker ----

    def _start_next(self) -> None:
        if self._current is not None and self._current.done:
            self._current = None
            self._ladder, self._cancelling = [], False
            self._task = None
        if self._current is None and self._jobs:
            self._current = self._jobs.popleft()
            self._take_task()
        if self._task is not None and (not self._dying or time.monotonic() > self._task_by):
            self._give_task(self._task)
            self._task = None

    def _take_task(self) -> None:
        assert self._current is not None
        self._task, self._task_by = self._current.next_task(), time.monotonic() + DIE_S
        flags = self._task.request.flags
        if self._worker is not None and (self._task.fresh or self._needs_fresh(flags)):
            self._end_worker("another setting needs a fresh process")

    def _give_task(self, task: Task) -> None:
        if self._worker is None:
            self._worker = self._nursery.worker()
            self._worker_flags = {}
            self._output.send(WorkerStarted(self._worker.pid))
            self._tell_worker(KnownCeilings(self._ceilings))
        self._worker_flags.update(task.request.flags)
        self._tell_worker(task.request)

    def _needs_fresh(self, wanted: dict[str, bool]) -> bool:
        assert self._environment is not None
        return any(
            flag.fresh_process
            and flag.name in wanted
            and self._worker_flags.get(flag.name, flag.default) != wanted[flag.name]
            for flag in self._environment.flags
        )

    def _end_worker(self, reason: str) -> None:
        pid = self._let_die()
        self._output.send(WorkerEnded(pid, reason, expected=True))

    def _let_die(self) -> int:
        """Kill the worker and what it started, and reap it when it is gone; its pid."""
        assert self._worker is not None
        worker, self._worker = self._worker, None
        worker.signal(signal.SIGKILL)
        worker.close()
        self._dying.append(worker)
        return worker.pid

    def _reap(self) -> None:
        self._dying = [child for child in self._dying if child.reap(0.0) is None]

    def _take_events(self) -> None:
        if self._worker is None:
            return
        channel = self._worker.channel
        for event in channel.receive(0.0):
            self._take_event(event)
        if self._worker is not None and channel.ended:
            self._bury_worker()

    def _take_event(self, event: object) -> None:
        assert isinstance(event, EVENTS)
        if isinstance(event, CeilingMeasured):
            self._ceilings = ceilings.newest((*self._ceilings, event.ceiling))
        told: Event | None = event
        job = self._current
        if job is not None:
            told = job.take(event)
        if told is not None:
            self._output.send(told)
        if isinstance(event, (Finished, Compared)) and not event.worker_usable:
            self._end_worker("a device error has left it unusable; the next run gets a new one")
        if job is not None and not job.done and isinstance(event, Finished):
            if self._cancelling:
                self._output.send(job.end("cancelled", "the pairs so far are kept"))
            else:
                self._take_task()

    def _bury_worker(self) -> None:
        assert self._worker is not None
        status = self._worker.reap(0.3)
        worker_pid = self._let_die()
        words = "it does not end" if status is None else process.exit_in_words(status)
        cancelled = self._cancelling
        running = self._current is not None and not self._current.done
        if cancelled:
            reason = "ended to cancel the run; the next one gets a new process"
        elif running:
            reason = f"the worker died: {words}; the next run gets a new one"
        else:
            reason = f"the worker ended: {words}; the next run gets a new one"
        if self._current is not None and running:
            status_text: Status = "cancelled" if cancelled else "failed"
            text = "its process had to be ended" if cancelled else reason
            self._output.send(self._current.end(status_text, text))
        self._output.send(WorkerEnded(worker_pid, reason, expected=cancelled or status == 0))

    def _climb_ladder(self) -> None:
        while self._ladder and time.monotonic() >= self._ladder[0][0]:
            _, number = self._ladder.pop(0)
            if self._worker is not None and number == signal.SIGTERM:
                self._worker.signal(number)
            elif self._worker is not None:
                # Not waited for: a driver can take seconds to let go of a process.
                self._end_worker("ended to cancel the run; the next one gets a new process")
                if self._current is not None and not self._current.done:
                    text = "its process had to be ended"
                    self._output.send(self._current.end("cancelled", text))


def serve(reading: int, writing: int, files: Sequence[str] = ()) -> int:
    """Serve one front end over a pair of descriptors; returns the exit code.

    Args:
        reading: descriptor that requests come from.
        writing: descriptor that events go to.
        files: of workloads that users bring.
    """
    faulthandler.enable()
    # torch says so at import where NumPy is not installed; nothing here needs it.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = Output(writing)
    # Before anything imports torch, which a file may do.
    malloc = keep_freed_memory()
    problems = own.load(files)
    version, infos = platform.python_version(), workload.infos_with_code()
    output.send(Hello(VERSION, os.getpid(), version, sys.executable, infos, problems))
    nursery = Nursery(malloc, (reading, writing), own.options(files))
    requests = Channel(reading, writing, REQUESTS)
    runner = Runner(requests, output, nursery)
    try:
        ready = _get_ready(nursery)
        output.send(ready)
        if isinstance(ready, Unusable):
            return 1
        _import_the_rest()
        runner.serve(ready.environment)
    except (Stopped, BrokenPipeError):
        return 0
    finally:
        runner.close()
    return 0


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Stopped


def _import_the_rest() -> None:
    """What a worker needs at its first run, imported once, after the front end is told."""
    if CAN_FORK:
        import workloads.flop

        assert workloads.flop
        # What is collected later would be copied in every fork.
        gc.collect()
        gc.freeze()


def _get_ready(nursery: Nursery) -> Ready | Unusable:
    start = time.monotonic()
    advice = "choose a Python that has torch with --python PATH, or install torch in this one"
    if CAN_FORK:
        try:
            import workloads.worker
        except ImportError as error:
            return Unusable(f"torch cannot be imported by {sys.executable}: {error}", advice)
        assert workloads.worker
    try:
        environment = nursery.look_around()
    except RuntimeError as error:
        return Unusable(f"torch cannot be used by {sys.executable}: {error}", advice)
    return Ready(environment, time.monotonic() - start)
