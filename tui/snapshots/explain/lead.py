"""The leading cause: the one without which this request and the next steps would have fit.

On a full device a request lacks only a few MiB, so any holder of a few MiB would have been enough
for this request, but not for the next. A cause other than live memory therefore leads only if it
also holds a considerable part of the device. A leak takes precedence over all others: it would have
filled any room that they left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tui.snapshots.explain.account import (
    Account,
    Capacity,
    find_kept_models,
    find_kept_optimizers,
    find_stray_gradients,
)
from tui.snapshots.explain.evidence import Evidence
from tui.snapshots.explain.explanation import AccountName, LeadingCause
from tui.snapshots.explain.frames import Frame, goes_through
from tui.snapshots.explain.holders import find_unfillable
from tui.snapshots.explain.inventory import Inventory, find_main_stack
from tui.snapshots.explain.leak_facts import LARGE, SHARE, Leak
from tui.snapshots.explain.thresholds import (
    FOR_LONG,
    FOR_LONG_AT_START,
    FRAGMENTED,
    NORMAL_OUTSIDE,
    OTHERS_SHARE,
    OUTSIDE_SHARE,
    REQUEST_OF_DEVICE,
    REQUEST_SHARE,
    SIZE_WITHIN,
    exceeds_device,
    exceeds_process_limit,
    has_fitting_piece,
    has_room,
)
from workloads.agent import UNSTORED_STATE

_DIVISIONS = re.compile(r":\s*[1-9]")
_OPTIMIZER = "/torch/optim/"
_SGD = f"{_OPTIMIZER}sgd.py"
_STATE_MADE_IN = ("_init_group", "_init_state", "load_state_dict")
_MADE_IN_BACKWARD = ("gradients", "backward pass")
_MODULE = "/torch/nn/modules/module.py"
_CHECKPOINT = "/torch/utils/checkpoint.py"
_RECOMPUTES = ("recompute_fn", "unpack_hook", "backward")
"""Functions of activation checkpointing that run in a backward pass."""
_LIVE: tuple[AccountName, ...] = (
    "parameters",
    "gradients",
    "optimizer state",
    "buffers",
    "activations",
    "temporaries",
    "other tensors",
)


def find_leading_cause(
    evidence: Evidence, account: Account, leak: Leak | None, device: Capacity
) -> LeadingCause:
    """Decide which cause leads."""
    if evidence.address_space:
        return "address space"
    if exceeds_device(evidence.needed, evidence.total):
        return "larger than the device"
    if leak is not None and _leads(leak, evidence, account):
        return "leak"
    growing = _find_growing(evidence)
    if growing is not None:
        return growing
    if exceeds_process_limit(evidence.needed, evidence.reserved, evidence.allowed):
        return "process limit"
    if evidence.free is not None and evidence.free >= evidence.needed:
        return "refused with memory free"
    if has_fitting_piece(evidence.requested, evidence.largest):
        return "unknown"
    suspect = _find_suspect(evidence, account, device)
    if suspect is not None:
        return suspect
    if _is_request_too_large(evidence, device) and not find_large_gradient(evidence):
        return "larger than what was free"
    return _find_live_cause(evidence, account, device)


def _find_growing(evidence: Evidence) -> LeadingCause | None:
    """Return what grows with each iteration although it is no leak: it reaches any limit."""
    passes = evidence.kept_passes
    if passes is not None and passes.net >= SHARE * evidence.allocated:
        return "activations"
    if find_unfillable(evidence) is not None:
        return "other tensors"
    return None


def _leads(leak: Leak, evidence: Evidence, account: Account) -> bool:
    leaked = account.of("leak")
    if leaked < SHARE * evidence.allocated:
        return False
    if leak.rate is None or leak.rate.per == "iteration":
        # A setting that wastes much of the device is certain, but a loop is not.
        lost = account.of("rounding") if rounds_sizes_up(dict(evidence.settings)) else 0
        if lost >= FRAGMENTED * account.used:
            return False
    if leak.rate is not None:
        return leaked >= min(evidence.shortfall, int(LARGE * evidence.allocated))
    others: tuple[AccountName, ...] = (
        "other processes",
        "outside torch",
        "cached",
        "fragmentation",
        "other streams",
        "CUDA graphs",
        "MemPool",
        "private pools",
        "rounding",
        "pending",
    )
    return leaked >= max(map(account.of, others))


def are_of_graphs(leak: Leak, account: Account) -> bool:
    """Return whether what seems a leak is the inputs and outputs of CUDA graphs.

    Replays need them, and what grows is the graphs' pools. A measured growth is a leak anyway.
    """
    if leak.rate is not None or leak.kind != "list":
        return False
    return 2 * account.of("CUDA graphs") >= account.of("leak")


def rounds_sizes_up(settings: Mapping[str, str]) -> bool:
    """Return whether requests are rounded to more than 512 bytes (``roundup_power2_divisions``)."""
    return _DIVISIONS.search(settings.get("roundup_power2_divisions", "")) is not None


def _find_suspect(evidence: Evidence, account: Account, device: Capacity) -> LeadingCause | None:
    """Return the largest holder besides live memory as the cause, if it is large enough."""
    at_start = makes_state(evidence) or (
        evidence.step is not None and evidence.step <= 1 and evidence.inventory is not None
    )
    long = int((FOR_LONG_AT_START if at_start else FOR_LONG) * account.used)
    enough = max(evidence.shortfall, long, 1)
    known = device.known
    # Without a snapshot, the pieces and their owners are unknown.
    known_pieces = evidence.largest is not None
    in_pieces: AccountName = "fragmentation" if known_pieces else "cached"
    least: dict[AccountName, int] = {
        in_pieces: enough if evidence.stuck is not None else known + 1,
        "other streams": enough,
        "CUDA graphs": enough,
        "MemPool": enough,
        "private pools": enough,
        "rounding": enough,
        "pending": enough,
        "other processes": max(evidence.shortfall, int(OTHERS_SHARE * known)),
        "outside torch": max(evidence.shortfall, NORMAL_OUTSIDE, int(OUTSIDE_SHARE * known)),
    }
    sizes = {name: account.of(name) for name in least}
    if not known_pieces or sizes[in_pieces] < evidence.shortfall + evidence.requested:
        pieces = int(FRAGMENTED * account.used)
        if evidence.total is not None and evidence.needed >= REQUEST_OF_DEVICE * evidence.total:
            # Without free memory the pieces must hold it: its step may make more such requests.
            pieces = max(pieces, evidence.needed)
        least[in_pieces] = max(least[in_pieces], pieces)
    able = {name: sizes[name] for name in least if sizes[name] >= least[name] and sizes[name]}
    if able:
        return max(able, key=lambda name: able[name])
    cached: tuple[AccountName, ...] = (
        in_pieces,
        "other streams",
        "CUDA graphs",
        "MemPool",
        "private pools",
    )
    together = {name: sizes[name] for name in cached if sizes[name]}
    if sizes["other processes"] >= int(OTHERS_SHARE * known):
        together["other processes"] = sizes["other processes"]
    if (
        len(together) > 1
        and evidence.stuck is not None
        and sum(together.values()) >= max(enough, 2 * long)
    ):
        most = max(together, key=lambda name: together[name])
        return most if together[most] >= long else None
    return None


def _is_request_too_large(evidence: Evidence, device: Capacity) -> bool:
    """Return whether one large request failed although much of the device was free."""
    room = (evidence.free or 0) + evidence.cached
    if not has_room(room, device.known) or evidence.free is None:
        return False
    if evidence.total is None and not device.inferred:
        return evidence.needed > evidence.allocated
    large = evidence.needed >= REQUEST_OF_DEVICE * device.known
    return large or evidence.needed >= REQUEST_SHARE * evidence.allocated


def _find_stack(evidence: Evidence) -> tuple[Frame, ...]:
    return evidence.stack or find_main_stack(evidence.threads)


def in_optimizer(evidence: Evidence) -> bool:
    """Return whether an optimizer's step made the request."""
    return goes_through(_find_stack(evidence), _OPTIMIZER)


