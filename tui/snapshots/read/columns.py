"""Conversion of a trace's entries to columns, and of the final segments and blocks to facts.

Entries are converted in batches, or one by one if a batch is irregular.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tui.snapshots.model.snapshot import (
    ALLOCATED,
    INACTIVE,
    NOT_RECORDED,
    PENDING,
    SIZE_LIMIT,
    Action,
    Block,
    Segment,
    Trace,
    empty_trace,
    proper_size,
)
from tui.snapshots.read import naming
from tui.snapshots.read.naming import Interner, pool_of

BATCH = 4096
"""Number of entries converted at once, after which the file's own objects are released."""

ACTIONS = {
    "alloc": Action.ALLOC,
    "free_requested": Action.FREE_REQUESTED,
    "free_completed": Action.FREE_COMPLETED,
    "segment_alloc": Action.SEGMENT_ALLOC,
    "segment_free": Action.SEGMENT_FREE,
    "segment_map": Action.SEGMENT_MAP,
    "segment_unmap": Action.SEGMENT_UNMAP,
    "oom": Action.OOM,
    "snapshot": Action.SNAPSHOT,
    "annotate": Action.ANNOTATE,
}
"""Action codes by their names in the file."""

_CODES = {name: int(action) for name, action in ACTIONS.items()}
_WITHOUT_ADDRESS = (Action.OOM, Action.SNAPSHOT, Action.OTHER)

_DEFAULTS: dict[str, object] = {
    "action": None,
    "addr": None,
    "size": None,
    "stream": 0,
    "frames": None,
    "time_us": NOT_RECORDED,
    "pool_id": None,
    "compile_context": None,
    "user_metadata": None,
    "category": None,
}
"""Default values of the keys that all or some torch versions write."""

_STRINGS: frozenset[type] = frozenset((str,))
_INTEGERS: frozenset[type] = frozenset((int,))
_TEXTS: frozenset[type] = frozenset((str, type(None)))

Raw = Any
"""An object from the file, of any type."""


class TraceColumns:
    """Appends the entries of a file to the columns of one :class:`Trace`."""

    def __init__(self, interner: Interner) -> None:
        self.trace = empty_trace()
        self._interner = interner

    def add(self, batch: list[Raw]) -> None:
        """Append entries, oldest first; count invalid ones in ``interner.odd``."""
        if not batch:
            return
        try:
            added = self._add_batch(batch)
        except (TypeError, AttributeError, OverflowError, KeyError):
            # The batch has an unknown action, a missing address or a value of another type: convert
            # each entry alone.
            for entry in batch:
                self._add_entry(entry)
            return
        trace = self.trace
        for column, values in zip(_columns(trace), added, strict=True):
            column.extend(values)

    def _add_batch(self, batch: list[Raw]) -> tuple[Any, ...]:
        interner = self._interner
        raws = _transpose(batch)
        _require_types(raws["action"], _STRINGS)
        action = bytes(map(_CODES.__getitem__, raws["action"]))
        if Action.OOM in action:
            raise KeyError("an OOM has figures of its own")
        count = len(batch)
        address, size = array("Q", raws["addr"]), array("q", raws["size"])
        if max(size) >= SIZE_LIMIT or min(size) <= -SIZE_LIMIT:
            raise OverflowError("a size that is to be refused by its entry's number")
        times = array("q", raws.get("time_us") or [NOT_RECORDED] * count)
        stream = self._streams(raws.get("stream") or [0] * count)
        pool = self._pools(raws.get("pool_id"), count)
        context = self._contexts(raws, count)
        category = self._categories(raws.get("category"), count)
        # Convert stacks last: an irregular batch must not have counted anything before it fails.
        stack = interner.stack_numbers(raws.get("frames") or [None] * count)
        return action, address, size, stream, stack, times, pool, context, category

    def _pool(self, raw: Raw) -> int:
        number = self._interner.pool(raw)
        return NOT_RECORDED if number is None else number

    def _pools(self, raws: list[Raw] | None, count: int) -> array[int]:
        if raws is None:
            return array("h", [NOT_RECORDED]) * count
        numbers, last, number = array("h"), None, NOT_RECORDED
        for raw in raws:
            if raw is not last and raw != last:
                number = self._pool(raw)
                last = raw if number != NOT_RECORDED else None
            numbers.append(number if raw is not None else NOT_RECORDED)
        return numbers

    def _streams(self, raws: list[Raw]) -> array[int]:
        interner = self._interner
        if _all_equal(raws, _INTEGERS):
            return array("H", [interner.stream(raws[0])]) * len(raws)
        _require_types(raws, _INTEGERS)
        known = interner.stream_numbers
        for raw in set(raws) - known.keys():
            interner.stream(raw)
        return array("H", map(known.__getitem__, raws))

    def _contexts(self, raws: dict[str, list[Raw]], count: int) -> array[int]:
        compiled = raws.get("compile_context") or [None]
        metadata = raws.get("user_metadata") or [None]
        interner = self._interner
        if _all_equal(compiled, _TEXTS) and _all_equal(metadata, _TEXTS):
            return array("I", [interner.context(compiled[0], metadata[0])]) * count
        _require_types(compiled, _TEXTS)
        _require_types(metadata, _TEXTS)
        compiled, metadata = (
            context if len(context) == count else context * count
            for context in (compiled, metadata)
        )
        known = interner.context_numbers
        for pair in set(zip(compiled, metadata, strict=True)) - known.keys():
            interner.context(*pair)
        return array("I", map(known.__getitem__, zip(compiled, metadata, strict=True)))

    def _categories(self, raws: list[Raw] | None, count: int) -> bytes:
        if raws is None or raws.count(None) == count:
            return bytes(count)
        return bytes(map(self._interner.category, raws))

    def _add_entry(self, entry: Raw) -> None:
        interner = self._interner
        if not isinstance(entry, dict):
            interner.odd["trace entries that are no dicts, left out"] += 1
            return
        trace = self.trace
        number = len(trace)
        name = entry.get("action")
        action = ACTIONS.get(name, Action.OTHER) if isinstance(name, str) else Action.OTHER
        if action is Action.OTHER:
            trace.unknown[number] = naming.format_value(name)
        elif action is Action.OOM:
            free = entry.get("device_free")
            if isinstance(free, int) and free >= 0:
                trace.device_free[number] = proper_size(
                    free, "device_free", f"trace entry {number}"
                )
        row = (
            action,
            self._read_integer(entry, "addr", 0, 1 << 64, 0, needed=action not in _WITHOUT_ADDRESS),
            self._read_size(entry, number, needed=action != Action.OTHER),
            interner.stream(entry.get("stream", 0)),
            interner.stack(entry.get("frames")),
            self._read_integer(entry, "time_us", -(1 << 63), 1 << 63, NOT_RECORDED, needed=False),
            self._pool(entry.get("pool_id")),
            interner.context(entry.get("compile_context"), entry.get("user_metadata")),
            interner.category(entry.get("category")),
        )
        for column, value in zip(_columns(trace), row, strict=True):
            column.append(value)

    def _read_size(self, entry: dict[Raw, Raw], number: int, *, needed: bool) -> int:
        value = entry.get("size")
        if isinstance(value, int):
            return proper_size(value, "size", f"trace entry {number}")
        if value is not None or needed:
            self._interner.odd["trace entries without a proper size"] += 1
        return 0

    def _read_integer(
        self, entry: dict[Raw, Raw], key: str, low: int, high: int, default: int, *, needed: bool
    ) -> int:
        value = entry.get(key)
        if isinstance(value, int) and low <= value < high:
            return int(value)
        if value is not None or needed:
            self._interner.odd[f"trace entries without a proper {key}"] += 1
        return default


