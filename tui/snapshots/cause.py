"""Why an allocation failed, decided from the figures.

The allocator first looks for a cached piece; then it asks the driver for a new segment; then it
gives its whole free segments back and asks again; only then an ``oom`` entry is written. So what is
still cached at that entry sits beside live blocks, or in private pools. It is to blame if the
request would have succeeded had it been free to the driver; of several that would have been enough
the largest is.
"""

from __future__ import annotations

from tui.format import share
from tui.format import size as text
from tui.snapshots.facts import Cause
from tui.snapshots.layout import SMALL_REQUEST
from tui.snapshots.ranges import LARGE_SEGMENT, SMALL_SEGMENT
from workloads.fact import fact

SLACK = 1 << 20
"""How much larger a free piece may look than it was: the rest that a block of the large pool keeps
when what would be split off is not above 1 MiB."""
OTHERS_SHARE = 0.1
"""Other processes are to blame only if they hold at least this share of the device: every process
has a context, and a desktop takes a little."""


@fact
class Figures:
    """What is known of one failed allocation; bytes."""

    asked: int
    rounded: int
    serving_largest: int
    serving_cached: int
    """Pieces of the pool, stream and size class that was asked for."""
    kind_cached: int
    """Pieces that only the size class kept from serving."""
    streams_cached: int
    """Pieces that only the stream kept from serving."""
    private_cached: int
    """Bytes of the pieces that are cached in other pools."""
    live: int
    reserved: int
    device_free: int | None
    total: int | None
    allowed: int | None
    others: int | None
    """Bytes that other processes hold on the device."""
    others_least: int
    """What others must have held more than at another moment of the same trace; 0 where nothing
    says so."""
    expandable: bool
    address_space: bool


def segment_for(rounded: int, *, expandable: bool) -> int:
    """What the driver is asked for on behalf of a request, at most.

    As ``CUDACachingAllocator::get_allocation_size``; an expandable segment is mapped in steps of
    its page, 2 or 20 MiB, and part of that may be mapped already.
    """
    if rounded <= SMALL_REQUEST:
        return SMALL_SEGMENT
    if expandable:
        return -(-rounded // LARGE_SEGMENT) * LARGE_SEGMENT
    if rounded < LARGE_SEGMENT // 2:
        return LARGE_SEGMENT
    return -(-rounded // SMALL_SEGMENT) * SMALL_SEGMENT


def decide(figures: Figures) -> tuple[Cause, tuple[str, ...]]:
    """The cause, and the figures that say so, one sentence each."""
    needed = segment_for(figures.rounded, expandable=figures.expandable)
    free = figures.device_free
    known = (_contradiction(figures, needed), _not_memory(figures, needed))
    for found in known:
        if found is not None:
            return found
    suspects: dict[Cause, int] = {
        "fragmentation": figures.serving_cached + figures.kind_cached,
        "other streams": figures.streams_cached,
        "private pools": figures.private_cached,
        "other processes": _blamed_on_others(figures),
    }
    shortfall = needed if free is None else max(1, needed - free)
    reasons = [_had(figures, needed)]
    enough = {name: held for name, held in suspects.items() if held >= shortfall}
    if enough:
        cause = max(enough, key=lambda name: enough[name])
        return cause, (*reasons, _blame(cause, figures, suspects[cause]))
    together = sum(suspects.values())
    if together >= shortfall:
        cause = max(suspects, key=lambda name: suspects[name])
        return cause, (
            *reasons,
            f"{text(together)} was cached or held by others, enough only together",
            _blame(cause, figures, suspects[cause]),
        )
    if free is None and together > 0:
        return "unknown", (
            *reasons,
            f"{text(together)} was cached but no piece could serve; whether that and what the"
            " device had free would have been enough is not told",
        )
    return "truly full", (*reasons, _full(figures, together))


def _contradiction(figures: Figures, needed: int) -> tuple[Cause, tuple[str, ...]] | None:
    largest = figures.serving_largest
    slack = SLACK if figures.rounded > SMALL_REQUEST else 0
    if largest < figures.rounded + slack or largest == 0:
        return None
    return "unknown", (
        f"a free piece of {text(largest)} seems to have been there for the {text(figures.rounded)}"
        f" (a segment of {text(needed)}) asked for; the trace may lack events, the request may"
        " have been for another pool, or max_split_size kept the piece from being split",
    )


def _not_memory(figures: Figures, needed: int) -> tuple[Cause, tuple[str, ...]] | None:
    """Causes that are no lack of memory on the device."""
    if figures.address_space:
        return "unknown", ("the message tells of virtual address space that ran out, not memory",)
    allowed = figures.allowed
    if allowed is not None and figures.reserved + needed > allowed:
        return "process limit", (
            f"set_per_process_memory_fraction allows {text(allowed)}; {text(figures.reserved)}"
            f" were reserved and {text(needed)} more asked for",
        )
    free = figures.device_free
    if free is not None and free >= needed:
        return "unknown", (
            f"the device had {text(free)} free, more than the {text(needed)} that the driver was"
            " asked for: a limit of set_per_process_memory_fraction, or memory that was freed"
            " between the failure and the event",
        )
    return None


def _blamed_on_others(figures: Figures) -> int:
    held = max(figures.others or 0, figures.others_least)
    known = figures.total or (figures.reserved + (figures.device_free or 0) + held)
    return held if known and held >= OTHERS_SHARE * known else 0


def _had(figures: Figures, needed: int) -> str:
    if figures.device_free is None:
        return f"the driver was asked for {text(needed)}; how much the device had free is not told"
    return (
        f"the driver was asked for {text(needed)}; the device had {text(figures.device_free)} free"
    )


def _blame(cause: Cause, figures: Figures, held: int) -> str:
    if cause == "fragmentation":
        other = (
            f", {text(figures.kind_cached)} of it in segments of the other size class"
            if figures.kind_cached
            else ""
        )
        return (
            f"free {text(held)} cached{other}, largest piece {text(figures.serving_largest)},"
            f" asked {text(figures.rounded)}"
        )
    if cause == "other streams":
        return f"{text(held)} was cached for other streams, which cannot serve this one"
    if cause == "private pools":
        return f"{text(held)} was cached in other pools (CUDA graphs, MemPool), which keep it"
    if figures.others is None:
        return f"at least {text(held)} more was held outside this process than at another moment"
    return f"other processes held {text(held)} of the device"


def _full(figures: Figures, together: int) -> str:
    live = (
        f"{text(figures.live)} of {text(figures.reserved)} reserved was live"
        f" ({share(figures.live / figures.reserved)})"
        if figures.reserved
        else "nothing was reserved"
    )
    return f"{live}; {text(together)} cached would not have been enough"
