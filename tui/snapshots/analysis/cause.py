"""The cause of a failed allocation in the allocator's terms, with its figures.

The leading cause comes from the explanation; this module names it in the allocator's terms and
supports it with figures. The allocator first looks for a cached piece, then requests a new segment
from the driver, then releases its entirely free segments and requests again; only if that fails
does it write an ``oom`` entry. Memory still cached at that entry therefore shares segments with
live blocks or belongs to private pools.

A tensor over all pairs of N items has N x N elements, and few other sizes are a square times the
size of an element: a random request of 1 GiB matches with a probability of 1 in 250.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

from tui.core.text.numbers import grouped, share
from tui.core.text.numbers import size as text
from tui.snapshots.analysis.allocations import round_up
from tui.snapshots.analysis.layout import LARGE_SEGMENT, SMALL_SEGMENT
from tui.snapshots.explain.explanation import (
    LIVE_CAUSES,
    REFUSED,
    AccountName,
    Explanation,
    LeadingCause,
)
from tui.snapshots.explain.thresholds import (
    NORMAL_OUTSIDE,
    SMALL_REQUEST,
    exceeds_process_limit,
    has_fitting_piece,
    has_room,
)
from tui.snapshots.model.results import Cause

SMALLEST_SQUARE = 64 << 20
"""Lower limit in bytes: below it, too many sizes are a square times the size of an element."""
_ELEMENTS = (
    (4, "float32"),
    (2, "float16 or bfloat16"),
    (8, "float64 or int64"),
    (1, "bool or int8"),
)
"""Element sizes in bytes and their types, the most likely first."""


def find_squares(size: int) -> tuple[tuple[int, str], ...]:
    """Return the square tensors of a given size: their rows and their element types.

    Args:
        size: bytes, rounded up to 512 by the allocator.

    Returns:
        The most likely first. A square of one type is also a square of a type with a quarter of its
        bytes and twice the rows; if float32 comes first, the result contains only float32.
    """
    if size < SMALLEST_SQUARE:
        return ()
    squares = []
    for item, name in _ELEMENTS:
        rows = isqrt(size // item)
        if round_up(item * rows * rows) == size:
            squares.append((rows, name))
    return tuple(squares[:1] if squares and squares[0][1] == "float32" else squares)


def describe_shape(size: int) -> str:
    """Return the shape of a size, as a continuation of ``500 GiB is``; never empty.

    The elements, and, as it is often that of attention scores or a distance matrix, the square.
    """
    factors, count = find_squares(size), size // 4
    if factors:
        shapes = (f"{grouped(rows)} x {grouped(rows)} of {name}" for rows, name in factors)
        return (
            f"the size of about {grouped(count)} elements of float32; if it is a square,"
            f" {', or '.join(shapes)}"
        )
    return (
        f"the size of {grouped(count)} elements of float32, a square of about"
        f" {_round_to_three_digits(isqrt(count))} x {_round_to_three_digits(isqrt(count))}"
    )


def _round_to_three_digits(value: int) -> str:
    """Round a number to three digits and format it."""
    step = 10 ** max(0, len(str(value)) - 3)
    return grouped((value + step // 2) // step * step)


LIMITS = (
    "a MIG instance, a vGPU profile, a container's memory limit, or another process that used the"
    " memory at that moment"
)
"""Limits that may refuse free memory, besides ``set_per_process_memory_fraction``."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The known facts about one failed allocation, in bytes."""

    requested: int
    rounded: int
    serving_largest: int
    serving_cached: int
    """Bytes in pieces of the requested pool, stream and size class."""
    kind_cached: int
    """Bytes in pieces that were unusable only because of their size class."""
    streams_cached: int
    """Bytes in pieces that were unusable only because of their stream."""
    private_cached: int
    """Bytes in cached pieces of other private pools."""
    default_cached: int
    """Bytes in cached pieces of the default pool if the request was for a private pool."""
    live: int
    reserved: int
    device_free: int | None
    total: int | None
    allowed: int | None
    others: int | None
    """Bytes that other processes use on the device."""
    others_least: int
    """Lower bound of ``others``, derived from another moment of the same trace; 0 if unknown."""
    expandable: bool
    address_space: bool
    site: str
    """The program line that made the request; empty if it was not recorded."""
    has_text: bool
    """True if the exception's text is available."""
    sizes_rounded_up: bool
    """True if the allocator rounds sizes to more than 512 bytes."""

    @property
    def needed(self) -> int:
        """The most bytes that torch requested from the driver."""
        return compute_segment_size(self.rounded, expandable=self.expandable)

    @property
    def stated_request(self) -> str:
        """The request as a headline states it, with the segment whose size torch's text has."""
        segment = compute_segment_size(self.rounded, expandable=False)
        size, of_segment = text(self.requested), text(segment)
        if self.expandable or size == of_segment:
            return size
        return f"{size} (in a new segment of {of_segment}, which torch's message states)"

    @property
    def cached(self) -> int:
        """Bytes of all cached pieces, in every pool."""
        return self.in_pieces + self.streams_cached + self.private_cached

    @property
    def in_pieces(self) -> int:
        """Bytes of cached pieces beside live blocks, of this stream or of the default pool."""
        return self.serving_cached + self.kind_cached + self.default_cached

    @property
    def known(self) -> int:
        """The device's total, or a lower bound derived from the file."""
        if self.total is not None:
            return self.total
        return self.reserved + (self.device_free or 0) + max(self.others or 0, self.others_least)

    @property
    def room(self) -> int:
        """Bytes that were free on the device or cached by this process."""
        return (self.device_free or 0) + self.cached

    @property
    def request(self) -> str:
        """The request, with its line if the snapshot has it."""
        size = text(self.requested)
        return f"{self.site} requested {size}" if self.site else f"{size} was requested"


