"""Graphs that end with the running step: they hold as much as a leak would, but are none.

A program may keep the graphs of several passes on purpose until one backward pass,
``sum(losses).backward()``, or the tensors of one pass, such as features that hooks store. Memory
that grows from step to step is a leak although such a backward pass exists: it must have been
called with ``retain_graph=True``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tui.core.text.numbers import count, grouped
from tui.snapshots.explain.evidence import Evidence, Grown, Rate
from tui.snapshots.explain.frames import format_line
from tui.snapshots.explain.inventory import CodeLine, Container, Variable

COUNTED = 100_000
"""Graph nodes at which the agent stops counting."""
LONG = 64
"""Graph nodes from which a tensor that a loop adds to keeps the graphs of several passes."""


@dataclass(frozen=True, slots=True)
class WaitingGraphs:
    """The collection or the sum whose graphs wait for one backward pass."""

    name: str
    subject: str
    """Its description: ``losses (list of 33, train.py:10)``."""
    backward: CodeLine
    """The line that passes it to the backward pass."""
    items: bool
    """True for a collection, whose items could each have a backward pass."""


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


def find_waiting_graphs(evidence: Evidence) -> WaitingGraphs | None:
    """Return the holder of the most graphs that wait for one backward pass, if there is one."""
    inventory = evidence.inventory
    if inventory is None:
        return None
    lists: list[Container | Variable] = [
        each
        for each in inventory.containers
        if waits_for_backward(each, None) and each.tensors > 1 and 2 * each.graphs >= each.tensors
    ]
    sums = [
        each
        for each in inventory.variables
        if waits_for_backward(each, None) and each.accumulates and each.graph_nodes >= LONG
    ]
    found = max([*lists, *sums], key=lambda each: each.graph_nodes, default=None)
    if found is None or found.backward is None:
        return None
    line = found.adds or found.where
    place = found.scope if line is None else format_line(line)
    of = (
        f"{found.kind} of {grouped(found.length)}"
        if isinstance(found, Container)
        else f"a graph of {count(found.graph_nodes, 'node')}"
    )
    return WaitingGraphs(
        found.name, f"{found.name} ({of}, {place})", found.backward, isinstance(found, Container)
    )


def find_kept_passes(evidence: Evidence) -> Grown | None:
    """Return a growth of activations in a history that no backward pass has followed yet."""
    grown = evidence.grown
    return grown if grown is not None and grown.keeps_passes else None
