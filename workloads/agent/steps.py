"""Counts the iterations of a program that has one optimizer, or many.

With several optimizers the one with the most elements in its parameters leads: a program that
steps an optimizer of its own for each parameter, within backward, makes one iteration where it
makes many steps. Replays of a CUDA graph execute no Python, so the steps in them are not counted.
"""

from __future__ import annotations

import weakref
from typing import Any

from .tensors import TensorReader, instance_dict


class _Counted:
    """One optimizer and its steps."""

    def __init__(self, optimizer: Any, size: int) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.size = size
        self.steps = 0


class StepCounter:
    """Counts steps; to be called after each of any optimizer.

    Args:
        torch: the module, as the process has imported it.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.steps = 0
        """Iterations until now; never falls."""
        self._base = 0
        """Iterations before the leader's first step."""
        self._leader: _Counted | None = None
        self._known: dict[int, _Counted] = {}

    def count(self, optimizer: Any) -> None:
        """Take note of a step of an optimizer."""
        found = self._known.get(id(optimizer))
        if found is None or found.optimizer() is not optimizer:
            found = self._known[id(optimizer)] = _Counted(optimizer, self._size(optimizer))
        found.steps += 1
        leader = self._leader
        if leader is None or leader.optimizer() is None:
            self._lead(found, self.steps)
        elif found is not leader and found.size > leader.size:
            # Beside the leader in the same iteration, or in a later part of the program.
            beside = leader.steps <= found.steps + 1
            self._lead(found, self._base if beside else self.steps)
        if found is self._leader:
            self.steps = max(self.steps, self._base + found.steps)

    def _lead(self, counted: _Counted, base: int) -> None:
        if base == self.steps and base != self._base:
            counted.steps = 1
        self._leader, self._base = counted, base

    def _size(self, optimizer: Any) -> int:
        """Elements of an optimizer's parameters; of what cannot be read, none."""
        groups = (instance_dict(optimizer) or {}).get("param_groups")
        held = [group.get("params") for group in groups or () if type(group) is dict]
        try:
            reader = TensorReader(self._torch, 0)
            with self._torch._C.DisableTorchFunction():
                return sum(
                    reader.elements(parameter)
                    for parameters in held
                    for parameter in parameters or ()
                    if reader.is_tensor_type(type(parameter))
                )
        except AttributeError:
            return 0  # a torch that calls its parts otherwise
