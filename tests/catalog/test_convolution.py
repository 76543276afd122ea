"""Convolutions: the layers of a ResNet-50, layouts, shapes, determinism."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.runs import column, numbers, ok, ran, ran_under
from workloads.catalog.flags.convolution_choice import determinism, preserve_settings
from workloads.catalog.flags.convolution_layers import RESNET50, ConvolutionLayer
from workloads.catalog.flags.convolution_layouts import types
from workloads.declare import place
from workloads.declare.place import Place
from workloads.declare.workload import registered
from workloads.measure.float32 import tf32_set
from workloads.measure.timing import Control


def test_the_layers_are_those_of_a_resnet50() -> None:
    assert sum(layer.count for layer in RESNET50) == 53
    weights = sum(
        layer.count * layer.channels_in * layer.channels * layer.kernel**2 for layer in RESNET50
    )
    # 25 557 032 parameters less the fully connected layer and the batch norms' scales and shifts.
    assert weights == 25_557_032 - (2048 * 1000 + 1000) - 2 * 26_560
    # Published as 4.1 G multiply-adds, the fully connected layer among them.
    multiply_adds = sum(layer.count * layer.flop for layer in RESNET50) / 2
    assert multiply_adds / 1e9 == pytest.approx(4.09, abs=0.01)


@given(
    st.integers(1, 16), st.integers(1, 16), st.sampled_from([1, 3, 7]), st.integers(1, 2),
    st.integers(7, 40),
)  # fmt: skip
def test_the_counter_agrees_with_a_layers_formula(
    channels_in: int, channels: int, kernel: int, stride: int, size: int
) -> None:
    layer = ConvolutionLayer(channels_in, channels, kernel, stride, size, 1)
    image = torch.empty(1, channels_in, size, size, device="meta")
    weight = torch.empty(channels, channels_in, kernel, kernel, device="meta")

    def call() -> torch.Tensor:
        return torch.nn.functional.conv2d(image, weight, stride=stride, padding=kernel // 2)

    assert place.count_flop(call) == layer.flop
    assert call().shape[-1] == layer.size_out


def test_each_layer_has_its_row_and_the_network_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    some = RESNET50[-4:]
    monkeypatch.setattr("workloads.catalog.flags.convolution_layers.RESNET50", some)
    result = ok("resnet50_layers")
    assert column(result, "layers", "layer") == [layer.text for layer in some]
    total = result.figures["network"].value
    assert isinstance(total, float)
    assert total == pytest.approx(sum(numbers(result, "layers", "in the network")))
    assert "quick" in result.unavailable["figures.layout_speed_up"]


@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
def test_the_other_layout_stands_beside_each_layer_and_their_mean_below(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.catalog.flags.convolution_layers.RESNET50", RESNET50[-2:])
    result = ran_under(Control(), "resnet50_layers", {"layout": layout}, budget="normal")
    assert result.status == "ok", result.reason
    other = {"NCHW": "channels_last", "channels_last": "NCHW"}[layout]
    assert len(numbers(result, "layers", other)) == 2
    ratios = numbers(result, "layers", "speed-up")
    mean = result.figures["layout_speed_up"].value
    assert mean == pytest.approx((ratios[0] * ratios[1]) ** 0.5)


def test_a_layer_at_56_does_as_many_operations_for_a_byte_as_is_said() -> None:
    per_byte = [
        layer.flop / (4 * (layer.channels_in * layer.size**2 + layer.channels * layer.size_out**2))
        for layer in RESNET50
        if (layer.kernel, layer.stride, layer.size) == (1, 1, 56)
    ]
    about = registered()["resnet50_layers"].info.look_for
    assert f"{min(per_byte):.0f} to {max(per_byte):.0f} operations" in about


@pytest.mark.parametrize("image_last", [False, True])
@pytest.mark.parametrize("weight_last", [False, True])
def test_a_convolution_is_channels_last_where_its_image_or_its_weight_is(
    image_last: bool, weight_last: bool
) -> None:
    def laid_out(tensor: torch.Tensor, last: bool) -> torch.Tensor:
        form = torch.channels_last if last else torch.contiguous_format
        return tensor.contiguous(memory_format=form)

    image = laid_out(torch.randn(2, 8, 14, 14), image_last)
    weight = laid_out(torch.randn(8, 8, 3, 3), weight_last)
    result = torch.nn.functional.conv2d(image, weight, padding=1)
    is_last = result.is_contiguous(memory_format=torch.channels_last)
    assert is_last == (image_last or weight_last)


def test_layouts_are_compared_in_each_type_and_the_result_is_right() -> None:
    result = ok("conv_layouts", batch=1, channels=4, size=8)
    assert column(result, "grid", "type") == ["float32", "bfloat16", "float16"]
    assert min(numbers(result, "grid", "speed-up")) > 0
    assert result.check is not None
    assert result.check.passed


def test_a_gpu_that_has_tf32_shows_float32_without_it_and_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert types(Place("cpu"))["float32"] == ("float32", None)
    monkeypatch.setattr("workloads.declare.place.supports_tf32", lambda _: True)
    assert list(types(Place("cpu")).items())[:2] == [
        ("float32, no TF32", ("float32", False)),
        ("TF32", ("float32", True)),
    ]
    monkeypatch.setattr(torch.backends.cudnn, "enabled", False)
    assert "TF32" not in types(Place("cpu"))


def test_tf32_is_set_back_whatever_happens() -> None:
    before = torch.backends.cudnn.allow_tf32

    def fails() -> None:
        with tf32_set(not before):
            assert torch.backends.cudnn.allow_tf32 is not before
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert torch.backends.cudnn.allow_tf32 is before


def test_a_block_whose_batch_norm_is_folded_gives_the_same() -> None:
    result = ok("conv_block", batch=1, channels=4, size=8)
    assert column(result, "fusion", "variant") == [
        "convolution, batch norm, ReLU", "batch norm folded"
    ]  # fmt: skip
    error = result.figures["fusing_error"].value
    assert isinstance(error, float)
    assert error < 1e-5
    assert "cuDNN" in result.log[-1]


def test_a_block_names_the_rate_only_of_what_multiplies() -> None:
    result = ok("conv_block", batch=1, channels=4, size=8)
    rates = dict(
        zip(
            column(result, "primitives", "primitive"),
            column(result, "primitives", "rate"),
            strict=True,
        )
    )
    assert rates["ReLU"] is None
    assert rates["convolution 3x3"]
    assert "tables.primitives.rate" in result.unavailable


def test_each_setting_of_varying_shapes_has_sizes_of_its_own() -> None:
    result = ok("varying_shapes", count=3, channels=4, size=10)
    sizes = column(result, "sizes", "size")
    assert sorted(map(str, sizes)) == ["13 x 13", "14 x 14", "15 x 15"]
    assert min(numbers(result, "sizes", "first call")) > 0
    assert "first_over_later_oneDNN" in result.figures


def test_determinism_is_checked_priced_and_left_as_found() -> None:
    result = ok("deterministic", batch=1, channels=4, size=8)
    assert result.check is not None
    assert result.check.error == 0
    assert column(result, "settings", "setting") == list(determinism("cpu"))
    repeats = column(result, "settings", "repeats that differ")
    assert repeats[1:] == ["0 of 8", "0 of 8"]
    assert "put_" in result.log[0]
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.deterministic is False


def test_each_deterministic_setting_is_checked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, real = itertools.count(), torch.nn.functional.conv2d

    def only_all_of_torch_is_deterministic(image: torch.Tensor, *rest: Any, **more: Any) -> object:
        result = real(image, *rest, **more)
        if torch.are_deterministic_algorithms_enabled():
            return result
        return result * next(noise)

    monkeypatch.setattr(torch.nn.functional, "conv2d", only_all_of_torch_is_deterministic)
    result = ran("deterministic", batch=1, channels=4, size=8)
    assert (result.status, result.check and result.check.error) == ("failed", 8.0)


def test_settings_are_put_back_when_something_is_raised() -> None:
    def fails() -> None:
        with preserve_settings():
            torch.use_deterministic_algorithms(True)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert not torch.are_deterministic_algorithms_enabled()


@given(st.integers(1, 8), st.integers(1, 8), st.integers(3, 16))
def test_the_counter_agrees_for_forward_and_backward(batch: int, channels: int, size: int) -> None:
    image = torch.empty(batch, channels, size, size, device="meta", requires_grad=True)
    weight = torch.empty(channels, channels, 3, 3, device="meta", requires_grad=True)

    def call() -> object:
        result = torch.nn.functional.conv2d(image, weight, padding=1)
        return torch.autograd.grad(result.sum(), (image, weight))

    assert place.count_flop(call) == 3 * 2 * 9 * channels**2 * batch * size**2


@settings(max_examples=20)
@given(
    st.integers(1, 3), st.sampled_from([1, 2, 3, 5]), st.integers(1, 2), st.integers(1, 2),
    st.sampled_from([1, 2, 4]), st.sampled_from(["forward", "forward+backward"]),
)  # fmt: skip
def test_a_convolution_counts_flop_as_by_hand_whatever_its_form(
    batch: int, kernel: int, stride: int, dilation: int, groups: int, mode: str
) -> None:
    prepare = registered()["conv2d"].prepare
    case = prepare(
        Place("cpu"), batch=batch, channels_in=4, channels=8, size=9, kernel=kernel,
        stride=stride, dilation=dilation, groups=groups, mode=mode,
    )  # fmt: skip
    result = case.timed()
    assert isinstance(result, torch.Tensor)
    by_hand = 2 * result.numel() * (4 // groups) * kernel**2
    assert case.flop == by_hand * (1 if mode == "forward" else 2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_a_convolution_is_right_in_each_type_and_layout(dtype: str) -> None:
    for layout in ("NCHW", "channels_last"):
        result = ok("conv2d", size=12, channels=8, dtype=dtype, layout=layout, dilation=2)
        assert result.check is not None
        assert result.check.passed


def test_groups_that_do_not_divide_the_channels_are_refused_with_what_they_must_divide() -> None:
    result = ran("conv2d", groups=2)
    assert result.status == "failed"
    assert result.trace is None
    assert result.reason == "conv2d: groups=2: must divide channels_in=3 and channels=64"
