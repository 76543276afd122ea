"""The conclusion in one sentence per cause, with the holder and its share of memory."""

from __future__ import annotations

from collections.abc import Callable

from tui.core.text.numbers import count, round_size
from tui.snapshots.explain.account import (
    Account,
    Capacity,
    are_older,
    describe_models,
    find_kept_models,
    find_kept_optimizers,
    find_models,
    find_stray_gradients,
    list_owners,
)
from tui.snapshots.explain.evidence import Evidence
from tui.snapshots.explain.explanation import AccountName, LeadingCause
from tui.snapshots.explain.frames import format_line, format_place
from tui.snapshots.explain.holders import (
    find_copied,
    find_left_over,
    find_stored_passes,
    find_unfillable,
    find_waiting_graphs,
    format_holder,
    format_name,
    format_names,
    full_size,
    is_of_threads,
)
from tui.snapshots.explain.inventory import Container
from tui.snapshots.explain.lead import (
    copies_model,
    find_large_gradient,
    in_optimizer,
    loads_checkpoint,
    recomputes,
    rounds_sizes_up,
)
from tui.snapshots.explain.leak_facts import (
    Leak,
    adds_much,
    describe_pace,
    describe_site,
    find_growth_rate,
    format_pace,
)
from tui.snapshots.explain.leak_sums import find_sum_of_passes
from tui.snapshots.explain.thresholds import has_fitting_piece

BESIDE_LEFT_OVERS: tuple[LeadingCause, ...] = (
    *("activations", "gradients", "temporaries", "other tensors", "larger than what was free"),
)
"""Causes beside which a tensor of the previous iteration matters."""
COPIES_SHARE = 0.1
"""Share of the allocated bytes from which what a program has copied before is named."""
Sentence = Callable[[Evidence, Account, Capacity], str]


def conclude(
    evidence: Evidence, account: Account, leak: Leak | None, device: Capacity, cause: LeadingCause
) -> str:
    """Conclude in one sentence: the cause, the holder and its bytes."""
    if cause == "leak" and leak is not None:
        limit = ""
        if leak.empties is not None:
            limit = f"; {format_line(leak.empties)} removes items, but later"
        return f"Leak: {leak.subject}{describe_pace(leak)}{limit}."
    size = round_size(evidence.requested)
    words = _OF_CAUSE.get(cause)
    if words is not None:
        sentence = words(evidence, account, device)
        left_over = find_left_over(evidence) if cause in BESIDE_LEFT_OVERS else None
        if left_over is None:
            return sentence
        return (
            f"{sentence[:-1]}; {left_over.name} of the previous iteration still holds "
            f"{round_size(left_over.bytes)}."
        )
    if cause == "full":
        return _describe_full(evidence, account, device)
    if has_fitting_piece(evidence.requested, evidence.largest):
        return (
            f"Unknown: {size} was refused, although a piece of "
            f"{round_size(evidence.largest or 0)} seems to have been free."
        )
    return (
        f"Unknown: {size} was refused with {round_size(evidence.allocated)} live; the device has "
        f"{device.words}, and whether this process fills it is unknown."
    )


def _describe_full(evidence: Evidence, account: Account, device: Capacity) -> str:
    share = _of_device(evidence.allocated, device)
    cached = account.of("cached")
    rate, grows = find_growth_rate(evidence), ""
    if rate is not None and rate.per == "step" and adds_much(rate, evidence):
        grows = f" and grow by {format_pace(rate)}"
    beside = ""
    if cached >= max(1, evidence.needed):
        size = round_size(evidence.requested)
        beside = f"; {round_size(cached)} is cached, perhaps in pieces too small for {size}"
    return f"Full: live tensors hold {share}{grows}{beside}."


def _of_device(size: int, device: Capacity) -> str:
    if device.bytes is None:
        return round_size(size)
    of = device.words if device.inferred else f"the device's {device.words}"
    return f"{round_size(size)} of {of}"


def _list_sizes(account: Account, *names: AccountName) -> str:
    """Format the account rows with the given names: ``6.0 GiB of parameters and …``."""
    return " and ".join(
        f"{round_size(account.of(name))} of {name}" for name in names if account.of(name)
    )


