"""Run one workload on one device: prepare it under its flags, time it, study it, release it."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from workloads.declare.place import Place
from workloads.declare.study import Study
from workloads.declare.workload import Case, ParameterError, Skip, Workload, complete, registered
from workloads.limits import limit_lookup
from workloads.limits.ceilings import Ceilings
from workloads.limits.limit_lookup import LimitQuery
from workloads.measure import cpu_peak, malloc, memory, timing, torch_state
from workloads.measure.clocks import Clock, clock_for
from workloads.measure.cpu_peak import FirstCalls
from workloads.measure.timing import Cancelled, Control
from workloads.protocol.messages import Run, make_empty_result
from workloads.protocol.results import (
    NOT_CHECKED,
    Limit,
    MeasuredSpan,
    Need,
    RunResult,
    Setting,
    drop_claims,
)
from workloads.ranks import launch, torchrun
from workloads.runner import reporting
from workloads.runner.bench import Bench
from workloads.runner.reporting import outcome, retain_device_error, trace


def unmet(needs: tuple[Need, ...], device_type: str) -> str | None:
    """Return the first unmet need with its reason; ``None`` if all are met.

    Args:
        needs: the workload's needs.
        device_type: type of the device: the CPU needs the compiler, a GPU needs Triton.
    """
    for need in needs:
        reason = _explain_unmet(need, device_type)
        if reason is not None:
            return f"needs {need}: {reason}"
    return None


def _explain_unmet(need: Need, device_type: str) -> str | None:
    if need == "2 GPUs":
        count = torch.cuda.device_count() if torch.version.cuda or torch.version.hip else 0
        return None if count >= 2 else f"torch sees {count or 'none'}"
    if need == "a C++ compiler" and device_type == "cpu":
        # Like torch._inductor.config.cpp.cxx: the variable, then the usual names.
        names = [os.environ.get("CXX") or "g++", "clang++"]
        if not any(shutil.which(name) for name in names):
            return f"neither {' nor '.join(names)} is on the PATH; install one or set CXX"
    if need == "Triton" and device_type == "cuda" and importlib.util.find_spec("triton") is None:
        return "the module triton is not installed beside this torch"
    if need == "torch.distributed" and not torch.distributed.is_available():
        return "this torch was built without it"
    return None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload ready to be timed."""

    case: Case
    clock: Clock
    place: Place
    parameters: dict[str, Setting]
    counts_before: int
    """Bytes of tensors before the preparation: ``cpu_peak.count_tensor_bytes``."""


def lookup(name: str) -> Workload:
    """Return a workload by name.

    Raises:
        ParameterError: an unknown name; the text lists the known ones.
    """
    known = registered()
    if name not in known:
        raise ParameterError(f"no workload {name!r}: one of {', '.join(known)}")
    return known[name]


@contextmanager
def prepared(
    name: str, device: str, chosen: Mapping[str, Setting], settings: Mapping[str, bool]
) -> Iterator[Prepared]:
    """Prepare a workload under the given flags, and release its data afterwards.

    The workload's changes to torch's settings, flags included, end with it.

    Raises:
        Skip: it cannot run here.
        ParameterError: an invalid name or value.
        ValueError: an unknown flag.
        RuntimeError: an error from torch.
    """
    workload = lookup(name)
    parameters, target = allowed(workload, device, chosen)
    ranks = launch.own_ranks()
    if workload.info.ranks and ranks is None:
        raise Skip("its ranks are processes of their own: settings cannot be switched within one")
    with torch_state.restored():
        torch_state.apply_flags(settings)
        place, clock = Place(device), clock_for(target)
        if ranks is not None:
            clock = launch.LockstepClock(clock, ranks)
        own = torchrun.drop_rank_parameters(parameters) if workload.info.ranks else parameters
        with _on_device(target):
            _start_libraries(place, clock)
            _forget_earlier_runs(target)
            before = cpu_peak.count_tensor_bytes() if place.type == "cpu" else 0
            case = workload.prepare(place, **own)
            if not isinstance(case, Case):
                raise TypeError(
                    f"{name} gave back a {type(case).__name__}, not a Case: return Case(...)"
                )
            try:
                yield Prepared(case, clock, place, parameters, before)
            finally:
                if case.cleanup is not None:
                    case.cleanup()