@dataclass(frozen=True, slots=True)
class ExplainedCause:
    """The cause, its wording for the headline, and the supporting figures, one sentence each."""

    cause: Cause
    phrase: str
    reasons: tuple[str, ...]


def compute_segment_size(rounded: int, *, expandable: bool) -> int:
    """Return the most bytes that torch requests from the driver for an allocation.

    Follows ``CUDACachingAllocator::get_allocation_size``; an expandable segment is mapped in steps
    of its page size, 2 or 20 MiB, and part of that may already be mapped.
    """
    if rounded <= SMALL_REQUEST:
        return SMALL_SEGMENT
    if expandable:
        return -(-rounded // LARGE_SEGMENT) * LARGE_SEGMENT
    if rounded < LARGE_SEGMENT // 2:
        return LARGE_SEGMENT
    return -(-rounded // SMALL_SEGMENT) * SMALL_SEGMENT


WORDS: dict[Cause, str] = {
    "larger than the device": "the request exceeds the device's memory",
    "larger than what was free": "the request exceeds the free memory",
    "truly full": "live memory fills the device",
    "fragmentation": "enough memory was cached, but in pieces that are too small",
    "other streams": "the cached memory belongs to other streams",
    "private pools": "the cached memory belongs to private pools",
    "other processes": "other processes use the memory",
    "process limit": "this process reached its memory limit",
    "refused with memory free": REFUSED,
    "unknown": "the cause is unknown",
}
_FULL_OF_WHOM = "the device was full; it is unknown whether this process filled it"

CAUSE_OF: dict[LeadingCause, Cause] = {
    **dict.fromkeys(LIVE_CAUSES, "truly full"),
    **dict.fromkeys(("cached", "fragmentation"), "fragmentation"),
    "other streams": "other streams",
    "CUDA graphs": "private pools",
    "MemPool": "private pools",
    "private pools": "private pools",
    "process limit": "process limit",
    "other processes": "other processes",
    "outside torch": "unknown",
    "larger than the device": "larger than the device",
    "larger than what was free": "larger than what was free",
    "refused with memory free": "refused with memory free",
    "address space": "unknown",
    "unknown": "unknown",
}
"""The allocator's view of each leading cause."""


def derive_cause(explanation: Explanation, figures: Figures) -> Cause:
    """Return the allocator's view of the leading cause.

    Live memory, such as a leak, may have filled the device or only a limit below its total; it
    counts as filling the device only if the device's total is known.
    """
    cause = CAUSE_OF[explanation.cause]
    if cause != "truly full":
        return cause
    needed, free = figures.needed, figures.device_free
    if exceeds_process_limit(needed, figures.reserved, figures.allowed):
        return "process limit"
    if free is not None and free >= needed:
        return "refused with memory free"
    return "unknown" if explanation.device_bytes is None else "truly full"


def explain_cause(explanation: Explanation, figures: Figures) -> ExplainedCause:
    """Describe the cause in the allocator's terms, with the figures that support it.

    Args:
        explanation: explanation of the failure, which decides the cause.
        figures: figures of the failure.
    """
    cause = derive_cause(explanation, figures)
    words = WORDS[cause]
    if cause == "unknown" and _was_full(explanation, figures):
        words = _FULL_OF_WHOM
    return ExplainedCause(cause, words, _REASONS[cause](explanation, figures))


def _was_full(explanation: Explanation, figures: Figures) -> bool:
    """Return whether the device was full of memory whose owner is unknown."""
    return (
        explanation.device_bytes is None
        and explanation.cause in (*LIVE_CAUSES, "unknown")
        and figures.device_free is not None
        and not has_room(figures.room, figures.known)
        and not has_fitting_piece(figures.requested, figures.serving_largest)
    )


def _explain_larger_than_device(_explanation: Explanation, figures: Figures) -> tuple[str, ...]:
    total = text(figures.total or 0)
    has = "a little less" if text(figures.requested) == total else total
    return (
        f"{figures.request} in one piece; the device has {has} in total",
        *_describe_request_shape(figures),
        _describe_request(figures),
    )


def _explain_larger_than_free(_explanation: Explanation, figures: Figures) -> tuple[str, ...]:
    free = figures.device_free or 0
    cached = f", and {text(figures.cached)} was cached" if figures.cached else ""
    in_reach = figures.reserved + free
    if figures.needed > in_reach:
        where = (
            f"even with nothing live in this process, only {text(in_reach)} would have been "
            "available"
        )
    else:
        least = "" if figures.total is not None else "at least "
        where = (
            f"{text(figures.live)} was live in this process:"
            f" {share(figures.live / figures.known)} of the device's {least}{text(figures.known)}"
        )
    return (
        f"{figures.request} in one piece; {text(free)} was free on the device{cached}",
        *_describe_request_shape(figures),
        where,
    )


def _explain_live(_explanation: Explanation, figures: Figures) -> tuple[str, ...]:
    return (
        _describe_request(figures),
        _describe_live(figures),
        *_describe_fitting_piece(figures),
    )


def _explain_unknown(explanation: Explanation, figures: Figures) -> tuple[str, ...]:
    if explanation.cause == "address space":
        return ("the message says that virtual address space ran out, not memory",)
    if explanation.cause == "unknown":
        fitting = _describe_fitting_piece(figures)
        if fitting:
            return fitting
    request = _describe_request(figures)
    if figures.device_free is None and figures.cached > 0:
        return (
            request,
            f"{text(figures.cached)} was cached, but no piece was usable; whether it was enough"
            " with the device's free memory is unknown",
        )
    lines = [request, _describe_live(figures)]
    unlisted = sum_rows(explanation, "unknown")
    if explanation.cause == "outside torch":
        outside = sum_rows(explanation, "outside torch")
        lines.append(
            f"{text(outside)} was used by this process outside PyTorch: CUDA context, NCCL, other"
            " allocators"
        )
    elif unlisted >= NORMAL_OUTSIDE and figures.others is not None:
        lines.append(
            f"{text(unlisted)} is neither PyTorch's, nor free, nor a listed process's: NCCL, other"
            " allocators, or unlisted processes"
        )
    return tuple(lines)


def _explain_process_limit(_explanation: Explanation, figures: Figures) -> tuple[str, ...]:
    return (
        f"set_per_process_memory_fraction allows {text(figures.allowed or 0)};"
        f" {text(figures.reserved)} was reserved and {text(figures.needed)} more requested",
    )


def _explain_refusal(_explanation: Explanation, figures: Figures) -> tuple[str, ...]:
    fraction = (
        "it is not set_per_process_memory_fraction, which the exception's text would mention;"
        " perhaps "
        if figures.has_text
        else "perhaps set_per_process_memory_fraction (the exception's text then states it), "
    )
    return (
        f"the device had {text(figures.device_free or 0)} free, more than the"
        f" {text(figures.needed)} requested from the driver",
        fraction + LIMITS,
    )


def _explain_cached(explanation: Explanation, figures: Figures) -> tuple[str, ...]:
    """Describe the cache or the other processes that held the missing memory."""
    cause = derive_cause(explanation, figures)
    others = sum_rows(explanation, "other processes")
    sizes = {
        "fragmentation": figures.in_pieces,
        "other streams": figures.streams_cached,
        "private pools": figures.private_cached,
        "other processes": others,
    }[cause]
    lines = [_describe_request(figures)]
    if sizes < _compute_shortfall(figures):
        lines.append(
            f"{text(figures.cached + others)} was cached or used by other processes, enough only"
            " together"
        )
    return (*lines, _describe_holder(cause, figures, sizes))


_REASONS: dict[Cause, Callable[[Explanation, Figures], tuple[str, ...]]] = {
    "larger than the device": _explain_larger_than_device,
    "larger than what was free": _explain_larger_than_free,
    "truly full": _explain_live,
    "fragmentation": _explain_cached,
    "other streams": _explain_cached,
    "private pools": _explain_cached,
    "other processes": _explain_cached,
    "process limit": _explain_process_limit,
    "refused with memory free": _explain_refusal,
    "unknown": _explain_unknown,
}


def sum_rows(explanation: Explanation, name: AccountName) -> int:
    """Return the bytes of all account rows with a given name."""
    return sum(row.bytes for row in explanation.account if row.name == name)


def _compute_shortfall(figures: Figures) -> int:
    free = figures.device_free
    return figures.needed if free is None else max(1, figures.needed - free)


def _describe_request_shape(figures: Figures) -> tuple[str, ...]:
    if figures.sizes_rounded_up:
        return ()
    return (f"{text(figures.requested)} is {describe_shape(figures.rounded)}",)


def _describe_live(figures: Figures) -> str:
    of = "" if figures.total is None else f", {share(figures.live / figures.total)} of the device"
    if not figures.cached:
        cached = "nothing was cached"
    elif 2 * figures.private_cached >= figures.cached:
        cached = f"of the cached {text(figures.cached)}, most was in other private pools"
    elif figures.cached < _compute_shortfall(figures):
        cached = f"the cached {text(figures.cached)} would not have been enough"
    else:
        beside = (
            f"with the device's free {text(figures.device_free)}, " if figures.device_free else ""
        )
        cached = (
            f"{beside}the cached {text(figures.cached)} would have been enough for this request if"
            " it had been one piece, but not for the next"
        )
    return f"{text(figures.live)} was live in this process{of}; {cached}"


def _describe_fitting_piece(figures: Figures) -> tuple[str, ...]:
    if not has_fitting_piece(figures.requested, figures.serving_largest):
        return ()
    return (
        f"a piece of {text(figures.serving_largest)} seems to have been free for the request of"
        f" {text(figures.rounded)}; perhaps the trace lacks events, the request was for another"
        " pool, or max_split_size prevented a split",
    )


def _describe_request(figures: Figures) -> str:
    if figures.device_free is None:
        return (
            f"torch requested {text(figures.needed)} from the driver; the device's free memory was"
            " not recorded"
        )
    return (
        f"torch requested {text(figures.needed)} from the driver; the device had"
        f" {text(figures.device_free)} free"
    )


def _describe_holder(cause: Cause, figures: Figures, most: int) -> str:
    if cause == "fragmentation":
        unusable = "".join(
            f", {text(size)} of it in {where}"
            for size, where in (
                (figures.kind_cached, "segments of the other size class"),
                (figures.default_cached, "the default pool, not in the request's private pool"),
            )
            if size
        )
        largest = (
            f"the largest piece was {text(figures.serving_largest)}, the request"
            f" {text(figures.rounded)}"
            if figures.serving_largest
            else "no piece was usable"
        )
        return f"{text(most)} was cached{unusable}; {largest}"
    if cause == "other streams":
        return f"{text(most)} was cached for other streams, and this stream cannot use it"
    if cause == "private pools":
        return (
            f"{text(most)} was cached in other pools (CUDA graphs, MemPool), which do not share it"
        )
    if figures.others is None and most == figures.others_least:
        return f"at least {text(most)} more was used outside this process than at another moment"
    return f"other processes used {text(most)} of the device"
