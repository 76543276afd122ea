"""Remedies for a leak, by its kind: what to store, bound, cut or clear, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.core.text.numbers import count, round_size
from tui.snapshots.explain.allocator_advice import FailedRequest
from tui.snapshots.explain.explanation import Remedy
from tui.snapshots.explain.frames import format_line, format_lines, in_backward
from tui.snapshots.explain.leak import OF_COMMAND, ROUNDED
from tui.snapshots.explain.leak_facts import Leak
from tui.snapshots.explain.source_lines import find_added_term, find_line

VIEW_RATIO = 4
"""Ratio of the bytes kept to the bytes of the views from which a clone helps."""
OWN_SHARE = 0.5
"""Share of a leak above which its tensors themselves, and not their graphs, are what to free."""
EVALUATES = re.compile(r"eval|valid|test|predict|infer|generate|score|embed", re.IGNORECASE)
"""Words in the names of functions that evaluate a model."""
_TRAINS = re.compile(r"train|fit|step|optimi[sz]e|update", re.IGNORECASE)
"""Words in the names of functions that train a model."""
_OUTPUTS = re.compile(r"pred|out|logit|embed|feat|score|result|prob", re.IGNORECASE)
_OF_TRAINING = re.compile(r"penalt|grad|norm|regular", re.IGNORECASE)


def advise_on_leak(request: FailedRequest) -> Iterator[Remedy]:
    """Yield the remedies for a leak."""
    leak = request.leak
    assert leak is not None
    name = leak.name or "the growing tensors"
    lines = () if leak.where is None else (leak.where, *leak.also_where)
    place = f" at {format_lines(lines)}" if lines else ""
    clause = f"it holds {round_size(leak.bytes)}"
    if leak.kind == "graphs":
        in_training = any(map(in_backward, request.evidence.stacks))
        yield from _advise_on_graphs(leak, name, place, clause, in_training=in_training)
    elif leak.kind == "total":
        term = find_added_term(find_line(request.evidence.lines, leak.where), leak.name)
        yield from _advise_on_total(leak, name, place, clause, term)
    elif leak.kind == "cat":
        yield from _advise_on_longer_tensor(leak, place, clause)
    elif leak.kind == "traceback":
        yield _advise_on_exceptions(name, clause)
    elif leak.kind == "handled":
        yield Remedy(
            f"retry behind the except clause, not inside it{place}: set a flag in the clause",
            "until the clause ends, the exception's traceback keeps the frames of the failed "
            f"attempt and their tensors alive; {clause}",
        )
    elif leak.kind == "list" and leak.name:
        yield from _advise_on_list(leak, place, clause)
    elif leak.kind == "unnamed":
        yield Remedy(
            "call gc.collect() now and then; if memory falls, break the reference cycle "
            "(weakref, del)",
            f"memory grew by {round_size(leak.bytes)} in tensors without a Python name",
        )
        yield Remedy(
            "store detach() or item() of tensors that outlive a step: hooks, closures, metrics "
            "and loggers keep graphs alive",
            "one stored tensor keeps everything alive that autograd saved for it",
        )
    elif leak.kind == "lost":
        yield Remedy(
            "break the reference cycles that they are in (del, weakref), or call gc.collect() "
            "before the next one is made",
            f"Python collects cycles only after many new objects, whatever they hold; {clause}",
        )
    else:
        yield Remedy(
            f"store detach() or item() of the tensors allocated{place}, or bound their collection",
            f"{clause}; .cpu() moves them to the host, deque(maxlen=N) bounds their number",
        )
        yield Remedy(
            "if this is an evaluation, wrap it in torch.no_grad()",
            "else each of its outputs keeps the activations of its pass",
        )


def _advise_on_total(leak: Leak, name: str, place: str, clause: str, term: str) -> Iterator[Remedy]:
    """Yield the remedies for a graph that accumulates over steps.

    Args:
        leak: the tensor.
        name: its name.
        place: the line that adds to it, with a preposition.
        clause: how much it holds.
        term: what that line adds; empty if it is not known.
    """
    if leak.carried:
        yield Remedy(
            f"cut the graph of {name}{place} with detach() in each iteration, or "
            "use torch.no_grad() if no backward follows",
            f"its graph keeps what every earlier iteration saved for backward; {clause}",
        )
        return
    value = f"{term}.item() or {term}.detach()" if term else "item() or detach() of each term"
    yield Remedy(
        f"add {value} to {name}{place}, not the term with its graph",
        f"the graph behind {name} keeps what many steps saved for backward; {clause}",
    )
    if leak.retains:
        yield Remedy(
            "do not use backward(retain_graph=True) unless a second backward follows",
            "it keeps what autograd saved; cut a state carried from step to step with detach()",
        )
    elif not leak.training:
        yield Remedy(
            f"if {name}.backward() follows, call backward() on each loss in the loop instead",
            "gradients add up, and each backward frees what its own graph has saved",
        )


def _advise_on_list(leak: Leak, place: str, clause: str) -> Iterator[Remedy]:
    if _are_views(leak):
        yield Remedy(
            f"store a clone() of each tensor in {leak.name}{place}: each is part of a larger one",
            f"they have {round_size(leak.viewed)} of their own, and keep "
            f"{round_size(leak.reachable)} of larger tensors",
        )
    if leak.empties is not None:
        yield Remedy(
            f"let {format_line(leak.empties)} remove items of {leak.name} sooner, or store its "
            "tensors on the host with .cpu()",
            f"the program removes them, but not before the device is full; {clause}",
        )
        return
    yield Remedy(
        f"bound the length of {leak.name}{place} ({_list_bounds(leak)}), or store its tensors "
        "on the host with .cpu(), or summaries with item()",
        f"its tensors carry no graph, so detach() alone does not help; {clause}",
    )


def _list_bounds(leak: Leak) -> str:
    """Return the calls that bound the length of a collection."""
    return "pop() of old keys, clear()" if leak.is_dict else "deque(maxlen=N), clear()"


def _are_views(leak: Leak) -> bool:
    return 0 < leak.viewed <= leak.reachable // VIEW_RATIO


def _advise_on_exceptions(name: str, clause: str) -> Remedy:
    if name.startswith(OF_COMMAND):
        return Remedy(
            "clear it: sys.last_exc = sys.last_value = sys.last_traceback = None, or restart",
            "the exception of a command stays until the next one, and its traceback keeps the "
            f"frames of the failed command and their tensors alive; {clause}",
        )
    return Remedy(
        "do not store exceptions: store str(error) or traceback.format_exc(), or call "
        "error.with_traceback(None)",
        "a traceback keeps its frames alive, and they their tensors",
    )


def _advise_on_longer_tensor(leak: Leak, place: str, clause: str) -> Iterator[Remedy]:
    if not leak.name:
        # A history shows that each tensor is longer than the one before it, but not why.
        yield Remedy(
            f"if torch.cat extends it{place}, preallocate it for its maximum length and write "
            "into it; if it is a batch or a sequence, limit its size",
            f"each tensor replaces a shorter one, and both are live at once; {clause}",
        )
        return
    yield Remedy(
        f"preallocate {leak.name}{place} for its maximum length and write into it, or bound "
        "its length",
        f"torch.cat copies it for each piece: old and new are live at once; {clause}",
    )
    yield Remedy(
        "use fewer sequences at once, a shorter context, or a cache of lower precision",
        "a cache of keys and values grows with each token of each sequence",
    )


def _advise_on_graphs(
    leak: Leak, name: str, place: str, remark: str, *, in_training: bool
) -> Iterator[Remedy]:
    """Yield the remedies for tensors with graphs.

    Args:
        leak: the collection.
        name: its name.
        place: the line that adds to it, with a preposition.
        remark: how much it holds.
        in_training: a backward pass made the failed request.
    """
    function = leak.where.name if leak.where is not None else ""
    number = count(leak.graphs, "tensor")
    carry = f"{number} in {name} carry a graph (grad_fn)"
    if _are_views(leak):
        # Without its graph, it still keeps the storage of the whole tensor: that of a view's base,
        # or that in which an operator such as mse_loss has computed before it summed.
        detach = Remedy(
            f"store detach().clone() or item() of each tensor in {name}{place}",
            f"{carry}, and each keeps a larger tensor's memory, which detach() alone does not "
            f"free; {remark}",
        )
    elif leak.reachable > OWN_SHARE * leak.bytes:
        own = round_size(min(leak.reachable, leak.bytes))
        yield Remedy(
            f"store detach().cpu() of each tensor in {name}{place}, or bound its length "
            f"({_list_bounds(leak)})",
            f"{carry}, but {own} is in the tensors themselves: neither detach() alone nor "
            "torch.no_grad() frees that",
        )
        return
    else:
        # item() is for single numbers, which have a block of the smallest size.
        are_numbers = leak.reachable <= leak.graphs * ROUNDED
        stored = "detach() or item()" if are_numbers else "detach().cpu()"
        detach = Remedy(f"store {stored} of each tensor in {name}{place}", f"{carry}; {remark}")
    named_so = bool(EVALUATES.search(function))
    trains = (in_training or bool(_TRAINS.search(function))) and not named_so
    certain = named_so or not (leak.training or trains)
    # The line itself only stores the result of the pass.
    before = f" before {format_line(leak.where)}" if leak.where is not None else ""
    wrap = f"wrap the forward pass{before} in torch.no_grad() or torch.inference_mode()"
    if named_so and function.isidentifier():
        wrap = f"run {function}() under torch.no_grad() or torch.inference_mode()"
    no_grad = Remedy(
        wrap if certain else f"if no backward follows, {wrap}",
        f"{number} in {name} carry a graph, which keeps each pass's activations; {remark}",
    )
    if trains:
        yield detach  # a backward pass may need the graphs
        if _OUTPUTS.search(name):
            yield no_grad
        return
    evaluates = (
        named_so or _OUTPUTS.search(name) or not (leak.training or _OF_TRAINING.search(name))
    )
    yield from [no_grad, detach] if evaluates else [detach, no_grad]
