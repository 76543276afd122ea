"""TF32 by torch's newer and older names, which agree after each change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

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
    assert defaults == {"cudnn.conv.fp32_precision": True, "cuda.matmul.fp32_precision": False}
    torch_state.apply_flags(dict.fromkeys(defaults, True))
    assert [_newer(each) for each in OPERATIONS] == ["tf32", "tf32"]
