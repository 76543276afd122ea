"""What is timed as giving memory back is that, and it gives back all of it."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest
import torch

from tests.catalog.runs import collections_timed, column, numbers, ran
from tests.catalog.stand_ins import case_of
from workloads.declare.place import Place
from workloads.declare.workload import Case
from workloads.measure import memory
from workloads.protocol.results import Setting

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(120)]

GPU = "cuda:0"
MIB = 2**20
DEVICE = torch.device(GPU)


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    """CuBLAS's workspace, of whichever test it is, would pin the segment that it lies in."""
    torch.cuda.init()
    torch._C._cuda_clearCublasWorkspaces()  # torch has no public way
    memory.give_back(DEVICE)
    yield
    memory.give_back(DEVICE)


@pytest.mark.parametrize(
    ("workload", "parameters"),
    [
        ("out_of_memory", {"mib": 64}),
        ("staircase", {"mib": 32}),
        ("fragmentation", {"pieces": 4, "mib": 4}),
        ("batch_until_oom", {"batch": 65_536, "percent": 1}),
    ],
)
def test_no_collection_of_garbage_is_timed(workload: str, parameters: dict[str, Setting]) -> None:
    with collections_timed() as timed:
        result = ran(workload, GPU, **parameters)
    assert result.status == "ok", result.reason
    assert not timed


def _prepared(workload: str, **parameters: Setting) -> Case:
    return case_of(workload, Place(GPU), parameters)


def test_recovering_from_out_of_memory_needs_no_collection() -> None:
    case = _prepared("out_of_memory", mib=8)
    torch.cuda.empty_cache()
    held = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    with patch("gc.collect", side_effect=AssertionError("garbage was collected")):
        for _ in range(20):
            case.timed()
    assert torch.cuda.memory_allocated() == held[0]
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == held[1]


def test_each_recovery_counts_one_failure_of_the_allocator() -> None:
    case = _prepared("out_of_memory", mib=1)
    before = torch.cuda.memory_stats()["num_ooms"]
    for _ in range(3):
        case.timed()
    assert torch.cuda.memory_stats()["num_ooms"] - before == 3


def test_emptying_the_cache_of_a_place_returns_what_no_tensor_holds() -> None:
    on = Place(GPU)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    kept = torch.empty(32 * MIB, dtype=torch.uint8, device=GPU)
    freed = torch.empty(64 * MIB, dtype=torch.uint8, device=GPU)
    del freed
    assert torch.cuda.memory_reserved() - before == 96 * MIB
    on.empty_cache()
    assert torch.cuda.memory_reserved() - before == 32 * MIB
    del kept
    on.empty_cache()
    assert torch.cuda.memory_reserved() == before


def test_what_e_gives_back_is_told_in_bytes_of_the_reserved() -> None:
    memory.give_back(DEVICE)
    freed = torch.empty(64 * MIB, dtype=torch.uint8, device=GPU)
    del freed
    assert memory.give_back(DEVICE) == 64 * MIB
    assert memory.give_back(DEVICE) == 0


def test_what_e_gives_back_has_what_only_a_cycle_holds() -> None:
    memory.give_back(DEVICE)
    cycle: list[object] = [torch.empty(64 * MIB, dtype=torch.uint8, device=GPU)]
    cycle.append(cycle)
    del cycle
    assert memory.give_back(DEVICE) == 64 * MIB


def test_the_staircase_of_a_gpu_goes_up_and_comes_down_again() -> None:
    result = ran("staircase", GPU, mib=64)
    steps = column(result, "stairs", "step")
    allocated, reserved = (numbers(result, "stairs", name) for name in ("allocated", "reserved"))
    by_step = {
        str(step): (one - allocated[0], other - reserved[0])
        for step, one, other in zip(steps, allocated, reserved, strict=True)
    }
    full, small = 64 * MIB, 2 * MIB
    assert by_step == {
        "start": (0, 0),
        "allocate 64 MiB": (full, full),
        "del": (0, full),
        "allocate again": (full, full),
        "allocate 2 MiB": (small, full),
        # The small tensor is cut out of the cached piece and keeps all of it.
        "empty_cache": (small, full),
        "del, empty_cache": (0, 0),
    }
