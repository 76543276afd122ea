"""A table of all allocations in a trace, in columns: start, end, address, size and stack."""

from __future__ import annotations

import operator
from array import array
from dataclasses import dataclass

from tui.snapshots.analysis.frames import BEFORE_TRACE_STACK
from tui.snapshots.model.results import BEFORE, lacks_history
from tui.snapshots.model.snapshot import (
    ALLOCATED,
    NOT_RECORDED,
    Action,
    DeviceSnapshot,
    Snapshot,
    Trace,
)

_UNKNOWN, _CLOSED = -1, -2
"""Values in place of a row: the address is unknown, or its allocation was freed."""
_NOT_FREED = -1
"""Value in place of a size that no allocation has."""


@dataclass(slots=True)
class _Lives:
    """Start and end of each allocation, and the event that records its address and size."""

    start: array[int]
    requested: array[int]
    completed: array[int]
    first_events: array[int]
    before: list[int]
    """Rows that predate the trace."""
    latest: dict[int, int]
    """The row of each address that is live at the end of the trace, or a mark that it was freed."""
    double: int
    unmatched: int


@dataclass(frozen=True, slots=True)
class Allocations:
    """The allocations that were live at any time in one device's trace; one row each.

    Rows of the trace come in the order of their first mention, followed by those without an entry,
    because they predate the trace and still exist. An allocation is live at event E if
    ``start <= E < completed``, and pending if ``requested <= E < completed``.
    """

    device: int
    events: int
    start: array[int]
    """``i``: its alloc event; ``BEFORE`` if it predates the trace."""
    requested: array[int]
    """``i``: its free_requested event; ``events`` (one past the last) if there is none, and
    ``BEFORE`` if the request predates the trace."""
    completed: array[int]
    """``i``: its free_completed event; ``events`` if there is none."""
    address: array[int]
    size: array[int]
    """``q``: the requested bytes."""
    block: array[int]
    """``q``: size of its block if it still exists at the end, else 0 for unknown."""
    stack: array[int]
    """``I``: stack of the alloc; 0 if it predates the trace and is gone, because a free may record
    its own stack."""
    stream: array[int]
    pool: array[int]
    """``h``: index into ``Snapshot.pools``, ``NOT_RECORDED`` if neither entry nor block has a
    pool."""
    context: array[int]
    doubts: tuple[str, ...]
    has_history: bool
    """True if the trace has more than OOMs, which torch records even without a history."""
    sound: bool
    """True if the trace agrees with itself and with the blocks at the end, so that
    :mod:`tui.snapshots.analysis.summary` has nothing to check."""

    def __len__(self) -> int:
        return len(self.start)

    def live_at(self, event: int) -> list[int]:
        """List the rows that are live right after an event, ascending; -1 is before the first."""
        if event >= self.events - 1:
            return _find_rows(self.completed, self.events, before=len(self))
        return [
            row
            for row, (start, end) in enumerate(zip(self.start, self.completed, strict=True))
            if start <= event < end
        ]

    def stack_number(self, row: int) -> int:
        """Return the stack of a row, or the number for allocations that predate the recording."""
        stack = self.stack[row]
        if stack or not self.has_history or self.start[row] != BEFORE:
            return stack
        return BEFORE_TRACE_STACK

    def rounded(self, row: int) -> int:
        """Return the size of a row's block: from the file, else rounded up to 512 bytes."""
        return self.block[row] or round_up(self.size[row])

    def name(self, row: int) -> str:
        """Format ``0x7f12…#2``: address and count of allocations there; 0 predates the trace."""
        if self.start[row] == BEFORE:
            return f"{self.address[row]:#x}#0"
        same = _find_rows(self.address, self.address[row], before=row + 1)
        return f"{self.address[row]:#x}#{sum(self.start[other] != BEFORE for other in same)}"

    def find_at_address(self, address: int, event: int) -> int | None:
        """Return the row that began at an address and was live after an event, or ``None``."""
        for row in _find_rows(self.address, address, before=len(self)):
            if self.start[row] <= event < self.completed[row]:
                return row
        return None

    def find_by_event(self, event: int, address: int) -> int | None:
        """Return the row that an alloc or free event belongs to, or ``None``."""
        for row in _find_rows(self.address, address, before=len(self)):
            if event in (self.start[row], self.requested[row], self.completed[row]):
                return row
        return None


def round_up(size: int) -> int:
    """Return the size of the block for a request: a multiple of 512, at least 512.

    Follows ``CUDACachingAllocator::round_size`` without ``roundup_power2_divisions``.
    """
    return max(512, (size + 511) & ~511)


