"""Run one workload on one device and say everything about it: the runner's main job."""

from __future__ import annotations

import gc
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import torch

from workloads import cpu_share, flags, held_against, malloc, memory, timing
from workloads.bench import Bench
from workloads.ceilings import Ceilings
from workloads.clocks import Clock, clock_for
from workloads.fact import fact
from workloads.held_against import Question
from workloads.inventory import Setting
from workloads.needs import unmet
from workloads.place import Place
from workloads.protocol import Run
from workloads.ranks import launch, lockstep, torchrun
from workloads.results import Check, Figure, Rates, RunResult, Status, Timing
from workloads.study import Study
from workloads.timing import Cancelled, Control
from workloads.workload import Case, ParameterError, Skip, Workload, complete, registered

FAULT_S = 1e-6
"""What one minor page fault costs, roughly: 11 ms for 6242 of them were measured."""
LAUNCH_BOUND = 0.8
NOISY_IQR = 0.10
"""torch.utils.benchmark warns from here on."""
TELL_S = 0.3
"""Between two looks at a study that goes on."""
STUDY_CANCELLED = "after the time was taken; what was found by then is kept"
UNMEASURED = "no ceiling has been measured on this box: run the workload ceiling"


@fact
class Prepared:
    """A workload ready to be timed."""

    case: Case
    clock: Clock
    place: Place
    parameters: dict[str, Setting]


def lookup(name: str) -> Workload:
    """A workload by name.

    Raises:
        ParameterError: there is none; the text names those there are.
    """
    known = registered()
    if name not in known:
        raise ParameterError(f"no workload {name!r}: one of {', '.join(known)}")
    return known[name]


@contextmanager
def prepared(
    name: str, device: str, given: Mapping[str, Setting], settings: Mapping[str, bool]
) -> Iterator[Prepared]:
    """Prepare a workload under the given flags, and let go of its data afterwards.

    Raises:
        Skip: it cannot run here.
        ParameterError: a name or value that is not allowed.
        ValueError: an unknown flag.
        RuntimeError: what torch says.
    """
    workload = lookup(name)
    parameters, target = allowed(workload, device, given)
    together = lockstep.current()
    if workload.info.ranks and together is None:
        raise Skip("its ranks are processes of their own: settings cannot be switched within one")
    flags.apply(settings)
    place, clock = Place(device), clock_for(target)
    if together is not None:
        clock = lockstep.LockstepClock(clock, together)
    own = torchrun.own_parameters(parameters) if workload.info.ranks else parameters
    with on_device(target):
        _start_libraries(place, clock)
        _forget_earlier_runs(target)
        case = workload.prepare(place, **own)
        try:
            yield Prepared(case, clock, place, parameters)
        finally:
            if case.cleanup is not None:
                case.cleanup()


def allowed(
    workload: Workload, device: str, given: Mapping[str, Setting]
) -> tuple[dict[str, Setting], torch.device]:
    """The complete parameters and the device, where the workload can run on it.

    Raises:
        Skip: it cannot.
        ParameterError: a name or value that is not allowed.
        RuntimeError: torch knows no such device.
    """
    parameters = complete(workload.info, given)
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
def on_device(target: torch.device) -> Iterator[None]:
    """Make a CUDA device the current one, so that events and streams are its own."""
    if target.type == "cuda":
        with torch.cuda.device(target):
            yield
    else:
        yield


def _forget_earlier_runs(target: torch.device) -> None:
    """Return what earlier runs left in the allocator's cache: the peaks would count it as ours."""
    gc.collect()
    if target.type != "cpu" or malloc.heap() is not None:
        memory.empty_cache(target)
    memory.reset_peaks(target)


def _start_libraries(place: Place, clock: Clock) -> None:
    """A small product, so that the first call holds no start of context, BLAS or thread pool."""
    small = place.randn(48, 48)
    _ = small @ small
    clock.synchronize()


