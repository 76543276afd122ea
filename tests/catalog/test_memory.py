"""The memory group on the CPU, small: what each promises to show is there."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.runs import collections_timed, numbers, ran
from tests.tiers import VARIANT
from tests.unit.test_study import Scripted
from workloads.catalog.memory.allocations import explained, largest_free
from workloads.catalog.memory.largest_batch import FINE, LARGEST, WIDTH, Trials, search
from workloads.declare.study import Study
from workloads.declare.tools import Call, ClockName
from workloads.limits.limits import PEAKS
from workloads.measure import malloc
from workloads.protocol.results import Cell

MIB = 2**20
FULL = "allocate 64 MiB"
CUDA_TEXT = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.25 GiB of "
    "which 3.12 GiB is free. Including non-PyTorch memory, this process has 76.12 GiB memory in "
    "use. Of the allocated memory 60.00 GiB is allocated by PyTorch, and 15.40 GiB is reserved by "
    "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


@pytest.fixture(autouse=True)
def _heap() -> None:
    malloc.fix_thresholds()
    if malloc.heap() is None:
        pytest.skip("this C library does not report its heap")


def _number(cell: Cell) -> float:
    assert isinstance(cell, (int, float))
    return float(cell)


def test_the_graph_costs_at_least_the_activations_that_it_keeps() -> None:
    result = ran("inference_modes", batch=256, width=128, depth=16)
    assert result.status == "ok"
    modes, outcome = result.tables
    assert [row[0] for row in modes.rows] == ["grad", "no_grad", "inference_mode"]
    assert outcome.rows[0][1:] == ("yes", "no", "yes")
    assert outcome.rows[2][1:] == ("no", "yes", "no")
    cost, kept = (result.figures[name].value for name in ("cost_of_the_graph", "activations"))
    assert kept == 16 * 256 * 128 * 4
    assert isinstance(cost, float)
    assert cost > 0.5 * kept
    assert any("inference tensor in training" in line for line in result.log)


def test_each_step_of_the_staircase_does_what_it_is_there_to_show() -> None:
    result = ran("staircase", mib=64)
    assert result.status == "ok"
    stairs = result.tables[0]
    allocated = {str(row[0]): row[1] for row in stairs.rows}
    used = {str(row[0]): row[3] for row in stairs.rows}
    start, full, deleted = (_number(allocated[name]) for name in ("start", FULL, "del"))
    assert full - start >= 64 * MIB
    assert deleted - start < MIB
    assert _number(used["del"]) - _number(used["empty_cache"]) > 48 * MIB
    assert result.charts[0].labels == tuple(allocated)


@pytest.mark.parametrize(
    ("workload", "mib"), [("out_of_memory", 1), ("staircase", 32), ("batch_until_oom", 16)]
)
@VARIANT
def test_the_time_of_a_recovery_is_not_that_of_collecting_garbage(workload: str, mib: int) -> None:
    with collections_timed() as timed:
        result = ran(workload, mib=mib)
    assert result.status == "ok", result.reason
    assert not timed


def test_out_of_memory_is_caught_told_and_recovered_from() -> None:
    result = ran("out_of_memory", mib=32)
    assert result.status == "ok"
    pinned = result.figures["pinned_by_the_traceback"].value
    left = result.figures["left_after_recovery"].value
    assert isinstance(pinned, float)
    assert isinstance(left, float)
    assert pinned == pytest.approx(32 * MIB, abs=MIB / 8)  # the heap has Python's own too
    assert left < MIB
    assert result.log[0].startswith("RuntimeError: ")
    assert any("the one request that failed" in line for line in result.log)


def test_cudas_text_is_explained_piece_by_piece_in_its_order() -> None:
    lines = explained(CUDA_TEXT)
    assert [line.split("'")[1] for line in lines] == [
        "Tried to allocate 20.00 GiB",
        "total capacity of 79.25 GiB",
        "of which 3.12 GiB is free",
        "this process has 76.12 GiB memory in use",
        "60.00 GiB is allocated by PyTorch",
        "15.40 GiB is reserved by PyTorch but unallocated",
        "expandable_segments:True",
    ]
    assert explained("something else") == []


@VARIANT
def test_the_largest_batch_stays_within_the_budget() -> None:
    result = ran("batch_until_oom", batch=1024, mib=16)
    assert result.status == "ok"
    fits, too_large = (result.figures[name].value for name in ("largest_batch", "too_large"))
    assert isinstance(fits, float)
    assert isinstance(too_large, float)
    assert fits < too_large
    peaks = result.charts[0].series[0].values
    assert all(peak is not None and peak <= 16 * MIB for peak in peaks)
    assert result.charts[0].marks
    sizes, allocated = numbers(result, "held", "batch"), numbers(result, "held", "allocated")
    assert sizes == list(result.charts[0].places)
    assert all(
        held <= kept
        for held, kept in zip(allocated, numbers(result, "held", "reserved"), strict=True)
    )
    assert result.unavailable["tables.held.nvml"]


def test_a_batch_that_runs_out_of_memory_while_it_is_timed_does_not_fit() -> None:
    class Tools(Scripted):
        def peak(self, call: Call) -> int:
            call()
            return MIB

        def time(self, call: Call, _clock: ClockName) -> float:
            made = len(sizes)
            call()
            assert len(sizes) == made, "the batch is made before the step is timed"
            if sizes[-1] > 4:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
            return 1.0

    sizes: list[int] = []
    let_go: list[int] = []

    def batch_of(size: int) -> tuple[torch.Tensor, ...]:
        sizes.append(size)
        return (torch.ones(size),)

    found = Study(1.0, "wall", Tools(), lambda _study: None)
    trials = Trials(found, torch.sum, batch_of, None, lambda: let_go.append(1))
    assert [trials.fits(size) for size in (4, 8)] == [True, False]
    assert (list(trials.done), let_go) == ([4], [1])
    assert found.log == [
        "batch 4: fits, peak 1.0 MiB",
        "batch 8: CUDA out of memory. Tried to allocate",
        "batch 8: does not fit, a step needs 1.0 MiB",
    ]


def test_the_largest_batch_tried_is_too_large_for_any_gpu_of_the_table() -> None:
    # A step keeps at least the outputs of the hidden layers and of their activations.
    least = 4 * 4 * WIDTH
    assert LARGEST * least > 0.95 * max(peak.max_gib for peak in PEAKS) * 2**30


@given(st.integers(1, 1000), st.integers(1, 100_000), st.integers(1, 100_000))
def test_the_search_ends_beside_the_edge_and_tries_nothing_beyond_twice_it(
    first: int, edge: int, largest: int
) -> None:
    tried: list[int] = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= edge

    largest = max(first, largest)
    found = search(fits, first, largest)
    assert max(tried) <= max(first, 2 * edge)
    if first > edge:
        assert found.fits is None
    elif edge >= largest:
        assert (found.fits, found.too_large) == (largest, None)
    else:
        assert found.fits is not None
        assert found.too_large is not None
        assert found.fits <= edge < found.too_large
        assert found.too_large - found.fits <= max(1, found.fits // FINE)


def test_fragmentation_needs_cuda_and_says_so() -> None:
    result = ran("fragmentation")
    assert (result.status, result.reason) == ("skipped", "runs on cuda only")


def test_the_largest_free_piece_is_the_largest_inactive_block_of_the_device() -> None:
    blocks = [
        {"size": 10, "state": "active_allocated"},
        {"size": 3, "state": "inactive"},
        {"size": 5, "state": "inactive"},
    ]
    other = [{"size": 9, "state": "inactive"}]
    segments = [
        {"device": 1, "blocks": blocks},
        {"device": 1, "blocks": []},
        {"device": 0, "blocks": other},
    ]
    assert largest_free(segments, 1) == 5
    assert largest_free(segments, 0) == 9
    assert largest_free([], 0) == 0
