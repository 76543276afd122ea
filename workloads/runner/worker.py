"""The process that runs workloads, compares settings, and owns memory; replaced when necessary.

It takes one request at a time from its parent and reports progress. Between blocks it checks for a
cancel; when idle it waits.
"""

from __future__ import annotations

import gc
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch

from workloads import catalog
from workloads.limits.ceilings import Ceilings
from workloads.measure import comparison, cpu_share, memory, timing, torch_state
from workloads.measure.comparison import ArmSample, Pair
from workloads.measure.cpu_share import Others
from workloads.measure.timing import Cancelled, Control
from workloads.protocol.messages import (
    REQUESTS,
    Cancel,
    CeilingMeasured,
    Compare,
    Compared,
    Emptied,
    EmptyCache,
    KnownCeilings,
    Rejected,
    ReportMemory,
    ResetPeaks,
    Run,
    TorchMemory,
)
from workloads.protocol.process import Channel
from workloads.protocol.results import Comparison
from workloads.runner import execute, reporting
from workloads.runner.execute import Prepared, prepared
from workloads.runner.reporting import Reporter, finished, outcome, retain_device_error

assert catalog  # importing it declares the workloads

BLOCKS_PER_ARM = 3
"""Blocks per setting, of which the median counts: one interrupted block does not spoil a pair."""


def compare_blocks(
    request: Compare, control: Control, on_progress: Callable[[Comparison], None]
) -> Comparison:
    """Compare two settings, and report the comparison after each pair."""
    pairs: list[Pair] = []
    ended_early: tuple[str, ...] = ()
    beside = Others()
    parameters = dict(request.parameters)
    spans: list[tuple[float, float]] = []
    devices: tuple[str, ...] = ()

    def so_far() -> Comparison:
        return comparison.summarise(
            request,
            pairs,
            fresh_process=False,
            parameters=parameters,
            warnings=(*ended_early, *reporting.find_pair_warning(beside, request.device)),
            measured=spans,
            devices=devices,
        )

    def add_others(others: Others) -> None:
        nonlocal beside
        beside += others

    try:
        control.report("preparing")
        base = {**request.flags, request.flag: request.settings[0]}
        with prepared(request.workload, request.device, request.parameters, base) as ready:
            parameters.update({**ready.parameters, **ready.case.chosen})
            devices = ready.case.devices
            blocks = _Blocks(request, ready, control)
            pair_count = comparison.pairs_wanted(request, False)
            limit, began = comparison.BLOCKS_S[request.budget], time.monotonic()
            while len(pairs) < pair_count:
                start = time.time()
                with cpu_share.watched(add_others):
                    pair = blocks.pair(len(pairs))
                pairs.append(pair)
                spans.append((start, time.time()))
                on_progress(so_far())
                control.report("measuring", len(pairs))
                if len(pairs) >= 3 and time.monotonic() - began > limit:
                    ended_early = (f"ended at the time limit of {limit:g} s",)
                    break
        return so_far()
    except (Exception, SystemExit) as error:  # noqa: BLE001 (anything may come; it is reported)
        status, reason = outcome(error, request.device)
        retain_device_error(error, reason)
        if status == "cancelled":
            reason = comparison.PAIRS_KEPT
        return replace(so_far(), status=status, reason=reason)


