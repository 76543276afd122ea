"""Reads the lines of a :class:`~workloads.protocol.change_writer.ChangeWriter`.

Parts of a message that have not changed are the same objects as in the message before, so that a
second of eight GPUs takes a third of the time of decoding a whole sample.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from workloads.protocol import wire
from workloads.protocol.change_writer import CHANGE
from workloads.protocol.wire import MisfitError, WireError

T = TypeVar("T")

Changer = Callable[[Any, Any], Any]
"""Returns a value with a change applied; raises :class:`~workloads.protocol.wire.MisfitError`."""


class ChangeReader(Generic[T]):
    """Decodes the lines of one sender.

    Args:
        kinds: the messages that they may be.
        clean: returns a message, given with its line, without the parts that this sender must not
            set.
    """

    def __init__(
        self,
        kinds: tuple[type[T], ...],
        clean: Callable[[T, bytes], T] = lambda message, _: message,
    ) -> None:
        self._kinds = kinds
        self._clean = clean
        self._newest: dict[str, T] = {}
        """The newest message of each type, by its tag."""

    def decode(self, line: bytes) -> T:
        """Read one line.

        Raises:
            WireError: it is no message, or no change of the one before.
        """
        data = wire.parse_line(line)
        if isinstance(data, dict) and data.get("type") == CHANGE:
            tag = str(data.get("of"))
            known = self._newest.get(tag)
            if known is None:
                raise WireError(f"a change of {tag!r}, of which there was none")
            message = change_message(known, data.get("changed"))
        else:
            message = wire.from_object(data, self._kinds)
            tag = wire.tag_of(type(message))
        message = self._clean(message, line)
        self._newest[tag] = message
        return message


def change_message(message: T, change: Any) -> T:
    """Return a message with a change applied.

    Raises:
        WireError: the change does not fit; the text contains the path of the first misfit.
    """
    kind: Any = type(message)
    try:
        return typing.cast(T, _changer_of(kind)(message, change))
    except MisfitError as misfit:
        raise WireError(f"{wire.tag_of(kind)}{misfit.path}: {misfit.text}") from None


@functools.cache
def _changer_of(kind: Any) -> Changer:
    """Return the changer of a type: a new value replaces the one before, or parts of it change."""
    reader, descend = wire.reader_of(kind), _descent_of(kind)

    def change_value(value: Any, change: Any) -> Any:
        if isinstance(change, dict):
            return descend(value, change)
        if not isinstance(change, list) or len(change) != 1:
            raise MisfitError("expected a change or one new value")
        return reader(change[0])

    return change_value


@functools.cache
def _descent_of(kind: Any) -> Changer:
    """Return the function that changes parts of a value of a type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _change_fields(typing.cast(type, kind))
    if origin in wire.UNIONS:
        return _change_member(arguments)
    if origin is tuple:
        return _change_items(arguments)
    if origin is dict:
        return _change_entries(arguments[1])
    return _refuse_parts


def _refuse_parts(value: Any, _change: Any) -> Any:
    raise MisfitError(f"a {type(value).__name__} has no parts")


def _change_part(changer: Changer, value: Any, change: Any, step: str) -> Any:
    """Return a part of a value with a change applied; a misfit's path begins with ``step``."""
    try:
        return changer(value, change)
    except MisfitError as misfit:
        raise misfit.below(step) from None


def _change_fields(cls: type) -> Changer:
    names = tuple(name for name, _ in wire.keys_of(cls))
    # Of one field it would return the value, and not a tuple.
    values_of = (
        operator.attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)
    )
    # By the fields' keys, with the fields' places. Filled at the first change: a type may contain
    # values of its own type.
    changers: dict[str, tuple[int, frozenset[type], Changer]] = {}

    def change_fields(value: Any, change: dict[str, Any]) -> Any:
        if not changers:
            hints = typing.get_type_hints(cls)
            for place, (name, key) in enumerate(wire.keys_of(cls)):
                kind = hints[name]
                changers[key] = (place, wire.types_taken_as_is(kind), _changer_of(kind))
        # By place, which takes less time than by name: a device has thirty fields.
        values = list(values_of(value))
        for key, part in change.items():
            if key not in changers:
                raise MisfitError("no such field").below(f".{key}")
            place, taken_as_is, changer = changers[key]
            # Most changes, for which a call each would take as long as all the rest.
            if type(part) is list and len(part) == 1 and type(part[0]) in taken_as_is:
                values[place] = part[0]
                continue
            values[place] = _change_part(changer, values[place], part, f".{key}")
        return cls(*values)

    return change_fields


def _change_items(kinds: tuple[Any, ...]) -> Changer:
    alike = len(kinds) == 2 and kinds[1] is Ellipsis
    changers = tuple(_changer_of(kind) for kind in (kinds[:1] if alike else kinds))

    def change_items(value: Any, change: dict[str, Any]) -> Any:
        items = list(value)
        places = {str(place): place for place in range(len(items))}
        for name, part in change.items():
            place = places.get(name)
            if place is None:
                raise MisfitError("no such item").below(f"[{name}]")
            changer = changers[0 if alike else place]
            items[place] = _change_part(changer, items[place], part, f"[{name}]")
        return tuple(items)

    return change_items


def _change_entries(kind: Any) -> Changer:
    changer = _changer_of(kind)

    def change_entries(value: Any, change: dict[str, Any]) -> Any:
        entries = dict(value)
        for name, part in change.items():
            if name not in entries:
                raise MisfitError("no such key").below(f".{name}")
            entries[name] = _change_part(changer, entries[name], part, f".{name}")
        return entries

    return change_entries


def _change_member(kinds: tuple[Any, ...]) -> Changer:
    """Return the function that changes parts of a union's value, by the value's member."""
    descents = {typing.get_origin(kind) or kind: _descent_of(kind) for kind in kinds}

    def change_member(value: Any, change: dict[str, Any]) -> Any:
        return descents.get(type(value), _refuse_parts)(value, change)

    return change_member
