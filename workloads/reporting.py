"""Tell the front end how a run goes, not too often."""

from __future__ import annotations

import time

from workloads import wire
from workloads.ended_runs import nothing_measured
from workloads.process import Channel
from workloads.protocol import Compare, Finished, Measured, Phase, Progress, Run
from workloads.results import RunResult
from workloads.timing import Control

PROGRESS_S = 0.2
"""Between two progress events of the same phase."""


class Reporter(Control):
    """Sends progress; what else there is to do meanwhile, and how a run is ended, differs.

    Args:
        channel: to the runner.
        request: what runs.
    """

    def __init__(self, channel: Channel, request: Run | Compare) -> None:
        self._channel = channel
        self._request = request
        self._began = time.monotonic()
        self._phase: Phase | None = None
        self._told = -1e9

    def report(
        self,
        phase: Phase,
        blocks: int = 0,
        estimate_s: float | None = None,
        half_width: float | None = None,
        remaining_s: float | None = None,
    ) -> None:
        """See the base class; sends at once when the phase changes."""
        now = time.monotonic()
        if phase != self._phase or now - self._told >= PROGRESS_S:
            self._phase, self._told = phase, now
            run, elapsed = self._request, now - self._began
            self._channel.send(
                Progress(
                    id=run.id,
                    phase=phase,
                    elapsed_s=elapsed,
                    device=run.device,
                    blocks=blocks,
                    estimate_s=estimate_s,
                    half_width=half_width,
                    remaining_s=remaining_s,
                )
            )
        self.on_report(now)

    def measured(self, result: RunResult) -> None:
        """Send what is known once the time is taken."""
        try:
            line = wire.encode_checked(Measured(result))
        except wire.WireError:
            # What cannot travel is told of once, at the end.
            return
        self._channel.write(line)

    def on_report(self, now: float, /) -> None:
        """Do what comes with every report.

        Args:
            now: by the monotonic clock.

        Raises:
            Cancelled: the run is to end.
        """


def finished(result: RunResult, *, worker_usable: bool = True) -> tuple[RunResult, bytes]:
    """The line that ends a run, and the result that it holds.

    That is the one given, or where part of it cannot travel, a failure that says which part.

    Args:
        result: of the run.
        worker_usable: no error of the device has left this process with nothing to run on.
    """
    try:
        return result, wire.encode_checked(Finished(result, worker_usable))
    except wire.WireError as error:
        reason = f"the result holds what is no number: {error}"
        failed = nothing_measured(result, reason)
        return failed, wire.encode(Finished(failed, worker_usable))
