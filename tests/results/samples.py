"""Results in a runner's form, invented for the tests of the store."""

from __future__ import annotations

from collections.abc import Sequence

from tui.results.store.records import Facts, Record, StoredResult, compute_id
from tui.runs.state.runs import Conditions
from workloads.protocol.results import RunResult, Setting, Status, Timing

FACTS = {
    "box": "alpha",
    "gpu": "NVIDIA H200",
    "gpu uuid": "GPU-1",
    "driver": "580.65.06",
    "torch": "2.13.0+cu130",
    "python": "3.11.4",
    "kernel": "Linux 6.8.0",
}


BEGAN = 1_000_000_000.0
"""Unix time, in 2001."""
HOUR = 3600
"""Seconds; runs so far apart belong to two sessions."""


def timing(blocks: Sequence[float], at: float = BEGAN) -> Timing:
    ordered = sorted(blocks)
    middle = ordered[len(ordered) // 2]
    return Timing(
        median_s=middle,
        q1_s=ordered[len(ordered) // 4],
        q3_s=ordered[3 * len(ordered) // 4],
        min_s=ordered[0],
        p95_s=None,
        ci95_s=(ordered[0], ordered[-1]) if len(ordered) > 5 else None,
        blocks=len(blocks),
        calls=10 * len(blocks),
        first_call_s=0.5,
        first_call_cold=True,
        stopped_by="precise",
        clock="device",
        wall_median_s=middle,
        device_median_s=middle,
        enqueue_s=None,
        faults_per_call=None,
        other_cpu_cores=None,
        block_times_s=tuple(blocks),
        measured_from=at,
        measured_to=at + 1,
    )


def conditions(
    *warnings: str, clock: float | None = 1950.0, throttle: tuple[str, ...] = ()
) -> Conditions:
    return Conditions(
        samples=3,
        sm_clock_mhz_min=1900,
        sm_clock_mhz_median=clock,
        power_w_max=650.0,
        temperature_c_max=70.0,
        throttle=throttle,
        process_peak=None,
        warnings=warnings,
    )


def kept(
    number: int = 0,
    *,
    workload: str = "matmul",
    device: str = "cuda:0",
    median: float = 1e-3,
    parameters: dict[str, Setting] | None = None,
    facts: dict[str, str] | None = None,
    tags: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
    process: str = "",
    seen: Conditions | None = None,
    status: Status = "ok",
) -> StoredResult:
    """Return a run that ended ``number`` seconds after :data:`BEGAN`."""
    at = BEGAN + number
    blocks = [median * factor for factor in (0.99, 1.0, 1.0, 1.0, 1.0, 1.0, 1.01)]
    used: dict[str, Setting] = {"n": 4096} if parameters is None else parameters
    result = RunResult(
        id=f"run-{number}",
        workload=workload,
        device=device,
        parameters=used,
        flags={"cudnn.benchmark": False},
        status=status,
        time=timing(blocks, at - 1),
        started_at=at - 2,
        ended_at=at,
    )
    record = Record(
        id=compute_id(result, at),
        kind="run",
        at=at,
        process=process or f"process-{number}",
        sweep="",
        workload=workload,
        device=device,
        parameters=used,
        status=status,
        reason=None,
        budget="normal",
        conditions=seen or conditions(*warnings),
        run=result,
    )
    return StoredResult(record, Facts(FACTS if facts is None else {**FACTS, **facts}), tags)
