"""What a workload asks for before it begins covers what it comes to hold, its study's among it."""

from __future__ import annotations

import pytest

from tests.catalog.runs import ran
from workloads.catalog.shared.models import tensor_bytes
from workloads.declare.place import Place
from workloads.protocol.results import Setting

ATTENTION: dict[str, Setting] = {"batch": 1, "length": 256, "width": 16}


@pytest.mark.parametrize(
    ("workload", "parameters"),
    [
        ("matmul_sweep", {"largest": 384, "smallest": 96}),
        ("tf32", {"n": 384}),
        ("attention", {**ATTENTION, "heads": 1}),
        ("attention", {**ATTENTION, "heads": 8, "mask": "causal"}),
        ("attention", {**ATTENTION, "heads": 8, "mask": "causal", "dtype": "bfloat16"}),
        ("linalg", {"n": 256, "right": 16}),
        ("matmul_float8", {"n": 384}),
        ("reductions", {"rows": 512, "columns": 512}),
        ("load_weights", {"mib": 16}),
    ],
)
def test_no_more_is_held_than_was_asked_for(
    workload: str, parameters: dict[str, Setting], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(Place, "require", lambda _place, size, _what, **_: asked.append(size))
    # What torch sets up once is not the workload's.
    ran(workload, "cpu", **parameters)
    result = None

    def whole_run() -> None:
        nonlocal result
        result = ran(workload, "cpu", **parameters)

    held = tensor_bytes(whole_run)
    assert result is not None
    assert result.status == "ok", result.trace
    assert 0 < held <= asked[-1]
    # Nor so much more that what would fit is refused.
    assert asked[-1] <= 2.5 * held
