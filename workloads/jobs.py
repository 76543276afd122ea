"""What the runner has been asked to do, as tasks for a worker, one after the other. No torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from workloads import comparison
from workloads.comparison import ArmSample, Pair
from workloads.fact import fact
from workloads.protocol import Compare, Compared, Event, Finished, Measured, Progress, Run
from workloads.results import Comparison, Figure, RunResult, Status
from workloads.workload import registered


@fact
class Task:
    """One request to a worker."""

    request: Run | Compare
    fresh: bool = False
    """In a process that has run nothing yet."""


class Job(Protocol):
    """A run or a comparison."""

    id: str
    done: bool

    def next_task(self) -> Task:
        """What to do next; asked only while the job is not done."""

    def take(self, event: Event) -> Event | None:
        """What to tell the front end about an event of the worker, if anything."""

    def end(self, status: Status, reason: str) -> Event:
        """End it from outside; what was measured is kept."""


class RunJob:
    """One run: a single task."""

    def __init__(self, request: Run) -> None:
        self.id = request.id
        self.done = False
        self._request = request
        self._progress: Progress | None = None
        self._measured: RunResult | None = None

    def next_task(self) -> Task:
        """The run itself."""
        known = registered().get(self._request.workload)
        return Task(self._request, fresh=known is not None and known.info.fresh_process)

    def take(self, event: Event) -> Event | None:
        """Pass everything on but what is kept for an early end."""
        if isinstance(event, Progress):
            self._progress = event
        if isinstance(event, Measured):
            self._measured = event.result
        # What the worker says of its memory comes after the result, often in the same breath.
        self.done = self.done or isinstance(event, Finished)
        return event

    def end(self, status: Status, reason: str) -> Event:
        """What was measured, or the estimate so far of a worker that had to be ended."""
        self.done = True
        if self._measured is not None:
            return Finished(replace(self._measured, status=status, reason=reason))
        figures = {}
        if self._progress is not None and self._progress.estimate_s is not None:
            about = f"of {self._progress.blocks} blocks, when it ended"
            figures["median_so_far"] = Figure(self._progress.estimate_s, "s", about)
        request = self._request
        return Finished(
            RunResult(
                id=request.id,
                workload=request.workload,
                device=request.device,
                parameters=request.parameters,
                flags=request.flags,
                status=status,
                reason=reason,
                figures=figures,
                unavailable={"time": "the process ended before the measurement did"},
            )
        )


class BlocksJob:
    """A comparison inside one worker: a single task."""

    def __init__(self, request: Compare) -> None:
        self.id = request.id
        self.done = False
        self._request = request
        self._latest = comparison.summarise(
            request, [], fresh_process=False, parameters=request.parameters
        )

    def next_task(self) -> Task:
        """The comparison itself."""
        return Task(self._request)

    def take(self, event: Event) -> Event | None:
        """Pass everything on."""
        if isinstance(event, Compared):
            self._latest = event.comparison
            self.done = event.done
        return event

    def end(self, status: Status, reason: str) -> Event:
        """The pairs so far."""
        self.done = True
        return Compared(replace(self._latest, status=status, reason=reason), done=True)


class ProcessesJob:
    """A comparison with a fresh process for each arm of each pair."""

    def __init__(self, request: Compare) -> None:
        self.id = request.id
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

    def next_task(self) -> Task:
        """A short run with the setting whose turn it is."""
        request = self._request
        setting = {request.flag: request.settings[self._arm()]}
        run = Run(
            request.id,
            request.workload,
            request.device,
            request.parameters,
            {**request.flags, **setting},
            "quick",
            time_only=True,
        )
        return Task(run, fresh=True)

    def take(self, event: Event) -> Event | None:
        """Turn the runs into pairs, and their progress into that of the comparison."""
        if isinstance(event, Progress):
            return replace(event, blocks=len(self._pairs))
        if not isinstance(event, Finished):
            return event
        result = event.result
        if result.status != "ok" or result.time is None:
            return self.end(result.status, result.reason or "no time was taken")
        self._parameters = result.parameters
        for warning in result.warnings:
            setting = "on" if result.flags.get(self._request.flag) else "off"
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

    def end(self, status: Status, reason: str) -> Event:
        """The whole pairs so far."""
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
