"""The account of a device's used memory: one row per holder; the rows add up to the total.

The sources may disagree slightly: they were read one after another, and a text rounds to two
decimals. Each row is therefore limited to the rest of the total, the most reliable row first,
and the remainder forms a row of its own with its reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tui.core.text.numbers import round_size
from tui.snapshots.explain.evidence import Evidence, Purpose
from tui.snapshots.explain.explanation import AccountName, AccountRow
from tui.snapshots.explain.frames import goes_through, in_backward
from tui.snapshots.explain.holders import is_of_one_graph
from tui.snapshots.explain.inventory import ModelPart, split_owner
from tui.snapshots.explain.leak_facts import Leak
from tui.snapshots.explain.oom_text import TEXT_ROUNDING

GIB = 1 << 30
USUAL = (2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 180, 192, 288)
"""Capacities of cards on the market, in GB. The driver reports up to a tenth less than this number
of GiB, because of ECC and the driver's own memory."""
NEARLY = 0.92
"""Share of a usual capacity in GiB above which known bytes identify the device's capacity."""
ROLES: dict[str, AccountName] = {
    "parameters": "parameters",
    "buffers": "buffers",
    "gradients": "gradients",
    "optimizer state": "optimizer state",
}
PURPOSES: dict[str, AccountName] = {
    **ROLES,
    "activations": "activations",
    "forward pass": "activations",
    "autograd details": "activations",
    "inputs": "other tensors",
    "backward pass": "gradients",
    "optimizer step": "temporaries",
    "temporaries": "temporaries",
    "cuBLAS workspace": "cuBLAS workspace",
}
"""Account row for each category of live memory in a history."""


def are_older(evidence: Evidence, name: AccountName) -> bool:
    """Return whether most bytes of an account row were allocated before the recording began."""
    if evidence.inventory is not None:
        return False
    of_row = [purpose for purpose in evidence.purposes if PURPOSES.get(purpose.name) == name]
    older = sum(purpose.older for purpose in of_row)
    return older > 0 and 2 * older >= sum(purpose.bytes for purpose in of_row)


@dataclass(frozen=True, slots=True)
class Capacity:
    """The known part of the device's capacity."""

    bytes: int | None
    words: str
    inferred: bool = False
    known: int = 0
    """A lower bound in bytes."""


def infer_capacity(evidence: Evidence) -> Capacity:
    """Return the device's stated capacity, else the usual one that the known bytes nearly fill."""
    if evidence.total is not None:
        return Capacity(evidence.total, round_size(evidence.total), known=evidence.total)
    others = max(evidence.others or 0, evidence.others_least)
    least = max(evidence.reserved, evidence.process or 0) + (evidence.free or 0) + others
    for size in USUAL:
        if NEARLY * size * GIB <= least <= size * GIB and size >= 8:
            article = "an" if size in (8, 11, 80, 180) else "a"
            return Capacity(least, f"{article} {size} GB device", inferred=True, known=least)
    return Capacity(None, f"at least {round_size(least)}", known=least)


MOST_RESERVED = 0.1
"""The largest part of a GPU for its driver; a larger one would be that of another MIG instance."""


def describe_capacity(evidence: Evidence, device: Capacity) -> str:
    """Return the device's capacity, and by what NVML's total of the GPU exceeds it.

    CUDA's total, which torch states, lacks the memory that the driver reserves.
    """
    if device.inferred:
        return f"{device.words} (inferred)"
    total, of_gpu = evidence.total, evidence.gpu_total
    if total is None or of_gpu is None or not 0 < of_gpu - total <= MOST_RESERVED * of_gpu:
        return device.words
    reserved = round_size(of_gpu - total)
    if round_size(total) == round_size(of_gpu):
        return device.words
    return f"{device.words} usable ({round_size(of_gpu)} less {reserved} for the driver)"


@dataclass(frozen=True, slots=True)
class Account:
    """The rows of the account and their total."""

    rows: tuple[AccountRow, ...]
    used: int

    def of(self, *names: AccountName) -> int:
        """Return the bytes in all rows with the given names, or 0 if there are none."""
        return sum(row.bytes for row in self.rows if row.name in names)


