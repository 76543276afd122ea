"""The memory group on a GPU: the allocator's figures are exact, so the stories can be asserted."""

from __future__ import annotations

import pytest
import torch

from tests.catalog.runs import column, numbers
from tests.gpu.test_transfer import on_gpu

pytestmark = [pytest.mark.timeout(300)]

MIB = 2**20


@pytest.mark.simulated_gpu
def test_the_graph_costs_what_its_activations_hold() -> None:
    result = on_gpu("inference_modes", batch=1024, width=1024, depth=8)
    kept, cost = (result.figures[name].value for name in ("activations", "cost_of_the_graph"))
    assert isinstance(kept, float)
    assert isinstance(cost, float)
    assert 0.5 * kept <= cost <= 1.5 * kept
    grad, plain, inference = numbers(result, "modes", "peak memory")
    assert grad > plain >= inference


@pytest.mark.simulated_gpu
def test_del_gives_back_to_the_cache_and_a_small_tensor_pins_its_segment() -> None:
    result = on_gpu("staircase", mib=128)
    steps = column(result, "stairs", "step")
    allocated = dict(zip(steps, numbers(result, "stairs", "allocated"), strict=True))
    reserved = dict(zip(steps, numbers(result, "stairs", "reserved"), strict=True))
    assert allocated["allocate 128 MiB"] - allocated["start"] == 128 * MIB
    assert allocated["del"] == allocated["start"]
    assert reserved["del"] == reserved["allocate 128 MiB"]
    assert reserved["empty_cache"] - reserved["start"] >= 2 * MIB
    assert reserved["del, empty_cache"] == reserved["start"]


@pytest.mark.simulated_gpu
def test_free_memory_in_pieces_does_not_serve_a_larger_request() -> None:
    result = on_gpu("fragmentation", pieces=8, mib=16)
    in_turns, stays_first = numbers(result, "orders", "largest free")
    assert in_turns < stays_first
    grown, fits = numbers(result, "orders", "new for a request of four")
    assert grown >= 4 * 16 * MIB
    assert fits == 0


@pytest.mark.simulated_gpu
def test_out_of_memory_is_explained_and_leaves_nothing_behind() -> None:
    result = on_gpu("out_of_memory", mib=64)
    assert result.figures["pinned_by_the_traceback"].value == 64 * MIB
    assert result.figures["left_after_recovery"].value == 0
    said = "\n".join(result.log)
    assert "OutOfMemoryError: CUDA out of memory" in said
    assert "'Tried to allocate" in said


@pytest.mark.simulated_gpu
def test_two_batches_tell_what_the_largest_needs_within_a_fifth() -> None:
    result = on_gpu("batch_until_oom", batch=16_384, percent=20)
    batches = numbers(result, "held", "batch")
    peaks = numbers(result, "held", "peak of the step")
    slope = (peaks[1] - peaks[0]) / (batches[1] - batches[0])
    told = peaks[0] + slope * (batches[-1] - batches[0])
    assert batches[-1] > 4 * batches[1]
    assert told == pytest.approx(peaks[-1], rel=0.2)


@pytest.mark.simulated_gpu
def test_the_largest_batch_ends_with_a_real_error_and_the_share_is_set_back() -> None:
    result = on_gpu("batch_until_oom", batch=65_536, percent=5)
    if result.figures["largest_batch"].value is None:
        pytest.skip(result.unavailable["figures.largest_batch"])
    assert result.figures["too_large"].value is not None
    assert any("CUDA out of memory" in line for line in result.log)
    allocated, reserved = (numbers(result, "held", name) for name in ("allocated", "reserved"))
    assert all(held < kept for held, kept in zip(allocated, reserved, strict=True))
    # All of the device is ours again.
    free, _ = torch.cuda.mem_get_info()
    assert torch.empty(int(free * 0.2), dtype=torch.uint8, device="cuda").numel() > 0
