"""Count the iterations of a program with one optimizer, or many.

With several optimizers, the one with the most parameter elements leads: a program with a separate
optimizer for each parameter, stepped within backward, makes many steps in one iteration. Replays of
a CUDA graph execute no Python, so their steps do not count.
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
    """Counts iterations; call it after each step of any optimizer.

    Args:
        torch: the module, as imported by the process.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.steps = 0
        """Number of iterations; never falls."""
        self._base = 0
        """Iterations before the leader's first step."""
        self._leader: _Counted | None = None
        self._known: dict[int, _Counted] = {}

    def count(self, optimizer: Any) -> None:
        """Count a step of an optimizer."""
        size = self._known.get(id(optimizer))
        if size is None or size.optimizer() is not optimizer:
            size = self._known[id(optimizer)] = _Counted(optimizer, self._size(optimizer))
        size.steps += 1
        leader = self._leader
        if leader is None or leader.optimizer() is None:
            self._lead(size, self.steps)
        elif size is not leader and size.size > leader.size:
            # A second optimizer in the same iteration, or a later part of the program.
            beside = leader.steps <= size.steps + 1
            self._lead(size, self._base if beside else self.steps)
        if size is self._leader:
            self.steps = max(self.steps, self._base + size.steps)

    def _lead(self, counted: _Counted, base: int) -> None:
        if base == self.steps and base != self._base:
            counted.steps = 1
        self._leader, self._base = counted, base

    def _size(self, optimizer: Any) -> int:
        """Return the number of elements in an optimizer's parameters; 0 if unreadable."""
        groups = (instance_dict(optimizer) or {}).get("param_groups")
        lists = [group.get("params") for group in groups or () if type(group) is dict]
        try:
            reader = TensorReader(self._torch, 0)
            with self._torch._C.DisableTorchFunction():
                return sum(
                    reader.elements(parameter)
                    for parameters in lists
                    for parameter in parameters or ()
                    if reader.is_tensor_type(type(parameter))
                )
        except AttributeError:
            return 0  # a torch that calls its parts otherwise
