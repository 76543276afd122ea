"""Facts about the holders of tensors that several searches for a leak need."""

from __future__ import annotations

from tui.snapshots.explain.evidence import Evidence
from tui.snapshots.explain.frames import find_main_stack, format_line, in_module_call
from tui.snapshots.explain.inventory import CodeLine, Container, Inventory, Variable

SHARE = 0.1
"""Share of the allocated bytes from which growth is reported."""
MOST = 0.5
"""The same share if no growth was measured and the tensors carry no graph."""


def is_training(inventory: Inventory) -> bool:
    """Return whether the process trains a model: it has made a step, or has what one needs."""
    return inventory.step > 0 or any(
        part.role in ("gradients", "optimizer state") for part in inventory.parts
    )


def is_in_forward(where: CodeLine | None, evidence: Evidence) -> bool:
    """Return whether a container belongs to a running forward pass."""
    if where is None:
        return False
    if where.name == "forward":
        return True
    stacks = (evidence.stack, find_main_stack(evidence.threads))
    return any(in_module_call(stack, where.name) for stack in stacks)


def is_of_pass(holder: Container | Variable, evidence: Evidence, *, per_step: bool) -> bool:
    """Return whether a holder may be local to a running forward pass, which ends with it.

    Args:
        holder: a collection or a tensor.
        evidence: the evidence.
        per_step: True if an attribute of a module outlives the pass, as when memory grows with
            each step.
    """
    local = holder.scope.startswith("local of") or not per_step
    return local and is_in_forward(holder.where, evidence)


def holder_line(holder: Container | Variable) -> CodeLine | None:
    """Return the line that adds to a holder, else the current line of its function."""
    return holder.adds or holder.where


def format_place(holder: Container | Variable) -> str:
    """Return that line, ``oom.py:13``; without one, the holder's scope."""
    line = holder_line(holder)
    return holder.scope if line is None else format_line(line)
