"""Pinned host memory is given back to the host: after each run, and where somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.children.driver import Driver
from workloads.measure import memory
from workloads.protocol import messages
from workloads.protocol.results import Setting

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(120)]

GPU = "cuda:0"
MIB = 2**20


@pytest.fixture(scope="module")
def runner() -> Iterator[Driver]:
    with Driver() as driver:
        driver.ready()
        yield driver


def _start(runner: Driver, workload: str, budget: messages.Budget, **sizes: Setting) -> None:
    runner.send(messages.Run("run", workload, GPU, dict(sizes), {}, budget))


def _after_the_run(runner: Driver) -> messages.TorchMemory:
    """Return the worker's memory after the run has ended."""
    runner.until(messages.Finished)
    return runner.until(messages.TorchMemory)


@pytest.mark.parametrize(
    ("workload", "sizes"),
    [
        ("transfer", {"mib": 64}),
        ("copy_sizes", {"largest_mib": 16}),
        ("overlap", {"chunk_mib": 4}),
        ("data_loading", {}),
    ],
)
def test_nothing_stays_pinned_after_a_run(
    runner: Driver, workload: str, sizes: dict[str, Setting]
) -> None:
    _start(runner, workload, "quick", **sizes)
    assert _after_the_run(runner).pinned == 0


def test_the_worker_tells_what_is_pinned_while_a_run_holds_it(runner: Driver) -> None:
    _start(runner, "transfer", "careful", mib=16)
    held = runner.until(messages.TorchMemory, lambda event: (event.pinned or 0) > 0)
    assert held.pinned == 2 * 16 * MIB
    runner.send(messages.Cancel("run"))
    assert _after_the_run(runner).pinned == 0


def _pinned(mib: int) -> torch.Tensor:
    return torch.empty(mib * MIB, dtype=torch.uint8, pin_memory=True)


def test_what_is_freed_stays_pinned_until_it_is_given_back() -> None:
    torch.cuda.init()
    memory.give_back(torch.device(GPU))
    kept = _pinned(8)
    freed = _pinned(32)
    del freed
    assert memory.pinned() == 40 * MIB
    memory.give_back(torch.device(GPU))
    assert memory.pinned() == 8 * MIB
    del kept
    memory.give_back(torch.device(GPU))
    assert memory.pinned() == 0


def test_a_copy_that_is_under_way_does_not_keep_its_source_pinned() -> None:
    there = torch.empty(64 * MIB, dtype=torch.uint8, device=GPU)
    source = _pinned(64)
    there.copy_(source, non_blocking=True)
    del source
    memory.give_back(torch.device(GPU))
    assert memory.pinned() == 0
