"""Memory that grows with each step or iteration, and its holder.

There are three sources, in this order: the inventory's names and its figures after each optimizer
step; the watch's measurements from outside; a history of allocations. Some patterns look like a
leak but are not:

- a first optimizer step that creates its state once: a plateau. Growth must continue over the
  steps;
- a cache that fills and then stays: growth must continue to the end;
- a model that is built or loaded for long: growth per second must exceed its size;
- features that one forward pass collects: a module calls the function, or their graph is one;
- losses that one backward pass ends: a line passes them to it, and no step has left more memory;
- a batch that grows on purpose: only the tensors of the newest batch grew, each under a name, and
  a longer tensor replaces each;
- a prefetching loader with a few batches: fewer than :data:`~tui.snapshots.explain.leak_facts.FEW`
  tensors, without growth.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from tui.core.text.numbers import count, grouped
from tui.snapshots.explain.evidence import Evidence, Rate
from tui.snapshots.explain.frames import format_line
from tui.snapshots.explain.holders import (
    MOST,
    format_holder,
    format_place,
    has_waiting_graphs,
    is_copied,
    is_of_one_graph,
    is_of_pass,
    is_of_threads,
    is_training,
    make_leak,
)
from tui.snapshots.explain.inventory import (
    Container,
    Inventory,
    ModelPart,
    Variable,
    split_owner,
)
from tui.snapshots.explain.leak_facts import (
    FEW,
    LARGE,
    SHARE,
    Leak,
    LeakKind,
    adds_much,
    count_grown,
    describe_site,
    estimate_rate,
    find_first_rate,
    find_growth_rate,
    has_one_per_step,
    is_steady,
    sum_graph_bytes,
)
from tui.snapshots.explain.leak_sums import find_sum

MANY = 16
"""Minimum number of tensors in a leaking container without measured growth."""
ALIKE = 0.25
"""Share of the largest collection's bytes from which others of its function are counted with it."""
TRACEBACK = "traceback"
"""Word in :attr:`Container.through` that identifies tracebacks."""
HANDLED = "exception"
"""The :attr:`Container.kind` of an exception whose except clause is running, or of a command."""
STORED = "stored exception"
"""The :attr:`Container.kind` of an exception in a variable."""
OF_COMMAND = "sys."
"""Start of the name of an interactive interpreter's latest exception."""
MEMOIZED = "cache"
"""The :attr:`Container.kind` of what functools stores, to which no line of the program adds."""
LIMITED = ("limited deque", "limited Queue")
"""The :attr:`Container.kind` of a deque that drops its oldest items, such as a replay buffer, and
of a queue that makes its producer wait."""
NUMBERED = 32
"""Number of buffers in one module with names that differ only in a number, from which they are a
leak."""
_DIGITS = re.compile(r"\d+")
ROUNDED = 512
"""Bytes by which a reported request may exceed its true size."""
_JOINS = re.compile(r"\b(cat|concat|concatenate|pad|(column_|row_|[dhv])stack)\(")
"""A call whose result is a longer tensor than its argument."""
_CACHE = re.compile(r"cache|past|kv|key|value|bank|memory|history|buffer", re.IGNORECASE)


def find_leak(evidence: Evidence) -> Leak | None:
    """Return the holder of memory that grows with each step, or ``None`` if nothing grows."""
    rate = find_growth_rate(evidence)
    inventory = evidence.inventory
    if inventory is None:
        return _find_in_history(evidence, rate)
    if rate is not None and rate.per == "step" and not adds_much(rate, evidence):
        rate = None
    if rate is not None and _is_loading(rate, inventory, evidence):
        rate = None
    grew = 0 if rate is None else int(rate.rate * rate.span)
    leak = _find_named(evidence, inventory, rate, grew)
    if leak is not None:
        return leak
    if rate is not None and rate.per == "step" and _is_unnamed(inventory, grew):
        return _describe_unnamed(evidence, inventory, rate, grew)
    if has_waiting_graphs(evidence):
        return None
    if evidence.growth is not None and _is_plausible(evidence):
        return _find_in_history(evidence, rate)
    return None


