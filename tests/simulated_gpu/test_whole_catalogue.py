"""The whole catalogue in one runner, as ``run --all`` has it: each end, and what is left after."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass

import psutil
import pytest
import torch

from tests.children.driver import MISBEHAVING, Driver
from tests.simulated_gpu import place
from workloads import catalog
from workloads.declare.workload import infos
from workloads.protocol import messages
from workloads.protocol.results import RunResult, Setting

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.slow, pytest.mark.timeout(600)]

assert catalog
GPU = "cuda:0"
MIB = 2**20
ELSEWHERE = 64 * MIB
"""What else may come and go on the device meanwhile."""
CUBLAS = 128 * MIB
"""cuBLAS keeps its workspaces of the allocator's memory for as long as the process lives."""
MARK = "WHOLE_CATALOGUE_TEST"
NO_ATTENTION = "No execution plans support the graph"
"""What torch says of the simulated cuDNN's attention."""
MISSING = ("Triton", "CUPTI", "needs 2 GPUs", "not simulated", NO_ATTENTION)
"""What a machine may lack; a run that does without it or ends for it names it."""
PARAMETERS: dict[str, dict[str, Setting]] = {"burn": {"seconds": 1}}


@dataclass(frozen=True)
class Seen:
    """What one runner did with the catalogue."""

    results: dict[str, RunResult]
    pinned_most: int
    """At any moment, bytes."""
    after: messages.TorchMemory
    """Of the last worker, once its cache was returned."""
    free_before: int
    free_after: int
    """Bytes of the device: before the runner started, and once it had ended."""
    left: list[str]
    """Processes that the runner started and that outlived it."""


def _free() -> int:
    return int(torch.cuda.mem_get_info(GPU)[0])


def _started_with(mark: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.fixture(scope="module")
def seen() -> Seen:
    torch.zeros(1, device=GPU)
    free_before = _free()
    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(MARK, mark)
        # Ranks of several devices need numbers that travel between them.
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
        patched.setenv("CUDA_VISIBLE_DEVICES", visible.split(",")[0])
        # Its budgets are brief; its own workloads are not asked for.
        driver = Driver(MISBEHAVING)
    try:
        driver.ready()
        results = {info.name: _ran(driver, info.name) for info in infos()}
        driver.send(messages.EmptyCache(GPU))
        driver.until(messages.Emptied)
        after = driver.until(messages.TorchMemory, lambda event: event.device == GPU)
    finally:
        driver.close()
    told = [event.pinned or 0 for event in driver.seen if isinstance(event, messages.TorchMemory)]
    return Seen(results, max(told), after, free_before, _free(), _started_with(mark))


def _ran(driver: Driver, name: str) -> RunResult:
    request = messages.Run(name, name, GPU, PARAMETERS.get(name, {}), {}, "quick")
    driver.send(request)
    return driver.until(messages.Finished, lambda event: event.result.id == name).result


def _ended_well(result: RunResult) -> bool:
    reason = result.reason or ""
    if result.status == "ok" or any(word in reason for word in MISSING):
        return True
    return place.is_simulated() and reason.startswith("wrong result")


def test_every_run_ends_well_or_by_simulated_numbers_or_names_what_is_missing(seen: Seen) -> None:
    otherwise = {
        name: (result.status, result.reason)
        for name, result in seen.results.items()
        if not _ended_well(result)
    }
    assert otherwise == {}


def test_no_memory_stays_pinned(seen: Seen) -> None:
    assert seen.pinned_most > 0
    assert seen.after.pinned == 0


def test_the_worker_keeps_no_more_of_the_device_than_the_workspaces_of_cublas(seen: Seen) -> None:
    assert seen.after.allocated <= CUBLAS
    assert seen.after.reserved <= CUBLAS


def test_no_memory_of_the_device_is_left_once_the_runner_has_ended(seen: Seen) -> None:
    assert seen.free_after == pytest.approx(seen.free_before, abs=ELSEWHERE)


def test_no_process_outlives_the_runner(seen: Seen) -> None:
    assert seen.left == []