def makes_state(evidence: Evidence) -> bool:
    """Return whether an optimizer made the request for its state."""
    stack = _find_stack(evidence)
    return goes_through(stack, _OPTIMIZER, *_STATE_MADE_IN) or (
        goes_through(stack, _SGD) and _has_unstored_state(evidence)
    )


def _has_unstored_state(evidence: Evidence) -> bool:
    """Return whether a running step of SGD has made state that it has not stored yet."""
    parts = evidence.inventory.parts if evidence.inventory is not None else ()
    return any(row.name == UNSTORED_STATE for part in parts for row in part.largest)


def recomputes(evidence: Evidence) -> bool:
    """Return whether a backward pass was computing a checkpointed part again."""
    return any(goes_through(stack, _CHECKPOINT, *_RECOMPUTES) for stack in evidence.stacks)


def loads_checkpoint(evidence: Evidence) -> bool:
    """Return whether a checkpoint was being read onto the device."""
    return goes_through(_find_stack(evidence), "/torch/serialization.py")


def copies_model(evidence: Evidence) -> bool:
    """Return whether a model or its state was being copied by ``copy.deepcopy``."""
    return goes_through(_find_stack(evidence), "/copy.py", "deepcopy")


def makes_model(evidence: Evidence) -> bool:
    """Return whether a model was being built, moved, copied or loaded."""
    stack = _find_stack(evidence)
    return (
        goes_through(
            stack, _MODULE, "_apply", "to_empty", "_load_from_state_dict", "load_state_dict"
        )
        or goes_through(stack, "/torch/nn/modules/", "__init__", "reset_parameters")
        or goes_through(stack, "/torch/nn/parameter.py")
        or loads_checkpoint(evidence)
        or copies_model(evidence)
        or goes_through(stack, "/torch/optim/swa_utils.py")
        or goes_through(stack, "/transformers/modeling_utils.py", "from_pretrained")
    )


