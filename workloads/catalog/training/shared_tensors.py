"""How much memory the tensors of a call take at their highest."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from workloads.declare.place import Place
from workloads.declare.study import Study


class _Alive(TorchDispatchMode):
    """Counts the bytes of the tensors that operators make, from their making to their end."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._now = 0
        self.highest: int = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        # What an operator is given and nobody has seen being made was there before the call.
        for tensor in tree_leaves((args, kwargs)):
            self._meet(tensor, made=False)
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            self._meet(tensor, made=True)
        return result

    def _meet(self, tensor: object, *, made: bool) -> None:
        if not isinstance(tensor, torch.Tensor):
            return
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes() if made else 0
        if not address or address in self._known:
            return
        self._known.add(address)
        self._now += size
        self.highest = max(self.highest, self._now)
        weakref.finalize(storage, self._forget, address, size)

    def _forget(self, address: int, size: int) -> None:
        self._known.discard(address)
        self._now -= size


def tensor_bytes(call: Callable[[], object]) -> int:
    """Bytes of the tensors that a call makes, where most of them are alive at once.

    Those that are kept inside an operator are not seen.
    """
    gc.collect()
    with _Alive() as alive:
        call()
    return int(alive.highest)


def peak_memory(on: Place, found: Study, call: Callable[[], object]) -> int | None:
    """Bytes that a call needs on top of what is held before it, at its highest.

    By the allocator's own counter on CUDA, by counting tensors elsewhere: resident memory would
    show how the C heap falls into pieces as well, which varies from call to call.
    """
    if on.type == "cuda":
        return found.peak(call)
    found.look()
    return tensor_bytes(call)
