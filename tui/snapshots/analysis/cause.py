"""The cause of a failed allocation, derived from the figures.

The allocator first looks for a cached piece, then requests a new segment from the driver, then
releases its entirely free segments and requests again; only if that fails does it write an ``oom``
entry. Memory still cached at that entry therefore shares segments with live blocks or belongs to
private pools. It is to blame if the request would have succeeded with that memory returned to the
driver; if several kinds would have been enough, the largest one is to blame. If much of the device
was free or cached and the request was even larger, the request is to blame. Live memory counts as
filling the device only if the device's total is known.

A tensor over all pairs of N items has N x N elements, and few other sizes are a square times the
size of an element: a random request of 1 GiB matches with a probability of 1 in 250.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from tui.core.text.numbers import grouped, share
from tui.core.text.numbers import size as text
from tui.snapshots.analysis.allocations import round_up
from tui.snapshots.analysis.layout import LARGE_SEGMENT, SMALL_REQUEST, SMALL_SEGMENT
from tui.snapshots.explain.thresholds import (
    NORMAL_OUTSIDE,
    OTHERS_SHARE,
    SLACK,
    exceeds_device,
    exceeds_process_limit,
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
    found = []
    for item, name in _ELEMENTS:
        rows = isqrt(size // item)
        if round_up(item * rows * rows) == size:
            found.append((rows, name))
    return tuple(found[:1] if found and found[0][1] == "float32" else found)


def describe_shape(size: int) -> str:
    """Return the shape of a size, as a continuation of ``500 GiB is``; never empty.

    ``the size of a 500 000 x 500 000 tensor of float32``, for a square.
    """
    found = find_squares(size)
    if found:
        shapes = (f"{grouped(rows)} x {grouped(rows)} tensor of {name}" for rows, name in found)
        return f"the size of a {', or a '.join(shapes)}"
    count = size // 4
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
    " memory at that moment and released it before the event was written"
)
"""Limits that may refuse free memory, besides ``set_per_process_memory_fraction``."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The known facts about one failed allocation, in bytes."""

    asked: int
    rounded: int
    serving_largest: int
    serving_cached: int
    """Bytes in pieces of the requested pool, stream and size class."""
    kind_cached: int
    """Bytes in pieces that were unusable only because of their size class."""
    streams_cached: int
    """Bytes in pieces that were unusable only because of their stream."""
    private_cached: int
    """Bytes in cached pieces of other pools."""
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
    told: bool
    """True if the exception's text is available."""
    sizes_rounded_up: bool
    """True if the allocator rounds sizes to more than 512 bytes."""

    @property
    def cached(self) -> int:
        """Bytes of all cached pieces, in every pool."""
        return self.serving_cached + self.kind_cached + self.streams_cached + self.private_cached

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
    def asker(self) -> str:
        """The requester, as the subject of a sentence."""
        return self.site or "an unrecorded line"


@dataclass(frozen=True, slots=True)
class Decision:
    """The cause, its wording for the headline, and the supporting figures, one sentence each."""

    cause: Cause
    reasons: tuple[str, ...]
    words: str


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
    "refused with memory free": "the device had room, so a limit may have refused the request",
    "unknown": "the cause is unknown",
}
_FULL_OF_WHOM = "the device was full; it is unknown whether this process filled it"


def _build_decision(cause: Cause, *reasons: str, words: str = "") -> Decision:
    return Decision(cause, reasons, words or WORDS[cause])


def decide(figures: Figures) -> Decision:
    """Determine the cause of a failure."""
    needed = compute_segment_size(figures.rounded, expandable=figures.expandable)
    free = figures.device_free
    for look in (_larger_than_device, _contradiction, _not_memory):
        found = look(figures, needed)
        if found is not None:
            return found
    suspects: dict[Cause, int] = {
        "fragmentation": figures.serving_cached + figures.kind_cached,
        "other streams": figures.streams_cached,
        "private pools": figures.private_cached,
        "other processes": _find_excess_of_others(figures),
    }
    shortfall = needed if free is None else max(1, needed - free)
    had = _describe_request(figures, needed)
    enough = {name: held for name, held in suspects.items() if held >= shortfall}
    if enough:
        cause = max(enough, key=lambda name: enough[name])
        return _build_decision(cause, had, _explain_cached(cause, figures, suspects[cause]))
    together = sum(suspects.values())
    if together >= shortfall:
        cause = max(suspects, key=lambda name: suspects[name])
        return _build_decision(
            cause,
            had,
            f"{text(together)} was cached or used by other processes, enough only together",
            _explain_cached(cause, figures, suspects[cause]),
        )
    if free is None and together > 0:
        return _build_decision(
            "unknown",
            had,
            f"{text(together)} was cached, but no piece was usable; the device's free memory was"
            " not recorded, so it is unknown whether both together would have been enough",
        )
    return _request_or_full(figures, needed, shortfall)


def _larger_than_device(figures: Figures, needed: int) -> Decision | None:
    total = figures.total
    if total is None or not exceeds_device(needed, total):
        return None
    same = text(figures.asked) == text(total)
    has = "a little less" if same else text(total)
    return _build_decision(
        "larger than the device",
        f"{figures.asker} requested {text(figures.asked)} in one piece; the device has {has} in"
        " total",
        *_shape(figures),
        _describe_request(figures, needed),
    )


