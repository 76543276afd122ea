"""Remedies for the allocator, a limit, other processes, or memory of this process outside torch."""

from __future__ import annotations

from tui.snapshots.explain.asked import FailedRequest
from tui.snapshots.explain.explanation import Remedy
from tui.snapshots.explain.words import round_words

# ---- the allocator ----


def rounding(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for memory lost to rounding."""
    if "roundup_power2_divisions" in dict(asked.evidence.settings):
        return [drop_roundup(asked)]
    return [
        Remedy(
            "allocate fewer and larger tensors",
            f"{asked.size('rounding')} is the difference between block sizes and requested sizes",
        )
    ]


def drop_roundup(asked: FailedRequest) -> Remedy:
    """Return the remedy of not rounding sizes to parts of a power of two."""
    return Remedy(
        "drop roundup_power2_divisions from PYTORCH_ALLOC_CONF (PYTORCH_CUDA_ALLOC_CONF)",
        f"it rounds sizes up: {asked.size('rounding')} of "
        f"{round_words(asked.evidence.reserved)} reserved is lost to it",
    )


def fragmentation(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for fragmentation."""
    evidence = asked.evidence
    freed = asked.size("fragmentation")
    pieces = "" if evidence.largest is None else f", the largest {round_words(evidence.largest)}"
    if evidence.expandable:
        return [
            Remedy(
                "allocate long-lived tensors before large short-lived ones, and use the same "
                "sizes in each step",
                f"{freed} is cached in pieces{pieces}, and expandable segments are on already",
            )
        ]
    off = (
        "expandable segments are off"
        if evidence.expandable is False
        else "the file does not say whether expandable segments are on"
    )
    return [
        Remedy(
            f"set {evidence.expandable_setting} before torch starts",
            f"{freed} was cached in pieces between live blocks{pieces}; {off}; they "
            f"would free it, enough for the missing {round_words(evidence.shortfall)}",
        )
    ]


def streams(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for memory cached for other streams."""
    return [
        Remedy(
            "use fewer streams for large tensors, or free on the stream that allocated",
            f"{asked.size('other streams')} was cached for other streams",
        )
    ]


def pending(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for freed memory that a stream still uses."""
    return [
        Remedy(
            "make the host wait for the side stream now and then (event.synchronize()), or keep "
            "references instead of calling record_stream()",
            f"{asked.size('pending')} was freed, but its stream had not finished using it",
        )
    ]


def graph_pools(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for memory cached in pools of CUDA graphs."""
    held = asked.size("CUDA graphs", "private pools")
    return [
        Remedy(
            "release CUDA graphs that are not needed, capture fewer shapes, or let graphs share "
            "one pool (torch.cuda.graph(pool=…))",
            f"{held} was free inside private pools, which only they can use",
        )
    ]


def mem_pools(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for memory cached in pools of ``torch.cuda.MemPool``."""
    return [
        Remedy(
            "drop the torch.cuda.MemPool once its tensors are freed, or create it with "
            "use_on_oom=True",
            f"{asked.size('MemPool', 'private pools')} was free inside private pools, which only "
            "they can use",
        )
    ]


def private(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for memory cached in private pools of unknown owner."""
    return [*graph_pools(asked), *mem_pools(asked)]


# ---- memory outside torch's live tensors ----


def limit(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for a reached ``set_per_process_memory_fraction``."""
    evidence = asked.evidence
    free = "" if evidence.free is None else f"; the device had {round_words(evidence.free)} free"
    return [
        Remedy(
            "raise torch.cuda.set_per_process_memory_fraction",
            f"it allows {round_words(evidence.allowed or 0)}{free}",
        )
    ]


def processes(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for memory in other processes."""
    evidence = asked.evidence
    least = "" if evidence.holders or evidence.others is not None else " or more"
    if evidence.holders:
        most = max(evidence.holders, key=lambda each: each.bytes)
        who = " ".join(filter(None, [f"process {most.pid}", most.user, most.command[:60]]))
        return [
            Remedy(
                f"end or move {who}, or use another device",
                f"it holds {round_words(most.bytes)}; all other processes together hold "
                f"{asked.size('other processes')}",
            )
        ]
    return [
        Remedy(
            "end or move the other processes on this device (the Processes screen names them)",
            f"they held {asked.size('other processes')}{least}",
        )
    ]


def outside(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for memory of this process outside torch."""
    return [
        Remedy(
            "look for other users of GPU memory in this process: NCCL communicators, another "
            "framework that takes the device for itself (TensorFlow, JAX), renderers, inference "
            "engines",
            f"{asked.size('outside torch')} belongs to this process but not to torch",
        )
    ]


def refused(asked: FailedRequest) -> list[Remedy]:
    """Return remedies for a refusal by the driver although memory was free."""
    known = asked.evidence.text
    fraction = "" if known else "torch.cuda.set_per_process_memory_fraction in the program, "
    return [
        Remedy(
            f"look for a limit: {fraction}MIG in nvidia-smi -L, the container's limits; then for "
            "processes that come and go (the Processes screen names them)",
            f"{round_words(asked.evidence.free or 0)} was free and "
            f"{round_words(asked.evidence.asked)} was refused",
        )
    ]


def address_space(_asked: FailedRequest) -> list[Remedy]:
    """Return remedies for exhausted virtual address space."""
    return [
        Remedy(
            "run without expandable segments, or with fewer processes that use them",
            "each reserves virtual address space for the whole device",
        )
    ]
