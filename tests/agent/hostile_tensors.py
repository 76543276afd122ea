"""Tensors of unusual kinds, and objects with tensors that report any execution of their code."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def hostile_tensors(executed: list[str]) -> list[Any]:
    """Create one of each kind.

    Args:
        executed: called with a word for each execution of their code.
    """

    class Functions(torch.Tensor):
        """Intercepts each of torch's functions."""

        @classmethod
        def __torch_function__(cls, func: Any, *_words: Any, **_more: Any) -> Any:
            executed.append(f"__torch_function__ {func}")
            raise RuntimeError

        @property
        def grad_fn(self) -> Any:  # type: ignore[override]
            executed.append("grad_fn")
            raise RuntimeError

    class Dispatches(torch.Tensor):
        """Wraps another tensor, like DTensor."""

        @staticmethod
        def __new__(cls, inner: torch.Tensor) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, device=inner.device)

        def __init__(self, inner: torch.Tensor) -> None:
            self.wrapped = inner

        @classmethod
        def __torch_dispatch__(  # type: ignore[override]
            cls, func: Any, *_words: Any, **_more: Any
        ) -> Any:
            executed.append(f"__torch_dispatch__ {func}")
            raise RuntimeError

    class Lazy:
        """Has a property that makes a tensor, and one that raises."""

        def __getattr__(self, name: str) -> Any:
            executed.append(name)
            raise RuntimeError

        @property
        def weights(self) -> Any:
            executed.append("weights")
            return torch.empty(1 << 20, device="cuda")

    class Module(torch.nn.Module):
        """An uninitialized module, without parameters or any other attribute."""

        def __init__(self) -> None:
            executed.append("never called")

        def __getattr__(self, name: str) -> Any:
            executed.append(name)
            raise AttributeError(name)

    inner = torch.empty(1 << 20, device="cuda")
    with FakeTensorMode():
        fake = torch.empty(1 << 20, device="cuda")
    return [
        torch.empty(1 << 20, device="cuda").as_subclass(Functions),
        Dispatches(inner),
        Lazy(),
        Module.__new__(Module),
        fake,
        torch.empty(1 << 20, device="meta"),
        torch.sparse_coo_tensor(size=(8, 8), device="cuda"),  # type: ignore[call-arg]
        torch.empty(0, device="cuda"),
        torch.empty(1 << 20),
        torch.nn.parameter.UninitializedParameter(device="cuda"),  # type: ignore[call-arg]
    ]
