"""Holders of tensors: what a pass or a step that is still running holds, which is no leak.

A program may keep the graphs of several passes on purpose until one backward pass,
``sum(losses).backward()``, or the tensors of one pass, such as features that hooks store. Memory
that grows from step to step is a leak although such a backward pass exists: it must have been
called with ``retain_graph=True``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tui.core.text.numbers import count, grouped
from tui.snapshots.explain.evidence import Evidence, Rate
from tui.snapshots.explain.frames import Frame, format_lines, in_module_call
from tui.snapshots.explain.inventory import Container, Inventory, Variable
from tui.snapshots.explain.leak_facts import SHARE, Leak, LeakKind, is_steady

MOST = 0.5
"""Share of the allocated bytes from which growth that was not measured is reported, of tensors
without a graph."""
UNFILLABLE = 0.3
"""Share of the allocated bytes of a collection that would not fit the device if it were full."""
COPIED_WITHIN = 0.01
"""Largest difference of the request to a collection, as a share, if it copies its tensors."""
THREADS = "threads"
"""The :attr:`Container.kind` of one local of one function in several threads."""
MOST_NAMES = 4
"""Most parts of a formatted list of names."""


def is_training(inventory: Inventory) -> bool:
    """Return whether the process trains a model: it has made a step, or has what one needs."""
    return inventory.step > 0 or any(
        part.role in ("gradients", "optimizer state") for part in inventory.parts
    )


def is_in_forward(where: Frame | None, evidence: Evidence) -> bool:
    """Return whether a container belongs to a running forward pass."""
    if where is None:
        return False
    if where.name == "forward":
        return True
    return any(in_module_call(stack, where.name) for stack in evidence.stacks)


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


def holder_line(holder: Container | Variable) -> Frame | None:
    """Return the line that adds to a holder, else the current line of its function."""
    return holder.adds or holder.where


def format_place(holder: Container | Variable) -> str:
    """Return the lines that may add to a holder, ``oom.py:13``; without one, its scope."""
    line = holder_line(holder)
    return holder.scope if line is None else format_lines((line, *list_other_lines(holder)))


def list_other_lines(holder: Container | Variable) -> tuple[Frame, ...]:
    """Return the other lines that may have added as much to a holder as :func:`holder_line`."""
    has_line = isinstance(holder, Container) and holder.adds is not None
    return holder.also_adds if has_line and isinstance(holder, Container) else ()


def is_of_threads(holder: Container | Variable) -> bool:
    """Return whether a holder is a local of several threads."""
    return isinstance(holder, Container) and holder.kind == THREADS


def format_name(holder: Container | Variable) -> str:
    """Return the name, of several threads ``batch (local of keep() in 215 threads)``."""
    if isinstance(holder, Container) and is_of_threads(holder):
        return f"{holder.name} ({holder.scope} in {grouped(holder.length)} threads)"
    return holder.name


def format_holder(holder: Container | Variable) -> str:
    """Format a holder with its size: ``losses (list of 33, train.py:10)``."""
    if isinstance(holder, Container) and is_of_threads(holder):
        size = f"{holder.scope} in {grouped(holder.length)} threads"
    elif isinstance(holder, Container) and holder.limit:
        kind = holder.kind.removeprefix("limited ")
        size = f"{kind} of {grouped(holder.length)} of at most {grouped(holder.limit)}"
    elif isinstance(holder, Container):
        size = f"{holder.kind} of {grouped(holder.length)}"
    else:
        size = f"a graph of {count(holder.graph_nodes, 'node')}"
    return f"{holder.name} ({size}, {format_place(holder)})"


def find_copied(evidence: Evidence) -> Container | None:
    """Return the collection as large as the request, which probably copies its tensors to one."""
    if evidence.inventory is None or evidence.requested < SHARE * evidence.allocated:
        return None
    return next(filter(partial(is_copied, evidence=evidence), evidence.inventory.containers), None)


def is_copied(container: Container, evidence: Evidence) -> bool:
    """Return whether the request has the size of all tensors of a collection, as in torch.cat."""
    apart = abs(container.bytes - evidence.requested)
    return container.tensors > 1 and apart <= COPIED_WITHIN * evidence.requested


def find_stored_passes(evidence: Evidence) -> tuple[Variable, ...]:
    """Return the variables whose graphs keep the activations of as many forward passes.

    Only before any step and gradient: a backward pass frees what a graph has saved, but not its
    nodes.
    """
    inventory = evidence.inventory
    if inventory is None or is_training(inventory):
        return ()
    longest = max((variable.graph_nodes for variable in inventory.variables), default=0)
    stored = tuple(
        variable
        for variable in inventory.variables
        if variable.separate
        and 2 * variable.graph_nodes >= longest
        and not is_in_forward(variable.where, evidence)
    )
    # A single one may be of the pass that is running, unless a loop has left it over.
    return stored if len(stored) > 1 or any(variable.left_over for variable in stored) else ()


def find_left_over(evidence: Evidence) -> Variable | None:
    """Return the largest tensor of a loop's previous iteration without which the request had fit.

    Its graph must have been freed, or it keeps more than itself: a line passes it to a backward
    pass, or it has no graph.
    """
    if evidence.inventory is None:
        return None
    least = max(evidence.shortfall, int(SHARE * evidence.allocated))
    return max(
        (
            variable
            for variable in evidence.inventory.variables
            if variable.left_over
            and variable.bytes >= least
            and (variable.backward is not None or not variable.graph_nodes)
        ),
        key=lambda variable: variable.bytes,
        default=None,
    )


def format_names(variables: Sequence[Variable]) -> str:
    """Format the first names: ``out1, out2, out3 and 2 more``."""
    names = [variable.name for variable in variables]
    if len(names) > MOST_NAMES:
        names = [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def full_size(container: Container) -> int:
    """Estimate the bytes of a limited collection once it is full, from its items so far."""
    return container.bytes * container.limit // max(1, container.length)


def find_unfillable(evidence: Evidence) -> Container | None:
    """Return the largest collection whose limit lets it grow beyond the device, if it is large.

    Steady memory has no such collection: the program does not fill it up.
    """
    inventory, total = evidence.inventory, evidence.total
    if inventory is None or total is None or is_steady(evidence):
        return None
    return max(
        (
            container
            for container in inventory.containers
            if container.length < container.limit
            and container.enlarges
            and container.bytes >= UNFILLABLE * evidence.allocated
            and full_size(container) > total
        ),
        key=lambda container: container.bytes,
        default=None,
    )


def make_leak(
    kind: LeakKind,
    holder: Container | Variable,
    inventory: Inventory,
    size: int,
    rate: Rate | None = None,
    *,
    subject: str = "",
    graphs: int = 0,
) -> Leak:
    """Describe the leak of a holder; ``subject`` replaces the holder's usual description."""
    return Leak(
        kind=kind,
        subject=subject or format_holder(holder),
        name=holder.name,
        where=holder_line(holder),
        also_where=list_other_lines(holder),
        bytes=size,
        reachable=holder.bytes,
        rate=rate,
        training=is_training(inventory),
        graphs=graphs,
        viewed=holder.viewed if isinstance(holder, Container) else 0,
        empties=holder.empties if isinstance(holder, Container) else None,
        is_dict=isinstance(holder, Container) and holder.kind == "dict",
    )