def _is_loading(rate: Rate, inventory: Inventory, evidence: Evidence) -> bool:
    """Return whether a growth per second may be that of a model while it was built or loaded.

    It is not if a collection holds the growth to which a line of the program adds: a checkpoint is
    a collection that one call returns.
    """
    if rate.per != "s" or not rate.span:
        return False
    grew = rate.rate * rate.span
    for container in inventory.containers:
        behind = sum_graph_bytes(inventory, evidence) if container.graphs else 0
        if (
            container.enlarges
            and not _is_bounded(container)
            and container.tensors >= FEW
            and 2 * (container.bytes + behind) >= grew
        ):
            return False
    model = sum(part.bytes for part in inventory.parts)
    return grew < model + SHARE * evidence.allocated


def _is_plausible(evidence: Evidence) -> bool:
    """Return whether growth from a history is plausible although the inventory names no holder.

    A single pass that keeps hundreds of activations from one line looks the same.
    """
    inventory, growth = evidence.inventory, evidence.growth
    if inventory is None or growth is None:
        return True
    if any(
        container.kind in LIMITED and 2 * container.bytes >= growth.net
        for container in inventory.containers
    ):
        return False
    return inventory.step >= FEW and not is_steady(evidence)


# ---- from the inventory ----


def _find_named(
    evidence: Evidence, inventory: Inventory, rate: Rate | None, grew: int
) -> Leak | None:
    """Return the leak whose holder explains the most bytes."""
    # Each thread has its own, whatever the number of steps.
    containers = [each for each in inventory.containers if not is_of_threads(each)]
    candidates = [
        *(
            _find_in_container(container, evidence, inventory, rate, grew)
            for container in containers
        ),
        *_find_in_collections(containers, evidence, inventory, rate, grew),
        *(_find_in_first_steps(container, evidence, inventory) for container in containers),
        find_sum(evidence, inventory, rate, grew),
        *(_find_replaced(variable, evidence, inventory) for variable in inventory.variables),
        *_find_joined(evidence, inventory, rate, grew),
        *(_find_numbered(part, evidence, inventory, rate) for part in inventory.parts),
        _find_lost_models(evidence, inventory),
    ]
    leaks = [candidate for candidate in candidates if candidate is not None]
    return max(leaks, key=lambda leak: (leak.bytes, leak.graphs), default=None)


def _find_in_container(
    container: Container, evidence: Evidence, inventory: Inventory, rate: Rate | None, grew: int
) -> Leak | None:
    if TRACEBACK in container.through:
        return _find_in_tracebacks(container, evidence, inventory, rate)
    graphs = container.graphs * 2 >= max(1, container.tensors)
    per_step = rate is not None and rate.per == "step"
    if rate is None and not container.graphs and not _is_bounded(container):
        rate = estimate_rate(container, evidence, inventory)
    replaced = _find_replaced_items(container, evidence, inventory)
    if replaced is not None:
        return replaced
    if container.tensors < FEW or _is_made_at_once(container, rate):
        return None
    of_pass = is_of_pass(container, evidence, per_step=per_step)
    if of_pass or _is_of_step(container, graphs=graphs, measured=per_step, rate=rate):
        return None
    behind = sum_graph_bytes(inventory, evidence) if graphs else 0
    whole = container.bytes + behind
    if rate is None:
        least = LARGE if graphs else MOST
        if container.tensors < MANY or whole < least * evidence.allocated:
            return None
        if not graphs and not _may_be_growing(container, evidence, inventory):
            return None
        rate = _find_early_rate(container, evidence, inventory, whole) if graphs else None
    elif whole < max(SHARE * evidence.allocated, grew / 4):
        return None
    grown = count_grown(container, inventory, rate, grew)
    size = max(container.bytes, min(whole, grown or whole))
    kind: LeakKind = "graphs" if graphs else "list"
    return make_leak(kind, container, inventory, size, rate, graphs=container.graphs)


FEWEST = 3
"""Fewest tensors of a collection that grows by the same gigabytes in each of the first steps."""


