"""What a workload asks for before it begins covers what it comes to hold, its study's among it."""

from __future__ import annotations

import pytest

from tests.catalog.runs import ran
from tests.tiers import VARIANT
from workloads.catalog.shared.models import tensor_bytes
from workloads.declare.place import Place
from workloads.measure import environment
from workloads.measure.cpu_peak import count_tensor_bytes
from workloads.protocol.results import Setting

ATTENTION: dict[str, Setting] = {"batch": 1, "length": 256, "width": 16}
_SET_UP: set[str] = set()
"""Workloads that have run in this process."""
DECODER: dict[str, Setting] = {"width": 128, "heads": 8, "kv_heads": 2, "layers": 2}


@pytest.mark.parametrize(
    ("workload", "parameters"),
    [
        ("matmul_sweep", {"largest": 384, "smallest": 96}),
        pytest.param("tf32", {"n": 384}, marks=VARIANT),
        ("attention", {**ATTENTION, "heads": 1}),
        pytest.param("attention", {**ATTENTION, "heads": 8, "mask": "causal"}, marks=VARIANT),
        pytest.param(
            "attention",
            {**ATTENTION, "heads": 8, "mask": "causal", "dtype": "bfloat16"},
            marks=VARIANT,
        ),
        ("linalg", {"n": 256, "right": 16}),
        pytest.param("matmul_float8", {"n": 384}, marks=VARIANT),
        ("reductions", {"rows": 512, "columns": 512}),
        ("matmul", {"n": 384}),
        ("matmul", {"n": 384, "cache": "cold"}),
        pytest.param("attention", {**ATTENTION, "heads": 1, "cache": "cold"}, marks=VARIANT),
        pytest.param("reductions", {"rows": 512, "columns": 512, "cache": "cold"}, marks=VARIANT),
        ("device_copy", {"mib": 4}),
        pytest.param("device_copy", {"mib": 4, "cache": "cold"}, marks=VARIANT),
        pytest.param("load_weights", {"mib": 16}, marks=VARIANT),
        pytest.param("load_weights", {"mib": 16, "cache": "cold"}, marks=VARIANT),
        pytest.param("decode_gemm", {"n": 384}, marks=VARIANT),
        pytest.param("decode_gemm", {"n": 384, "cache": "cold"}, marks=VARIANT),
        pytest.param("decode_gemm", {"n": 384, "m": 64, "dtype": "float32"}, marks=VARIANT),
        pytest.param("optimizer_step", {"width": 128, "layers": 4}, marks=VARIANT),
        pytest.param(
            "optimizer_step",
            {"width": 128, "layers": 4, "optimizer": "sgd", "way": "foreach"},
            marks=VARIANT,
        ),
        ("activation_memory", {"width": 64, "layers": 2}),
        pytest.param(
            "activation_memory", {"width": 32, "layers": 4, "way": "checkpoint"}, marks=VARIANT
        ),
        ("llm_prefill", {**DECODER, "length": 128}),
        pytest.param(
            "llm_prefill",
            {**DECODER, "length": 128, "dtype": "float32", "kv_heads": 8},
            marks=VARIANT,
        ),
        pytest.param("llm_decode", {**DECODER, "context": 64, "largest": 4}, marks=VARIANT),
        pytest.param(
            "llm_decode",
            {**DECODER, "context": 64, "largest": 4, "dtype": "float32"},
            marks=VARIANT,
        ),
    ],
)
def test_no_more_is_held_than_was_asked_for(
    workload: str, parameters: dict[str, Setting], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A flush of a large cache would be most of what is held.
    monkeypatch.setattr(environment, "last_cache", lambda _device: 2**20)
    asked: list[int] = []
    before = 0

    def note(_place: Place, size: int, _what: str, **_: int) -> None:
        """Note the bytes asked for, with what the run holds already."""
        asked.append(count_tensor_bytes() - before + size)

    monkeypatch.setattr(Place, "require", note)
    if workload not in _SET_UP:
        # What torch sets up once is not the workload's.
        ran(workload, "cpu", **parameters)
        _SET_UP.add(workload)
    result = None
    asked.clear()
    before = count_tensor_bytes()

    def whole_run() -> None:
        nonlocal result
        result = ran(workload, "cpu", **parameters)

    held = tensor_bytes(whole_run)
    assert result is not None
    assert result.status == "ok", result.trace
    assert 0 < held <= max(asked)
    # Nor so much more that what would fit is refused.
    assert max(asked) <= 2.5 * held
