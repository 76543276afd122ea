"""Find the objects that hold tensors to which no name leads.

An iterator in a ``for`` statement, such as a loader with its data set, has no name, and neither has
an object in a reference cycle.
"""

from __future__ import annotations

import gc
import time
import types
from collections import deque
from typing import Any, Container

from .reach import Walk
from .tensors import TensorReader, inherits, instance_dict, module_of
from .variable_codes import is_of_user_module

UNNAMED = 0.1
"""Share of all tensors' bytes from which the owners of those without a name are searched for."""
MOST_LEVELS = 5
"""Most collections within one another between a tensor and its owner."""
SOUGHT = 16
"""Most objects to search the holders of at once: each reference is compared with all of them."""
ALIKE = 4
"""Number of objects of one class from which their own holder is the owner."""
_SKIPPED = (types.FrameType, types.ModuleType, type)
_HOLDERS: tuple[type, ...] = (list, dict, tuple, set, frozenset, deque, types.CellType)
_BETWEEN = frozenset(map(id, _HOLDERS))
"""Ids of the classes of collections and of the cells of closures: a class's hash and equality may
be the program's."""


def find_unnamed(
    walk: Walk, reader: TensorReader, tensors: list[Any], counted: Container[int]
) -> list[Any]:
    """Return the tensors that a walk has not found, one for each storage, if these are large.

    Args:
        walk: the walk over all names.
        reader: reader of the device's tensors.
        tensors: all tensors.
        counted: addresses of the storages that modules and optimizers own.
    """
    named = {id(tensor) for _, tensor in walk.variables}
    named.update(id(tensor) for holding in walk.holdings for tensor in holding.tensors)
    sizes: dict[int, int] = {}
    unnamed: dict[int, Any] = {}
    for tensor in tensors:
        storage = reader.storage(tensor)
        if storage is not None:
            sizes[storage[0]] = storage[1]
            if id(tensor) not in named and storage[0] not in counted:
                unnamed[storage[0]] = tensor
    if sum(sizes[address] for address in unnamed) < UNNAMED * sum(sizes.values()):
        return []
    return list(unnamed.values())


def find_owners(tensors: list[Any], ignored: list[Any], deadline: float) -> list[Any]:
    """Return the objects that hold tensors, themselves or in their collections.

    Args:
        tensors: tensors without a name.
        ignored: the searcher's own objects.
        deadline: time of ``time.thread_time`` after which no further search begins.
    """
    seen = {id(each) for each in (*ignored, tensors)}
    owners: list[Any] = []
    level = _sample(tensors)
    for _ in range(MOST_LEVELS):
        seen.add(id(level))
        if not level or time.thread_time() > deadline:
            break
        between: list[Any] = []
        found: list[Any] = []
        for referrer in gc.get_referrers(*level):
            kind = type(referrer)
            if id(referrer) in seen or any(inherits(kind, skipped) for skipped in _SKIPPED):
                continue
            seen.add(id(referrer))
            (between if id(kind) in _BETWEEN else found).append(referrer)
        kinds = [id(type(each)) for each in found]
        for each in found:
            if kinds.count(id(type(each))) >= ALIKE:
                between.append(each)
            elif _is_owner(each):
                owners.append(each)
        level = _sample(between)
    return owners


def _is_owner(value: Any) -> bool:
    """Return whether an object is of one of the program's own classes.

    Objects of libraries, torch's among them, hold what autograd saves.
    """
    return bool(instance_dict(value)) and is_of_user_module(module_of(type(value)))


def _sample(objects: list[Any]) -> list[Any]:
    """Return a list's objects, or some from all its parts if they are too many."""
    return objects[:: max(1, -(-len(objects) // SOUGHT))]