def _find_in_first_steps(
    container: Container, evidence: Evidence, inventory: Inventory
) -> Leak | None:
    """Return the leak of a collection that got one tensor in each of a few steps.

    Its tensors, or their graphs, must explain what each step added.
    """
    if TRACEBACK in container.through or container.tensors >= FEW:
        return None
    bounded = container.kind in LIMITED or _is_bounded(container)
    fills = container.enlarges and container.backward is None and not bounded
    one_each = abs(container.length - inventory.step) <= 1 and container.tensors >= FEWEST
    if not fills or not one_each or is_of_pass(container, evidence, per_step=True):
        return None
    rate = find_first_rate(evidence)
    graphs = container.graphs * 2 >= container.tensors
    whole = container.bytes + (sum_graph_bytes(inventory, evidence) if graphs else 0)
    if rate is None or whole < rate.rate * container.length / 2:
        return None
    kind: LeakKind = "graphs" if graphs else "list"
    size = max(container.bytes, min(whole, int(rate.rate * container.length)))
    return make_leak(kind, container, inventory, size, rate, graphs=container.graphs)


def _find_early_rate(
    container: Container, evidence: Evidence, inventory: Inventory, whole: int
) -> Rate | None:
    """Return a growth that was measured in the first steps alone, if it explains a container.

    A fast program may fail soon after them. Without a rate, the activations of the failed step
    would count as the container's.

    Args:
        container: holds one tensor for each step.
        evidence: the evidence.
        inventory: its inventory.
        whole: the most bytes that the container may hold.
    """
    rate = find_growth_rate(evidence)
    if rate is None or rate.per != "step" or not has_one_per_step(container, inventory):
        return None
    return rate if whole / 2 <= rate.rate * container.length <= whole else None


def _is_made_at_once(container: Container, rate: Rate | None) -> bool:
    """Return whether a growth per second was that of a collection which one call returned."""
    per_second = rate is not None and rate.per == "s"
    return (
        per_second
        and container.adds is not None
        and not container.enlarges
        and container.kind in ("list", "tuple", "dict")
    )


def _is_of_step(container: Container, *, graphs: bool, measured: bool, rate: Rate | None) -> bool:
    """Return whether a container is bounded, or its graphs end with the running step.

    Args:
        container: the container.
        graphs: most of its tensors have a graph.
        measured: memory was measured to grow with each step.
        rate: the measured or estimated growth.
    """
    if container.kind in LIMITED:
        return True
    if graphs:
        ends = container.backward is not None or is_of_one_graph(container)
        return ends and not measured
    return _is_bounded(container) and (rate is None or rate.per != "step")


def _find_in_collections(
    containers: Sequence[Container],
    evidence: Evidence,
    inventory: Inventory,
    rate: Rate | None,
    grew: int,
) -> list[Leak | None]:
    """Return the leaks of collections that one function fills, such as a list in every layer."""
    by_function: dict[tuple[str, str], list[Container]] = defaultdict(list)
    for container in containers:
        adds = container.adds
        if adds is not None and container.enlarges and TRACEBACK not in container.through:
            by_function[adds.filename, adds.name].append(container)
    leaks: list[Leak | None] = []
    for together in by_function.values():
        largest = max(together, key=lambda container: container.bytes)
        group = [container for container in together if container.bytes >= ALIKE * largest.bytes]
        if len(group) == 1:
            continue
        whole = replace(
            largest,
            tensors=sum(container.tensors for container in group),
            bytes=sum(container.bytes for container in group),
            graphs=sum(container.graphs for container in group),
            viewed=sum(container.viewed for container in group),
        )
        leak = _find_in_container(whole, evidence, inventory, rate, grew)
        if leak is not None:
            names = tuple(dict.fromkeys(container.name for container in group))
            of = f"{largest.kind} of {grouped(largest.length)}"
            subject = (
                f"{largest.name} and {len(group) - 1} more like it ({of}, {format_place(largest)})"
            )
            leak = replace(leak, subject=subject, also=names)
        leaks.append(leak)
    return leaks


def _is_bounded(container: Container) -> bool:
    """Return whether the program empties a container now and then."""
    return container.empties is not None


def _may_be_growing(container: Container, evidence: Evidence, inventory: Inventory) -> bool:
    """Return whether plain tensors in a container may be a leak although no growth was measured.

    Data moved to the device once is none, and neither is a checkpoint, which one call returns, or a
    list whose tensors the request joins to one.
    """
    adds = container.enlarges or container.kind == MEMOIZED
    steady = is_steady(evidence) or is_training(inventory)
    grows = adds and not steady and not is_copied(container, evidence)
    return grows and _is_being_filled(container, evidence)