def outcome(error: BaseException) -> tuple[Status, str]:
    """What an exception of a workload means for its run, and the reason in one line."""
    if isinstance(error, Skip):
        return "skipped", str(error)
    if isinstance(error, Cancelled):
        return "cancelled", "before the first block"
    if isinstance(error, ParameterError):
        return "failed", str(error)
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "failed", f"out of memory: {_first_line(error)}"
    return "failed", f"{type(error).__name__}: {_first_line(error)}"


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
    result = RunResult(
        id=request.id,
        workload=request.workload,
        device=request.device,
        parameters=request.parameters,
        flags=request.flags,
        status="failed",
        started_at=time.time(),
    )
    try:
        result = _run(request, control, result, tell, cold, ceilings)
    except Exception as error:  # noqa: BLE001 (a workload may raise anything; it is reported)
        status, reason = outcome(error)
        expected = isinstance(error, (Skip, Cancelled, ParameterError))
        trace = None if expected else _trace()
        result = replace(result, status=status, reason=reason, trace=trace)
    return replace(result, ended_at=time.time())


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _trace() -> str:
    return traceback.format_exc(limit=-20)


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
        measured, cancelled = timing.measure(case.timed, ready.clock, case.clock, plan, control)
        measured = replace(measured, first_call_cold=cold)
        peak, unavailable = memory.peaks(ready.place.device)
        rates = _rates(case, measured, unavailable)
        asked = held_against.question(case, rates, ready.place.device)
        result = replace(
            result,
            status="cancelled" if cancelled else "ok",
            reason="what was measured is kept" if cancelled else None,
            time=measured,
            rates=rates,
            memory=peak,
            warnings=_warnings(measured, ready.place.type),
            unavailable=_absent_times(measured, unavailable),
        )
        result = _held_against(result, asked, ready, ceilings or Ceilings())
        if cancelled or request.time_only:
            return with_impossible(result)
        tell(result)
        result = _conclude(result, request, ready, control, tell, ceilings or Ceilings())
        if ceilings is not None and isinstance(asked, Question) and result.status == "ok":
            result = _with_ceiling(result, asked, ready, control, ceilings)
        return with_impossible(result)


def _held_against(
    result: RunResult, asked: Question | str, ready: Prepared, ceilings: Ceilings
) -> RunResult:
    """The result with its limit, as far as it is known, or the reason for none."""
    if isinstance(asked, str):
        return replace(result, unavailable={**result.unavailable, "limit": asked})
    limit = held_against.known(asked, ready.place.device, ceilings)
    absent = {} if limit is not None else {"limit": UNMEASURED}
    return replace(result, limit=limit, unavailable={**result.unavailable, **absent})


def _with_ceiling(
    result: RunResult, asked: Question, ready: Prepared, control: Control, ceilings: Ceilings
) -> RunResult:
    """The result held against a ceiling measured now, where it needs one.

    A measured ceiling that was exceeded may have been measured while something else ran: again.
    """
    device = ready.place.device
    # Its study may have measured the one that was lacking.
    result = replace(result, limit=held_against.known(asked, device, ceilings))
    doubtful = result.limit is not None and result.limit.basis == "measured"
    if result.limit is None or (doubtful and result.limit.exceeded):
        found = held_against.measured(asked, device, ready.clock, control, ceilings)
        if isinstance(found, str):
            reason = {} if result.limit is not None else {"limit": found}
            return replace(result, unavailable={**result.unavailable, **reason})
        result = replace(result, limit=found)
    absent = {path: why for path, why in result.unavailable.items() if path != "limit"}
    return replace(result, unavailable=absent)


def with_impossible(result: RunResult) -> RunResult:
    """The result with a warning where its rate lies above its limit."""
    limit = result.limit
    if limit is None or not limit.exceeded:
        return result
    if limit.basis == "measured":
        words = "of the ceiling measured here: the ceiling is too low or the time is wrong"
    else:
        words = "of the limit is impossible: the time is wrong, or less was done than counted"
    return replace(result, warnings=(*result.warnings, f"{limit.fraction:.0%} {words}"))


def _conclude(
    result: RunResult,
    request: Run,
    ready: Prepared,
    control: Control,
    tell: Callable[[RunResult], None],
    ceilings: Ceilings,
) -> RunResult:
    """Check the result and study what else there is, after the time is taken."""
    case, timed = ready.case, result.time
    assert timed is not None
    study: Study | None = None
    try:
        if case.check is not None:
            control.report("checking")
            result = _checked(result, case.check())
        if case.study is not None:
            control.report("figures")
            before = result
            bench = Bench(ready.place.device, ready.clock, control, ceilings)
            told = _Paced(lambda so_far: tell(with_findings(before, so_far)))
            study = Study(timed.median_s, case.clock, bench, told, timed.first_call_s)
            study.quick = request.budget == "quick"
            case.study(study)
            result = with_findings(result, study)
            result = replace(result, warnings=(*result.warnings, *_odd(study.figures, result)))
    except Cancelled:
        return replace(with_findings(result, study), status="cancelled", reason=STUDY_CANCELLED)
    except Exception as error:  # noqa: BLE001 (a workload may raise anything; it is reported)
        _, reason = outcome(error)
        found = with_findings(result, study)
        return replace(found, status="failed", reason=f"after timing: {reason}", trace=_trace())
    return result