def _transpose(batch: list[Raw]) -> dict[str, list[Raw]]:
    """Return the values of entries by key, with defaults unless all have the same keys."""
    first = batch[0].keys()
    if first <= _DEFAULTS.keys() and len(set(map(len, batch))) == 1:
        # The same number of keys as the first entry, and all of its keys: the keys are equal.
        return {key: [entry[key] for entry in batch] for key in first}
    return {key: [entry.get(key, default) for entry in batch] for key, default in _DEFAULTS.items()}


def _all_equal(values: list[Raw], kinds: frozenset[type]) -> bool:
    """Return whether all values equal the first one and it has one of the given types."""
    return type(values[0]) in kinds and values.count(values[0]) == len(values)


def _require_types(values: list[Raw], kinds: frozenset[type]) -> None:
    # Check types before hashing: the hash of a deeply nested tuple overruns the C stack.
    if not kinds.issuperset(map(type, values)):
        raise TypeError("a value of another type")


def _columns(trace: Trace) -> tuple[bytearray | array[int], ...]:
    return (
        trace.action,
        trace.address,
        trace.size,
        trace.stream,
        trace.stack,
        trace.time_us,
        trace.pool,
        trace.context,
        trace.category,
    )


@dataclass(frozen=True, slots=True)
class Conversion:
    """How the entries of a file are converted."""

    interner: Interner
    """Assigns numbers to stacks and names."""
    consume: bool
    """Empty the lists of the file during conversion, so that memory never contains both forms."""
    spent: list[object] | None
    """Receives the entries removed from the file's lists, in pieces, to free them later."""
    advance: Callable[[int], None]
    """Called with the number of items in each batch; may raise to cancel."""


