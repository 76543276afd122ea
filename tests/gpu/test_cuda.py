"""The CUDA paths of the runner and of the headless commands, on a real GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.children.driver import Driver
from workloads.protocol import messages
from workloads.protocol.results import RunResult, Setting

pytestmark = [pytest.mark.timeout(300)]

GPU = "cuda:0"
CATALOGUE = ["matmul", "conv2d", "naive_timing", "mlp_training", "mlp_evaluation", "transfer"]


@pytest.fixture(scope="module")
def runner() -> Iterator[Driver]:
    with Driver() as driver:
        driver.ready()
        yield driver


def run_on_gpu(runner: Driver, workload: str, **parameters: Setting) -> RunResult:
    runner.send(messages.Run("gpu", workload, GPU, dict(parameters), {}, "quick"))
    return runner.until(messages.Finished, lambda event: event.result.id == "gpu").result


def command(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tui", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("workload", CATALOGUE)
def test_every_workload_runs_and_its_result_is_right(runner: Driver, workload: str) -> None:
    result = run_on_gpu(runner, workload)
    assert (result.status, result.reason) == ("ok", None)
    assert result.time is not None
    assert result.time.device_median_s is not None
    assert result.memory.allocated_peak
    assert result.memory.reserved_peak is not None
    assert result.memory.reserved_peak >= result.memory.allocated_peak
    assert result.check is None or result.check.passed


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_a_product_stays_within_its_tolerance_and_below_its_limit(
    runner: Driver, dtype: str
) -> None:
    result = run_on_gpu(runner, "matmul", n=4096, dtype=dtype)
    assert result.check is not None
    assert result.check.passed
    if result.limit is not None:
        assert 0 < result.limit.fraction <= 1.03


@pytest.mark.simulated_gpu
def test_the_naive_figure_is_too_fast(runner: Driver) -> None:
    figures = run_on_gpu(runner, "naive_timing", n=8192).figures
    too_fast = figures["too_fast"].value
    assert isinstance(too_fast, float)
    assert too_fast > 2


@pytest.mark.simulated_gpu
def test_the_devices_own_time_does_not_exceed_the_wall_clock(runner: Driver) -> None:
    time = run_on_gpu(runner, "matmul", n=4096).time
    assert time is not None
    assert time.device_median_s is not None
    assert time.device_median_s <= time.wall_median_s * 1.02


@pytest.mark.simulated_gpu
def test_the_allocators_figures_arrive_and_the_cache_can_be_returned(runner: Driver) -> None:
    run_on_gpu(runner, "matmul", n=4096)
    runner.send(messages.EmptyCache(GPU))
    emptied = runner.until(messages.Emptied)
    assert emptied.freed > 0
    memory = runner.until(messages.TorchMemory)
    chain = (memory.requested, memory.allocated, memory.active, memory.reserved)
    assert list(chain) == sorted(chain)
    runner.send(messages.ResetPeaks(GPU))
    memory = runner.until(messages.TorchMemory)
    assert memory.reserved_peak == memory.reserved


@pytest.mark.simulated_gpu
def test_what_does_not_fit_is_skipped_or_fails_with_the_reason_and_the_next_run_works(
    runner: Driver,
) -> None:
    result = run_on_gpu(runner, "conv2d", batch=4096, channels=4096, size=2048)
    assert result.status in ("skipped", "failed")
    assert result.reason
    result = run_on_gpu(runner, "transfer")
    assert (result.status, result.reason) == ("ok", None)


@pytest.mark.simulated_gpu
@pytest.mark.parametrize(
    ("flag", "fresh"),
    [
        ("cudnn.benchmark", True),
        ("cudnn.deterministic", False),
        ("cudnn.conv.fp32_precision", False),
        ("cudnn.enabled", False),
    ],
)
def test_a_cudnn_flag_is_compared_in_the_way_it_demands(
    runner: Driver, flag: str, fresh: bool
) -> None:
    runner.seen.clear()
    settings = (False, True)
    request = messages.Compare("c", "conv2d", GPU, {"batch": 16}, flag, settings, {}, 3, "quick")
    runner.send(request)
    found = runner.until(messages.Compared, lambda event: event.done).comparison
    assert (found.status, found.reason) == ("ok", None)
    assert found.fresh_process is fresh
    assert found.pairs == 3
    workers = [event for event in runner.seen if isinstance(event, messages.WorkerStarted)]
    assert len(workers) >= (6 if fresh else 0)


@pytest.mark.simulated_gpu
def test_a_setting_compared_with_itself_is_not_called_different(runner: Driver) -> None:
    request = messages.Compare(
        "c",
        "conv2d",
        GPU,
        {"batch": 16},
        "cudnn.conv.fp32_precision",
        (True, True),
        {},
        None,
        "normal",
    )
    runner.send(request)
    found = runner.until(messages.Compared, lambda event: event.done).comparison
    assert found.verdict in ("same", "unclear")


@pytest.mark.simulated_gpu
def test_a_cancel_ends_a_gpu_run_within_two_seconds(runner: Driver) -> None:
    request = messages.Run("gpu", "matmul", GPU, {"n": 16384}, {}, "careful")
    runner.send(request)
    runner.until(messages.Progress, lambda event: event.blocks >= 1)
    runner.send(messages.Cancel("gpu"))
    result = runner.until(messages.Finished).result
    assert result.status == "cancelled"


@pytest.mark.simulated_gpu
def test_devices_pairs_nvml_with_torch() -> None:
    found = command("devices")
    assert found["devices"][0]["torch"] == GPU
    assert found["devices"][0]["memory"]["total"] > 0
    assert found["driver"]["version"]


@pytest.mark.gpu
def test_run_brings_the_conditions_of_the_device() -> None:
    found = command("run", "matmul", "--device", GPU, "--set", "n=8192")
    (result,) = found["results"]
    assert result["status"] == "ok"
    assert result["conditions"]["samples"] > 0
    assert result["conditions"]["sm_clock_mhz_median"] > 0
    assert result["limit"] is None or result["limit"]["fraction"] > 0


@pytest.mark.simulated_gpu
def test_looking_at_the_devices_takes_no_memory_of_the_gpu() -> None:
    found = command("devices")
    commands = [process["command"] for process in found["devices"][0]["processes"] or ()]
    assert not any("tui.monitor" in (text or "") for text in commands)
