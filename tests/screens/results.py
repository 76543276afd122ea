"""Runs and comparisons for screens; figures of one H200 and its host."""

from __future__ import annotations

from tui.recordings.lines import AnyEvent
from tui.runs.state.events import CompareQueued, RunQueued
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages
from workloads.protocol.results import (
    Arm,
    Check,
    Comparison,
    Figure,
    Limit,
    PeakMemory,
    Rates,
    RunResult,
    Setting,
    Timing,
)
from workloads.protocol.wire import field_values

MIB = 1024**2
DEFAULTS: dict[str, Setting] = {"size": 4096, "dtype": "float32"}
FLAGS = {
    "cudnn.enabled": True,
    "cudnn.benchmark": False,
    "cudnn.deterministic": False,
    "cudnn.conv.fp32_precision": True,
}


def timing(median: float = 2.71e-3, spread: float = 0.004, **changes: object) -> Timing:
    values: dict[str, object] = {
        "median_s": median,
        "q1_s": 0.995 * median,
        "q3_s": 1.006 * median,
        "min_s": 0.99 * median,
        "p95_s": 1.05 * median,
        "ci95_s": (median * (1 - spread), median * (1 + spread)),
        "blocks": 42,
        "calls": 420,
        "first_call_cold": True,
        "other_cpu_cores": 0.0,
        "measured_from": 0.0,
        "measured_to": 1.0,
        "first_call_s": 0.38,
        "stopped_by": "median known to ±0.50%",
        "clock": "device",
        "wall_median_s": 1.01 * median,
        "device_median_s": median,
        "enqueue_s": 12e-6,
        "faults_per_call": 0.0,
        "block_times_s": (),
        **changes,
    }
    return Timing(**values)  # type: ignore[arg-type]


def result(
    workload: str = "matmul", device: str = "cuda:0", median: float = 2.71e-3, **changes: object
) -> RunResult:
    flop = 2 * 4096**3 / median
    gpu = device != "cpu"
    unavailable = {} if gpu else {"limit": "no limit is known for this CPU"}
    values: dict[str, object] = {
        "id": f"{workload} on {device}",
        "workload": workload,
        "device": device,
        "parameters": DEFAULTS,
        "flags": FLAGS if gpu else {},
        "status": "ok",
        "time": timing(median),
        "rates": Rates(flop, None, None),
        "limit": Limit("float32", 67e12, flop / 67e12, "published dense peak") if gpu else None,
        "memory": PeakMemory(201 * MIB, 256 * MIB, None) if gpu else PeakMemory(None, None, None),
        "figures": {"too_fast": Figure(118.0, "x", "right time over naive time")},
        "check": Check(True, 1.2e-6, 1e-4, "64 rows, in float64 on the CPU"),
        "unavailable": unavailable,
        **changes,
    }
    return RunResult(**values)  # type: ignore[arg-type]


def queued(workload: str = "matmul", device: str = "cuda:0", **changes: object) -> RunQueued:
    done = result(workload, device)
    request = messages.Run(done.id, workload, device, DEFAULTS, done.flags)
    return RunQueued(messages.Run(**{**field_values(request), **changes}))


def ran(workload: str = "matmul", device: str = "cuda:0", **changes: object) -> list[AnyEvent]:
    """Return a run's events from its request to its result."""
    done = result(workload, device, **changes)  # type: ignore[arg-type]
    flags = done.flags
    return [queued(workload, device, flags=flags), messages.Finished(done)]


def progress(workload: str = "matmul", device: str = "cuda:0", **changes: object) -> AnyEvent:
    values: dict[str, object] = {
        "id": f"{workload} on {device}",
        "phase": "measuring",
        "elapsed_s": 1.0,
        "device": device,
        "blocks": 7,
        "estimate_s": 0.213e-3,
        "half_width": 0.011,
        "remaining_s": 3.1,
        **changes,
    }
    return messages.Progress(**values)  # type: ignore[arg-type]


def compare_queued(
    flag: str = "cudnn.benchmark", workload: str = "conv2d", device: str = "cuda:0"
) -> CompareQueued:
    run_id = f"{flag} of {workload}"
    settings = (False, True)
    request = messages.Compare(run_id, workload, device, DEFAULTS, flag, settings, {})
    return CompareQueued(request)


def comparison(
    flag: str = "cudnn.benchmark", workload: str = "conv2d", **changes: object
) -> Comparison:
    values: dict[str, object] = {
        "id": f"{flag} of {workload}",
        "workload": workload,
        "device": "cuda:0",
        "parameters": DEFAULTS,
        "flag": flag,
        "arms": (Arm(False, 0.412e-3, 12.1e-3), Arm(True, 0.287e-3, 392e-3)),
        "ratio": 1.435,
        "ci95": (1.40, 1.47),
        "pairs": 5,
        "pairs_wanted": 5,
        "verdict": "faster",
        "break_even_calls": 3040.0,
        "fresh_process": True,
        **changes,
    }
    return Comparison(**values)  # type: ignore[arg-type]


def compared(
    flag: str = "cudnn.benchmark", workload: str = "conv2d", *, done: bool = True, **changes: object
) -> list[AnyEvent]:
    """Return a comparison's events from its request to its verdict."""
    found = comparison(flag, workload, **changes)
    return [compare_queued(flag, workload), messages.Compared(found, done)]


def busy(state: WorkbenchState) -> None:
    """Return one of each kind that a table shows."""
    for event in (
        *ran("matmul", "cpu", median=0.412, memory=PeakMemory(None, None, 900 * MIB)),
        *ran("matmul", "cuda:0"),
        *ran("mlp", "cpu", median=0.0191),
        queued("mlp", "cuda:0"),
        progress("mlp", "cuda:0"),
        *ran("conv2d", "cpu", median=0.0019),
        *ran(
            "conv2d",
            "cuda:0",
            status="failed",
            time=None,
            reason="CUDA out of memory: asked for 2.1 GiB, 0.4 GiB free",
        ),
        *compared(),
    ):
        state.publish(event)