def fill(
    trace: list[Raw], conversion: Conversion, accepts: Callable[[Raw], bool] | None
) -> tuple[Trace, int]:
    """Fill the columns of a trace, and return the number of dropped entries.

    Args:
        trace: entries of the file, oldest first.
        conversion: how to convert them.
        accepts: returns whether to keep an entry; ``None`` keeps all.
    """
    consume, spent = conversion.consume, conversion.spent
    columns, skipped = TraceColumns(conversion.interner), 0
    if consume:
        # Taking items from the end of a list is fast, from the start slow.
        trace.reverse()
    start, total = 0, len(trace)
    while start < total:
        stop = min(start + BATCH, total)
        if consume:
            batch = trace[start - stop :]
            del trace[start - stop :]
            batch.reverse()
            if spent is not None:
                spent.append(batch)
        else:
            batch = trace[start:stop]
        if accepts is not None:
            whole = len(batch)
            batch = [entry for entry in batch if accepts(entry)]
            skipped += whole - len(batch)
        columns.add(batch)
        conversion.advance(stop - start)
        start = stop
    return columns.trace, skipped


_STATES = {
    ALLOCATED: ALLOCATED,
    PENDING: PENDING,
    "active_awaiting_free": PENDING,  # as torch's documentation calls it
    INACTIVE: INACTIVE,
}
_STATED = ("allocated_size", "active_size", "requested_size")
_ADDRESSES = 1 << 64
_NOTHING: dict[object, object] = {}


class FinalState:
    """Converts segments; ``with_history`` is true after it has met the form of torch 2.0."""

    def __init__(self, interner: Interner) -> None:
        self.with_history = False
        self._interner = interner

    def segment(self, raw: Raw) -> Segment | None:
        """Convert one segment; return ``None`` and count the item if it is not a segment."""
        if not isinstance(raw, dict):
            self._count_odd("segments that are no dicts, left out")
            return None
        address = self._read_address(raw, "segments")
        blocks = self._blocks(raw.get("blocks"), address)
        size = raw.get("total_size")
        interner = self._interner
        pool = raw.get("segment_pool_id")
        interner.pool(pool)
        kind = raw.get("segment_type")
        return Segment(
            device=self._device(raw),
            address=address,
            size=(
                proper_size(size, "total_size", "a segment")
                if isinstance(size, int) and size >= 0
                else sum(block.size for block in blocks)
            ),
            stream=interner.streams[interner.stream(raw.get("stream", 0))],
            pool=pool_of(pool),
            kind=naming.clean(kind) if isinstance(kind, str) else "unknown",
            expandable=raw.get("is_expandable") is True,
            stack=interner.stack(raw.get("frames")),
            blocks=blocks,
            stated={
                key: proper_size(raw[key], key, "a segment")
                for key in _STATED
                if isinstance(raw.get(key), int)
            },
        )

    def _device(self, raw: dict[Raw, Raw]) -> int:
        device = raw.get("device", 0)
        if isinstance(device, int) and 0 <= device < 1 << 16:
            return int(device)
        self._count_odd("segments without a proper device, taken for device 0")
        return 0

    def _blocks(self, raws: Raw, address: int) -> tuple[Block, ...]:
        if not isinstance(raws, (list, tuple)):
            self._count_odd("segments without a list of blocks")
            return ()
        blocks = []
        for raw in raws:
            if not isinstance(raw, dict):
                self._count_odd("blocks that are no dicts, left out")
                continue
            block = self._block(raw, address)
            blocks.append(block)
            address = block.address + block.size
        return tuple(blocks)

    def _block(self, raw: dict[Raw, Raw], next_address: int) -> Block:
        size = self._read_size(raw)
        # torch 2.0 wrote no addresses: a block starts at the end of the previous one.
        address = self._read_address(raw, "blocks") if "address" in raw else next_address
        newest = self._newest(raw) if "history" in raw else _NOTHING
        state = raw.get("state")
        known = _STATES.get(state) if isinstance(state, str) else None
        if known is None:
            self._count_odd("blocks in a state that is not known, taken for inactive")
        if known is None or known is INACTIVE:
            # The fields of an inactive block describe its previous allocation.
            return Block(address, size, 0, INACTIVE, 0)
        requested = raw.get("requested_size", newest.get("real_size", size))
        if not isinstance(requested, int) or requested < 0:
            self._count_odd("blocks without a proper requested_size")
            requested = size
        requested = proper_size(requested, "requested_size", "a block")
        frames = raw.get("frames", newest.get("frames"))
        return Block(address, size, requested, known, self._interner.stack(frames))

    def _newest(self, raw: dict[Raw, Raw]) -> dict[Raw, Raw]:
        history = raw["history"]
        if not isinstance(history, list):
            return _NOTHING
        self.with_history = True
        return history[0] if history and isinstance(history[0], dict) else _NOTHING

    def _read_address(self, raw: dict[Raw, Raw], label: str) -> int:
        value = raw.get("address")
        if isinstance(value, int) and 0 <= value < _ADDRESSES:
            return int(value)
        self._count_odd(f"{label} without a proper address")
        return 0

    def _read_size(self, raw: dict[Raw, Raw]) -> int:
        value = raw.get("size")
        if isinstance(value, int) and value >= 0:
            return proper_size(value, "size", "a block")
        self._count_odd("blocks without a proper size")
        return 0

    def _count_odd(self, label: str) -> None:
        self._interner.odd[label] += 1