class _Whole:
    """A total from which rows are deducted until nothing is left."""

    def __init__(self, size: int) -> None:
        self.left = max(0, size)
        self.rows: list[tuple[AccountName, int, str]] = []

    def deduct(self, name: AccountName, size: int, about: str) -> int:
        deducted = min(max(0, size), self.left)
        if deducted:
            self.left -= deducted
            self.rows.append((name, deducted, about))
        return deducted

    def deduct_rest(self, name: AccountName, about: str) -> int:
        return self.deduct(name, self.left, about)


def compute_used(evidence: Evidence) -> int:
    """Return the used bytes of the device, at least the bytes that torch had reserved."""
    others = max(
        evidence.others or 0,
        evidence.others_least,
        sum(holder.bytes for holder in evidence.holders),
    )
    in_use = max(evidence.reserved, evidence.process or 0) + others
    if evidence.total is None:
        return in_use
    if evidence.free is None:
        return min(in_use, evidence.total) if in_use else 0
    return max(0, evidence.total - evidence.free, evidence.reserved)


def compute_account(evidence: Evidence, leak: Leak | None) -> Account:
    """Divide the device's used memory into rows that add up to it."""
    used = compute_used(evidence)
    device = _Whole(used)
    torch = _Whole(min(evidence.reserved, used))
    device.left -= torch.left
    live = _Whole(min(evidence.allocated, torch.left))
    torch.left -= live.left
    _divide_live(evidence, live, leak)
    _divide_cached(evidence, torch)
    _divide_outside(evidence, device)
    rows = [*live.rows, *torch.rows, *device.rows]
    return Account(_merge_rows(rows, used), used)


def _divide_live(evidence: Evidence, live: _Whole, leak: Leak | None) -> None:
    if evidence.rounding:
        live.deduct("rounding", evidence.rounding, "larger than requested")
    live.deduct("pending", evidence.pending, "freed, but in use by a stream (record_stream)")
    if evidence.inventory is not None:
        _divide_by_inventory(evidence, live, leak)
    elif evidence.purposes:
        _divide_by_history(evidence, live, leak)
    elif leak is not None:
        live.deduct("leak", leak.bytes, leak.subject)
    if evidence.inventory is not None or evidence.purposes:
        live.deduct_rest("other tensors", "purpose unknown")
    else:
        why = "purpose unknown: no inventory, no history"
        live.deduct_rest("live tensors" if leak is None else "other tensors", why)


def _divide_by_inventory(evidence: Evidence, live: _Whole, leak: Leak | None) -> None:
    inventory = evidence.inventory
    assert inventory is not None
    for role, name in ROLES.items():
        parts = [part for part in inventory.parts if part.role == role]
        owners = ", ".join(dict.fromkeys(part.owner for part in parts))
        own_of_leak = [p.bytes for p in parts if leak is not None and _is_leak_of(leak, p)]
        live.deduct(name, sum(part.bytes for part in parts) - sum(own_of_leak), owners)
    leaked = 0 if leak is None else live.deduct("leak", leak.bytes, leak.subject)
    # The leak's bytes are already counted: first the tensors under its name, then its graphs.
    of_name = 0 if leak is None else min(leak.reachable, leaked)
    behind = leaked - of_name
    own = () if leak is None else (leak.name, *leak.also)
    named = [holder for holder in evidence.named if holder.name not in own]
    # A collection of tensors of one graph adds nothing to what autograd saves.
    of_pass = [holder for holder in named if is_of_one_graph(holder)]
    named = [holder for holder in named if holder not in of_pass]
    plain, unnamed = sum(holder.bytes for holder in named), inventory.other_bytes
    left = inventory.remainder + sum(holder.bytes for holder in of_pass)
    if _has_graph(evidence):
        # Tensors that autograd saved also have a Python object if Python created them.
        left, unnamed = left + unnamed, 0
    plain += max(0, unnamed - max(0, behind - left))
    names = ", ".join(dict.fromkeys(variable.name for variable in named[:4] if variable.bytes))
    temporaries = sum(
        purpose.bytes for purpose in evidence.purposes if purpose.name == "optimizer step"
    )
    remainder = max(0, left - (evidence.rounding or 0) - evidence.pending - behind)
    if temporaries:
        deducted = live.deduct("temporaries", min(temporaries, remainder), "the optimizer's step")
        remainder -= deducted
    live.deduct("other tensors", plain, f"named {names}" if names else "without a name")
    if remainder:
        live.deduct(
            "activations",
            remainder,
            "unnamed: autograd buffers, temporaries or C++",
        )


