"""The input of all advice, and remedies for the allocator, limits and memory outside torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tui.core.text.numbers import round_size
from tui.snapshots.explain.account import Account
from tui.snapshots.explain.evidence import Evidence
from tui.snapshots.explain.explanation import LIVE_CAUSES, AccountName, LeadingCause, Remedy
from tui.snapshots.explain.frames import Frame, format_line
from tui.snapshots.explain.leak_facts import Leak
from tui.snapshots.explain.thresholds import exceeds_process_limit

JUST_TOO_SMALL = 0.8
"""Share of the request from which the largest piece may be that of a step before."""


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """The evidence of one failure, with wording for the advice."""

    evidence: Evidence
    account: Account
    leak: Leak | None
    where: Frame | None
    """The user's own frame; ``None`` if it was not recorded."""

    @property
    def line(self) -> str:
        """The place of the request, `` at oom.py:15``; empty if it was not recorded."""
        return "" if self.where is None else f" at {format_line(self.where)}"

    def size(self, *names: AccountName) -> str:
        """Format the total size of the rows with the given names."""
        return round_size(self.account.of(*names))

    def dtypes(self, role: str) -> tuple[str, ...]:
        """Return the dtypes of a role's tensors, from the inventory."""
        inventory = self.evidence.inventory
        parts = () if inventory is None else inventory.parts
        return tuple(kind for part in parts if part.role == role for kind in part.dtypes)


# ---- the allocator ----


def advise_on_rounding(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for memory lost to rounding."""
    if "roundup_power2_divisions" in dict(request.evidence.settings):
        yield drop_roundup(request)
        return
    yield Remedy(
        "allocate fewer and larger tensors",
        f"{request.size('rounding')} is the difference between block sizes and requested sizes",
    )


def drop_roundup(request: FailedRequest) -> Remedy:
    """Return the remedy of not rounding sizes to parts of a power of two."""
    return Remedy(
        "drop roundup_power2_divisions from PYTORCH_ALLOC_CONF (PYTORCH_CUDA_ALLOC_CONF)",
        f"it rounds sizes up: {request.size('rounding')} of "
        f"{round_size(request.evidence.reserved)} reserved is lost to it",
    )


def advise_on_fragmentation(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for fragmentation."""
    evidence = request.evidence
    freed = request.size("fragmentation")
    pieces = f", the largest {round_size(evidence.largest)}" if evidence.largest else ""
    if evidence.expandable:
        yield Remedy(
            "allocate long-lived tensors before large short-lived ones, and use the same "
            "sizes in each step",
            f"{freed} is cached in pieces{pieces}, and expandable segments are on already",
        )
        return
    off = (
        "expandable segments are off"
        if evidence.expandable is False
        else "the file does not say whether expandable segments are on"
    )
    yield Remedy(
        f"set {evidence.expandable_setting} before torch starts",
        f"{freed} was cached in pieces between live blocks{pieces}; {off}; they "
        f"would free it, enough for the missing {round_size(evidence.shortfall)}",
    )
    if evidence.largest and evidence.largest >= JUST_TOO_SMALL * evidence.requested:
        yield Remedy(
            "if sizes grow from step to step, as those of sequences do, use the largest one first, "
            "or pad to a few lengths",
            "the largest piece is only a little smaller than the request, as the piece of the step "
            "before is",
        )


def advise_on_cached(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for cached memory in pieces of unknown size."""
    evidence = request.evidence
    if not evidence.expandable:
        yield Remedy(
            f"set {evidence.expandable_setting} before torch starts",
            f"{request.size('cached')} was cached and could not serve the request; expandable "
            "segments free what lies in pieces between live blocks",
        )


def advise_on_streams(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for memory cached for other streams."""
    yield Remedy(
        "use fewer streams for large tensors, or free on the stream that allocated",
        f"{request.size('other streams')} was cached for other streams",
    )


def advise_on_pending(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for freed memory that a stream still uses."""
    yield Remedy(
        "make the host wait for the side stream now and then (event.synchronize()), or keep "
        "references instead of calling record_stream()",
        f"{request.size('pending')} was freed, but its stream had not finished using it",
    )


def advise_on_graph_pools(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for memory cached in pools of CUDA graphs."""
    size = request.size("CUDA graphs", "private pools")
    yield Remedy(
        "release CUDA graphs that are not needed, capture fewer shapes, or let graphs share "
        "one pool (torch.cuda.graph(pool=…))",
        f"{size} was free inside private pools, which only they can use",
    )


def advise_on_mem_pools(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for memory cached in pools of ``torch.cuda.MemPool``."""
    yield Remedy(
        "drop the torch.cuda.MemPool once its tensors are freed, or create it with use_on_oom=True",
        f"{request.size('MemPool', 'private pools')} was free inside private pools, which only "
        "they can use",
    )


def advise_on_private(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for memory cached in private pools of unknown owner."""
    yield from advise_on_graph_pools(request)
    yield from advise_on_mem_pools(request)


# ---- memory outside torch's live tensors ----


def advise_on_limit(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for a reached ``set_per_process_memory_fraction``."""
    evidence = request.evidence
    free = "" if evidence.free is None else f"; the device had {round_size(evidence.free)} free"
    yield Remedy(
        "raise torch.cuda.set_per_process_memory_fraction",
        f"it allows {round_size(evidence.allowed or 0)}{free}",
    )


def advise_on_limit_of_growth(request: FailedRequest, cause: LeadingCause) -> Iterator[Remedy]:
    """Name the limit that refused the request if memory that grows is the cause."""
    evidence = request.evidence
    if cause in LIVE_CAUSES and exceeds_process_limit(
        evidence.needed, evidence.reserved, evidence.allowed
    ):
        for remedy in advise_on_limit(request):
            yield replace(remedy, what=f"{remedy.what}, which only delays the failure")


def advise_on_processes(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for memory in other processes."""
    evidence = request.evidence
    least = "" if evidence.holders or evidence.others is not None else " or more"
    if evidence.holders:
        most = max(evidence.holders, key=lambda holder: holder.bytes)
        yield Remedy(
            f"end or move {most.describe()}, or use another device",
            f"it holds {round_size(most.bytes)}; all other processes together hold "
            f"{request.size('other processes')}",
        )
        return
    yield Remedy(
        "end or move the other processes on this device (the Processes screen names them)",
        f"they held {request.size('other processes')}{least}",
    )


def advise_on_outside(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for memory of this process outside torch."""
    yield Remedy(
        "look for other users of GPU memory in this process: NCCL communicators, another "
        "framework that takes the device for itself (TensorFlow, JAX), renderers, inference "
        "engines",
        f"{request.size('outside torch')} belongs to this process but not to torch",
    )


def advise_on_refused(request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for a refusal by the driver although memory was free."""
    known = request.evidence.text
    fraction = "" if known else "torch.cuda.set_per_process_memory_fraction in the program, "
    yield Remedy(
        f"look for a limit: {fraction}MIG in nvidia-smi -L, the container's limits; then for "
        "processes that come and go (the Processes screen names them)",
        f"{round_size(request.evidence.free or 0)} was free and "
        f"{round_size(request.evidence.requested)} was refused",
    )


def advise_on_address_space(_request: FailedRequest) -> Iterator[Remedy]:
    """Return remedies for exhausted virtual address space."""
    yield Remedy(
        "run without expandable segments, or with fewer processes that use them",
        "each reserves virtual address space for the whole device",
    )