def _is_being_filled(container: Container, evidence: Evidence) -> bool:
    """Return whether the container's function was running, so that it may still grow."""
    if container.where is None:
        return container.scope.startswith("global")
    own = container.where
    return any(
        (frame.filename, frame.name) == (own.filename, own.name)
        for frame in chain(*evidence.stacks)
    )


def _find_in_tracebacks(
    container: Container, evidence: Evidence, inventory: Inventory, rate: Rate | None
) -> Leak | None:
    """Return the leak of exceptions: tracebacks keep frames and their tensors alive.

    A stored exception is one, an exception whose except clause is still running, such as for a
    retry, and the latest exception of an interactive interpreter.
    """
    size = container.bytes + _sum_failed_graphs(container, evidence, inventory)
    of_command = container.name.startswith(OF_COMMAND)
    handled = container.kind == HANDLED and not of_command
    if size < (LARGE if handled else SHARE) * evidence.allocated:
        return None
    if handled:
        subject = f"the exception handled at {format_place(container)} (through its traceback)"
    elif of_command:
        subject = f"the exception of an earlier command ({container.name}, through its traceback)"
    elif container.kind == STORED:
        subject = (
            f"{container.name} (an exception, {format_place(container)}), through its traceback,"
        )
    else:
        subject = f"{format_holder(container)}, {container.through},"
    kind: LeakKind = "handled" if handled else "traceback"
    measured = None if container.kind in (HANDLED, STORED) else rate
    graphs = container.graphs
    return make_leak(kind, container, inventory, size, measured, subject=subject, graphs=graphs)


def _sum_failed_graphs(container: Container, evidence: Evidence, inventory: Inventory) -> int:
    """Return the bytes that graphs of failed attempts hold, by their share of all nodes."""
    if not container.graphs:
        return 0
    present = max((variable.graph_nodes for variable in inventory.variables), default=0)
    share = container.graph_nodes / max(1, container.graph_nodes + present)
    return int(share * sum_graph_bytes(inventory, evidence))


def _find_numbered(
    part: ModelPart, evidence: Evidence, inventory: Inventory, rate: Rate | None
) -> Leak | None:
    """Return the leak of a module that adds numbered buffers or parameters at each step."""
    stems = {_DIGITS.sub("", variable.name) for variable in part.largest}
    many = part.role in ("buffers", "parameters") and part.count >= NUMBERED and len(stems) == 1
    numbered = all(
        _DIGITS.search(variable.name) and "." not in variable.name for variable in part.largest
    )
    if not many or not numbered or part.bytes < LARGE * evidence.allocated:
        return None
    return Leak(
        kind="list",
        subject=f"{part.role} of {part.owner} ({grouped(part.count)}, {part.largest[0].name} …)",
        name=f"{part.role} of {part.owner}",
        where=None,
        bytes=part.bytes,
        reachable=part.bytes,
        rate=rate,
        training=is_training(inventory),
    )


def _find_lost_models(evidence: Evidence, inventory: Inventory) -> Leak | None:
    """Return the leak of models and optimizers to which no name leads, unlike to a newer one.

    A reference cycle keeps them until the garbage collector runs, which knows nothing of a GPU.
    """
    owners = [split_owner(part.owner) for part in inventory.parts]
    kinds = {kind for variable, kind in owners if variable}
    lost = [part for part in inventory.parts if split_owner(part.owner) in {("", k) for k in kinds}]
    size = sum(part.bytes for part in lost)
    if inventory.skipped or not lost or size < LARGE * evidence.allocated:
        return None
    number = max(part.owners for part in lost)
    names = " and ".join(sorted({part.owner for part in lost}))
    return Leak(
        kind="lost",
        subject=f"{number} earlier {names}, to which no variable refers,",
        name="",
        where=None,
        bytes=size,
        reachable=size,
        rate=None,
        training=is_training(inventory),
        also=tuple(f"{part.role} of {part.owner}" for part in lost),
    )


