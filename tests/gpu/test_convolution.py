"""Convolutions on a GPU: what cuDNN is asked to do."""

from __future__ import annotations

import pytest
import torch

from tests.catalog.runs import column
from tests.gpu.test_transfer import on_gpu
from workloads.catalog.flags.convolution_layers import RESNET50

pytestmark = [pytest.mark.timeout(300)]


@pytest.mark.simulated_gpu
def test_every_layer_of_the_network_is_timed() -> None:
    result = on_gpu("resnet50_layers", batch=16)
    assert len(column(result, "layers", "layer")) == len(RESNET50)
    assert result.limit is None or result.limit.fraction <= 1.03


@pytest.mark.gpu
def test_both_layouts_give_the_right_result_in_each_type() -> None:
    result = on_gpu("conv_layouts", batch=16, channels=64, size=56)
    assert result.check is not None
    assert result.check.passed
    capable = torch.cuda.get_device_capability()[0] >= 8
    first = ["float32, no TF32", "TF32"] if capable else ["float32"]
    assert column(result, "grid", "type") == [*first, "bfloat16", "float16"]
    assert torch.backends.cudnn.allow_tf32 is True


@pytest.mark.gpu
def test_the_primitives_of_a_block_run() -> None:
    result = on_gpu("conv_block")
    assert len(column(result, "primitives", "primitive")) == 7
    assert column(result, "fusion", "variant")[:2] == [
        "convolution, batch norm, ReLU", "batch norm folded"
    ]  # fmt: skip
    error = result.figures["fusing_error"].value
    assert isinstance(error, float)
    assert error < 5e-3


@pytest.mark.simulated_gpu
def test_varying_shapes_show_benchmark_off_and_on_by_different_sizes() -> None:
    before = torch.backends.cudnn.benchmark
    result = on_gpu("varying_shapes")
    assert torch.backends.cudnn.benchmark is before
    settings, sizes = column(result, "sizes", "setting"), column(result, "sizes", "size")
    off = {
        size for size, setting in zip(sizes, settings, strict=True) if setting == "benchmark off"
    }
    assert len(off) == 6
    assert not off & {
        size for size, setting in zip(sizes, settings, strict=True) if setting == "benchmark on"
    }
    assert "first_over_later_benchmark_on" in result.figures


@pytest.mark.gpu
def test_deterministic_backward_passes_have_the_same_bits() -> None:
    result = on_gpu("deterministic", batch=16, channels=64, size=56)
    assert result.check is not None
    assert result.check.passed
    assert column(result, "settings", "repeats that differ")[1:] == ["0 of 8", "0 of 8"]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_a_dilated_convolution_in_groups_is_right_in_each_type(dtype: str) -> None:
    for layout in ("NCHW", "channels_last"):
        result = on_gpu(
            "conv2d", channels_in=16, size=56, groups=4, dilation=2, dtype=dtype, layout=layout,
            mode="forward+backward",
        )  # fmt: skip
        assert result.check is not None
        assert result.check.passed