def _describe_parameters(evidence: Evidence, account: Account, device: Capacity) -> str:
    models, all_of = find_models(evidence), list_owners(evidence, "parameters")
    copies = find_kept_models(evidence)
    if copies is not None:
        whole = account.of("parameters", "buffers", "gradients", "optimizer state")
        of_training: tuple[AccountName, ...] = ("gradients", "optimizer state")
        parts = " and ".join(name for name in of_training if account.of(name))
        return (
            f"Parameters: {copies.number} {copies.all}{f', with {parts},' if parts else ''} hold "
            f"{_of_device(whole, device)}."
        )
    share = _of_device(account.of("parameters", "buffers"), device)
    if loads_checkpoint(evidence):
        others = _list_sizes(account, "gradients", "optimizer state")
        beside = f" and {others}" if others else ""
        return (
            f"Parameters: a checkpoint is loaded onto the device, where parameters hold {share}"
            f"{beside}."
        )
    if copies_model(evidence) and len(all_of) < 2:
        other = next(iter(evidence.named), None)
        beside = ""
        if other is not None and other.bytes >= COPIES_SHARE * evidence.allocated:
            beside = f", and {format_name(other)} {round_size(other.bytes)}"
        owner = models[0] if models else "parameters"
        holds = "holds" if models else "hold"
        return f"Parameters: copy.deepcopy makes another copy; {owner} {holds} {share}{beside}."
    if len(all_of) > 1:
        number = f"{len(models)} models, " if len(models) > 1 else ""
        return f"Parameters: {number}{describe_models(evidence)}, hold {share}."
    if models:
        return f"Parameters: {models[0]} holds {share}."
    return f"Parameters hold {share}."


def _describe_gradients(evidence: Evidence, account: Account, device: Capacity) -> str:
    beside = _list_sizes(account, "parameters", "optimizer state")
    stray = find_stray_gradients(evidence)
    if stray is not None:
        return (
            f"Gradients: {_of_device(stray.bytes, device)} are of parameters of {stray.owner} that "
            f"no optimizer updates, beside {beside}."
        )
    owner = find_large_gradient(evidence)
    if owner:
        size = round_size(evidence.requested)
        return f"Gradients: {size} for {owner} in one piece does not fit beside {beside}."
    if account.of("gradients") < account.of("parameters") // 20:
        return f"Gradients do not fit beside {beside}."
    share = _of_device(account.of("gradients"), device)
    return f"Gradients hold {share}" + (f", beside {beside}." if beside else ".")


def _describe_state(evidence: Evidence, account: Account, device: Capacity) -> str:
    who = list_owners(evidence, "optimizer state")
    subject = f"Optimizer state: {who[0]}" if who else "Optimizer state"
    state = account.of("optimizer state")
    collection, number = find_kept_optimizers(evidence)
    if collection:
        share = _of_device(state, device)
        return f"Optimizer state: {number} optimizers in {collection} hold {share}."
    beside = _list_sizes(account, "parameters", "gradients")
    so_far = f" holds {_of_device(state, device)}" if state else " does not fit"
    return f"{subject}{so_far}" + (f", beside {beside}." if beside else ".")


def _describe_activations(evidence: Evidence, account: Account, device: Capacity) -> str:
    share = _of_device(account.of("activations"), device)
    waiting = find_waiting_graphs(evidence)
    if waiting is not None and waiting.retains:
        return (
            f"Activations: {waiting.subject} keeps them, as backward at "
            f"{format_line(waiting.backward)} retains the graph; they hold {share}."
        )
    if waiting is not None:
        return (
            f"Activations: {waiting.subject} keeps them until backward at "
            f"{format_line(waiting.backward)}; they hold {share}."
        )
    added = find_sum_of_passes(evidence)
    if added is not None:
        return f"Activations: {format_holder(added)} keeps those of each pass; they hold {share}."
    passes = evidence.kept_passes
    if passes is not None:
        return (
            f"Activations of {describe_site(passes)} grow by {round_size(passes.per_iteration)} "
            "per iteration, and no backward pass frees them."
        )
    if are_older(evidence, "activations"):
        return (
            f"Activations, or stored outputs: tensors of forward passes hold {share}, most of them "
            "older than the recording."
        )
    if evidence.inventory is None:
        # A stack does not show why a forward pass's tensor is stored.
        return f"Activations: tensors of forward passes hold {share}."
    stored = find_stored_passes(evidence)
    if stored:
        several = len(stored) > 1
        return (
            f"Activations of {len(stored) + 1} passes hold {share}: {format_names(stored)} "
            f"{'keep' if several else 'keeps'} those of the earlier {'ones' if several else 'one'}."
        )
    if recomputes(evidence):
        part = "a checkpointed part, which backward recomputes as a whole,"
        return f"Activations: {part} holds {share}."
    return f"Activations: tensors saved for backward hold {share}."


