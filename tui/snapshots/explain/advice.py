"""Remedies for one failed allocation: they depend on the cause and name the program's line.

Advice is tested by arithmetic if possible: expandable segments are advised if the cached memory
would have been enough. If torch's own message advises them in vain, a remedy explains why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice

from tui.core.text.commands import EXAMPLE
from tui.core.text.numbers import grouped, round_size
from tui.snapshots.explain import allocator_advice
from tui.snapshots.explain.account import (
    Account,
    are_older,
)
from tui.snapshots.explain.allocator_advice import FailedRequest
from tui.snapshots.explain.conclusion import BESIDE_LEFT_OVERS, find_roundup
from tui.snapshots.explain.evidence import Evidence, Growth
from tui.snapshots.explain.explanation import LeadingCause, Remedy
from tui.snapshots.explain.frames import Frame, format_line, goes_through, in_backward
from tui.snapshots.explain.holders import (
    WaitingGraphs,
    find_copied,
    find_left_over,
    find_stored_passes,
    find_unfillable,
    find_waiting_graphs,
    format_names,
    holder_line,
    is_of_threads,
    is_training,
)
from tui.snapshots.explain.inventory import Container
from tui.snapshots.explain.lead import in_optimizer, recomputes
from tui.snapshots.explain.leak_advice import EVALUATES, advise_on_leak
from tui.snapshots.explain.leak_facts import SHARE, Leak, describe_site
from tui.snapshots.explain.leak_sums import find_sum_of_passes
from tui.snapshots.explain.model_advice import (
    advise_on_gradients,
    advise_on_parameters,
    advise_on_state,
)

RECORD = "gpu-workbench watch --record -- COMMAND"
WORTH_A_WORD = 0.02
"""Share of the reserved memory above which a remedy explains why releasing the cache is not
enough."""
NO_MATTER_OF_CACHE: tuple[LeadingCause, ...] = (
    "cached",
    "fragmentation",
    "other streams",
    "CUDA graphs",
    "MemPool",
    "private pools",
    "larger than the device",
    "larger than what was free",
    "refused with memory free",
    "address space",
    "unknown",
)
"""Causes that need no remark on expandable segments: they are irrelevant, or already advised."""
NO_MATTER_OF_LEAK: tuple[LeadingCause, ...] = ("leak", "larger than the device", "address space")
"""Causes that need no remark on a leak: they are one, or nothing that is freed helps."""
_OF_A_BACKWARD = ("gradients", "backward pass", "optimizer state", "optimizer step", "activations")
"""Purposes in a history of which a backward pass is certain."""


def advise(
    evidence: Evidence,
    account: Account,
    leak: Leak | None,
    cause: LeadingCause,
    where: Frame | None,
) -> tuple[Remedy, ...]:
    """Return the remedies for one failure, the most important first."""
    request = FailedRequest(evidence, account, leak, where)
    of_cause, cast = _OF_CAUSE[cause](request), _advise_on_cast(request, cause)
    return (
        *_advise_on_left_over(request, cause),
        # The dtype of a named tensor is reliable; equal sizes may be a coincidence.
        *(chain(cast, of_cause) if evidence.half_block_is_narrow else chain(of_cause, cast)),
        *_advise_on_lesser_leak(request, cause),
        *_advise_on_roundup(request, cause),
        *allocator_advice.advise_on_limit_of_growth(request, cause),
        *_warn_expandable_segments(request, cause),
        *_advise_history(request, cause),
    )


def _advise_on_lesser_leak(request: FailedRequest, cause: LeadingCause) -> Iterator[Remedy]:
    """Yield the first remedy for a leak beside another cause: it would fill what that one left."""
    if request.leak is None or cause in NO_MATTER_OF_LEAK:
        return
    if request.account.of("leak") >= SHARE * request.account.used:
        yield from islice(advise_on_leak(request), 1)


def _advise_on_left_over(request: FailedRequest, cause: LeadingCause) -> Iterator[Remedy]:
    variable = find_left_over(request.evidence) if cause in BESIDE_LEFT_OVERS else None
    if variable is not None:
        line = variable.adds or variable.where
        place = f" at {format_line(line)}" if line is not None else ""
        yield Remedy(
            f"delete {' and '.join(variable.left_over)} (del) at the end of each iteration",
            f"{variable.name} keeps {round_size(variable.bytes)} of the previous iteration until "
            f"it is assigned again{place}, and nothing reads it before",
        )


# ---- memory of a step ----


def _advise_on_temporaries(request: FailedRequest) -> Iterator[Remedy]:
    if not in_optimizer(request.evidence):
        yield from _advise_on_activations(request)
        return
    yield Remedy(
        "construct the optimizer with foreach=False (or fused=True)",
        "foreach updates all parameters at once, with temporaries of their size: "
        f"{request.size('parameters')}",
    )
    yield from advise_on_state(request)


# ---- memory of the batch ----


def _advise_on_activations(request: FailedRequest) -> Iterator[Remedy]:
    evidence, line = request.evidence, request.line
    evaluates = request.where is not None and EVALUATES.search(request.where.name)
    has_name = evaluates or find_waiting_graphs(evidence) or find_sum_of_passes(evidence)
    if evidence.kept_passes is not None and not has_name:
        yield from _advise_on_kept_passes(evidence.kept_passes)
        return
    of_program = _advise_on_saved_passes(request)
    if of_program is not None:
        yield of_program
    recomputed = recomputes(evidence)
    if recomputed:
        yield Remedy(
            "call checkpoint() on smaller parts of the model, such as each layer or block",
            "backward recomputes one part at a time, and holds all activations of this part",
        )
    yield Remedy(
        f"use a smaller batch (with gradient accumulation) or a shorter sequence{line}",
        f"activations hold {request.size('activations')} and grow with batch and sequence",
    )
    if not recomputed:
        yield Remedy(
            "use activation checkpointing (torch.utils.checkpoint), or autocast to bfloat16",
            "checkpointing stores each part's inputs and recomputes the rest in backward",
        )
    if of_program is None:
        yield from _advise_on_inference(request)


def _advise_on_saved_passes(request: FailedRequest) -> Remedy | None:
    """Return the remedy for activations that the program keeps needlessly, if it seems to."""
    evidence = request.evidence
    function = request.where.name if request.where is not None else ""
    if EVALUATES.search(function):
        return Remedy(
            f"wrap the evaluation{request.line} in torch.no_grad() or torch.inference_mode()",
            f"{function} saves {request.size('activations')} for a backward pass that does not "
            "follow",
        )
    waiting = find_waiting_graphs(evidence)
    if waiting is not None:
        return _advise_on_waiting_graphs(waiting)
    added = find_sum_of_passes(evidence)
    if added is not None:
        place = holder_line(added)
        at = f" at {format_line(place)}" if place is not None else ""
        return Remedy(
            f"if no backward pass follows, add item() or detach() to {added.name}{at}, or wrap the "
            "loop in torch.no_grad(); else call backward() on each term in the loop",
            f"the graph behind {added.name} keeps what each pass saved for backward",
        )
    untrained = _find_untrained(evidence)
    if untrained:
        return Remedy(
            f"if {untrained} is not trained, call it in torch.no_grad(), or freeze it with "
            "requires_grad_(False)",
            "no optimizer updates its parameters, but they require gradients, so autograd saves "
            "its activations",
        )
    if are_older(evidence, "activations"):
        return Remedy(
            "if steps have ended since the recording began, these tensors outlive them: find what "
            "stores them, and store detach(), item() or .cpu() or bound its length",
            "they are older than the first recorded event; a recording with a larger max_entries "
            "shows the steps that allocated them",
        )
    stored = find_stored_passes(evidence)
    if not stored:
        return None
    names = format_names(stored)
    return Remedy(
        f"if no backward pass follows, wrap the passes in torch.no_grad(); else delete {names} "
        f"once {'they are' if len(stored) > 1 else 'it is'} used",
        "each result keeps the graph of its pass, and so its activations",
    )


def _advise_on_waiting_graphs(waiting: WaitingGraphs) -> Remedy:
    backward = format_line(waiting.backward)
    if waiting.retains:
        return Remedy(
            f"call backward() at {backward} on each new term of {waiting.name}, without "
            "retain_graph=True or create_graph=True",
            "gradients add up: a backward pass of the whole adds those of earlier terms again, and "
            "a graph that it retains is not freed",
        )
    if waiting.carried:
        names = " and ".join(waiting.carried)
        return Remedy(
            "every few iterations, call backward() on the loss so far and start anew with "
            f"detach() of {names} (truncated backpropagation)",
            f"the graph of all iterations is one, as each continues that of {names}",
        )
    return Remedy(
        f"if it is called on their sum or mean, call backward() on each "
        f"{'item' if waiting.items else 'term'} of {waiting.name} in its loop, instead of once "
        f"at {backward}",
        "gradients add up, and each backward frees what its own graph has saved",
    )


def _find_untrained(evidence: Evidence) -> str:
    """Return the largest model that no optimizer updates, beside one that is trained."""
    inventory = evidence.inventory
    if inventory is None:
        return ""
    models = [part for part in inventory.parts if part.role == "parameters"]
    if all(part.untrained for part in models):
        # The optimizer may have its own, flat copies.
        return ""
    untrained = [part for part in models if 2 * part.untrained > part.bytes]
    return max(untrained, key=lambda part: part.bytes).owner if untrained else ""


def _advise_on_kept_passes(growth: Growth) -> Iterator[Remedy]:
    """Return what helps if the history does not show why the passes are kept."""
    of_training = Remedy(
        f"in training, call backward() in each iteration of {describe_site(growth)}, not after the "
        "last",
        "each frees its own graph, and gradients add up",
    )
    of_evaluation = Remedy(
        "in evaluation, use torch.no_grad(), or store detach() or item()",
        "a stored tensor keeps its graph",
    )
    evaluates = growth.where is not None and EVALUATES.search(growth.where.name)
    yield from (of_evaluation, of_training) if evaluates else (of_training, of_evaluation)


def _advise_on_inference(request: FailedRequest) -> Iterator[Remedy]:
    inventory = request.evidence.inventory
    if any(map(in_backward, request.evidence.stacks)):
        return  # the backward pass has begun
    if inventory is None:
        if any(purpose.name in _OF_A_BACKWARD for purpose in request.evidence.purposes):
            return
        yield Remedy(
            "if no backward pass follows, wrap it in torch.no_grad(); if it is already, bound "
            "the length of what stores its outputs, or move them to the host with .cpu()",
            "the file has no gradient, and cannot tell saved tensors from stored outputs",
        )
    elif not is_training(inventory):
        yield Remedy(
            "if no backward pass follows, wrap it in torch.no_grad()",
            "no step was made and no gradient exists, yet each operation saves its inputs",
        )


def _advise_on_tensors(request: FailedRequest) -> Iterator[Remedy]:
    most = next(iter(request.evidence.named), None)
    if most is None or not most.bytes:
        growth = request.evidence.growth
        if growth is not None and growth.fills:
            yield Remedy(
                f"allocate fewer or smaller tensors in {describe_site(growth)}, or move them to "
                "the host; if its loop goes on for long, bound what it stores",
                f"{round_size(growth.net)} was allocated there one after another",
            )
            return
        purpose = max(
            request.evidence.purposes, key=lambda purpose: purpose.site_bytes, default=None
        )
        if purpose is None or not purpose.site:
            yield Remedy(
                f"use less GPU memory at once{request.line}: free tensors, move them to the "
                "host, or work in parts",
                f"{round_size(request.evidence.allocated)} is live in this process",
            )
            return
        yield Remedy(
            f"allocate less at {purpose.site}, free it earlier, or move it to the host; if its "
            "size depends on the batch, use a smaller batch",
            f"{purpose.site} held {round_size(purpose.site_bytes)} of the "
            f"{round_size(request.evidence.allocated)} live",
        )
        return
    unfillable = find_unfillable(request.evidence)
    if unfillable is not None:
        limit = "maxsize" if unfillable.kind.endswith("Queue") else "maxlen"
        yield Remedy(
            f"store the tensors of {unfillable.name} on the host with .cpu(), or set its {limit} "
            f"below {grouped(unfillable.length)}",
            f"its items have {round_size(unfillable.bytes // max(1, unfillable.length))} each, and "
            f"it may have {grouped(unfillable.limit)}",
        )
        return
    line = most.adds or most.where
    place = f" ({format_line(line)})" if line is not None else ""
    emptied = most.empties if isinstance(most, Container) else None
    why = (
        f"it holds {round_size(most.bytes)} of the {request.size('other tensors')} that the "
        "program references by name"
    )
    if emptied is not None:
        yield Remedy(
            f"empty {most.name}{place} more often than at {format_line(emptied)}, or keep it "
            "on the host",
            why,
        )
    elif is_of_threads(most):
        yield Remedy(
            f"run fewer threads at once, end those that wait, or free {most.name}{place} in each "
            "before it waits",
            why,
        )
    else:
        yield Remedy(
            f"keep {most.name}{place} on the host and move the part that is needed, or free it", why
        )


def _advise_on_request(request: FailedRequest) -> Iterator[Remedy]:
    copied = find_copied(request.evidence)
    if copied is not None:
        line = holder_line(copied)
        place = f" at {format_line(line)}" if line is not None else ""
        yield Remedy(
            f"move each tensor of {copied.name} to the host with .cpu() and join them there, or "
            "write them into one preallocated tensor",
            f"torch.cat and stack need {copied.name} and its copy at the same time",
        )
        if copied.enlarges:
            yield Remedy(
                f"if {copied.name} grows without end, bound its length{place}",
                f"it has {grouped(copied.length)} items",
            )
        return
    if any(map(in_backward, request.evidence.stacks)):
        yield Remedy(
            "use a smaller batch, or compute the largest tensor of the forward pass in parts, such "
            "as a language model's logits and loss over parts of the tokens",
            "backward requests the gradient of a tensor, which is as large as the tensor",
        )
        return
    if any(goes_through(stack, "/torch/nn/modules/") for stack in request.evidence.stacks):
        yield Remedy(
            f"use a smaller batch or a shorter sequence{request.line}, or compute it in parts",
            "what a model computes grows with them: logits have a value for each token and word "
            "of the vocabulary, attention weights one for each pair of tokens",
        )
    yield Remedy(
        f"allocate a smaller tensor{request.line}, or compute it in parts",
        "such a size often comes from a tensor over all pairs: x[:, None] with y[None, :], "
        "distances, attention weights, a target of (N, 1) beside an output of (N)",
    )


def _advise_nothing(_request: FailedRequest) -> Iterator[Remedy]:
    yield from ()


_OF_CAUSE: dict[LeadingCause, Callable[[FailedRequest], Iterator[Remedy]]] = {
    "leak": advise_on_leak,
    "parameters": advise_on_parameters,
    "gradients": advise_on_gradients,
    "optimizer state": advise_on_state,
    "buffers": advise_on_parameters,
    "activations": _advise_on_activations,
    "temporaries": _advise_on_temporaries,
    "other tensors": _advise_on_tensors,
    "pending": allocator_advice.advise_on_pending,
    "rounding": allocator_advice.advise_on_rounding,
    "cached": allocator_advice.advise_on_cached,
    "fragmentation": allocator_advice.advise_on_fragmentation,
    "other streams": allocator_advice.advise_on_streams,
    "CUDA graphs": allocator_advice.advise_on_graph_pools,
    "MemPool": allocator_advice.advise_on_mem_pools,
    "private pools": allocator_advice.advise_on_private,
    "process limit": allocator_advice.advise_on_limit,
    "other processes": allocator_advice.advise_on_processes,
    "outside torch": allocator_advice.advise_on_outside,
    "larger than the device": _advise_on_request,
    "larger than what was free": _advise_on_request,
    "refused with memory free": allocator_advice.advise_on_refused,
    "address space": allocator_advice.advise_on_address_space,
    "full": _advise_on_tensors,
    "unknown": _advise_nothing,
}


# ---- independent of the cause ----


def _advise_on_cast(request: FailedRequest, cause: LeadingCause) -> Iterator[Remedy]:
    evidence = request.evidence
    if not evidence.half_block or cause not in ("activations", "larger than what was free"):
        return
    yield Remedy(
        f"look for a cast to float32{request.line}: .float(), a loss or a softmax under autocast",
        f"{round_size(evidence.requested)} is exactly twice a live block, of "
        f"{evidence.half_block}; do it in parts, or keep the lower precision",
    )


def _advise_on_roundup(request: FailedRequest, cause: LeadingCause) -> Iterator[Remedy]:
    lost = request.account.of("rounding")
    large = lost > WORTH_A_WORD * request.evidence.reserved
    if large and cause != "rounding" and find_roundup(request.evidence):
        yield allocator_advice.drop_roundup(request)


def _warn_expandable_segments(request: FailedRequest, cause: LeadingCause) -> Iterator[Remedy]:
    """Warn against torch's own advice if it would not have helped."""
    evidence = request.evidence
    stuck = evidence.stuck if evidence.stuck is not None else evidence.cached
    if cause in NO_MATTER_OF_CACHE or evidence.expandable or stuck == 0:
        return
    # If a limit refused the request, the device's free memory did not count.
    lacked = evidence.needed if evidence.has_room else evidence.shortfall
    if stuck < WORTH_A_WORD * evidence.reserved and stuck < lacked:
        return
    beside = "" if evidence.stuck is None else " beside live blocks"
    cached = f"{round_size(stuck)} is cached{beside}"
    if stuck < lacked:
        state = "requested" if evidence.has_room else "missing"
        why = f"{cached}, less than the {state} {round_size(lacked)}"
    else:
        why = (
            f"{cached}: empty_cache() cannot release it, and expandable segments would fit this "
            "request, but not the next"
        )
    yield Remedy(
        "expandable segments and empty_cache() do not help",
        why,
        futile="expandable segments, empty_cache()",
    )


def _advise_history(request: FailedRequest, cause: LeadingCause) -> Iterator[Remedy]:
    """Advise recording a history if there was none and it would give more information."""
    evidence = request.evidence
    if evidence.recorded or (evidence.history and (request.where is not None or evidence.watched)):
        return
    unnamed = cause == "leak" and request.leak is not None and request.leak.kind == "unnamed"
    if evidence.watched:
        if unnamed or cause in ("full", "unknown", "cached"):
            yield Remedy(
                f"run it with {RECORD}",
                "the history names the lines that allocated the live memory",
            )
    elif evidence.inventory is None and (
        unnamed or cause in ("full", "unknown") or not request.where
    ):
        yield Remedy(
            f"start the program with {EXAMPLE}",
            "the requesting line or the memory's owner was not recorded; its snapshot at an "
            "OOM names it",
        )