DATA_OF_MODEL = 3
"""Ratio of other tensors to a model that is being built from which they lead: a checkpoint with
Adam's state has three times the model's bytes."""
SHARE_OF_STATE = 0.75
"""Optimizer state's share of a model's bytes from which kept optimizers lead: one Adam has half."""


def _find_live_cause(evidence: Evidence, account: Account, device: Capacity) -> LeadingCause:
    """Return the cause from the main purpose of live memory and the operation that failed."""
    if evidence.inventory is None and not evidence.purposes:
        full = evidence.total is not None or device.inferred
        return "full" if full and evidence.allocated >= device.known / 2 else "unknown"
    sizes = {name: account.of(name) for name in _LIVE}
    model = account.of("parameters", "gradients", "optimizer state")
    others = sizes["other tensors"]
    if (
        makes_model(evidence)
        and model + others >= sizes["activations"]
        and (loads_checkpoint(evidence) or others < DATA_OF_MODEL * model)
    ):
        return "parameters"
    if find_kept_models(evidence) is not None and model >= sizes["activations"]:
        return "parameters"
    state = sizes["optimizer state"]
    if find_kept_optimizers(evidence)[1] and state >= max(
        SHARE_OF_STATE * model, sizes["activations"]
    ):
        return "optimizer state"
    if in_optimizer(evidence) and model >= max(sizes["activations"], others):
        return "optimizer state" if makes_state(evidence) else "temporaries"
    if _lead_gradients(evidence, model, sizes["activations"], others):
        return "gradients"
    cause = max(sizes, key=lambda name: sizes[name])
    if cause == "other tensors" and not _is_named(evidence):
        return "full"
    return cause


def _lead_gradients(evidence: Evidence, model: int, activations: int, others: int) -> bool:
    if find_stray_gradients(evidence) is not None:
        return model >= activations
    return model >= activations + others and _is_gradient(evidence)


def _is_named(evidence: Evidence) -> bool:
    inventory = evidence.inventory
    if inventory is None:
        return any(purpose.site for purpose in evidence.purposes)
    return bool(inventory.containers or inventory.variables or inventory.other_count)


def _is_gradient(evidence: Evidence) -> bool:
    """Return whether a backward pass requested the size of a parameter's gradient."""
    inventory = evidence.inventory
    if inventory is None:
        # A thread without Python frames is usually autograd's.
        return not evidence.stack and any(
            purpose.name in _MADE_IN_BACKWARD for purpose in evidence.purposes
        )
    return bool(_list_owners_of_size(evidence, inventory))


def find_large_gradient(evidence: Evidence) -> str:
    """Return the parameter whose gradient is a large request of a backward pass: ``model.head``."""
    inventory = evidence.inventory
    if inventory is None or evidence.requested < REQUEST_SHARE * evidence.allocated:
        return ""
    return next(iter(_list_owners_of_size(evidence, inventory)), "")


def _list_owners_of_size(evidence: Evidence, inventory: Inventory) -> list[str]:
    """Return the parameters of the request's size if a backward pass made the request."""
    stack = find_main_stack(evidence.threads)
    if evidence.thread is not None and not goes_through(stack, "/torch/autograd/"):
        return []
    return [
        f"{variable.name} of {part.owner}" if variable.name else part.owner
        for part in inventory.parts
        if part.role == "parameters"
        for variable in part.largest
        if abs(variable.bytes - evidence.requested) < SIZE_WITHIN
    ]
