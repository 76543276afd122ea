"""A tensor whose graph grows with each step: a sum of losses, a metric, a state carried along."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from tui.snapshots.explain.evidence import Evidence, Rate
from tui.snapshots.explain.holders import (
    LONG,
    is_in_forward,
    is_training,
    make_leak,
    waits_for_backward,
)
from tui.snapshots.explain.inventory import Container, Inventory, Variable
from tui.snapshots.explain.leak_facts import (
    FEW,
    LARGE,
    Leak,
    find_first_rate,
    is_steady,
    sum_graph_bytes,
)
from tui.snapshots.explain.source_lines import adds_to, find_line

DEEP = 200
"""Number of graph nodes that exceeds one step of a small model."""
REUSED = 30
"""Graph nodes per parameter tensor from which the same layers must have run many times."""
DEEPER = 8
"""Ratio to the next longest graph from which a graph counts as a sum over steps."""


def find_sum(evidence: Evidence, inventory: Inventory, rate: Rate | None, grew: int) -> Leak | None:
    """Return the leak of a tensor with a far longer graph than the others: a sum over steps."""
    longest, rest = _find_longest(evidence, inventory)
    if longest is None or waits_for_backward(longest, rate):
        return None
    deep = longest.graph_nodes >= DEEP
    few = rate is None and _adds_up_at_each_step(longest, rest, evidence, inventory)
    first = find_first_rate(evidence) if few else None
    if first is not None:
        rate, grew = first, int(first.rate * inventory.step)
    elif rate is None:
        again = deep and _runs_layers_again(longest, inventory)
        if is_steady(evidence) or not again or is_training(inventory):
            return None
        if sum_graph_bytes(inventory, evidence) < LARGE * evidence.allocated:
            return None
    elif not deep:
        # Each step adds an operation, and what it computes its argument from.
        steps = rate.span if rate.per == "step" else 0
        adds_up = longest.accumulates and longest.graph_nodes >= max(2 * FEW, 2 * steps)
        if not adds_up or longest.graph_nodes < DEEPER * max(1, rest):
            return None
    size = longest.bytes + sum_graph_bytes(inventory, evidence)
    leak = make_leak("total", longest, inventory, min(size, grew) if grew else size, rate, graphs=1)
    carried = bool(longest.shape) and longest.shape != (1,)
    return replace(leak, carried=carried, retains=longest.retains)


NEARLY = 0.9
"""Share of the graph of one pass for each step that a sum over the steps has at least."""


def _adds_up_at_each_step(
    variable: Variable, rest: int, evidence: Evidence, inventory: Inventory
) -> bool:
    """Return whether a number is a sum over the steps: by its line, or by its graph.

    Args:
        variable: has the longest graph.
        rest: nodes of the next longest other graph, such as that of one pass; 0 if there is none.
        evidence: has the program's lines.
        inventory: has the number of steps.
    """
    if variable.shape not in ((), (1,)) or variable.graph_nodes < 2 * inventory.step:
        return False
    if variable.accumulates or adds_to(find_line(evidence.lines, variable.adds), variable.name):
        return True
    return rest > 0 and variable.graph_nodes >= NEARLY * inventory.step * rest


def find_sum_of_passes(evidence: Evidence) -> Variable | None:
    """Return the tensor to which a loop adds the result of each pass, for no backward pass.

    Its graph keeps the activations of all passes. It need not be a leak: a backward pass that the
    program's code does not show may follow.
    """
    inventory = evidence.inventory
    if inventory is None:
        return None
    longest, rest = _find_longest(evidence, inventory)
    if longest is None or longest.backward is not None or longest.graph_nodes < LONG:
        return None
    # A loop may also pass an activation from layer to layer.
    is_scalar = longest.shape in ((), (1,))
    adds_up = (longest.accumulates and is_scalar) or _runs_layers_again(longest, inventory)
    return longest if adds_up and longest.graph_nodes >= DEEPER * max(1, rest) else None


def _find_longest(evidence: Evidence, inventory: Inventory) -> tuple[Variable | None, int]:
    """Return the tensor with the longest graph, and the nodes of the next longest other graph."""
    # A variable of the running pass has the graph of the state that the pass was given.
    sums = chain(inventory.variables, map(_convert_to_variable, _list_sums(inventory)))
    outside = (each for each in sums if not is_in_forward(each.where, evidence))
    ordered = sorted(outside, key=lambda variable: -variable.graph_nodes)
    if not ordered:
        return None, 0
    others = (each for each in ordered[1:] if not _is_same_graph(each, ordered[0]))
    return ordered[0], next((each.graph_nodes for each in others), 0)


def _runs_layers_again(variable: Variable, inventory: Inventory) -> bool:
    """Return whether a graph runs through the same layers many times.

    One pass through many layers creates an equally long graph, but has parameters for each.
    """
    own = sum(part.count for part in inventory.parts if part.role == "parameters")
    return variable.graph_nodes >= REUSED * max(1, own)


def _list_sums(inventory: Inventory) -> list[Container]:
    """Return the collections of a few tensors with graphs, such as a dict of running metrics."""
    return [
        container
        for container in inventory.containers
        if 0 < container.tensors < FEW and container.graphs and not container.through
    ]


def _convert_to_variable(container: Container) -> Variable:
    """Return the tensors of a collection as one."""
    return Variable(
        name=container.name,
        bytes=container.bytes,
        shape=(),
        dtype=next(iter(container.dtypes), ""),
        where=container.where,
        scope=container.scope,
        graph_nodes=container.graph_nodes,
        adds=container.adds,
        accumulates=container.enlarges,
        backward=container.backward,
        retains=container.retains,
    )


def _is_same_graph(first: Variable, other: Variable) -> bool:
    """Return whether two variables share a graph: lengths within a tenth of each other."""
    return abs(first.graph_nodes - other.graph_nodes) <= max(2, other.graph_nodes // 10)
