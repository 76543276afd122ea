"""How often the allocator ran out of memory or emptied its cache: counted since a run began."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.children.driver import Driver
from tests.screens.helpers import NOW, gpu, make_store, sample
from tui.devices.memory import account
from tui.devices.memory.model import Value
from workloads.protocol import messages
from workloads.protocol.messages import TorchMemory
from workloads.protocol.results import RunResult

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(120)]

GPU = "cuda:0"


@pytest.fixture(scope="module")
def runner() -> Iterator[Driver]:
    with Driver() as driver:
        driver.ready()
        yield driver


def run(runner: Driver, workload: str, **parameters: int) -> tuple[RunResult, TorchMemory]:
    """Run a workload; return its result and the worker's next reading of the device's memory."""
    runner.send(messages.Run("run", workload, GPU, dict(parameters), {}, "quick"))
    result = runner.until(messages.Finished, lambda event: event.result.id == "run").result
    return result, runner.until(TorchMemory, lambda event: event.device == GPU)


def failed_on_purpose(runner: Driver) -> TorchMemory:
    """After a run that has asked for too much again and again."""
    result, after = run(runner, "out_of_memory", mib=1)
    assert result.status == "ok", (result.reason, result.trace)
    return after


def warnings(figures: TorchMemory) -> str:
    state = make_store("one gpu", sample(gpu(processes=())))
    state.publish(messages.WorkerStarted(figures.pid))
    state.publish(figures)
    return " ".join(account(state.machine, state.machine.selected_device, NOW).warnings)


def test_a_run_that_runs_out_of_memory_is_counted(runner: Driver) -> None:
    after = failed_on_purpose(runner)
    assert after.ooms > 1
    assert "out of memory" in warnings(after)


@pytest.mark.parametrize("workload", ["device_list", "transfer", "matmul"])
def test_the_next_run_begins_at_zero(runner: Driver, workload: str) -> None:
    failed_on_purpose(runner)
    _, after = run(runner, workload)
    assert (after.ooms, after.alloc_retries) == (0, 0)
    assert "out of memory" not in warnings(after)


def test_the_count_starts_anew_as_soon_as_a_run_begins(runner: Driver) -> None:
    failed_on_purpose(runner)
    runner.send(messages.Run("run", "out_of_memory", GPU, {"mib": 1}, {}, "quick"))
    first = runner.until(TorchMemory, lambda event: event.device == GPU)
    runner.until(messages.Finished)
    after = runner.until(TorchMemory, lambda event: event.device == GPU)
    assert first.ooms == 0
    assert after.ooms > 0


def test_a_comparison_begins_at_zero_too(runner: Driver) -> None:
    failed_on_purpose(runner)
    settings = (False, True)
    runner.send(
        messages.Compare(
            "c", "conv2d", GPU, {"batch": 4}, "cudnn.deterministic", settings, {}, 3, "quick"
        )
    )
    runner.until(messages.Compared, lambda event: event.done)
    after = runner.until(TorchMemory, lambda event: event.device == GPU)
    assert after.ooms == 0


def test_emptying_the_cache_keeps_the_count_and_so_do_peaks_that_start_anew(
    runner: Driver,
) -> None:
    before = failed_on_purpose(runner)
    for request in (messages.EmptyCache(GPU), messages.ResetPeaks(GPU)):
        runner.send(request)
        after = runner.until(TorchMemory, lambda event: event.device == GPU)
        assert after.ooms == before.ooms


def test_a_run_on_another_device_begins_at_zero_on_all(runner: Driver) -> None:
    environment = runner.environment
    assert environment is not None
    if sum(device.id.startswith("cuda") for device in environment.devices) < 2:
        pytest.skip("there is one GPU")
    failed_on_purpose(runner)
    runner.send(messages.Run("run", "device_list", "cuda:1", {}, {}, "quick"))
    runner.until(messages.Finished)
    after = runner.until(TorchMemory, lambda event: event.device == GPU)
    assert after.ooms == 0


def test_a_retry_that_empties_the_cache_is_counted_for_its_run_alone(runner: Driver) -> None:
    # What is asked for never fits, so torch returns its cache and asks again before it raises.
    after = failed_on_purpose(runner)
    _, later = run(runner, "device_list")
    assert after.alloc_retries >= later.alloc_retries == 0


def test_the_counters_of_the_account_are_those_of_the_run(runner: Driver) -> None:
    figures = failed_on_purpose(runner)
    state = make_store("one gpu")
    state.publish(messages.WorkerStarted(figures.pid))
    state.publish(figures)
    gauge = account(state.machine, state.machine.selected_device, NOW)
    assert [counter.count for counter in gauge.counters] == [
        Value(figures.alloc_retries),
        Value(figures.ooms),
    ]


HELD = """
import torch
from workloads.measure import memory
assert not memory.used_devices()
held = torch.empty(2**20, dtype=torch.uint8, device="cuda:0")
found = memory.torch_memory(torch.device("cuda:0"))
print(found is not None and found.reserved > 0, len(memory.used_devices()))
"""


@pytest.mark.parametrize("settings", ["", "expandable_segments:True", "backend:cudaMallocAsync"])
def test_a_device_that_holds_something_is_used_whatever_the_allocator_counts(settings: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELD],
        env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": settings},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", "1"]