def _checked(result: RunResult, check: Check) -> RunResult:
    result = replace(result, check=check)
    if check.passed:
        return result
    error = "not a number" if check.error is None else f"{check.error:.2g}"
    reason = f"wrong result: error {error}, tolerance {check.tolerance:.2g}"
    return replace(result, status="failed", reason=f"{reason}, against {check.against}")


def with_findings(result: RunResult, study: Study | None) -> RunResult:
    """The result with what a study has found so far."""
    if study is None:
        return result
    return replace(
        result,
        figures=dict(study.figures),
        tables=study.tables,
        charts=study.charts,
        log=tuple(study.log),
        unavailable={**result.unavailable, **study.unavailable},
    )


class _Paced:
    """Tells what a study has found, but not at each finding."""

    def __init__(self, tell: Callable[[Study], None]) -> None:
        self._tell = tell
        self._told = time.monotonic()

    def __call__(self, study: Study) -> None:
        if time.monotonic() - self._told >= TELL_S:
            self._told = time.monotonic()
            self._tell(study)


def _rates(case: Case, measured: Timing, unavailable: dict[str, str]) -> Rates:
    seconds = measured.median_s

    def per_second(count: int | None) -> float | None:
        return None if count is None or seconds <= 0 else count / seconds

    rates = Rates(per_second(case.flop), per_second(case.byte), per_second(case.item))
    for name, rate in (
        ("flop_per_s", rates.flop_per_s),
        ("byte_per_s", rates.byte_per_s),
        ("item_per_s", rates.item_per_s),
    ):
        if rate is None:
            unavailable[f"rates.{name}"] = "this workload does not count them"
    return rates


def _absent_times(measured: Timing, unavailable: dict[str, str]) -> dict[str, str]:
    if measured.ci95_s is None:
        unavailable["time.ci95_s"] = "an interval needs six blocks"
    if measured.p95_s is None:
        short = measured.clock == "device" and measured.median_s < timing.SHORTEST_SINGLE_S
        few = f"fewer than {timing.P95_CALLS} calls could be timed one by one"
        unavailable["time.p95_s"] = "a single call is too short for its events" if short else few
    if measured.device_median_s is None:
        reason = "this device has no timed events"
        unavailable |= {"time.device_median_s": reason, "time.enqueue_s": reason}
    return unavailable


def _warnings(measured: Timing, kind: str) -> tuple[str, ...]:
    warnings = []
    others = measured.other_cpu_cores
    if kind == "cpu" and cpu_share.disturbed(others, torch.get_num_threads()):
        warnings.append(f"other processes kept {others:.1f} cores busy: not a figure to keep")
    faults = measured.faults_per_call or 0.0
    if faults * FAULT_S > 0.01 * measured.median_s:
        warnings.append(f"{faults:.0f} page faults per call are part of the time")
    # A call that waits for the device itself, as .item() does, is not bound by launching.
    if measured.clock == "device" and measured.device_median_s and measured.enqueue_s:
        share = measured.enqueue_s / measured.device_median_s
        if share >= LAUNCH_BOUND:
            warnings.append(f"launch-bound: launching takes {share:.0%} of the time")
    spread = (measured.q3_s - measured.q1_s) / measured.median_s if measured.median_s else 0.0
    if spread > NOISY_IQR:
        warnings.append(f"the quartiles lie {spread:.0%} apart: the machine was not quiet")
    return tuple(warnings)


def _odd(figures: Mapping[str, Figure], result: RunResult) -> tuple[str, ...]:
    """A naive rate above the hardware's limit proves that it is wrong; say so."""
    implied = figures.get("naive_flop_per_s")
    if result.limit is None or implied is None or not isinstance(implied.value, float):
        return ()
    share = implied.value / result.limit.value
    if share <= 1:
        return ()
    return (f"the naive rate is {share:.1f} times the {result.limit.name} limit: impossible",)


def is_device_lost(reason: str | None) -> bool:
    """Whether a CUDA error has left the context unusable, as all but out of memory do."""
    text = reason or ""
    return "CUDA error" in text or "AcceleratorError" in text or "device-side assert" in text
