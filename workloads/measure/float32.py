"""Rounding of the inputs of float32 products and convolutions: TF32 (CUDA), bf16 (oneDNN).

The setting is ``fp32_precision``: "ieee", "tf32", "bf16", or "none" for the setting of the level
above. Before torch 2.9 it was ``allow_tf32``. Torch refuses to read the older name once only the
newer one was set, so both are set here, for code that still reads the older (torch:
``Context.cpp``, ``allowTF32CuBLAS``, ``allowTF32CuDNN``). One older name covers the products of
CUDA and of oneDNN, ``set_float32_matmul_precision``: torch.compile reads it, so it has to agree
with oneDNN's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

Operation = Literal["matmul", "conv"]
ATTRIBUTE = "fp32_precision"
IEEE, TF32, BF16 = "ieee", "tf32", "bf16"


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
    if operation == "matmul" and allows_bf16(operation):
        allow_bf16(operation, True)  # the line above has changed the name that covers both


def _onednn(operation: Operation) -> Any | None:
    """Return the owner of oneDNN's ``fp32_precision``; ``None`` if this torch has none."""
    mkldnn: Any = torch.backends.mkldnn
    owner = getattr(mkldnn, operation, None)
    return owner if hasattr(owner, ATTRIBUTE) else None


def has_bf16(operation: Operation) -> bool:
    """Return whether this torch has the setting for oneDNN."""
    return _onednn(operation) is not None


def allows_bf16(operation: Operation) -> bool:
    """Return whether oneDNN may round the float32 inputs of an operation to bfloat16 on a CPU."""
    owner = _onednn(operation)
    return owner is not None and bool(getattr(owner, ATTRIBUTE) == BF16)


def allow_bf16(operation: Operation, allowed: bool) -> None:
    """Set whether oneDNN may do so; without such a setting, do nothing."""
    owner = _onednn(operation)
    if owner is None:
        return
    if operation == "matmul":
        tf32, cuda = allows_tf32(operation), _newer(operation)
        older = "medium" if allowed else "high" if tf32 else "highest"
        torch.set_float32_matmul_precision(older)
        if cuda is not None:
            setattr(cuda, ATTRIBUTE, TF32 if tf32 else IEEE)
    setattr(owner, ATTRIBUTE, BF16 if allowed else IEEE)


ROUNDED = 1e-4
"""Error of a small product or convolution, over its largest entry, above which its inputs were
rounded: that of float32 is a hundred times smaller, that of bfloat16 some ten times larger."""


def rounds_to_bf16(operation: Operation) -> bool:
    """Return whether an operation on the CPU rounds now: allowed, and by a CPU with such kernels.

    oneDNN rounds only where the CPU multiplies bfloat16 faster, with AMX for one.
    """
    if not allows_bf16(operation):
        return False
    generator = torch.Generator().manual_seed(0)
    if operation == "matmul":
        a, b = (torch.randn(256, 256, generator=generator) for _ in range(2))
        result, exact = a @ b, a.double() @ b.double()
    else:
        images = torch.randn(4, 32, 32, 32, generator=generator)
        weights = torch.randn(32, 32, 3, 3, generator=generator)
        result = torch.nn.functional.conv2d(images, weights)
        exact = torch.nn.functional.conv2d(images.double(), weights.double())
    return float((result - exact).abs().max() / exact.abs().max()) > ROUNDED


@contextmanager
def tf32_set(allowed: bool | None, *operations: Operation) -> Iterator[None]:
    """Set TF32 for some operations, or for both, during the block; ``None`` changes nothing."""
    before: dict[Operation, bool] = {}
    if allowed is not None:
        before = {
            operation: allows_tf32(operation) for operation in operations or ("matmul", "conv")
        }
    try:
        for operation in before:
            allow_tf32(operation, bool(allowed))
        yield
    finally:
        for operation, value in before.items():
            allow_tf32(operation, value)