def allowed(
    workload: Workload, device: str, chosen: Mapping[str, Setting]
) -> tuple[dict[str, Setting], torch.device]:
    """Return the complete parameters and the device, if the workload can run on it.

    Raises:
        Skip: the workload cannot run on it.
        ParameterError: an invalid name or value.
        RuntimeError: torch knows no such device.
    """
    parameters = complete(workload.info, chosen)
    target = torch.device(device)
    lacking = unmet(workload.info.needs, target.type)
    if lacking is not None:
        raise Skip(lacking)
    if target.type not in workload.info.devices:
        raise Skip(f"runs on {', '.join(workload.info.devices)} only")
    if target.type == "cuda" and os.environ.get("CUDA_LAUNCH_BLOCKING") not in (None, "", "0"):
        raise Skip(
            "CUDA_LAUNCH_BLOCKING is set: each launch waits, so no time would hold; unset it"
        )
    return parameters, target


@contextmanager
def _on_device(target: torch.device) -> Iterator[None]:
    """Make a CUDA device current, so that events and streams belong to it."""
    if target.type == "cuda":
        with torch.cuda.device(target):
            yield
    else:
        yield


def _forget_earlier_runs(target: torch.device) -> None:
    """Empty the allocator's cache of earlier runs, which the peaks would otherwise include."""
    if target.type != "cpu" or malloc.heap() is not None:
        memory.give_back(target)
    else:
        gc.collect()
    memory.reset_peaks(target)


def _start_libraries(place: Place, clock: Clock) -> None:
    """Compute a small product, so that the first call starts no context, BLAS or thread pool."""
    small = place.randn(48, 48)
    if place.type == "cuda":
        memory.free_workspaces()
        with memory.count_workspaces(place.device):
            # Autograd's backward thread has its own cuBLAS handle, and so its own workspace.
            weight = small.requires_grad_()
            torch.nn.functional.linear(small, weight, weight[0]).sum().backward()
            small.grad = None
    else:
        _ = small @ small
    clock.synchronize()


REPORT_S = 0.3
"""Interval between two reports of a running study."""
STUDY_CANCELLED = "after the timing; the figures measured until then are kept"
UNMEASURED = "no ceiling has been measured on this machine: run the workload ceiling"


def run(
    request: Run,
    control: Control,
    on_result: Callable[[RunResult], None],
    *,
    cold: bool,
    ceilings: Ceilings | None = None,
) -> RunResult:
    """Run a workload; every outcome, even an error, becomes part of the result.

    Args:
        request: the run to execute.
        control: receives the progress; may end the run.
        on_result: receives the result after the timing, before the check.
        cold: this process has not run the workload yet.
        ceilings: the known ones; a missing one is measured. Without them, none is.
    """
    result = replace(make_empty_result(request), started_at=time.time())
    try:
        result = _run(request, control, result, on_result, cold=cold, ceilings=ceilings)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (anything may come; it is reported)
        status, reason = outcome(error, request.device)
        retain_device_error(error, reason)
        expected = isinstance(error, (Skip, Cancelled, ParameterError))
        traceback = None if expected else trace()
        result = replace(result, status=status, reason=reason, trace=traceback)
    return replace(result, ended_at=time.time())


def _run(
    request: Run,
    control: Control,
    result: RunResult,
    on_result: Callable[[RunResult], None],
    cold: bool,
    ceilings: Ceilings | None,
) -> RunResult:
    control.report("preparing")
    workload = lookup(request.workload)
    if workload.info.ranks and launch.own_ranks() is None:
        parameters, _ = allowed(workload, request.device, request.parameters)
        complete_request = replace(request, parameters=parameters)
        return launch.run(complete_request, control, result, on_result)
    with prepared(request.workload, request.device, request.parameters, request.flags) as ready:
        case = ready.case
        result = replace(result, parameters=ready.parameters)
        plan = timing.PLANS[request.budget]
        # A call that the other ranks do not make would wait for them.
        before = None if workload.info.ranks else ready.counts_before
        first = FirstCalls(ready.place.device, before, control)
        measured, cancelled = timing.measure(
            case.timed, ready.clock, case.clock, plan, control, first
        )
        measured = reporting.drop_unreliable_interval(measured, ready.place.type)
        measured, without_p95 = reporting.drop_unreliable_p95(measured)
        measured = replace(measured, first_call_cold=cold)
        peak, unavailable = first.with_peak(*memory.peaks(ready.place.device))
        rates = reporting.rates(case, measured.median_s)
        working = case.devices or (request.device,)
        queries = limit_lookup.queries(case, rates, ready.place.device)
        result = replace(
            result,
            status="cancelled" if cancelled else "ok",
            reason="the figures measured until then are kept" if cancelled else None,
            time=measured,
            rates=rates,
            memory=peak,
            chosen=dict(case.chosen),
            spans=(MeasuredSpan(measured.measured_from, measured.measured_to, working),),
            warnings=reporting.warnings(measured, ready.place.type),
            unavailable={**unavailable, **reporting.absences(measured, rates), **without_p95},
        )
        result = _with_limit(result, queries, ready, ceilings or Ceilings())
        if cancelled or request.time_only:
            return reporting.add_impossible_warnings(result)
        on_result(result if case.check is None else drop_claims(result, NOT_CHECKED))
        result, study = _conclude(
            result, request, ready, control, on_result=on_result, ceilings=ceilings or Ceilings()
        )
        if ceilings is not None and not isinstance(queries, str) and result.status == "ok":
            result = _with_ceiling(result, queries, ready, control, ceilings)
        limit = _find_study_limits(study, result.limit, ready, ceilings or Ceilings())
        return reporting.add_impossible_warnings(result, limit)