COUNTED = 100_000
"""Graph nodes at which the agent stops counting."""
CARRIED = 4
"""Ratio of a sum's graph to that of another variable up to which it continues the latter's."""
LONG = 64
"""Graph nodes from which a tensor that a loop adds to keeps the graphs of several passes."""


@dataclass(frozen=True, slots=True)
class WaitingGraphs:
    """The collection or the sum whose graphs wait for one backward pass."""

    name: str
    subject: str
    """Its description: ``losses (list of 33, train.py:10)``."""
    backward: Frame
    """The line that passes it to the backward pass."""
    items: bool
    """True for a collection, whose items could each have a backward pass."""
    retains: bool = False
    """True if that backward pass frees nothing: it is called with ``retain_graph=True``."""
    carried: tuple[str, ...] = ()
    """The state that connects the graphs of all iterations, as of a recurrent network: without
    cutting it, no term of the sum can have a backward pass of its own."""


def waits_for_backward(holder: Container | Variable, rate: Rate | None) -> bool:
    """Return whether the graphs of a holder wait for a backward pass within the running step.

    Args:
        holder: a collection or a tensor.
        rate: growth of the allocated bytes.
    """
    return holder.backward is not None and (rate is None or rate.per != "step")


def is_of_one_graph(holder: Container | Variable) -> bool:
    """Return whether the tensors of a collection belong to one graph, as those of one pass do."""
    return (
        isinstance(holder, Container)
        and 2 * holder.graphs >= max(2, holder.tensors)
        and 0 < holder.graph_nodes < COUNTED
        and 2 * holder.longest_graph >= holder.graph_nodes
    )


def has_waiting_graphs(evidence: Evidence) -> bool:
    """Return whether anything that the program has a name for waits for a backward pass."""
    return any(_waiting_holders(evidence))


def find_waiting_graphs(evidence: Evidence) -> WaitingGraphs | None:
    """Return the holder of the most graphs that wait for one backward pass, if there is one.

    A tensor that a function passes from layer to layer is no sum, and a collection of tensors of
    one graph has no items that could each have a backward pass: both are parts of a single pass.
    """
    waiting = [
        holder
        for holder in _waiting_holders(evidence)
        if (
            _is_scalar(holder)
            if isinstance(holder, Variable)
            else not is_of_one_graph(holder) or holder.retains
        )
    ]
    most = max(waiting, key=lambda holder: holder.graph_nodes, default=None)
    if most is None or most.backward is None:
        return None
    return WaitingGraphs(
        most.name,
        format_holder(most),
        most.backward,
        items=isinstance(most, Container),
        retains=most.retains,
        carried=_find_carried(most, evidence),
    )


def _is_scalar(variable: Variable) -> bool:
    return all(length == 1 for length in variable.shape)


def _find_carried(holder: Container | Variable, evidence: Evidence) -> tuple[str, ...]:
    """Return the variables of the same function that its loop computes from what they were."""
    variables = () if evidence.inventory is None else evidence.inventory.variables
    return tuple(
        dict.fromkeys(
            variable.name
            for variable in variables
            if variable.accumulates
            and not _is_scalar(variable)
            and variable.scope == holder.scope
            and CARRIED * variable.graph_nodes >= holder.graph_nodes
        )
    )


def _waiting_holders(evidence: Evidence) -> list[Container | Variable]:
    inventory = evidence.inventory
    if inventory is None:
        return []
    collections: list[Container | Variable] = [
        container
        for container in inventory.containers
        if container.tensors > 1 and 2 * container.graphs >= container.tensors
    ]
    sums = [
        variable
        for variable in inventory.variables
        if variable.accumulates and variable.graph_nodes >= LONG
    ]
    return [holder for holder in (*collections, *sums) if holder.backward is not None]