def _is_leak_of(leak: Leak, part: ModelPart) -> bool:
    return f"{part.role} of {part.owner}" in (leak.name, *leak.also)


def _has_graph(evidence: Evidence) -> bool:
    """Return whether the inventory contains a graph that unnamed tensors may belong to."""
    return (
        any(variable.graph_nodes for variable in evidence.named)
        or any(goes_through(stack, "/torch/nn/modules/") for stack in evidence.stacks)
        or any(map(in_backward, evidence.stacks))
    )


def _divide_by_history(evidence: Evidence, live: _Whole, leak: Leak | None) -> None:
    of_name: defaultdict[AccountName, list[Purpose]] = defaultdict(list)
    for purpose in evidence.purposes:
        of_name[PURPOSES.get(purpose.name, "other tensors")].append(purpose)
    by_name = Counter(
        {name: sum(purpose.bytes for purpose in each) for name, each in of_name.items()}
    )
    if leak is not None:
        left = live.deduct("leak", leak.bytes, leak.subject)
        # The leak's tensors were created somewhere: deduct them from the row that contains them.
        made_as: tuple[AccountName, ...] = (
            "other tensors",
            "activations",
            "gradients",
            "temporaries",
        )
        for part in made_as:
            less = min(left, by_name[part])
            by_name[part] -= less
            left -= less
    for name, size in by_name.most_common():
        live.deduct(name, size, _describe_origin(of_name.get(name, ()), size))


def _describe_origin(purposes: Sequence[Purpose], size: int) -> str:
    """Return where most bytes of a row were allocated, or where the largest part was.

    Args:
        purposes: the live memory in the row.
        size: bytes of the row; less than theirs if a leak has a part of them.
    """
    if 2 * sum(purpose.older for purpose in purposes) > size:
        return "mostly older than the recording"
    by_site: Counter[str] = Counter()
    for purpose in purposes:
        if purpose.site:
            by_site[purpose.site] += purpose.site_bytes
    site, part = next(iter(by_site.most_common(1)), ("", 0))
    if not site or part > size:
        return "by their stacks"
    return f"mostly {site}" if 2 * part > size else f"{round_size(part)} at {site}"


def _divide_cached(evidence: Evidence, torch: _Whole) -> None:
    torch.deduct("CUDA graphs", evidence.graphs_cached, "free in the pools of CUDA graphs")
    torch.deduct("MemPool", evidence.pools_cached, "free in pools of torch.cuda.MemPool")
    torch.deduct(
        "private pools",
        evidence.private_cached,
        "free in private pools of CUDA graphs or MemPools",
    )
    torch.deduct("other streams", evidence.streams_cached, "cached for other streams")
    if evidence.largest is None:
        torch.deduct_rest("cached", "not in use: fragmentation, streams, pools")
    else:
        torch.deduct_rest("fragmentation", "cached beside live blocks")


def _divide_outside(evidence: Evidence, device: _Whole) -> None:
    own = evidence.process
    if own is not None:
        outside = max(0, own - evidence.reserved)
        others = sum(holder.bytes for holder in evidence.holders) or max(
            evidence.others or 0, evidence.others_least
        )
        left = device.left - outside - others
        if evidence.text and 0 < left <= TEXT_ROUNDING:
            outside += left  # no memory of others, but the rounding of this figure
        device.deduct("outside torch", outside, "CUDA context, kernels, libraries")
    if evidence.holders:
        for holder in sorted(evidence.holders, key=lambda holder: -holder.bytes):
            device.deduct("other processes", holder.bytes, holder.describe())
    elif evidence.others:
        device.deduct("other processes", evidence.others, "their pids are unknown")
    elif evidence.others_least:
        device.deduct(
            "other processes",
            evidence.others_least,
            "more used outside this process than at another moment",
        )
    if own is None:
        why = "neither torch's nor free: CUDA context, libraries, other processes"
    else:
        why = "neither this process's nor free: the driver, or unlisted processes"
    device.deduct_rest("unknown", why)


def _merge_rows(rows: Sequence[tuple[AccountName, int, str]], used: int) -> tuple[AccountRow, ...]:
    """Merge rows of one name, except other processes; sort by size, with unknown memory last."""
    sizes: dict[tuple[AccountName, str], int] = {}
    descriptions: dict[tuple[AccountName, str], str] = {}
    for name, size, description in rows:
        key = (name, description if name == "other processes" else "")
        if sizes.get(key, 0) == 0 or size > sizes[key]:
            descriptions[key] = description
        sizes[key] = sizes.get(key, 0) + size
    merged = [
        AccountRow(name, size, size / used if used else 0.0, descriptions[name, key])
        for (name, key), size in sizes.items()
    ]
    return tuple(sorted(merged, key=lambda row: (row.name == "unknown", -row.bytes, row.name)))