def _find_study_limits(
    study: Study | None, own: Limit | None, ready: Prepared, ceilings: Ceilings
) -> list[tuple[str, Limit]]:
    """Return the rates that a study compares with a limit, each with its limit."""
    limits = []
    for checked in study.checked_rates if study is not None else ():
        limit = own
        if checked.kind is not None:
            query = LimitQuery(checked.kind, checked.rate)
            limit = limit_lookup.find(query, ready.place.device, ceilings)
        if limit is not None:
            limits.append((checked.name, replace(limit, fraction=checked.rate / limit.value)))
    return limits


def _with_limit(
    result: RunResult, queries: tuple[LimitQuery, ...] | str, ready: Prepared, ceilings: Ceilings
) -> RunResult:
    """Return the result with its limit, or with the reason for its absence."""
    if isinstance(queries, str):
        return replace(result, unavailable={**result.unavailable, "limit": queries})
    limit = limit_lookup.nearest(queries, ready.place.device, ceilings)
    absent = {} if limit is not None else {"limit": UNMEASURED}
    return replace(result, limit=limit, unavailable={**result.unavailable, **absent})


def _with_ceiling(
    result: RunResult,
    queries: tuple[LimitQuery, ...],
    ready: Prepared,
    control: Control,
    ceilings: Ceilings,
) -> RunResult:
    """Return the result with its limit, after measuring missing ceilings.

    An exceeded ceiling is measured again: other processes may have slowed the first measurement.
    """
    if result.limit is not None and result.limit.basis != "measured":
        # It was read right after the timing, while the link still ran at its speed under load.
        return result
    device = ready.place.device
    absent = {path: why for path, why in result.unavailable.items() if path != "limit"}
    for query in queries:
        # The study may have measured the missing one.
        limit = limit_lookup.find(query, device, ceilings)
        if limit is None or (limit.basis == "measured" and limit.exceeded):
            ceiling = limit_lookup.measure(query, device, ready.clock, control, ceilings)
            if limit is None and isinstance(ceiling, str):
                absent.setdefault("limit", ceiling)
    nearest = limit_lookup.nearest(queries, device, ceilings)
    if nearest is not None:
        absent.pop("limit", None)
    return replace(result, limit=nearest, unavailable=absent)


def _conclude(
    result: RunResult,
    request: Run,
    ready: Prepared,
    control: Control,
    on_result: Callable[[RunResult], None],
    ceilings: Ceilings,
) -> tuple[RunResult, Study | None]:
    """Check the result, and run the study, after the timing."""
    case, timed = ready.case, result.time
    assert timed is not None
    study: Study | None = None
    try:
        if case.check is not None:
            control.report("checking")
            result = reporting.checked(result, case.check())
        if case.study is not None:
            control.report("figures")
            before = result
            bench = Bench(ready.place.device, ready.clock, control, ceilings)
            paced = _Paced(lambda so_far: on_result(reporting.add_findings(before, so_far)))
            study = Study(timed.median_s, case.clock, bench, paced, timed.first_call_s)
            study.quick = request.budget == "quick"
            case.study(study)
            result = reporting.add_findings(result, study)
    except Cancelled:
        finished = reporting.add_findings(result, study)
        return replace(finished, status="cancelled", reason=STUDY_CANCELLED), study
    except (Exception, SystemExit) as error:  # noqa: BLE001 (anything may come; it is reported)
        _, reason = outcome(error, request.device)
        finished = reporting.add_findings(result, study)
        reason = f"after timing: {reason}"
        return replace(finished, status="failed", reason=reason, trace=trace()), study
    return result, study


class _Paced:
    """Reports a study's findings, at limited intervals."""

    def __init__(self, on_change: Callable[[Study], None]) -> None:
        self._on_change = on_change
        self._reported = time.monotonic()

    def __call__(self, study: Study) -> None:
        if time.monotonic() - self._reported >= REPORT_S:
            self._reported = time.monotonic()
            self._on_change(study)