def _describe_temporaries(evidence: Evidence, account: Account, device: Capacity) -> str:
    size = round_size(evidence.requested)
    if in_optimizer(evidence):
        return f"Temporaries: the optimizer's step requested {size} beside its model and state."
    share = _of_device(account.of("temporaries"), device)
    return f"Temporaries hold {share}; {size} more was requested."


def _describe_others(evidence: Evidence, account: Account, device: Capacity) -> str:
    rows = [row for row in account.rows if row.name == "other processes"]
    share = _of_device(sum(row.bytes for row in rows), device)
    least = "at least " if not evidence.holders and not evidence.others else ""
    named = [f"{row.description} {round_size(row.bytes)}" for row in rows if evidence.holders]
    who = f": {', '.join(named[:3])}" if named else ""
    return f"Other processes hold {least}{share}{who}."


def _describe_tensors(evidence: Evidence, account: Account, device: Capacity) -> str:
    unfillable = find_unfillable(evidence)
    if unfillable is not None:
        return (
            f"Limit: {format_holder(unfillable)} holds {_of_device(unfillable.bytes, device)} and "
            f"would need {round_size(full_size(unfillable))} when full."
        )
    share = _of_device(account.of("other tensors"), device)
    inventory = evidence.inventory
    if inventory is not None:
        named = evidence.named
        if named and named[0].bytes:
            most = named[0]
            line = most.adds or most.where
            # The description of threads already names their function.
            format_code = format_line if is_of_threads(most) else format_place
            place = f", {format_code(line)}" if line is not None else ""
            emptied = most.empties if isinstance(most, Container) else None
            if emptied is not None:
                place += f", emptied at {format_line(emptied)}"
            if 2 * most.bytes < account.of("other tensors"):
                size = round_size(most.bytes)
                return (
                    f"Tensors of the program hold {share}, of which {format_name(most)} is the "
                    f"largest with {size}{place}."
                )
            return f"Tensors of the program hold {share}, most of it in {format_name(most)}{place}."
        return f"Tensors reachable from Python hold {share}."
    growth = evidence.growth
    if growth is not None and growth.fills:
        return (
            f"{count(growth.count, 'tensor')} of {describe_site(growth)} hold "
            f"{_of_device(growth.net, device)}; none was freed, and nothing else was allocated "
            "meanwhile."
        )
    site = next((purpose.site for purpose in evidence.purposes if purpose.site), "")
    return f"Tensors of {site} and other lines hold {share}."


def _describe_rounding(evidence: Evidence, account: Account, device: Capacity) -> str:
    divisions = find_roundup(evidence)
    who = f"roundup_power2_divisions:{divisions}" if divisions else "rounding of sizes"
    return (
        f"Rounding: {who} makes blocks {_of_device(account.of('rounding'), device)} larger than "
        "requested."
    )


def find_roundup(evidence: Evidence) -> str:
    """Return the value of ``roundup_power2_divisions``, or an empty string if it is off."""
    value = dict(evidence.settings).get("roundup_power2_divisions", "")
    if not rounds_sizes_up(dict(evidence.settings)):
        return ""
    # torch lists one value per size; most often all are equal.
    kinds = {part.rpartition(":")[2].strip(" '\"{}") for part in value.split(",")}
    return kinds.pop() if len(kinds) == 1 else value


