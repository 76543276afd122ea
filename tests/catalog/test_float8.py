"""8-bit products: right as far as their bits go, and told what they need."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.runs import column, numbers, ok, ran
from tests.catalog.stand_ins import GpuByName, case_of
from workloads.declare import place
from workloads.declare.workload import Skip
from workloads.limits import limits


def test_an_8_bit_product_is_right_and_coarser_than_bfloat16() -> None:
    result = ok("matmul_float8", n=64)
    assert result.check is not None
    assert result.check.passed
    assert column(result, "types", "type") == ["bfloat16", "float8_e4m3fn"]
    short, eighth = numbers(result, "types", "error against float64")
    assert 0 < short < eighth < 0.1
    # Nothing is measured for it: a ceiling is of plain products.
    assert result.limit is None
    assert limits.ceiling_kind("float8") is None


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 8))
def test_the_flop_are_those_of_torchs_counter(sixteens: int) -> None:
    n = 16 * sixteens
    meta = torch.empty(n, n, device="meta", dtype=torch.float8_e4m3fn)
    one = torch.ones((), device="meta")

    def product() -> torch.Tensor:
        return torch._scaled_mm(meta, meta.t(), one, one, out_dtype=torch.bfloat16)

    assert place.count_flop(product) == 2 * n**3


def test_a_size_that_is_no_multiple_of_sixteen_is_refused_in_one_line() -> None:
    result = ran("matmul_float8", n=65)
    expected = ("failed", "matmul_float8: n=65: a multiple of 16", None)
    assert (result.status, result.reason, result.trace) == expected


@pytest.mark.parametrize(("capability", "runs"), [((8, 0), False), ((8, 9), True), ((9, 0), True)])
def test_a_gpu_without_the_type_says_what_it_needs(
    capability: tuple[int, int], runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    if runs:
        assert case_of("matmul_float8", GpuByName(), {"n": 64}).flop == 2 * 64**3
        return
    with pytest.raises(Skip, match=r"needs compute capability 8\.9: this is 8\.0"):
        case_of("matmul_float8", GpuByName(), {"n": 64})


def test_a_torch_without_the_function_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.nn.functional, "scaled_mm")
    result = ran("matmul_float8", n=64)
    assert result.status == "skipped"
    assert "needs torch.nn.functional.scaled_mm" in (result.reason or "")
