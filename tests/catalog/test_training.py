"""The training workloads: what they count, what they find, and that they tidy up after them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.runs import column, numbers, ok, ran
from workloads.catalog.shared import models as models
from workloads.catalog.shared.models import split, tensor_bytes
from workloads.catalog.shared.tools import kernels, operators
from workloads.catalog.training.activations import dominated
from workloads.catalog.training.memory import bend
from workloads.catalog.training.mixed_precision import ways
from workloads.catalog.training.optimizers import (
    DECAY,
    MOMENTUM,
    RATE,
    adamw_by_formula,
    sgd_by_formula,
)
from workloads.declare import place
from workloads.declare.place import Place
from workloads.declare.workload import registered
from workloads.measure import malloc
from workloads.measure.float32 import tf32_set
from workloads.protocol.results import Setting

CPU = Place("cpu")
SMALL: dict[str, Setting] = {"width": 4, "batch": 8, "size": 16}


@pytest.fixture(autouse=True)
def _heap() -> None:
    malloc.fix_thresholds()


# ---- what is counted ----


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 8), st.sampled_from([8, 16, 32]), st.integers(1, 8))
def test_the_flop_of_a_cnn_step_are_those_of_the_formula(batch: int, size: int, width: int) -> None:
    layers = [
        (3, width, size), (width, 2 * width, size // 2), (2 * width, 4 * width, size // 4)
    ]  # fmt: skip
    conv = [2 * batch * 9 * taken * given * side**2 for taken, given, side in layers]
    linear = 2 * batch * 4 * width * models.CLASSES
    # Forward once; backward once for the weights and once for the input, which images need not.
    assert models.cnn_flop(batch, size, width) == 3 * (sum(conv) + linear) - conv[0]


def _block_formula(batch: int, length: int, width: int) -> tuple[int, int]:
    """FLOP forward of a block's products, and of its attention below the diagonal."""
    products = 2 * batch * length * width * (3 * width + width + 4 * width + 4 * width)
    return products, 2 * (2 * batch * width * length * (length + 1) // 2)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 4), st.integers(1, 64), st.integers(1, 4), st.sampled_from([4, 8]))
def test_the_flop_of_a_block_are_its_products_and_its_attention_below_the_diagonal(
    batch: int, length: int, heads: int, each: int
) -> None:
    width = heads * each
    products, attention = _block_formula(batch, length, width)
    sizes = (batch, length, width, heads)
    assert models.transformer_flop(*sizes, backward=False) == products + attention
    # Backward twice that, but the first product's input is the norm's, which has weights to train.
    assert models.transformer_flop(*sizes, backward=True) == 3 * (products + attention)


@pytest.mark.slow  # it compiles
def test_a_transformer_block_counts_its_products_and_its_attention() -> None:
    batch, length, width = 2, 16, 32
    products, attention = _block_formula(batch, length, width)
    sizes: dict[str, Setting] = {"batch": batch, "length": length, "width": width, "heads": 2}
    result = ok("transformer_compile", layers=2, **sizes)
    assert result.time is not None
    assert result.rates.flop_per_s is not None
    counted = result.rates.flop_per_s * result.time.median_s
    assert counted == pytest.approx(2 * (products + attention))
    assert result.check is not None
    assert result.check.passed
    # Compiling takes longer than any call; whether it pays is decided, or the reason is given.
    cold = result.figures["cold_compile"].value
    assert isinstance(cold, float)
    assert cold > result.time.median_s
    known = result.figures["break_even_calls"].value is not None
    assert known or "figures.break_even_calls" in result.unavailable
    assert column(result, "ways", "variant") == ["eager", "compiled"]


@given(st.integers(1, 1 << 16), st.integers(0, 1 << 16))
@settings(max_examples=8, deadline=None)
def test_the_bytes_alive_at_once_are_counted(first: int, second: int) -> None:
    held = torch.ones(1000)

    def call() -> None:
        one = torch.ones(first)
        held.add_(1)
        del one
        torch.ones(second)

    assert tensor_bytes(call) == 4 * max(first, second)


def test_phases_add_up_to_the_step() -> None:
    order: list[str] = []
    seconds = split(CPU, lambda mark: (order.append("step"), mark(), mark())[0], ("a", "b"), 3)  # type: ignore[func-returns-value]
    assert list(seconds) == ["a", "b"]
    assert all(value >= 0 for value in seconds.values())
    assert len(order) == 4


# ---- what is found ----


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_a_cnn_step_is_split_into_its_phases(dtype: str, layout: str) -> None:
    result = ok("cnn_training", dtype=dtype, layout=layout, **SMALL)
    assert column(result, "split", "phase") == ["data", "forward", "backward", "optimizer"]
    assert sum(numbers(result, "split", "share")) == pytest.approx(100)
    assert column(result, "layouts", "variant") == ["contiguous", "channels_last"]


def test_amp_skips_steps_that_overflow_and_follows_float32_otherwise() -> None:
    result = ok("amp", scale=24, steps=12, **SMALL)
    precisions = ["float32", "float16 + GradScaler", "bfloat16 autocast"]
    assert column(result, "precisions", "precision") == precisions
    none, skipped, neither = column(result, "training", "skipped steps")
    assert (none, neither) == (None, None)
    assert isinstance(skipped, float)
    assert skipped >= 1
    assert column(result, "training", "scale at the end")[1] == 2.0 ** (24 - skipped)
    loss = {series.name: series.values for series in result.charts[0].series}
    assert loss["bfloat16 autocast"][-1] == pytest.approx(loss["float32"][-1], rel=0.02)
    peaks = numbers(result, "precisions", "peak memory")
    assert peaks[1] < peaks[0]
    assert peaks[2] < peaks[0]


def test_amp_with_the_usual_scale_skips_nothing() -> None:
    result = ok("amp", dtype="bfloat16", steps=6, **SMALL)
    assert column(result, "training", "skipped steps") == [None, 0.0, None]
    assert result.figures["float16_underflow_scaled"].value == 0


def test_tf32_is_a_way_of_its_own_from_ampere_on() -> None:
    assert [way.tf32 for way in ways("cuda", (8, 0))] == [False, True, None, None]
    assert [way.dtype for way in ways("cuda", (7, 5))] == [None, "float16", "bfloat16"]


def test_tf32_is_set_back_whatever_happens() -> None:
    def allowed() -> tuple[bool, bool]:
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32

    def fail(other: bool) -> None:
        with tf32_set(other):
            assert allowed() == (other, other)
            raise ZeroDivisionError

    before = allowed()
    for other in (True, False):
        with pytest.raises(ZeroDivisionError):
            fail(other)
        assert allowed() == before


def test_accumulated_gradients_agree_and_need_less_memory() -> None:
    result = ok("gradient_accumulation", batch=16, micro=4, width=4, size=16)
    assert column(result, "micro_batches", "micro-batch") == [16, 8, 4, 2]
    assert max(numbers(result, "micro_batches", "gradient difference")) < 1e-4
    peaks = numbers(result, "micro_batches", "peak memory")
    assert peaks == sorted(peaks, reverse=True)
    with_batch_norm = result.figures["gradient_difference_batch_norm"].value
    assert isinstance(with_batch_norm, float)
    assert with_batch_norm > 1e-3


def test_a_batch_that_cannot_be_halved_is_not() -> None:
    result = ok("gradient_accumulation", batch=5, micro=3, width=4, size=16)
    assert column(result, "micro_batches", "micro-batch") == [5]


def test_checkpoints_save_memory_and_change_no_gradient() -> None:
    result = ok("checkpointing", layers=8, width=16, batch=256)
    assert column(result, "segments", "variant") == [
        "no checkpoints", "2 segments", "4 segments", "8 segments"
    ]  # fmt: skip
    saved = numbers(result, "segments", "less memory")
    assert saved[0] == 0
    assert min(saved[1:]) > 20


@pytest.mark.parametrize(("layers", "width", "batch"), [(4, 16, 32), (5, 8, 3)])
def test_the_flop_of_a_checkpointed_step_are_those_of_a_plain_one(
    layers: int, width: int, batch: int
) -> None:
    parameters: dict[str, Setting] = {"layers": layers, "width": width, "batch": batch}
    case = registered()["checkpointing"].prepare(CPU, segments=2, **parameters)
    model, samples = models.deep_mlp(CPU, layers, width), CPU.randn(batch, width)
    plain = place.count_flop(lambda: model(samples).square().mean().backward())
    # Forward, and backward to the input and to the weight, are a product each.
    assert case.flop == plain == layers * 3 * 2 * batch * width**2


def test_more_segments_than_layers_are_refused_in_one_line() -> None:
    result = ran("checkpointing", segments=9, layers=8)
    expected = ("failed", "checkpointing: segments=9: at most layers=8", None)
    assert (result.status, result.reason, result.trace) == expected


def test_batches_double_until_they_are_told_to_end() -> None:
    result = ok("batch_scaling", batch=4, largest=8, width=4, size=16)
    assert column(result, "scaling", "batch") == [1, 2, 4, 8]
    assert list(result.charts[0].places) == [1, 2, 4, 8]
    assert len(result.charts[0].marks) == 1
    assert result.log[0].startswith("ended: ")


def test_batches_end_before_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    room = models.cnn_bytes(8, 16, 4) - 1
    monkeypatch.setattr(Place, "free_memory", lambda _self: room)
    result = ok("batch_scaling", batch=1, width=4, size=16)
    assert column(result, "scaling", "batch") == [1, 2, 4]
    assert "a batch of 8 needs" in result.log[0]


def test_the_bend_is_the_smallest_batch_near_the_highest_rate() -> None:
    assert bend({1: 10.0, 2: 20.0, 4: 38.0, 8: 40.0}).startswith("a batch of 4 reaches 95%")
    assert "still grows at a batch of 4" in bend({1: 10.0, 2: 20.0, 4: 40.0})


def test_the_profiler_lists_operators_by_their_own_time() -> None:
    result = ok("profiler", steps=1, **SMALL)
    own = numbers(result, "operators", "self time")
    assert own == sorted(own, reverse=True)
    assert sum(numbers(result, "operators", "share")) == pytest.approx(100)
    names = column(result, "operators", "operator")
    assert "aten::convolution_backward" in names
    totals = numbers(result, "operators", "total time")
    assert all(total >= mine for mine, total in zip(own, totals, strict=True))


def test_a_profile_without_kernels_has_no_device_rows() -> None:
    event = SimpleNamespace(
        key="aten::mm", count=2, self_cpu_time_total=3.0, cpu_time_total=4.0,
        self_device_time_total=0.0, device_time_total=0.0, self_cpu_memory_usage=5,
        self_device_memory_usage=0, device_type=SimpleNamespace(name="CPU"),
        is_user_annotation=False,
    )  # fmt: skip
    assert operators([event], device_time=True, device_memory=True) == []
    assert kernels([event]) == []
    (row,) = operators([event], device_time=False, device_memory=False)
    assert (row.calls, row.memory) == (2, 5)
    assert math.isclose(row.self_s, 3e-6)


def test_a_kernels_time_is_not_added_to_that_of_the_operator_that_launched_it() -> None:
    def event(key: str, kind: str, seconds: float, *, annotation: bool = False) -> object:
        return SimpleNamespace(
            key=key, count=1, self_cpu_time_total=1.0, cpu_time_total=1.0,
            self_device_time_total=seconds, device_time_total=seconds, self_cpu_memory_usage=0,
            self_device_memory_usage=0, device_type=SimpleNamespace(name=kind),
            is_user_annotation=annotation,
        )  # fmt: skip

    averages = [
        event("aten::mm", "CPU", 8.0),
        event("sm90_gemm", "CUDA", 8.0),
        event("Optimizer.step#SGD.step", "CUDA", 9.0, annotation=True),
    ]
    assert [row.name for row in operators(averages, device_time=True, device_memory=True)] == [
        "aten::mm"
    ]
    assert [row.name for row in kernels(averages)] == ["sm90_gemm"]


# ---- the optimizer's step ----


@pytest.mark.parametrize(("optimizer", "tensors"), [("adamw", 7), ("sgd", 5)])
@pytest.mark.parametrize("way", ["for-loop", "foreach", "fused"])
def test_each_optimizer_step_follows_its_formula_and_counts_its_bytes(
    optimizer: str, tensors: int, way: str
) -> None:
    result = ok("optimizer_step", optimizer=optimizer, way=way, layers=3, width=32)
    assert result.check is not None
    assert result.check.passed
    assert result.time is not None
    assert result.rates.byte_per_s is not None
    moved = result.rates.byte_per_s * result.time.median_s
    assert moved == pytest.approx(4 * tensors * 3 * (32 * 32 + 32))


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_only_foreach_needs_as_much_memory_as_the_parameters(optimizer: str) -> None:
    result = ok("optimizer_step", optimizer=optimizer, layers=6, width=64)
    assert column(result, "ways", "implementation") == ["for-loop", "foreach", "fused"]
    loop, foreach, fused = numbers(result, "ways", "of the parameters")
    assert fused == 0
    assert foreach == pytest.approx(100, abs=1)
    # Two tensors as large as one matrix of six, at most.
    assert 0 < loop <= 100 * 2 / 6


def test_the_formulas_are_those_of_torchs_own_optimizers() -> None:
    start, gradient = torch.randn(7).double(), torch.randn(7).double()
    parameter = torch.nn.Parameter(start.clone())
    parameter.grad = gradient
    for made, formula in (
        (torch.optim.AdamW([parameter], lr=RATE, weight_decay=DECAY), adamw_by_formula),
        (
            torch.optim.SGD([parameter], lr=RATE, momentum=MOMENTUM, weight_decay=DECAY),
            sgd_by_formula,
        ),
    ):
        before = parameter.detach().clone()
        for _ in range(5):
            made.step()
        assert torch.allclose(parameter, formula(before, gradient, 5), rtol=1e-12)


# ---- the memory of activations ----


def test_activations_are_stored_or_computed_again() -> None:
    result = ok("activation_memory", layers=4, width=32, heads=2, batch=4, length=32)
    assert column(result, "ways", "way") == ["plain", "selective", "checkpoint"]
    plain, selective, checkpointed = numbers(result, "ways", "peak memory")
    assert checkpointed < selective < plain
    assert any("in host memory already" in line for line in result.log)
    (curve,) = result.charts
    assert list(curve.places) == sorted(curve.places)
    assert result.check is not None
    assert result.check.passed


@pytest.mark.parametrize("way", ["selective", "checkpoint"])
def test_recomputed_activations_give_the_plain_gradients(way: str) -> None:
    sizes: dict[str, Setting] = {"layers": 2, "width": 32, "heads": 2, "batch": 2, "length": 16}
    result = ok("activation_memory", way=way, **sizes)
    assert result.check is not None
    assert result.check.passed
    assert result.time is not None
    assert result.rates.flop_per_s is not None
    products, attention = _block_formula(2, 16, 32)
    counted = result.rates.flop_per_s * result.time.median_s
    assert counted == pytest.approx(2 * 3 * (products + attention))


def test_moving_activations_to_the_host_makes_no_sense_on_the_cpu() -> None:
    result = ran("activation_memory", way="save_on_cpu")
    assert result.status == "skipped"
    assert "in host memory already" in (result.reason or "")


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    result = ran("activation_memory", width=32, heads=3)
    assert result.status == "failed"
    assert "a divisor of width=32" in (result.reason or "")


def test_a_way_is_beaten_by_one_with_less_time_and_memory() -> None:
    times = {"plain": 1.0, "selective": 1.2, "checkpoint": 1.3, "save_on_cpu": 1.4}
    peaks = {"plain": 100, "selective": 60, "checkpoint": 20, "save_on_cpu": 30}
    assert dominated(times, peaks) == {"save_on_cpu": "checkpoint"}


@given(
    st.dictionaries(
        st.text(max_size=2), st.tuples(st.floats(0, 9), st.integers(0, 9)), min_size=1, max_size=6
    )
)
def test_some_way_is_always_worth_it(found: dict[str, tuple[float, int]]) -> None:
    times = {name: time for name, (time, _) in found.items()}
    beaten = dominated(times, {name: peak for name, (_, peak) in found.items()})
    assert len(beaten) < len(found)
    assert not set(beaten.values()) & set(beaten)
