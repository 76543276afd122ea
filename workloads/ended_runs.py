"""The result of a run that ended before it could say so itself. No torch."""

from __future__ import annotations

from dataclasses import replace

from workloads.protocol import Progress, Run
from workloads.results import Figure, RunResult, Status


def nothing_measured(
    run: Run | RunResult, reason: str | None = None, status: Status = "failed"
) -> RunResult:
    """A result that says what was to be run and nothing else.

    Args:
        run: the request, or a result whose figures are not to be kept.
        reason: why there is nothing.
        status: of the result.
    """
    return RunResult(
        id=run.id,
        workload=run.workload,
        device=run.device,
        parameters=run.parameters,
        flags=run.flags,
        status=status,
        reason=reason,
    )


def ended_run(
    request: Run,
    latest: Progress | None,
    measured: RunResult | None,
    *,
    status: Status,
    reason: str,
    who: str = "it",
) -> RunResult:
    """What was measured is kept, else the estimate so far.

    Args:
        request: of the run.
        latest: how far the run was; ``None`` where it had not begun.
        measured: what it told once its time was taken; ``None`` where it was not.
        status: of the result.
        reason: why the run ended.
        who: ended before the measurement did, for the reader.
    """
    if measured is not None:
        return replace(measured, status=status, reason=reason)
    figures = {}
    if latest is not None and latest.estimate_s is not None:
        about = f"of {latest.blocks} blocks, when it ended"
        figures["median_so_far"] = Figure(latest.estimate_s, "s", about)
    absent = {"time": f"{who} ended before the measurement did"}
    result = nothing_measured(request, reason, status)
    return replace(result, figures=figures, unavailable=absent)
