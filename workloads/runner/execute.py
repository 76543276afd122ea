"""Run one workload on one device and say everything about it: the runner's main job."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from workloads.declare.study import Study
from workloads.declare.workload import ParameterError, Skip
from workloads.limits import limit_lookup
from workloads.limits.ceilings import Ceilings
from workloads.limits.limit_lookup import LimitQuery
from workloads.measure import memory, timing
from workloads.measure.cpu_peak import FirstCalls
from workloads.measure.timing import Cancelled, Control
from workloads.protocol.ended_runs import nothing_measured
from workloads.protocol.messages import Run
from workloads.protocol.results import Limit, MeasuredSpan, RunResult
from workloads.ranks import launch, lockstep
from workloads.runner import readings
from workloads.runner.bench import Bench
from workloads.runner.outcome import keep_if_device_lost, outcome, trace
from workloads.runner.prepare import Prepared, allowed, lookup, prepared

TELL_S = 0.3
"""Between two looks at a study that goes on."""
STUDY_CANCELLED = "after the time was taken; what was found by then is kept"
UNMEASURED = "no ceiling has been measured on this box: run the workload ceiling"


def run(
    request: Run,
    control: Control,
    tell: Callable[[RunResult], None],
    *,
    cold: bool,
    ceilings: Ceilings | None = None,
) -> RunResult:
    """Run a workload; whatever happens to it becomes part of the result.

    Args:
        request: what to run.
        control: told how far it is; may end it.
        tell: takes the result once the time is taken, before it is checked.
        cold: this process has not run the workload yet.
        ceilings: those known; one that is lacking is measured. Without it none is.
    """
    result = replace(nothing_measured(request), started_at=time.time())
    try:
        result = _run(request, control, result, tell, cold=cold, ceilings=ceilings)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (anything may come; it is told)
        status, reason = outcome(error, request.device)
        keep_if_device_lost(error, reason)
        expected = isinstance(error, (Skip, Cancelled, ParameterError))
        told = None if expected else trace()
        result = replace(result, status=status, reason=reason, trace=told)
    return replace(result, ended_at=time.time())


def _run(
    request: Run,
    control: Control,
    result: RunResult,
    tell: Callable[[RunResult], None],
    cold: bool,
    ceilings: Ceilings | None,
) -> RunResult:
    control.report("preparing")
    workload = lookup(request.workload)
    if workload.info.ranks and lockstep.current() is None:
        parameters, _ = allowed(workload, request.device, request.parameters)
        complete_request = replace(request, parameters=parameters)
        return launch.run(complete_request, workload.prepare, control, result, tell)
    with prepared(request.workload, request.device, request.parameters, request.flags) as ready:
        case = ready.case
        result = replace(result, parameters=ready.parameters)
        plan = timing.PLANS[request.budget]
        # A call that another rank does not make would wait for it.
        before = None if workload.info.ranks else ready.held_before
        first = FirstCalls(ready.place.device, before, control)
        measured, cancelled = timing.measure(
            case.timed, ready.clock, case.clock, plan, control, first
        )
        measured = readings.as_far_as_known(measured, ready.place.type)
        measured = replace(measured, first_call_cold=cold)
        peak, unavailable = first.with_peak(*memory.peaks(ready.place.device))
        rates = readings.rates(case, measured.median_s)
        working = case.devices or (request.device,)
        asked = limit_lookup.queries(case, rates, ready.place.device)
        result = replace(
            result,
            status="cancelled" if cancelled else "ok",
            reason="what was measured is kept" if cancelled else None,
            time=measured,
            rates=rates,
            memory=peak,
            chosen=dict(case.chosen),
            spans=(MeasuredSpan(measured.measured_from, measured.measured_to, working),),
            warnings=readings.warnings(measured, ready.place.type),
            unavailable={**unavailable, **readings.absences(measured, rates)},
        )
        result = _with_limit(result, asked, ready, ceilings or Ceilings())
        if cancelled or request.time_only:
            return readings.with_impossible(result)
        tell(result)
        result, study = _conclude(
            result, request, ready, control, tell=tell, ceilings=ceilings or Ceilings()
        )
        if ceilings is not None and not isinstance(asked, str) and result.status == "ok":
            result = _with_ceiling(result, asked, ready, control, ceilings)
        held = _others_held(study, result.limit, ready, ceilings or Ceilings())
        return readings.with_impossible(result, held)


def _others_held(
    study: Study | None, own: Limit | None, ready: Prepared, ceilings: Ceilings
) -> list[tuple[str, Limit]]:
    """The rates that a study has had held against a limit, each with the limit it asks for."""
    found = []
    for held in study.held_rates if study is not None else ():
        limit = own
        if held.kind is not None:
            asked = LimitQuery(held.kind, held.rate)
            limit = limit_lookup.find(asked, ready.place.device, ceilings)
        if limit is not None:
            found.append((held.what, replace(limit, fraction=held.rate / limit.value)))
    return found


def _with_limit(
    result: RunResult, asked: tuple[LimitQuery, ...] | str, ready: Prepared, ceilings: Ceilings
) -> RunResult:
    """The result with its limit, as far as it is known, or the reason for none."""
    if isinstance(asked, str):
        return replace(result, unavailable={**result.unavailable, "limit": asked})
    limit = limit_lookup.nearest(asked, ready.place.device, ceilings)
    absent = {} if limit is not None else {"limit": UNMEASURED}
    return replace(result, limit=limit, unavailable={**result.unavailable, **absent})


def _with_ceiling(
    result: RunResult,
    asked: tuple[LimitQuery, ...],
    ready: Prepared,
    control: Control,
    ceilings: Ceilings,
) -> RunResult:
    """The result held against ceilings measured now, where it needs them.

    A measured ceiling that was exceeded may have been measured while something else ran: again.
    """
    if result.limit is not None and result.limit.basis != "measured":
        # It was read right after the timing, when a link still ran as fast as it does under load.
        return result
    device = ready.place.device
    absent = {path: why for path, why in result.unavailable.items() if path != "limit"}
    for query in asked:
        # Its study may have measured the one that was lacking.
        limit = limit_lookup.find(query, device, ceilings)
        if limit is None or (limit.basis == "measured" and limit.exceeded):
            found = limit_lookup.measure(query, device, ready.clock, control, ceilings)
            if limit is None and isinstance(found, str):
                absent.setdefault("limit", found)
    nearest = limit_lookup.nearest(asked, device, ceilings)
    if nearest is not None:
        absent.pop("limit", None)
    return replace(result, limit=nearest, unavailable=absent)


def _conclude(
    result: RunResult,
    request: Run,
    ready: Prepared,
    control: Control,
    tell: Callable[[RunResult], None],
    ceilings: Ceilings,
) -> tuple[RunResult, Study | None]:
    """Check the result and study what else there is, after the time is taken."""
    case, timed = ready.case, result.time
    assert timed is not None
    study: Study | None = None
    try:
        if case.check is not None:
            control.report("checking")
            result = readings.checked(result, case.check())
        if case.study is not None:
            control.report("figures")
            before = result
            bench = Bench(ready.place.device, ready.clock, control, ceilings)
            told = _Paced(lambda so_far: tell(readings.with_findings(before, so_far)))
            study = Study(timed.median_s, case.clock, bench, told, timed.first_call_s)
            study.quick = request.budget == "quick"
            case.study(study)
            result = readings.with_findings(result, study)
    except Cancelled:
        found = readings.with_findings(result, study)
        return replace(found, status="cancelled", reason=STUDY_CANCELLED), study
    except (Exception, SystemExit) as error:  # noqa: BLE001 (anything may come; it is told)
        _, reason = outcome(error, request.device)
        found = readings.with_findings(result, study)
        reason = f"after timing: {reason}"
        return replace(found, status="failed", reason=reason, trace=trace()), study
    return result, study


class _Paced:
    """Tells what a study has found, but not at each finding."""

    def __init__(self, tell: Callable[[Study], None]) -> None:
        self._tell = tell
        self._told = time.monotonic()

    def __call__(self, study: Study) -> None:
        if time.monotonic() - self._told >= TELL_S:
            self._told = time.monotonic()
            self._tell(study)