class _Blocks:
    """Measures pair by pair, with the same number of calls in each block."""

    def __init__(self, request: Compare, ready: Prepared, control: Control) -> None:
        self._request = request
        self._ready = ready
        self._control = control
        control.report("first call")
        seconds = max(self._warm(index) for index in (0, 1))
        self._warm_up_calls = max(1, round(timing.BLOCK_S / max(seconds, 1e-9)))
        self._calls = max(1, self._warm_up_calls // 2)

    def _switch(self, index: int) -> None:
        torch_state.apply_flags({self._request.flag: self._request.settings[index]})

    def _warm(self, index: int) -> float:
        """Return the seconds of a warm call with one of the settings."""
        self._switch(index)
        clock, call = self._ready.clock, self._ready.case.timed
        timing.first_call(call, clock)
        return timing.warm_up(call, clock, timing.PLANS["quick"], self._control)

    def pair(self, index: int) -> Pair:
        """Measure both settings once, each after an untimed block.

        A setting just switched on is slow for some 20 ms, while caches fill and threads start. With
        one untimed call, most of that would remain in the block.
        """
        samples: dict[int, ArmSample] = {}
        for arm in comparison.order(index):
            self._switch(arm)
            clock, case = self._ready.clock, self._ready.case
            clock.block(case.timed, self._warm_up_calls)
            blocks = [clock.block(case.timed, self._calls) for _ in range(BLOCKS_PER_ARM)]
            seconds = statistics.median([block.seconds(case.clock) for block in blocks])
            samples[arm] = ArmSample(seconds / self._calls, None)
        return Pair(samples[0], samples[1])


MEMORY_S = 0.5
"""Interval between two memory messages during a run."""


class WorkerReporter(Reporter):
    """Also sends memory figures, and checks for a cancel and for requests of those figures."""

    def __init__(self, worker: Worker, request: Run | Compare) -> None:
        super().__init__(worker.channel, request)
        self._worker = worker
        self._sampled = -1e9

    def on_report(self, now: float, /) -> None:
        """See the base class."""
        self._worker.poll_requests()
        if now - self._sampled >= MEMORY_S or self._worker.pop_memory_request():
            self._sampled = now
            self._worker.send_memory()
        if self._worker.is_cancelled(self._request.id):
            raise Cancelled


class Worker:
    """Answers requests until one to stop, or until its parent closes the channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._waiting: list[object] = []
        self._ceilings = Ceilings(lambda ceiling: channel.send(CeilingMeasured(ceiling)))
        self._ran: set[str] = set()
        """Workloads that this process has run, on any device."""
        self._before: Mapping[str, TorchMemory] = {}
        """Each device's allocator figures before the last run or comparison began."""

    def work(self) -> None:
        """Serve requests, one after the other."""
        self.send_memory()
        while True:
            message = self._next()
            if message is None:
                return
            self._serve(message)

    def _next(self) -> object | None:
        while not self._waiting:
            if self.channel.ended:
                return None
            self._waiting += self.channel.receive(None)
        return self._waiting.pop(0)

    def _serve(self, message: object) -> None:
        # A Cancel that comes when nothing runs is late and has no effect.
        if isinstance(message, (Run, Compare)):
            self._before = {figures.device: figures for figures in self._allocators()}
        if isinstance(message, Run):
            self._run(message)
        elif isinstance(message, Compare):
            comparison = compare_blocks(message, WorkerReporter(self, message), self._send_pair)
            usable = not reporting.is_device_lost(comparison.reason)
            self.channel.send(Compared(comparison, done=True, worker_usable=usable))
            if usable:
                self._release()
        elif isinstance(message, KnownCeilings):
            self._ceilings.learn(message.ceilings)
        elif isinstance(message, EmptyCache):
            self._empty_cache(message)
        elif isinstance(message, ResetPeaks):
            memory.reset_peaks(torch.device(message.device))
            self.send_memory()
        elif isinstance(message, ReportMemory):
            self.send_memory()

    def _run(self, message: Run) -> None:
        key = f"{message.workload} {message.device}"
        cold = key not in self._ran
        self._ran.add(key)

        reporter = WorkerReporter(self, message)
        result = execute.run(
            message, reporter, reporter.measured, cold=cold, ceilings=self._ceilings
        )
        usable = not reporting.is_device_lost(result.reason)
        _, line = finished(result, worker_usable=usable)
        self.channel.write(line)
        if usable:
            self._release()

    def _release(self) -> None:
        """Release the request's data, and report the memory still in use.

        Cached pinned memory returns to the host, which can neither swap it nor give it to others,
        and which no other device's figures show. The device's cache stays until the user presses
        ``e``.
        """
        gc.collect()
        memory.free_workspaces()
        try:
            memory.unpin()
        except RuntimeError as error:
            # A device error lasts until the process ends; the run's result has reported it.
            sys.stderr.write(f"pinned memory is not given back: {error}\n")
        self.send_memory()

    def _send_pair(self, comparison: Comparison) -> None:
        self.channel.send(Compared(comparison, done=False))

    def _empty_cache(self, message: EmptyCache) -> None:
        try:
            freed = memory.give_back(torch.device(message.device))
        except RuntimeError as error:
            reason = f"{message.device}: the cache was not returned: {error}"
            self.channel.send(Rejected("", reason))
            return
        self.channel.send(Emptied(message.device, freed))
        self.send_memory()

    def poll_requests(self) -> None:
        """Read messages that arrived during a run, and queue them for later."""
        self._waiting += self.channel.receive(0.0)

    def pop_memory_request(self) -> bool:
        """Return whether a memory request has arrived; several get one answer."""
        waiting = len(self._waiting)
        self._waiting = [item for item in self._waiting if not isinstance(item, ReportMemory)]
        return len(self._waiting) < waiting

    def is_cancelled(self, run_id: str) -> bool:
        """Return whether a cancel of this run has arrived."""
        cancels = [item for item in self._waiting if isinstance(item, Cancel)]
        self._waiting = [item for item in self._waiting if not isinstance(item, Cancel)]
        return any(item.id in ("", run_id) for item in cancels) or self.channel.ended

    def send_memory(self) -> None:
        """Send the allocator's figures of each CUDA device in use, and the heap's."""
        self.channel.send(memory.host_heap())
        for figures in self._allocators():
            self.channel.send(_subtract_counts(self._before.get(figures.device), figures))

    def _allocators(self) -> Iterator[TorchMemory]:
        """Yield the allocator's current figures for each CUDA device in use."""
        if not torch.cuda.is_initialized():
            return
        for index in range(torch.cuda.device_count()):
            try:
                figures = memory.torch_memory(torch.device("cuda", index))
            except RuntimeError as error:
                # A device error lasts until the process ends; the run's result has reported it.
                sys.stderr.write(f"memory of cuda:{index} cannot be read: {error}\n")
                return
            if figures is not None:
                yield figures


def _subtract_counts(before: TorchMemory | None, figures: TorchMemory) -> TorchMemory:
    """Return the figures with event counts since ``before``, not since the process started."""
    if before is None:
        return figures
    return replace(
        figures,
        alloc_retries=figures.alloc_retries - before.alloc_retries,
        ooms=figures.ooms - before.ooms,
    )


def work(reading: int, writing: int) -> None:
    """Run a worker over a pair of file descriptors until it ends."""
    # A worker has its own group, so that a workload's child processes can be ended with it.
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        Worker(Channel(reading, writing, REQUESTS)).work()
    except BrokenPipeError:
        # The parent is gone, so nothing can be reported.
        return
