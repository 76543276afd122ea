"""The state at the end: raw segments and blocks to facts, whatever version wrote them."""

from __future__ import annotations

from typing import Any

from tui.snapshots.model import text
from tui.snapshots.model.snapshot import Block, Segment, proper_size
from tui.snapshots.read.intern import Interner, pool_of

ALLOCATED = "active_allocated"
PENDING = "active_pending_free"
INACTIVE = "inactive"

_STATES = {
    ALLOCATED: ALLOCATED,
    PENDING: PENDING,
    "active_awaiting_free": PENDING,  # as torch's documentation calls it
    INACTIVE: INACTIVE,
}
_STATED = ("allocated_size", "active_size", "requested_size")
_ADDRESSES = 1 << 64
_NOTHING: dict[object, object] = {}

Raw = Any
"""An object of the file: anything at all."""


class FinalState:
    """Turns segments; ``with_history`` tells afterwards whether torch 2.0's form was met."""

    def __init__(self, interner: Interner) -> None:
        self.with_history = False
        self._interner = interner

    def segment(self, raw: Raw) -> Segment | None:
        """One segment; ``None`` (and counted) for what is none."""
        if not isinstance(raw, dict):
            self._odd("segments that are no dicts, left out")
            return None
        address = self._address(raw, "segments")
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
            kind=text.clean(kind) if isinstance(kind, str) else "unknown",
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
        self._odd("segments without a proper device, taken for device 0")
        return 0

    def _blocks(self, raws: Raw, address: int) -> tuple[Block, ...]:
        if not isinstance(raws, (list, tuple)):
            self._odd("segments without a list of blocks")
            return ()
        blocks = []
        for raw in raws:
            if not isinstance(raw, dict):
                self._odd("blocks that are no dicts, left out")
                continue
            block = self._block(raw, address)
            blocks.append(block)
            address = block.address + block.size
        return tuple(blocks)

    def _block(self, raw: dict[Raw, Raw], next_address: int) -> Block:
        size = self._size(raw)
        # torch 2.0 wrote no addresses: a block begins where the one before it ends.
        address = self._address(raw, "blocks") if "address" in raw else next_address
        newest = self._newest(raw) if "history" in raw else _NOTHING
        state = raw.get("state")
        known = _STATES.get(state) if isinstance(state, str) else None
        if known is None:
            self._odd("blocks in a state that is not known, taken for inactive")
        if known is None or known is INACTIVE:
            # What stands in an inactive block is of the allocation before.
            return Block(address, size, 0, INACTIVE, 0)
        requested = raw.get("requested_size", newest.get("real_size", size))
        if not isinstance(requested, int) or requested < 0:
            self._odd("blocks without a proper requested_size")
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

    def _address(self, raw: dict[Raw, Raw], what: str) -> int:
        value = raw.get("address")
        if isinstance(value, int) and 0 <= value < _ADDRESSES:
            return int(value)
        self._odd(f"{what} without a proper address")
        return 0

    def _size(self, raw: dict[Raw, Raw]) -> int:
        value = raw.get("size")
        if isinstance(value, int) and value >= 0:
            return proper_size(value, "size", "a block")
        self._odd("blocks without a proper size")
        return 0

    def _odd(self, what: str) -> None:
        self._interner.odd[what] += 1
