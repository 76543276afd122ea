"""Tensors that longer ones replace, as ``torch.cat`` does at each step or token.

A cache of keys and values grows like this, and so does a tensor to which a loop adds its results.
The tensor of a batch that grows on purpose is replaced by a longer one, too, and is no leak.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tui.snapshots.explain.evidence import Evidence, Rate
from tui.snapshots.explain.holders import (
    MOST,
    SHARE,
    format_place,
    holder_line,
    is_of_pass,
    is_training,
)
from tui.snapshots.explain.inventory import Container, Inventory, Variable
from tui.snapshots.explain.leak_facts import LARGE, Leak

ROUNDED = 512
"""Bytes by which a reported request may exceed its true size."""
_JOINS = re.compile(r"\b(cat|concat|concatenate|pad|(column_|row_|[dhv])stack)\(")
"""A call whose result is a longer tensor than its argument."""
_CACHE = re.compile(r"cache|past|kv|key|value|bank|memory|history|buffer", re.IGNORECASE)


def find_replaced(variable: Variable, evidence: Evidence, inventory: Inventory) -> Leak | None:
    """Return the leak of a tensor that longer ones replace, as the request shows."""
    if variable.bytes < SHARE * evidence.allocated or not variable.shape:
        return None
    if is_of_pass(variable, evidence, per_step=True):
        return None
    if not _is_longer(variable.bytes, variable.shape, evidence.requested):
        return None
    return _find_leak(variable, evidence, inventory)


def find_joined(
    evidence: Evidence, inventory: Inventory, rate: Rate | None, grew: int
) -> list[Leak]:
    """Return the leaks of tensors that ``torch.cat`` makes longer, one for each function.

    The layers of a model may each have such a tensor. Either the request is for the next longer
    one, or memory grows with the steps, or they fill most of the memory without a training.
    """
    by_function: dict[tuple[str, str], list[Variable]] = defaultdict(list)
    for variable in inventory.variables:
        if (
            variable.enlarges
            and variable.adds is not None
            and not is_of_pass(variable, evidence, per_step=True)
        ):
            by_function[variable.adds.filename, variable.adds.name].append(variable)
    joined = []
    for group in by_function.values():
        size = sum(variable.bytes for variable in group)
        longer = any(
            _is_longer(variable.bytes, variable.shape, evidence.requested) for variable in group
        )
        grows = rate if rate is not None and rate.per == "step" else None
        fills = (
            not is_training(inventory)
            and size >= MOST * evidence.allocated
            and not any(variable.scope.startswith("local of") for variable in group)
        )
        if size < SHARE * evidence.allocated or not (
            longer or fills or (grows is not None and size >= grew / 4)
        ):
            continue
        largest = max(group, key=lambda variable: variable.bytes)
        leak = _make_leak(largest, inventory, size, grows)
        others = f" and {len(group) - 1} more like it" if len(group) > 1 else ""
        subject = f"{largest.name}{others} ({format_place(largest)})"
        joined.append(
            replace(leak, subject=subject, also=tuple(variable.name for variable in group))
        )
    return joined


def find_replaced_items(
    container: Container, evidence: Evidence, inventory: Inventory
) -> Leak | None:
    """Return the leak of a container whose tensors are each replaced by a longer one."""
    if not container.tensors or container.bytes < LARGE * evidence.allocated:
        return None
    item_size = container.bytes / container.tensors
    joins = _JOINS.search(evidence.source) or _CACHE.search(container.name)
    if not joins or not item_size < evidence.requested <= 1.25 * item_size:
        return None
    return _find_leak(container, evidence, inventory)


def _is_longer(size: int, shape: Sequence[int], requested: int) -> bool:
    """Return whether a request has a tensor's size with one dimension slightly longer."""
    more = requested - size
    if not 0 < more <= size // 4:
        return False
    # Requests cover whole elements, but the reported size is rounded up to 512.
    slices = [size // length for length in shape if length > 1 and size % length == 0]
    return any(abs(round(more / count) * count - more) < ROUNDED for count in slices)


def _find_leak(
    holder: Container | Variable, evidence: Evidence, inventory: Inventory
) -> Leak | None:
    # The tensor of a batch that grows on purpose is also replaced by a longer one.
    grows_by_cat = _JOINS.search(evidence.source) or _CACHE.search(holder.name)
    if is_training(inventory) and not grows_by_cat:
        return None
    return _make_leak(holder, inventory, holder.bytes, None)


def _make_leak(
    holder: Container | Variable, inventory: Inventory, size: int, rate: Rate | None
) -> Leak:
    return Leak(
        kind="cat",
        subject=f"{holder.name} ({format_place(holder)})",
        name=holder.name,
        where=holder_line(holder),
        bytes=size,
        reachable=size,
        rate=rate,
        graphs=0,
        training=is_training(inventory),
    )