def _is_unnamed(inventory: Inventory, grew: int) -> bool:
    """Return whether memory without a name may hold a growth.

    If the tensors of the newest step have growth, as with a batch that grows, or models that are
    kept, their names hold it.
    """
    newest = sum(variable.bytes for variable in inventory.variables)
    return newest < grew / 2 and inventory.other_bytes + inventory.remainder >= grew / 2


def _describe_unnamed(evidence: Evidence, inventory: Inventory, rate: Rate, grew: int) -> Leak:
    reach = inventory.other_bytes
    where = evidence.growth.where if evidence.growth is not None else None
    who = (
        "unnamed tensors, such as those in reference cycles or in a library's objects"
        if reach >= inventory.remainder
        else "bytes that no Python object reaches, such as autograd graphs or memory of C++"
    )
    allocated_at = f", allocated at {format_line(where)}" if where is not None else ""
    return Leak(
        kind="unnamed",
        subject=who + allocated_at,
        name="",
        where=where,
        bytes=grew,
        reachable=min(grew, reach),
        rate=rate,
        training=is_training(inventory),
    )


# ---- tensors that longer ones replace: torch.cat at each step or token, as in a cache of keys ----


def _find_replaced(variable: Variable, evidence: Evidence, inventory: Inventory) -> Leak | None:
    """Return the leak of a tensor that longer ones replace, as the request shows."""
    if variable.bytes < SHARE * evidence.allocated or not variable.shape:
        return None
    if is_of_pass(variable, evidence, per_step=True):
        return None
    if not _is_longer(variable.bytes, variable.shape, evidence.requested):
        return None
    return _find_lengthened(variable, evidence, inventory)


def _find_joined(
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
        others = f" and {len(group) - 1} more like it" if len(group) > 1 else ""
        subject = f"{largest.name}{others} ({format_place(largest)})"
        leak = make_leak("cat", largest, inventory, size, grows, subject=subject)
        names = tuple(variable.name for variable in group)
        joined.append(replace(leak, reachable=size, also=names))
    return joined


def _find_replaced_items(
    container: Container, evidence: Evidence, inventory: Inventory
) -> Leak | None:
    """Return the leak of a container whose tensors are each replaced by a longer one."""
    if not container.tensors or container.bytes < LARGE * evidence.allocated:
        return None
    item_size = container.bytes / container.tensors
    joins = _JOINS.search(evidence.source) or _CACHE.search(container.name)
    if not joins or not item_size < evidence.requested <= 1.25 * item_size:
        return None
    return _find_lengthened(container, evidence, inventory)


def _is_longer(size: int, shape: Sequence[int], requested: int) -> bool:
    """Return whether a request has a tensor's size with one dimension slightly longer."""
    more = requested - size
    if not 0 < more <= size // 4:
        return False
    # Requests cover whole elements, but the reported size is rounded up to 512.
    slices = [size // length for length in shape if length > 1 and size % length == 0]
    return any(abs(round(more / count) * count - more) < ROUNDED for count in slices)


def _find_lengthened(
    holder: Container | Variable, evidence: Evidence, inventory: Inventory
) -> Leak | None:
    # The tensor of a batch that grows on purpose is also replaced by a longer one.
    grows_by_cat = _JOINS.search(evidence.source) or _CACHE.search(holder.name)
    if is_training(inventory) and not grows_by_cat:
        return None
    subject = f"{holder.name} ({format_place(holder)})"
    return make_leak("cat", holder, inventory, holder.bytes, subject=subject)


# ---- from a history ----


def _find_in_history(evidence: Evidence, rate: Rate | None) -> Leak | None:
    growth = evidence.growth
    if growth is None or growth.net < SHARE * evidence.allocated:
        return None
    if growth.fills or growth.keeps_passes:
        return None
    pace, site = growth.per_iteration, describe_site(growth)
    subject = f"the tensor of {site}"
    if not growth.replaced:
        subject = f"{count(growth.count, 'tensor')} of {site}"
    return Leak(
        kind="cat" if growth.replaced else "list",
        subject=subject,
        name="",
        where=growth.where,
        bytes=growth.net,
        reachable=growth.net,
        rate=rate
        or Rate(pace, pace, pace, "iteration", "the history of allocations", growth.repeats),
        training=any(
            purpose.name in ("gradients", "optimizer state") for purpose in evidence.purposes
        ),
    )