def _describe_fragmentation(evidence: Evidence, account: Account, device: Capacity) -> str:
    share = _of_device(account.of("fragmentation"), device)
    size = round_size(evidence.requested)
    largest = evidence.largest or 0
    if round_size(largest) == size and largest < evidence.requested:
        # The difference is what was missing: not to be rounded away.
        size = f"{round_size(evidence.requested - largest)} more than that"
    pieces = f"of at most {round_size(largest)}" if largest else "that this request cannot use"
    return (
        f"Fragmentation: {share} is cached and not in use, in pieces {pieces}; "
        f"{size} was requested."
    )


def _describe_cached(evidence: Evidence, account: Account, device: Capacity) -> str:
    share = _of_device(account.of("cached"), device)
    return (
        f"Cached: {share} is cached and not in use (fragmentation, other streams or private "
        f"pools); {round_size(evidence.requested)} was requested."
    )


def _describe_cache(name: AccountName, who: str) -> Sentence:
    def describe(_evidence: Evidence, account: Account, device: Capacity) -> str:
        return f"{who} hold {_of_device(account.of(name), device)} that only they can use."

    return describe


def _describe_limit(evidence: Evidence, _found: Account, _device: Capacity) -> str:
    allowed = round_size(evidence.allowed or 0)
    return (
        f"Process limit: set_per_process_memory_fraction allows {allowed}; "
        f"{round_size(evidence.reserved)} was reserved and {round_size(evidence.needed)} more "
        "requested."
    )


def _describe_outside(_evidence: Evidence, account: Account, device: Capacity) -> str:
    share = _of_device(account.of("outside torch"), device)
    return f"This process holds {share} outside torch."


def _describe_too_large(evidence: Evidence, _found: Account, device: Capacity) -> str:
    return (
        f"Request: {round_size(evidence.requested)} in one piece is more than the device has, "
        f"{device.words}."
    )


def _describe_larger(evidence: Evidence, _found: Account, device: Capacity) -> str:
    copied = find_copied(evidence)
    size = f", the size of {format_holder(copied)}" if copied is not None else ""
    return (
        f"Request: {round_size(evidence.requested)} in one piece{size}; "
        f"{round_size(evidence.free or 0)} was free and {round_size(evidence.allocated)} live of "
        f"{device.words}."
    )


def _describe_refused(evidence: Evidence, _found: Account, _device: Capacity) -> str:
    return (
        f"Refused with memory free: {round_size(evidence.needed)} was refused with "
        f"{round_size(evidence.free or 0)} free on the device, perhaps by a limit."
    )


def _describe_address_space(_evidence: Evidence, _found: Account, _device: Capacity) -> str:
    return "Virtual address space ran out, not memory."


def _describe_pending(_evidence: Evidence, account: Account, device: Capacity) -> str:
    share = _of_device(account.of("pending"), device)
    return f"Pending: {share} was freed, but streams still use it (record_stream)."


def _describe_buffers(evidence: Evidence, account: Account, device: Capacity) -> str:
    who = list_owners(evidence, "buffers")
    subject = f"Buffers of {who[0]}" if who else "Buffers"
    return f"{subject} hold {_of_device(account.of('buffers'), device)}."


_OF_CAUSE: dict[LeadingCause, Sentence] = {
    "parameters": _describe_parameters,
    "gradients": _describe_gradients,
    "optimizer state": _describe_state,
    "buffers": _describe_buffers,
    "activations": _describe_activations,
    "temporaries": _describe_temporaries,
    "other tensors": _describe_tensors,
    "pending": _describe_pending,
    "rounding": _describe_rounding,
    "cached": _describe_cached,
    "fragmentation": _describe_fragmentation,
    "other streams": _describe_cache("other streams", "Other streams: their caches"),
    "CUDA graphs": _describe_cache("CUDA graphs", "CUDA graphs: their private pools"),
    "MemPool": _describe_cache("MemPool", "MemPool: pools of torch.cuda.MemPool"),
    "private pools": _describe_cache("private pools", "Private pools (CUDA graphs or MemPool)"),
    "process limit": _describe_limit,
    "other processes": _describe_others,
    "outside torch": _describe_outside,
    "larger than the device": _describe_too_large,
    "larger than what was free": _describe_larger,
    "refused with memory free": _describe_refused,
    "address space": _describe_address_space,
}
