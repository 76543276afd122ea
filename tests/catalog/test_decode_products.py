"""Products with few rows: their counts, their place on the roofline, and weights of fewer bits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.runs import column, numbers, ok
from tests.tiers import VARIANT, with_variants
from workloads.catalog.llm.decode_products import (
    GROUP,
    product_bytes,
    quantized_int4,
    quantized_int8,
)


def test_a_product_is_counted_by_hand() -> None:
    # 4 x 8 times 8 x 8: 32 and 64 numbers read, 32 written, 2 bytes each.
    assert product_bytes(4, 8, 2) == 2 * (32 + 64 + 32)
    result = ok("decode_gemm", m=4, n=128)
    assert result.time is not None
    assert result.rates.flop_per_s is not None
    assert result.rates.byte_per_s is not None
    assert result.rates.flop_per_s * result.time.median_s == pytest.approx(2 * 4 * 128 * 128)
    moved = result.rates.byte_per_s * result.time.median_s
    assert moved == pytest.approx(product_bytes(4, 128, 2))


def test_more_rows_move_up_the_roofline_to_the_square_product() -> None:
    result = ok("decode_gemm", n=128, dtype="float32")
    assert numbers(result, "rows", "m") == [1, 2, 4, 8, 16, 32, 64, 128]
    intensity = numbers(result, "rows", "FLOP per byte")
    assert intensity == sorted(intensity)
    assert intensity[0] == pytest.approx(2 / 4 / (1 + 2 / 128))
    (chart,) = result.charts
    assert list(chart.places) == intensity
    assert set(column(result, "rows", "waits for")) <= {"launch", "memory", "cache", "compute"}


@pytest.mark.parametrize("dtype", with_variants(["float32"], ["bfloat16"]))
def test_weights_of_fewer_bits_take_fewer_bytes_and_give_the_same_product(dtype: str) -> None:
    result = ok("decode_gemm", m=2, n=256, dtype=dtype)
    assert column(result, "bits", "weights") == ["as they are", "int8", "int4"]
    plain, int8, int4 = numbers(result, "bits", "size")
    each = 4 if dtype == "float32" else 2
    assert plain == each * 256**2
    assert int8 == 256**2 + each * 256
    assert int4 == 256**2 / 2 + 2 * each * 256 * (256 / GROUP)
    none, *errors = column(result, "bits", "error of the product")
    assert none is None
    assert all(isinstance(error, float) and error < 0.02 for error in errors)


@VARIANT
def test_a_size_without_whole_groups_has_no_int4_and_says_why() -> None:
    result = ok("decode_gemm", n=96, dtype="float32")
    assert "int4" not in column(result, "bits", "weights")
    assert any(f"not groups of {GROUP}" in line for line in result.log)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1e-3, 1.0, 1e3]))
def test_codes_stand_for_weights_within_half_a_step(seed: int, scale: float) -> None:
    torch.manual_seed(seed)
    weights = scale * torch.randn(32, 2 * GROUP)
    steps = weights.abs().amax(1, keepdim=True).double() / 127
    int8 = quantized_int8(weights)
    assert ((int8.weights - weights).abs() <= 0.5001 * steps).all()
    grouped = weights.view(32, 2, GROUP)
    steps = ((grouped.amax(-1) - grouped.amin(-1)) / 15).double()[..., None]
    int4 = quantized_int4(weights)
    assert ((int4.weights.view(32, 2, GROUP) - grouped).abs() <= 0.5001 * steps).all()
