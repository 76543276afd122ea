"""The runner's jobs, as sequences of requests to a worker. No torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from workloads.declare.workload import registered
from workloads.measure import comparison
from workloads.measure.comparison import ArmSample, Pair
from workloads.protocol.flag_words import format_setting
from workloads.protocol.messages import (
    Compare,
    Compared,
    Event,
    Finished,
    Measured,
    Progress,
    Run,
    ended_run,
)
from workloads.protocol.results import Comparison, Status
from workloads.protocol.wire import EncodedMessage


class Job(Protocol):
    """A run or a comparison."""

    id: str
    fresh: bool
    """Each request needs a process that has run nothing yet."""
    done: bool

    def next_request(self) -> Run | Compare:
        """Return the worker's next request; call it only while the job is not done."""

    def apply(self, event: EncodedMessage) -> EncodedMessage | Event | None:
        """Return the event to send to the front end for a worker's event, if any."""

    def end(self, status: Status, reason: str) -> Event:
        """End the job from outside; its measurements remain."""


class RunJob:
    """One run: a single request to a worker."""

    def __init__(self, request: Run) -> None:
        known = registered().get(request.workload)
        self.id = request.id
        self.fresh = known is not None and known.info.fresh_process
        self.done = False
        self._request = request
        self._progress: EncodedMessage | None = None
        self._measured: EncodedMessage | None = None

    def next_request(self) -> Run:
        """Return the run, the only request."""
        return self._request

    def apply(self, event: EncodedMessage) -> EncodedMessage:
        """Forward every event unchanged, and keep the latest ones for an early end."""
        if event.kind is Progress:
            self._progress = event
        elif event.kind is Measured:
            self._measured = event
        # The worker's memory report comes after the result, often in the same read.
        self.done = self.done or event.kind is Finished
        return event

    def end(self, status: Status, reason: str) -> Finished:
        """End the run from outside, with its measurements, or else its estimate."""
        self.done = True
        result = ended_run(
            self._request,
            self._progress.decode(Progress) if self._progress else None,
            self._measured.decode(Measured).result if self._measured else None,
            status=status,
            reason=reason,
            who="the process",
        )
        return Finished(result)


class BlocksJob:
    """A comparison inside one worker: a single request."""

    def __init__(self, request: Compare) -> None:
        self.id = request.id
        self.fresh = False
        self.done = False
        self._request = request
        self._latest: EncodedMessage | None = None

    def next_request(self) -> Compare:
        """Return the whole comparison, the only request."""
        return self._request

    def apply(self, event: EncodedMessage) -> EncodedMessage:
        """Forward every event unchanged, and keep the latest pairs for an early end."""
        if event.kind is Compared:
            self._latest = event
            self.done = event.plain("done") is True
        return event

    def end(self, status: Status, reason: str) -> Compared:
        """End the comparison with its measured pairs."""
        self.done = True
        if self._latest is not None:
            so_far = self._latest.decode(Compared).comparison
        else:
            so_far = comparison.summarise(
                self._request, [], fresh_process=False, parameters=self._request.parameters
            )
        return Compared(replace(so_far, status=status, reason=reason), done=True)


class ProcessesJob:
    """A comparison with a fresh process for each arm of each pair."""

    def __init__(self, request: Compare) -> None:
        self.id = request.id
        self.fresh = True
        self.done = False
        self._request = request
        self._parameters = dict(request.parameters)
        self._pairs: list[Pair] = []
        self._open: dict[int, ArmSample] = {}
        self._warnings: list[str] = []
        self._measured: list[tuple[float, float]] = []
        self._devices: tuple[str, ...] = ()

    def _arm(self) -> int:
        first, second = comparison.order(len(self._pairs))
        return second if self._open else first

    def next_request(self) -> Run:
        """Return a short run with the setting whose turn it is."""
        request = self._request
        setting = {request.flag: request.settings[self._arm()]}
        return Run(
            id=request.id,
            workload=request.workload,
            device=request.device,
            parameters=request.parameters,
            flags={**request.flags, **setting},
            budget="quick",
            time_only=True,
        )

    def apply(self, event: EncodedMessage) -> EncodedMessage | Event | None:
        """Convert the runs into pairs, and their progress into the comparison's."""
        if event.kind is Progress:
            return replace(event.decode(Progress), blocks=len(self._pairs))
        if event.kind is not Finished:
            return event
        result = event.decode(Finished).result
        if result.status != "ok" or result.time is None:
            kept = result.status == "cancelled" and self._pairs
            reason = comparison.PAIRS_KEPT if kept else result.reason or "no time was taken"
            return self.end(result.status, reason)
        self._parameters = {**result.parameters, **result.chosen}
        for warning in result.warnings:
            flag = self._request.flag
            setting = format_setting(flag, result.flags.get(flag, False))
            text = f"{setting}: {warning}"
            if text not in self._warnings:
                self._warnings.append(text)
        self._measured.append((result.time.measured_from, result.time.measured_to))
        self._devices = result.spans[0].devices if result.spans else ()
        self._open[self._arm()] = ArmSample(result.time.median_s, result.time.first_call_s)
        if len(self._open) < 2:
            return None
        self._pairs.append(Pair(self._open[0], self._open[1]))
        self._open = {}
        self.done = len(self._pairs) == comparison.pairs_wanted(self._request, True)
        return Compared(self._so_far(), self.done)

    def end(self, status: Status, reason: str) -> Compared:
        """End the comparison with its complete pairs."""
        self.done = True
        return Compared(replace(self._so_far(), status=status, reason=reason), done=True)

    def _so_far(self) -> Comparison:
        return comparison.summarise(
            self._request,
            self._pairs,
            fresh_process=True,
            parameters=self._parameters,
            warnings=tuple(self._warnings),
            measured=self._measured,
            devices=self._devices,
        )
