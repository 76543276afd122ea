"""A language model's phases, and its products, on a GPU."""

from __future__ import annotations

import pytest

from tests.catalog.runs import column, numbers
from tests.gpu.test_transfer import on_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


@pytest.mark.parametrize("workload", ["llm_prefill", "llm_decode"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_phase_follows_the_formulas(workload: str, dtype: str) -> None:
    result = on_gpu(workload, dtype=dtype)
    assert result.check is not None
    assert result.check.passed
    assert result.limit is None or not result.limit.exceeded


def test_tokens_per_second_grow_with_the_batch() -> None:
    rates = numbers(on_gpu("llm_decode", largest=16), "batches", "rate")
    assert rates[-1] > 4 * rates[0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_of_fewer_bits_stand_for_the_same_product(dtype: str) -> None:
    result = on_gpu("decode_gemm", dtype=dtype)
    errors = column(result, "bits", "error of the product")[1:]
    assert all(isinstance(error, float) and error < 0.02 for error in errors)
