"""Which blocks in use keep free memory in pieces."""

from __future__ import annotations

from collections.abc import Iterable

from tui.snapshots.allocations import Allocations
from tui.snapshots.facts import Pinning
from tui.snapshots.frames import Stacks
from tui.snapshots.layout import Filled, Held
from tui.snapshots.segment_map import piece_of
from workloads.fact import fact


@fact
class Window:
    """Neighbouring blocks whose release would leave one free span."""

    address: int
    """Where the span begins, the gap before the blocks included."""
    span: int
    blocks: tuple[Held, ...]
    cost: int
    """What the blocks hold together, in bytes."""


def cheapest_window(parts: Iterable[Filled], need: int) -> Window | None:
    """The fewest bytes to release, within one segment, for a free span of at least ``need``.

    Of windows that cost the same, the longest span.

    Returns:
        ``None`` where no segment is that large, or where a gap is already.
    """
    best: Window | None = None
    for part in parts:
        if part.largest >= need:
            return None
        if part.range.size < need:
            continue
        found = _cheapest_of(part, need)
        if found is not None and (
            best is None or (found.cost, -found.span) < (best.cost, -best.span)
        ):
            best = found
    return best


def _cheapest_of(part: Filled, need: int) -> Window | None:
    """Slide over the blocks: for each last one, the latest first one that is enough."""
    held = part.held
    # Where the free span begins if this block is the first of the window, and ends if the last.
    begins = [part.range.address, *(block.address + block.size for block in held[:-1])]
    ends = [*(block.address for block in held[1:]), part.range.end]
    best: tuple[int, int, int, int] | None = None
    first, cost = 0, 0
    for last, block in enumerate(held):
        cost += block.size
        while first < last and ends[last] - begins[first + 1] >= need:
            cost -= held[first].size
            first += 1
        span = ends[last] - begins[first]
        if span >= need and (best is None or (cost, -span) < best[:2]):
            best = (cost, -span, first, last)
    if best is None:
        return None
    cost, span, first, last = best
    return Window(begins[first], -span, tuple(held[first : last + 1]), cost)


def widest_window(part: Filled, most: int = 1) -> Window | None:
    """The longest span that releasing at most ``most`` neighbouring blocks of a segment gives.

    Of spans of one length, the one that costs the fewest bytes; ``None`` where nothing is in use.
    """
    held = part.held
    begins = [part.range.address, *(block.address + block.size for block in held[:-1])]
    ends = [*(block.address for block in held[1:]), part.range.end]
    best: Window | None = None
    for last in range(len(held)):
        first = max(0, last - most + 1)
        blocks = held[first : last + 1]
        cost = sum(block.size for block in blocks)
        span = ends[last] - begins[first]
        if best is None or (span, -cost) > (best.span, -best.cost):
            best = Window(begins[first], span, tuple(blocks), cost)
    return best


def pinning(
    window: Window,
    largest_free: int,
    stacks: Stacks,
    table: Allocations,
    event: int,
    limit: int = 20,
) -> Pinning:
    """A window as it is shown: the smallest blocks first, with their sites and names.

    Args:
        window: which blocks.
        largest_free: the largest gap now.
        stacks: of the snapshot.
        table: of the device, for the names.
        event: of the layout that the window was found in.
        limit: blocks at most.
    """
    blocks = sorted(window.blocks, key=lambda block: (block.size, block.address))
    shown = []
    for block in blocks[:limit]:
        row = block.row
        if row is None:
            row = table.at_address(block.address, event)
        shown.append(piece_of(block, stacks, None if row is None else table.name(row)))
    return Pinning(
        address=window.address,
        span=window.span,
        largest_free=largest_free,
        blocks=tuple(shown),
        count=len(blocks),
        cost=window.cost,
    )
