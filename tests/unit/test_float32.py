"""Precisions by torch's newer and older names, which agree after each change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from workloads.declare.place import Place, precision
from workloads.measure import float32, torch_state
from workloads.measure.float32 import Operation

OPERATIONS: tuple[Operation, ...] = ("matmul", "conv")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    with torch_state.restored():
        yield


def _older(operation: Operation) -> bool:
    owner = torch.backends.cuda.matmul if operation == "matmul" else torch.backends.cudnn
    return bool(owner.allow_tf32)


def _newer(operation: Operation) -> str:
    cudnn: Any = torch.backends.cudnn
    owner = torch.backends.cuda.matmul if operation == "matmul" else cudnn.conv
    return str(owner.fp32_precision)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("allowed", [True, False])
def test_both_names_can_be_read_after_a_change(operation: Operation, allowed: bool) -> None:
    for value in (not allowed, allowed):
        float32.allow_tf32(operation, value)
    assert float32.allows_tf32(operation) is allowed
    assert _older(operation) is allowed
    assert _newer(operation) == ("tf32" if allowed else "ieee")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("allowed", [True, False])
def test_what_a_program_sets_by_the_older_name_is_found(
    operation: Operation, allowed: bool
) -> None:
    owner: Any = torch.backends.cuda.matmul if operation == "matmul" else torch.backends.cudnn
    owner.allow_tf32 = allowed
    assert float32.allows_tf32(operation) is allowed


def test_what_a_program_sets_for_all_by_the_newer_name_is_found() -> None:
    # An operation with a setting of its own does not follow.
    torch.backends.cuda.matmul.fp32_precision = "none"
    # Torch's stubs do not know the name.
    setattr(torch.backends, "fp32_precision", "tf32")  # noqa: B010
    assert float32.allows_tf32("matmul")
    setattr(torch.backends, "fp32_precision", "ieee")  # noqa: B010
    assert not float32.allows_tf32("matmul")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_torch_without_the_newer_name_has_the_older(
    operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(float32, "_newer", lambda _operation: None)
    for allowed in (True, False):
        float32.allow_tf32(operation, allowed)
        assert float32.allows_tf32(operation) is allowed
        assert _older(operation) is allowed


def test_a_block_changes_the_operations_it_names_and_restores_them() -> None:
    before = [float32.allows_tf32(each) for each in OPERATIONS]
    with float32.tf32_set(True, "matmul"):
        assert float32.allows_tf32("matmul")
        assert float32.allows_tf32("conv") is before[1]
    with float32.tf32_set(None):
        assert [float32.allows_tf32(each) for each in OPERATIONS] == before
    assert [float32.allows_tf32(each) for each in OPERATIONS] == before


def test_the_switches_are_the_precisions_of_torch() -> None:
    defaults = {flag.name: flag.get() for flag in torch_state.FLAGS if flag.operation}
    assert defaults == {
        "cudnn.conv.fp32_precision": True,
        "cuda.matmul.fp32_precision": False,
        "mkldnn.conv.fp32_precision": False,
        "mkldnn.matmul.fp32_precision": False,
    }
    torch_state.apply_flags(dict.fromkeys(defaults, True))
    assert [_newer(each) for each in OPERATIONS] == ["tf32", "tf32"]
    onednn: Any = torch.backends.mkldnn
    assert (onednn.matmul.fp32_precision, onednn.conv.fp32_precision) == ("bf16", "bf16")


@pytest.mark.parametrize("tf32", [True, False])
@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("last", ["tf32", "bf16"])
def test_the_name_that_covers_cuda_and_onednn_can_be_read_whatever_is_set(
    tf32: bool, bf16: bool, last: str
) -> None:
    settings = {"tf32": lambda: float32.allow_tf32("matmul", tf32)}
    settings["bf16"] = lambda: float32.allow_bf16("matmul", bf16)
    for name in sorted(settings, key=lambda name: name == last):
        settings[name]()
    assert float32.allows_tf32("matmul") is tf32
    assert float32.allows_bf16("matmul") is bf16
    # torch.compile reads it.
    older = "medium" if bf16 else "high" if tf32 else "highest"
    assert torch.get_float32_matmul_precision() == older


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_precision_on_the_cpu_is_the_one_that_its_result_shows(
    operation: float32.Operation,
) -> None:
    on = Place("cpu")
    float32.allow_bf16(operation, False)
    assert not float32.rounds_to_bf16(operation)
    assert precision(on, "float32", operation) == "float32"
    float32.allow_bf16(operation, True)
    rounds = float32.rounds_to_bf16(operation)
    assert precision(on, "float32", operation) == ("bfloat16" if rounds else "float32")
    assert precision(on, "float64", operation) == "float64"
    a, b = on.randn(300, 300), on.randn(300, 300)
    if operation == "matmul":
        error = float(((a @ b).double() - a.double() @ b.double()).abs().max())
        assert (error > 1e-2) is rounds


def test_an_operation_rounds_where_its_error_is_that_of_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    float32.allow_bf16("conv", True)
    genuine = torch.nn.functional.conv2d

    def rounded(images: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        if images.dtype == torch.float64:
            return genuine(images, weights)
        return genuine(images.bfloat16().float(), weights.bfloat16().float())

    monkeypatch.setattr(torch.nn.functional, "conv2d", rounded)
    assert float32.rounds_to_bf16("conv")
    assert precision(Place("cpu"), "float32", "conv") == "bfloat16"