def allocations(snapshot: Snapshot, device: DeviceSnapshot) -> Allocations:
    """Build the table in linear time, below a second for a million entries."""
    lives = _lives(device)
    pools = {pool: number for number, pool in enumerate(snapshot.pools)}
    streams = {stream: number for number, stream in enumerate(snapshot.streams)}
    trace = device.trace
    first_events = lives.first_events
    rows = len(first_events)
    address = _pick("Q", trace.address, first_events)
    size = _pick("q", trace.size, first_events)
    stack = _pick("I", trace.stack, first_events)
    stream = _pick("I", trace.stream, first_events)
    pool = _pick("h", trace.pool, first_events)
    context = _pick("I", trace.context, first_events)
    block_size = array("q", bytes(8 * rows))
    for row in lives.before:
        stack[row] = context[row] = 0
    sound = not lives.double and not lives.unmatched and _freed_as_allocated(trace, lives, size)
    vanished = {address: row for address, row in lives.latest.items() if row >= 0}
    for segment in device.segments:
        segment_pool = (
            NOT_RECORDED if segment.pool is None else pools.get(segment.pool, NOT_RECORDED)
        )
        for block in segment.blocks:
            if block.state == "inactive":
                continue
            vanished_row = vanished.pop(block.address, None)
            if vanished_row is None:
                sound = sound and block.address not in lives.latest
                lives.start.append(BEFORE)
                lives.completed.append(len(trace))
                lives.requested.append(len(trace) if block.state == ALLOCATED else BEFORE)
                address.append(block.address)
                size.append(block.requested)
                block_size.append(block.size)
                stack.append(block.stack)
                stream.append(streams.get(segment.stream, 0))
                pool.append(segment_pool)
                context.append(0)
                continue
            sound = sound and block.requested == size[vanished_row]
            block_size[vanished_row] = block.size
            if pool[vanished_row] == NOT_RECORDED:
                pool[vanished_row] = segment_pool
            if not stack[vanished_row]:
                stack[vanished_row] = block.stack
    # An allocation that is live at the end of the trace but missing in the blocks was freed without
    # a record. It must not count at the end, where the blocks are authoritative.
    for row in vanished.values():
        lives.completed[row] = max(lives.start[row], len(trace) - 1)
    return Allocations(
        device=device.index,
        events=len(trace),
        start=lives.start,
        requested=lives.requested,
        completed=lives.completed,
        address=address,
        size=size,
        block=block_size,
        stack=stack,
        stream=stream,
        pool=pool,
        context=context,
        doubts=_doubts(lives, len(vanished)),
        has_history=not lacks_history(len(trace), trace.action.count(Action.OOM)),
        sound=sound and not vanished,
    )


def _lives(device: DeviceSnapshot) -> _Lives:
    trace = device.trace
    events = len(trace)
    alloc, free_requested, free_completed = (
        int(Action.ALLOC),
        int(Action.FREE_REQUESTED),
        int(Action.FREE_COMPLETED),
    )
    # If the trace records requests, a completed free without one was requested earlier.
    asked_before = BEFORE if Action.FREE_REQUESTED in trace.action else events
    # Each row has one of these values, replaced when the row is freed.
    most = sum(map(trace.action.count, (alloc, free_requested, free_completed)))
    requested = array("i", [events]) * most
    completed = array("i", [events]) * most
    first_events = array("i")
    before: list[int] = []
    latest: dict[int, int] = {}
    find, log_first = latest.get, first_events.append
    rows = double = unmatched = 0
    for event, action, address in zip(range(events), trace.action, trace.address, strict=True):
        if action == alloc:
            row = find(address, _UNKNOWN)
            if row >= 0:
                double += 1
                completed[row] = event
            latest[address] = rows
        elif action == free_completed:
            row = find(address, _UNKNOWN)
            latest[address] = _CLOSED
            if row >= 0:
                completed[row] = event
                continue
            unmatched += row == _CLOSED
            requested[rows] = events if row == _CLOSED else asked_before
            completed[rows] = event
            before.append(rows)
        elif action == free_requested:
            row = find(address, _UNKNOWN)
            if row >= 0:
                requested[row] = event
                continue
            unmatched += row == _CLOSED
            latest[address] = rows
            requested[rows] = event
            before.append(rows)
        else:
            continue
        log_first(event)
        rows += 1
    start = first_events[:]
    for row in before:
        start[row] = BEFORE
    return _Lives(
        start=start,
        requested=requested[:rows],
        completed=completed[:rows],
        first_events=first_events,
        before=before,
        latest=latest,
        double=double,
        unmatched=unmatched,
    )


def _freed_as_allocated(trace: Trace, lives: _Lives, sizes: array[int]) -> bool:
    """Return whether every free has the size recorded for its allocation."""
    at_end = trace.size + array("q", [_NOT_FREED])
    differ: int = sum(map(operator.ne, map(at_end.__getitem__, lives.completed), sizes))
    never = lives.completed.count(len(trace))
    return differ == never


def _pick(code: str, column: array[int], places: array[int]) -> array[int]:
    """Return the items at some positions of a column; skip the search if all items are equal."""
    if column == column[:1] * len(column):
        return array(code, column[:1]) * len(places)
    return array(code, map(column.__getitem__, places))


def _find_rows(column: array[int], value: int, before: int) -> list[int]:
    """List the rows with a value, up to a row; ``array.index`` is faster than a loop."""
    rows: list[int] = []
    row = -1
    while True:
        try:
            row = column.index(value, row + 1, before)
        except ValueError:
            return rows
        rows.append(row)


def _doubts(lives: _Lives, vanished: int) -> tuple[str, ...]:
    doubts = []
    if lives.double:
        doubts.append(f"{lives.double} allocations at an address that was not freed before")
    if lives.unmatched:
        doubts.append(
            f"{lives.unmatched} frees at an address that nothing was allocated at since the last"
            " free: the trace lacks allocations"
        )
    if vanished:
        doubts.append(f"{vanished} allocations are never freed and no block at the end")
    return tuple(doubts)
