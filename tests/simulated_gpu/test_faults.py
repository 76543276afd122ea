"""A request for device memory or a piece of work fails: it is told why, and the next run works."""

from __future__ import annotations

import gc
import itertools
import re
from collections.abc import Iterator

import pytest
import torch

from tests.catalog.runs import ran
from tests.children.driver import Driver
from tests.simulated_gpu import place
from tui.rehearsal.device.settings import PREFIX
from workloads.protocol import messages
from workloads.protocol.results import RunResult

pytestmark = [
    pytest.mark.simulated_gpu,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not place.is_simulated(), reason="a real GPU cannot be told to fail"),
]

GPU = "cuda:0"
ILLEGAL_ADDRESS, ECC, ASSERT, NEVER_ENDS = 700, 214, 710, 0
OUT_OF_MEMORY = 2
NUMBERS = re.compile("wrong result|singular|division by zero")
"""How a check may end where kernels compute nothing."""
tags = itertools.count()


def emptied() -> None:
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


@pytest.mark.parametrize(
    "workload",
    [
        "transfer", "placement", "matmul", "tf32", "attention", "device_copy", "reductions",
        "linalg", "conv2d", "varying_shapes", "mlp_training", "mlp_evaluation", "checkpointing",
        "staircase", "fragmentation", "naive_timing", "comparing_results", "model_on_cpu",
        "item_in_loop", "profiler",
    ],
)  # fmt: skip
def test_a_refused_request_for_memory_is_told_as_that_and_leaves_nothing(
    workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = PREFIX + "FAIL_ALLOCATION"
    refused = 0
    for turn in (1, 2, 4, 8):
        emptied()
        assert torch.cuda.memory_reserved() == 0
        monkeypatch.setenv(variable, f"{turn}:{OUT_OF_MEMORY}:{next(tags)}")
        result = ran(workload, GPU)
        monkeypatch.delenv(variable)
        statistics = torch.cuda.memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
        if not statistics["num_ooms"]:
            break  # the workload asks for memory less often
        refused += 1
        # A workload may try what it can do without, as the ways of a product.
        reason = result.reason or ""
        assert result.status in ("ok", "failed"), result.trace
        assert result.status == "ok" or "out of memory" in reason or NUMBERS.search(reason), reason
    assert refused
    emptied()
    assert torch.cuda.memory_allocated() == 0


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Driver]:
    monkeypatch.setenv(PREFIX + "FAIL_LAUNCH", f"{request.param}:{next(tags)}")
    with Driver() as driver:
        driver.ready()
        yield driver


def run_on_gpu(runner: Driver, workload: str, name: str) -> RunResult:
    runner.send(messages.Run(name, workload, GPU, {}, {}, "quick"))
    return runner.until(messages.Finished, lambda event: event.result.id == name).result


@pytest.mark.parametrize(
    "runner",
    [
        *(f"{turn}:{ILLEGAL_ADDRESS}" for turn in (1, 2, 3, 5, 7, 12, 20, 60)),
        f"7:{ECC}",
        f"7:{ASSERT}",
    ],
    indirect=True,
)
def test_an_error_of_the_device_ends_the_run_with_its_name_and_the_next_worker_works(
    runner: Driver,
) -> None:
    result = run_on_gpu(runner, "transfer", "hit")
    assert result.status == "failed"
    # Where pinned memory is let go of within torch, its destructor ends the process.
    assert re.search("CUDA error|SIGABRT .* device error", result.reason or "")
    again = run_on_gpu(runner, "transfer", "next")
    assert (again.status, again.reason) == ("ok", None)
    ended = [event for event in runner.seen if isinstance(event, messages.WorkerEnded)]
    assert len(ended) == 1


@pytest.mark.parametrize("runner", [f"{turn}:{NEVER_ENDS}" for turn in (1, 5, 40)], indirect=True)
def test_a_device_that_never_answers_is_left_by_a_cancel(runner: Driver) -> None:
    runner.send(messages.Run("stuck", "transfer", GPU, {}, {}, "quick"))
    runner.until(messages.WorkerStarted)
    runner.until(messages.Heartbeat)
    runner.send(messages.Cancel("stuck"))
    result = runner.until(messages.Finished, lambda event: event.result.id == "stuck").result
    assert result.status == "cancelled"
    again = run_on_gpu(runner, "transfer", "next")
    assert (again.status, again.reason) == ("ok", None)