MODEL_SHARE = 0.25
"""Share of the largest model's parameters above which an owner is a model of its own, not part of a
model that is being built or copied."""


def find_models(evidence: Evidence) -> list[str]:
    """Return the owners with enough parameters to be models, largest first."""
    inventory = evidence.inventory
    parts = [] if inventory is None else [p for p in inventory.parts if p.role == "parameters"]
    largest = max((part.bytes // part.owners for part in parts), default=0)
    models = [part for part in parts if part.bytes // part.owners >= MODEL_SHARE * largest]
    models.sort(key=lambda part: -part.bytes)
    return [part.owner for part in models for _ in range(part.owners)]


STRAY = 0.1
"""Share of the allocated bytes from which gradients that no optimizer uses are reported."""


def find_stray_gradients(evidence: Evidence) -> ModelPart | None:
    """Return the gradients of a model of which an optimizer updates only other parameters.

    A model that no optimizer updates at all may be trained by copies of its parameters.

    Returns:
        The part with the bytes of these gradients alone, if they are many.
    """
    parts = () if evidence.inventory is None else evidence.inventory.parts
    mixed = [
        replace(part, bytes=part.untrained)
        for part in parts
        if part.role == "gradients" and STRAY * evidence.allocated < part.untrained < part.bytes
    ]
    return max(mixed, key=lambda part: part.bytes, default=None)


SEVERAL_MODELS = 3
"""Number of models or optimizers under one name from which a program keeps them: more than a pair
to compare."""


@dataclass(frozen=True, slots=True)
class KeptModels:
    """Models that a program keeps on the device."""

    number: int
    each: str
    """One of them: ``model in results``, ``model made by train.py:6 build``."""
    all: str
    """All of them: ``models in results``."""


def find_kept_models(evidence: Evidence) -> KeptModels | None:
    """Return the models that a program keeps under one name, such as a list, if there are many."""
    if evidence.inventory is None:
        site = next(
            (purpose.site for purpose in evidence.purposes if purpose.name == "parameters"), ""
        )
        by = f" made at {site}" if site else ""
        several = evidence.models >= SEVERAL_MODELS
        return KeptModels(evidence.models, f"model{by}", f"models{by}") if several else None
    name, number = _find_collection(find_models(evidence))
    return KeptModels(number, f"model in {name}", f"models in {name}") if name else None


def find_kept_optimizers(evidence: Evidence) -> tuple[str, int]:
    """Return the name under which a program keeps many optimizers with state, and their number."""
    parts = () if evidence.inventory is None else evidence.inventory.parts
    return _find_collection(
        part.owner for part in parts if part.role == "optimizer state" for _ in range(part.owners)
    )


def _find_collection(owners: Iterable[str]) -> tuple[str, int]:
    """Return the name of the collection with most owners, if there are many, and their number."""
    names = Counter(filter(None, map(_collection_of, owners)))
    name, number = max(names.items(), key=lambda item: item[1], default=("", 0))
    return (name, number) if number >= SEVERAL_MODELS else ("", 0)


def _collection_of(owner: str) -> str:
    """Return ``results`` of ``results[0].model (GPT)``; empty for an owner without a name."""
    variable, _ = split_owner(owner)
    return variable.partition("[")[0].strip()


def describe_models(evidence: Evidence) -> str:
    """Format them: ``model (GPT), teacher (GPT) and modules that are being built or copied``."""
    models, all_of = find_models(evidence), list_owners(evidence, "parameters")
    named = ", ".join(list(dict.fromkeys(models))[:3])
    return (
        f"{named} and modules that are being built or copied"
        if len(all_of) > len(models)
        else named
    )


def list_owners(evidence: Evidence, role: str) -> list[str]:
    """Return the owners of parameters, buffers, gradients or state, largest first."""
    if evidence.inventory is None:
        return []
    parts = sorted(
        (part for part in evidence.inventory.parts if part.role == role), key=lambda p: -p.bytes
    )
    return [part.owner for part in parts]
