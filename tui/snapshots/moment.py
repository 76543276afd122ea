"""One device at one moment, in figures, and single entries of the trace."""

from __future__ import annotations

from tui.snapshots.allocations import Allocations
from tui.snapshots.facts import Entry, State
from tui.snapshots.frames import Stacks
from tui.snapshots.layout import Filled, Layout
from tui.snapshots.model import NEVER_TOLD, Action, DeviceSnapshot, Snapshot
from tui.snapshots.replay import Replay

_WITHOUT_ADDRESS = (Action.OOM, Action.SNAPSHOT)


def entry_at(
    snapshot: Snapshot,
    device: DeviceSnapshot,
    stacks: Stacks,
    event: int,
    table: Allocations | None = None,
) -> Entry:
    """One entry with its stack.

    Args:
        snapshot: for the tables of stacks, pools and contexts.
        device: whose trace.
        stacks: of the same snapshot.
        event: its number.
        table: to name the allocation that it belongs to.

    Raises:
        IndexError: the trace has no such entry; one line says which it has.
    """
    trace = device.trace
    if not 0 <= event < len(trace):
        have = f"0 to {len(trace) - 1}" if len(trace) else "none"
        raise IndexError(f"device {device.index} has no event {event}: its trace has {have}")
    action, address = trace.action[event], trace.address[event]
    row = None
    if table is not None and action <= Action.FREE_COMPLETED:
        row = table.of_event(event, address)
    pool, time_us = trace.pool[event], trace.time_us[event]
    return Entry(
        event=event,
        action=trace.unknown.get(event, Action(action).name.lower()),
        address=None if action in _WITHOUT_ADDRESS else address,
        size=trace.size[event],
        stream=snapshot.streams[trace.stream[event]],
        pool=None if pool == NEVER_TOLD else snapshot.pools[pool],
        time_us=None if time_us == NEVER_TOLD else time_us,
        context=snapshot.contexts[trace.context[event]],
        device_free=trace.device_free.get(event),
        name=None if table is None or row is None else table.name(row),
        stack=stacks.of(trace.stack[event]),
    )


def state_of(replayed: Replay, layout: Layout, event: int | None, entry: Entry | None) -> State:
    """The figures of a layout.

    Args:
        replayed: its columns give live and reserved.
        layout: of the same device at the moment.
        event: the moment; ``None`` is the end, -1 before the first.
        entry: the one at that event, if any.
    """
    filled = layout.filled
    live = replayed.live_at_end if event is None else replayed.live_at(event)
    reserved = replayed.reserved[-1] if event is None else replayed.reserved_at(event)
    private = tuple(part for part in filled if part.range.private)
    default = tuple(part for part in filled if not part.range.private)
    held = [block for part in filled for block in part.held]
    requested = sum(block.requested for block in held)
    blocks = sum(block.size for block in held)
    doubts = list(replayed.doubts)
    if layout.misfits:
        doubts.append(f"{layout.misfits} segment events do not fit the segments")
    if layout.outside:
        doubts.append(f"{layout.outside} live allocations lie in no segment")
    elif requested != live:
        doubts.append(
            f"the live allocations add up to {requested} bytes, the trace to {live}: one of them"
            " is incomplete"
        )
    return State(
        device=replayed.device,
        event=event,
        time_us=None if entry is None else entry.time_us,
        entry=entry,
        live=live,
        pending=sum(block.requested for block in held if block.pending),
        rounding=blocks - requested,
        reserved=reserved,
        cached=reserved - live - (blocks - requested),
        allocations=len(held) + layout.outside,
        largest_free_block=_largest(default),
        private_reserved=sum(part.range.size for part in private),
        private_cached=sum(part.free for part in private),
        largest_private_free_block=_largest(private),
        segments=len(filled),
        doubts=tuple(doubts),
    )


def _largest(filled: tuple[Filled, ...]) -> int:
    return max((part.largest for part in filled), default=0)
