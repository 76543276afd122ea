"""Messages that repeat most of the one before: only their changes are written.

A change is nested as the message is. ``{"power_w": ..., "memory": ...}`` has the changes of an
object's fields by name, and those of a list's items by place; ``[612.5]`` is a value that stands in
place of the one before, and a list of which all items are new is such a value. All other parts stay
as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workloads.protocol import wire

CHANGE = "change"
"""The ``type`` of a line that has the changes of a message since the one before of its type."""


class ChangeWriter:
    """Encodes messages for a :class:`~workloads.protocol.change_reader.ChangeReader`.

    Args:
        kinds: the messages of which the second and further ones are written as changes. Their
            fields have definite types, none is ``Any``.
    """

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self._kinds = kinds
        self._before: dict[type, Any] = {}
        """The newest message of each kind as plain data."""

    def encode(self, message: object) -> bytes:
        """Encode one message as one line, newline included."""
        kind = type(message)
        if kind not in self._kinds:
            return wire.encode(message)
        plain = wire.to_plain(message)
        known, self._before[kind] = self._before.get(kind), plain
        tag = wire.tag_of(kind)
        if known is None:
            return wire.encode_object({"type": tag, **plain})
        changed = find_change(known, plain) or {}
        return wire.encode_object({"type": CHANGE, "of": tag, "changed": changed})


def find_change(before: Any, after: Any) -> dict[str, Any] | list[Any] | None:
    """Return the change from one value to another; ``None`` if they are equal.

    Args:
        before: plain data, as of :func:`~workloads.protocol.wire.to_plain`.
        after: likewise.
    """
    # True is not 1 here, nor is 1.0.
    if type(before) is not type(after):
        return [after]
    if isinstance(before, dict):
        # The order of an object's keys is part of it: the first is shown first.
        if list(before) != list(after):
            return [after]
        return _changes(zip(before, before.values(), after.values()))
    if isinstance(before, list):
        if len(before) != len(after):
            return [after]
        changes = _changes(zip(map(str, range(len(before))), before, after))
        # Two new times in one value take less time to read than each in one of its own.
        if changes is not None and len(changes) == len(after):
            is_new = all(isinstance(change, list) for change in changes.values())
            return [after] if is_new else changes
        return changes
    return None if before == after else [after]


def _changes(parts: Iterable[tuple[str, Any, Any]]) -> dict[str, Any] | None:
    changes: dict[str, Any] = {}
    for name, before, after in parts:
        # Most values are equal scalars, for which a call each would take longer than all the rest.
        kind = type(before)
        if kind in wire.SCALARS and kind is type(after):
            if before != after:
                changes[name] = [after]
            continue
        change = find_change(before, after)
        if change is not None:
            changes[name] = change
    return changes or None
