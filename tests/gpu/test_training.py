"""Training on a GPU: precision, memory, loading, compiling, profiling."""

from __future__ import annotations

import multiprocessing

import pytest
import torch

from tests.catalog.runs import column, numbers, ran
from tests.gpu.test_transfer import on_gpu
from workloads.catalog.training.memory import KEPT_PER_LAYER
from workloads.declare.workload import registered

pytestmark = [pytest.mark.timeout(300)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_steps_phases_are_timed_by_events_and_its_scores_are_right(dtype: str) -> None:
    result = on_gpu("cnn_training", dtype=dtype, width=32, batch=64, layout="channels_last")
    assert result.check is not None
    assert result.check.passed
    assert min(numbers(result, "split", "time")) > 0
    assert column(result, "split", "phase") == ["data", "forward", "backward", "optimizer"]


@pytest.mark.gpu
def test_amp_has_tf32_where_the_gpu_has_it_and_sets_it_back() -> None:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    result = on_gpu("amp", width=32, batch=64, scale=24)
    names = column(result, "precisions", "precision")
    assert ("tf32" in names) is (torch.cuda.get_device_capability()[0] >= 8)
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before
    skipped = column(result, "training", "skipped steps")[names.index("float16 + GradScaler")]
    assert isinstance(skipped, float)
    assert skipped >= 1
    peaks = numbers(result, "precisions", "peak memory")
    assert peaks[-1] < peaks[0]


@pytest.mark.gpu
def test_accumulated_gradients_agree() -> None:
    result = on_gpu("gradient_accumulation", width=32, batch=128, micro=32)
    assert result.check is not None
    assert result.check.passed
    peaks = numbers(result, "micro_batches", "peak memory")
    assert peaks[-1] < peaks[0]


@pytest.mark.gpu
def test_checkpoints_save_memory() -> None:
    result = on_gpu("checkpointing", width=256, batch=16_384)
    assert result.check is not None
    assert result.check.passed
    assert min(numbers(result, "segments", "less memory")[1:]) > 20


@pytest.mark.simulated_gpu
def test_the_least_memory_is_near_the_square_root_of_three_times_the_layers() -> None:
    layers = 16
    result = ran("checkpointing", "cuda:0", layers=layers)
    variants = column(result, "segments", "variant")[1:]
    counts = [int(str(name).split()[0]) for name in variants]
    peaks = numbers(result, "segments", "peak memory")[1:]
    wanted = (KEPT_PER_LAYER * layers) ** 0.5
    assert counts[peaks.index(min(peaks))] == min(counts, key=lambda count: abs(count - wanted))
    assert (
        f"{wanted:.0f} segments for {layers} layers" in registered()["checkpointing"].info.look_for
    )


@pytest.mark.simulated_gpu
def test_batches_are_followed_upwards() -> None:
    result = on_gpu("batch_scaling", largest=1024)
    peaks = numbers(result, "scaling", "peak memory")
    assert peaks == sorted(peaks)
    assert len(peaks) >= 4


@pytest.mark.simulated_gpu
def test_pinned_memory_is_tried_and_the_workers_are_gone() -> None:
    result = on_gpu("data_loading", samples=128)
    assert set(column(result, "workers", "host memory")) == {"pageable", "pinned"}
    assert all(0 <= share <= 100 for share in numbers(result, "workers", "waiting for data"))
    assert multiprocessing.active_children() == []


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["forward", "training step"])
def test_a_compiled_block_gives_the_same_result(mode: str) -> None:
    result = on_gpu("transformer_compile", mode=mode)
    if result.status == "skipped":
        pytest.skip(result.reason or "")
    assert result.check is not None
    assert result.check.passed
    assert result.figures["cold_compile"].value is not None


@pytest.mark.simulated_gpu
def test_the_profiler_has_kernels_or_says_why_not() -> None:
    result = on_gpu("profiler")
    known = result.figures["device_time"].value is not None
    assert known or "figures.device_time" in result.unavailable
    assert len(column(result, "operators", "operator")) > 10
    if known:
        assert sum(numbers(result, "kernels", "share")) == pytest.approx(100)
        own = sum(numbers(result, "operators", "self time"))
        device_time = result.figures["device_time"].value
        assert isinstance(device_time, float)
        assert own <= 1.02 * device_time


@pytest.mark.simulated_gpu
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_foreach_takes_as_much_memory_as_the_parameters_and_fused_none(optimizer: str) -> None:
    result = ran("optimizer_step", "cuda:0", optimizer=optimizer, layers=8, width=256)
    loop, foreach, fused = numbers(result, "ways", "of the parameters")
    assert fused < 2
    assert foreach == pytest.approx(100, abs=10)
    assert loop <= 100 * 2 / 8 + 2


@pytest.mark.simulated_gpu
def test_each_way_to_store_activations_has_its_peak() -> None:
    result = ran("activation_memory", "cuda:0", layers=8, width=128)
    names = column(result, "ways", "way")
    assert names == ["plain", "selective", "checkpoint", "save_on_cpu"]
    plain, selective, checkpointed, moved = numbers(result, "ways", "peak memory")
    assert checkpointed < selective < plain
    assert moved < plain / 2


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["selective", "checkpoint", "save_on_cpu"])
def test_each_way_to_store_activations_gives_the_same_gradients(way: str) -> None:
    result = ran("activation_memory", "cuda:0", way=way)
    assert result.check is not None
    assert result.check.passed
