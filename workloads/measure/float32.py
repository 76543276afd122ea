"""Whether CUDA's products and convolutions of float32 may round their inputs to TF32.

The setting is ``fp32_precision``: "ieee", "tf32", or "none" for the setting of the level above.
Before torch 2.9 it was ``allow_tf32``. Torch refuses to read the older name once only the newer
one was set, so both are set here, for code that still reads the older (torch: ``Context.cpp``,
``allowTF32CuBLAS``, ``allowTF32CuDNN``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

Operation = Literal["matmul", "conv"]
ATTRIBUTE = "fp32_precision"
IEEE, TF32 = "ieee", "tf32"


def _older(operation: Operation) -> Any:
    """Return the owner of ``allow_tf32``."""
    return torch.backends.cuda.matmul if operation == "matmul" else torch.backends.cudnn


def _newer(operation: Operation) -> Any | None:
    """Return the owner of ``fp32_precision``; ``None`` if this torch has none."""
    cudnn: Any = torch.backends.cudnn
    owner = _older(operation) if operation == "matmul" else getattr(cudnn, "conv", None)
    return owner if hasattr(owner, ATTRIBUTE) else None


def allows_tf32(operation: Operation) -> bool:
    """Return whether an operation of float32 may round its inputs to TF32, where a GPU can."""
    owner = _newer(operation)
    if owner is None:
        return bool(_older(operation).allow_tf32)
    return bool(getattr(owner, ATTRIBUTE) == TF32)


def allow_tf32(operation: Operation, allowed: bool) -> None:
    """Set whether an operation may do so; for convolutions, cuDNN's recurrent networks follow."""
    _older(operation).allow_tf32 = allowed
    owner = _newer(operation)
    if owner is not None:
        setattr(owner, ATTRIBUTE, TF32 if allowed else IEEE)


@contextmanager
def tf32_set(allowed: bool | None, *operations: Operation) -> Iterator[None]:
    """Set TF32 for some operations, or for both, during the block; ``None`` changes nothing."""
    before: dict[Operation, bool] = {}
    if allowed is not None:
        before = {each: allows_tf32(each) for each in operations or ("matmul", "conv")}
    try:
        for each in before:
            allow_tf32(each, bool(allowed))
        yield
    finally:
        for each, value in before.items():
            allow_tf32(each, value)
