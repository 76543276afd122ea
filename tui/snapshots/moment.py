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
        event,
        trace.unknown.get(event, Action(action).name.lower()),
        None if action in _WITHOUT_ADDRESS else address,
        trace.size[event],
        snapshot.streams[trace.stream[event]],
        None if pool == NEVER_TOLD else snapshot.pools[pool],
        None if time_us == NEVER_TOLD else time_us,
        snapshot.contexts[trace.context[event]],
        trace.device_free.get(event),
        None if table is None or row is None else table.name(row),
        stacks.of(trace.stack[event]),
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
        replayed.device,
        event,
        None if entry is None else entry.time_us,
        entry,
        live,
        sum(block.requested for block in held if block.pending),
        blocks - requested,
        reserved,
        reserved - live - (blocks - requested),
        len(held) + layout.outside,
        _largest(default),
        sum(part.range.size for part in private),
        sum(part.free for part in private),
        _largest(private),
        len(filled),
        tuple(doubts),
    )


def _largest(filled: tuple[Filled, ...]) -> int:
    return max((part.largest for part in filled), default=0)
