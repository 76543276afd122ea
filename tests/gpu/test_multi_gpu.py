"""The multi-GPU workloads on real GPUs; those that need two are skipped where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.children.driver import Driver
from tests.simulated_gpu.place import is_simulated
from workloads.protocol import messages
from workloads.protocol.results import RunResult, Setting

pytestmark = [pytest.mark.timeout(300)]
two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs 2 GPUs")


@pytest.fixture(scope="module")
def runner() -> Iterator[Driver]:
    with Driver() as driver:
        driver.ready()
        yield driver


def _run(
    runner: Driver, workload: str, budget: messages.Budget = "quick", **parameters: Setting
) -> RunResult:
    runner.send(messages.Run("gpu", workload, "cuda:0", dict(parameters), {}, budget))
    return runner.until(messages.Finished, lambda event: event.result.id == "gpu").result


@pytest.mark.simulated_gpu
@pytest.mark.parametrize("workload", ["all_reduce", "ddp_training"])
def test_a_single_rank_runs_under_nccl(runner: Driver, workload: str) -> None:
    result = _run(runner, workload, ranks=1)
    assert (result.status, result.reason) == ("ok", None)
    assert result.figures["backend"].value == "nccl"
    assert result.check is not None
    assert result.check.passed


@pytest.mark.simulated_gpu
@pytest.mark.parametrize(("workload", "rows"), [("collectives", 5), ("fsdp_training", 3)])
def test_a_single_rank_times_what_nccl_moves(runner: Driver, workload: str, rows: int) -> None:
    result = _run(runner, workload, ranks=1)
    assert result.time is not None, result.reason
    assert result.figures["backend"].value == "nccl"
    assert len(result.tables[0].rows) == rows
    assert result.check is not None
    # Simulated kernels compute nothing: what is compared is whatever the memory held.
    assert result.check.passed or is_simulated()


@pytest.mark.simulated_gpu
def test_more_ranks_than_gpus_are_skipped_with_the_need(runner: Driver) -> None:
    result = _run(runner, "all_reduce", ranks=64)
    assert result.status == "skipped"


@pytest.mark.gpu
@two_gpus
@pytest.mark.parametrize(
    "workload",
    [
        "all_reduce",
        "collectives",
        "ddp_training",
        "fsdp_training",
        "peer_copies",
        "data_parallel",
    ],
)
def test_several_gpus_give_the_right_result(runner: Driver, workload: str) -> None:
    result = _run(runner, workload)
    assert (result.status, result.reason) == ("ok", None)
    assert result.check is not None
    assert result.check.passed
    assert len(result.spans[0].devices) >= 2


@pytest.mark.simulated_gpu
def test_every_gpu_is_listed_with_its_capability_and_memory(runner: Driver) -> None:
    rows = _run(runner, "device_list").tables[0].rows
    for index in range(torch.cuda.device_count()):
        assert rows[index][0] == f"cuda:{index}"
        assert all(cell is not None for cell in rows[index])


@pytest.mark.gpu
def test_a_burn_loads_every_gpu_and_finds_nothing_wrong(runner: Driver) -> None:
    result = _run(runner, "burn", seconds=2)
    assert (result.status, result.reason) == ("ok", None)
    assert len(result.tables[0].rows) == torch.cuda.device_count()
    assert result.figures["wrong_entries"].value == 0.0
    assert len(result.spans[-1].devices) == torch.cuda.device_count()


@pytest.mark.gpu
def test_a_verified_burn_compares_within_ticks_and_finds_the_steady_clock(runner: Driver) -> None:
    result = _run(runner, "burn", "normal", seconds=10, verify="on")
    assert (result.status, result.reason) == ("ok", None)
    compared = result.figures["compared_products"].value
    assert isinstance(compared, float)
    assert compared > len(result.charts[0].places) * torch.cuda.device_count()
    clock = result.figures["steady_clock"]
    assert clock.value is not None, result.unavailable["figures.steady_clock"]