def _request_or_full(figures: Figures, needed: int, shortfall: int) -> Decision:
    """Blame the request or live memory if the cache and other processes are not to blame."""
    roomy = has_room(figures.room, figures.known)
    # If the total is unknown, other processes may hold the rest; then only a request larger than
    # all live memory is certainly to blame.
    if roomy and (figures.total is not None or needed > figures.live):
        return _larger_than_free(figures, needed)
    had = _describe_request(figures, needed)
    if figures.total is None:
        filled = figures.device_free is not None and not roomy
        words = _FULL_OF_WHOM if filled else ""
        return _build_decision("unknown", had, _describe_live(figures), words=words)
    outside = figures.total - figures.reserved - (figures.device_free or 0) - (figures.others or 0)
    if outside >= max(shortfall, NORMAL_OUTSIDE) and outside > figures.live:
        return _build_decision(
            "unknown",
            had,
            _describe_live(figures),
            f"{text(outside)} is neither PyTorch's, nor free, nor used by a listed process:"
            " libraries of this process such as NCCL, its other allocators, or unlisted processes",
        )
    return _build_decision("truly full", had, _describe_live(figures))


def _larger_than_free(figures: Figures, needed: int) -> Decision:
    free = figures.device_free or 0
    cached = f", and {text(figures.cached)} was cached" if figures.cached else ""
    here = figures.reserved + free
    if needed > here:
        what = (
            f"even with no live memory in this process, only {text(here)} would have been available"
        )
    else:
        least = "" if figures.total is not None else "at least "
        what = (
            f"{text(figures.live)} was live in this process:"
            f" {share(figures.live / figures.known)} of the device's {least}{text(figures.known)}"
        )
    return _build_decision(
        "larger than what was free",
        f"{figures.asker} requested {text(figures.asked)} in one piece; {text(free)} was free on"
        f" the device{cached}",
        *_shape(figures),
        what,
    )


def _shape(figures: Figures) -> tuple[str, ...]:
    if figures.sizes_rounded_up:
        return ()
    return (f"{text(figures.asked)} is {describe_shape(figures.rounded)}",)


def _describe_live(figures: Figures) -> str:
    of = "" if figures.total is None else f", {share(figures.live / figures.total)} of the device"
    cached = (
        f"the cached {text(figures.cached)} would not have been enough"
        if figures.cached
        else "nothing was cached"
    )
    return f"{text(figures.live)} was live in this process{of}; {cached}"


def _contradiction(figures: Figures, needed: int) -> Decision | None:
    largest = figures.serving_largest
    slack = SLACK if figures.rounded > SMALL_REQUEST else 0
    if largest < figures.rounded + slack or largest == 0:
        return None
    return _build_decision(
        "unknown",
        f"a free piece of {text(largest)} appears to have been available for the request of"
        f" {text(figures.rounded)} (a segment of {text(needed)}); the trace may lack events, the"
        " request may have been for another pool, or max_split_size prevented a split",
    )


def _not_memory(figures: Figures, needed: int) -> Decision | None:
    """Return a cause other than a lack of memory on the device."""
    if figures.address_space:
        return _build_decision(
            "unknown", "the message says that virtual address space ran out, not memory"
        )
    allowed = figures.allowed
    if allowed is not None and exceeds_process_limit(needed, figures.reserved, allowed):
        return _build_decision(
            "process limit",
            f"set_per_process_memory_fraction allows {text(allowed)}; {text(figures.reserved)}"
            f" was reserved and {text(needed)} more requested",
        )
    free = figures.device_free
    if free is not None and free >= needed:
        fraction = (
            "it is not set_per_process_memory_fraction, which the exception's text would mention;"
            " it may be "
            if figures.told
            else "it may be a limit of set_per_process_memory_fraction (the exception's text then"
            " states it), "
        )
        return _build_decision(
            "refused with memory free",
            f"the device had {text(free)} free, more than the {text(needed)} requested from the"
            " driver",
            fraction + LIMITS,
        )
    return None


def _find_excess_of_others(figures: Figures) -> int:
    held = max(figures.others or 0, figures.others_least)
    known = figures.known
    return held if known and held >= OTHERS_SHARE * known else 0


def _describe_request(figures: Figures, needed: int) -> str:
    if figures.device_free is None:
        return (
            f"torch requested {text(needed)} from the driver; the device's free memory was not"
            " recorded"
        )
    return (
        f"torch requested {text(needed)} from the driver; the device had"
        f" {text(figures.device_free)} free"
    )


def _explain_cached(cause: Cause, figures: Figures, held: int) -> str:
    if cause == "fragmentation":
        other = (
            f", {text(figures.kind_cached)} of it in segments of the other size class"
            if figures.kind_cached
            else ""
        )
        return (
            f"{text(held)} was cached{other}; the largest piece was"
            f" {text(figures.serving_largest)}, the request {text(figures.rounded)}"
        )
    if cause == "other streams":
        return f"{text(held)} was cached for other streams, and this stream cannot use it"
    if cause == "private pools":
        return (
            f"{text(held)} was cached in other pools (CUDA graphs, MemPool), which do not share it"
        )
    if figures.others is None:
        return f"at least {text(held)} more was used outside this process than at another moment"
    return f"other processes used {text(held)} of the device"
