"""Find the state of optimizers: what they have stored, and what a running step has yet to store."""

from __future__ import annotations

import os
import types
from typing import Any, Callable, Iterable, Iterator

from . import UNSTORED_STATE
from .reach import release_locals
from .tensors import inherits, instance_dict

_OF_TORCH = os.path.join("torch", "optim") + os.sep
_UNSTORED = "momentum_buffer_list"
"""The variable of ``torch.optim.SGD.step`` with the buffers of a first step, which it stores in the
optimizer once it has made all of them. The other optimizers of torch store each part at once:
https://github.com/pytorch/pytorch/blob/main/torch/optim/sgd.py"""
TensorsIn = Callable[[Any], "list[Any]"]


def state_tensors(optimizer: Any, tensors_in: TensorsIn) -> Iterator[tuple[str, Any]]:
    """Yield the name and the tensor of each part of an optimizer's stored state.

    Args:
        optimizer: the optimizer.
        tensors_in: returns the readable tensors that hold a value's data.
    """
    state: Any = (instance_dict(optimizer) or {}).get("state")
    if not inherits(type(state), dict):
        return
    for entries in list(dict.values(state)):
        if inherits(type(entries), dict):
            for name, value in list(dict.items(entries)):
                for entry in list.__iter__(value) if type(value) is list else (value,):
                    for tensor in tensors_in(entry):
                        yield name if type(name) is str else "state", tensor


def unstored_state(
    optimizer: Any, frames: Iterable[types.FrameType], tensors_in: TensorsIn
) -> Iterator[tuple[str, Any]]:
    """Yield the name and the tensor of each part that a running step has not stored yet.

    Args:
        optimizer: the optimizer.
        frames: the frames of the program's threads.
        tensors_in: returns the readable tensors that hold a value's data.
    """
    for frame in frames:
        code = frame.f_code
        if code.co_name != "step" or _OF_TORCH not in code.co_filename:
            continue
        names = frame.f_locals
        try:
            made = names.get(_UNSTORED) if names.get("self") is optimizer else None
            for value in list.__iter__(made) if type(made) is list else ():
                for tensor in tensors_in(value):
                    yield UNSTORED_STATE, tensor
        finally:
            release_locals(names)
