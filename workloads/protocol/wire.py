"""JSON lines between processes: frozen dataclasses out, checked frozen dataclasses in.

One message is one line: a JSON object whose ``type`` names the dataclass. Decoding ignores unknown
keys, so that newer peers can add some; a missing or ill-typed field is a :class:`WireError` that
names its path. A float that is not finite becomes ``null``: JSON has no NaN. A line that has one
anyway is rejected, because screens expect finite figures.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, Callable, TypeVar

T = TypeVar("T")


class WireError(ValueError):
    """A line that is not a known message; the text names the faulty part and the reason."""


UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
"""``Union[X, Y]`` and, from Python 3.10, ``X | Y``."""
_AS_IT_IS = frozenset({str, int, bool, type(None)})
SCALARS = _AS_IT_IS | {float}
"""The types of JSON's values that have no parts."""


@functools.lru_cache(maxsize=None)
def _names(cls: type) -> tuple[str, ...]:
    """Return a dataclass's field names, cached: a lookup per value would double the total cost."""
    return tuple(field.name for field in dataclasses.fields(cls))


@functools.lru_cache(maxsize=None)
def keys_of(cls: type) -> tuple[tuple[str, str], ...]:
    """Return a dataclass's field names, each with its key in JSON: ``WIRE_KEYS``, else the name.

    A field that was renamed after files contain it keeps its key.
    """
    keys: Mapping[str, str] = getattr(cls, "WIRE_KEYS", {})
    return tuple((name, keys.get(name, name)) for name in _names(cls))


def field_values(record: Any) -> dict[str, Any]:
    """Return the values of a dataclass by field name, unconverted."""
    kind: type = type(record)
    return {name: getattr(record, name) for name in _names(kind)}


def to_plain(value: object) -> Any:
    """Turn dataclasses, tuples and mappings into values that ``json.dumps`` accepts."""
    # The most frequent types first, since messages are written every second.
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if dataclasses.is_dataclass(kind):
        return {key: to_plain(getattr(value, name)) for name, key in keys_of(kind)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


Reader = Callable[[Any], Any]
"""Turns plain data into a value of one type; raises :class:`MisfitError`."""


class MisfitError(Exception):
    """A mismatch of data and type, with its path below the current value."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.path = ""

    def below(self, step: str) -> MisfitError:
        """Prefix the error's path with one more step."""
        self.path = step + self.path
        return self


def from_plain(kind: Any, data: Any, path: str = "$") -> Any:
    """Build a value of type ``kind`` from plain JSON data.

    Supports dataclasses, ``tuple[X, ...]`` and fixed tuples, ``dict[str, X]``, unions, ``Literal``,
    ``Any`` and the JSON scalars.

    Raises:
        WireError: the data does not fit; the message contains the path of the first misfit.
    """
    try:
        return reader_of(kind)(data)
    except MisfitError as misfit:
        raise WireError(f"{path}{misfit.path}: {misfit.text}") from None


@functools.lru_cache(maxsize=None)
def reader_of(kind: Any) -> Reader:
    """Return the reader of a type, cached: inspecting types per value would cost more."""
    if kind is Any:
        return lambda data: data
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(typing.cast(type, kind))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in UNIONS:
        return _union_reader(arguments)
    if origin is typing.Literal:
        return _literal_reader(arguments)
    if origin is tuple:
        return _tuple_reader(arguments)
    if origin is dict:
        return _dict_reader(arguments[1])
    return _scalar_reader(type(None) if kind is None else kind)


@functools.lru_cache(maxsize=None)
def types_taken_as_is(kind: Any) -> frozenset[type]:
    """Return the types of JSON's scalars that a type's reader returns unchanged."""
    if typing.get_origin(kind) in UNIONS:
        return frozenset().union(*map(types_taken_as_is, typing.get_args(kind)))
    scalar = type(None) if kind is None else kind
    return frozenset({scalar}) if scalar in SCALARS else frozenset()


class _Field(typing.NamedTuple):
    """A field of a dataclass."""

    name: str
    key: str
    """The field's key in JSON."""
    taken_as_is: frozenset[type]
    reader: Reader
    required: bool


def _fields(cls: type) -> list[_Field]:
    """Return the fields of a dataclass."""
    hints = typing.get_type_hints(cls)
    missing = dataclasses.MISSING
    return [
        _Field(
            item.name,
            key,
            types_taken_as_is(hints[item.name]),
            reader_of(hints[item.name]),
            item.default is missing and item.default_factory is missing,
        )
        for item, (_, key) in zip(dataclasses.fields(cls), keys_of(cls))
    ]


def _dataclass_reader(cls: type) -> Reader:
    # Filled at the first reading: a type may contain values of its own type.
    fields: list[_Field] = []

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _unexpected("an object", data)
        if not fields:
            fields.extend(_fields(cls))
        values = {}
        for name, key, taken_as_is, reader, required in fields:
            if key in data:
                value = data[key]
                # Most values, for which a call each would double the time.
                if type(value) in taken_as_is:
                    values[name] = value
                    continue
                try:
                    values[name] = reader(value)
                except MisfitError as misfit:
                    raise misfit.below(f".{key}") from None
            elif required:
                raise MisfitError("missing").below(f".{key}")
        return cls(**values)

    return read


def _union_reader(kinds: tuple[Any, ...]) -> Reader:
    optional = type(None) in kinds
    *first, last = [reader_of(kind) for kind in kinds if kind is not type(None)]

    def read(data: Any) -> Any:
        if data is None and optional:
            return None
        for reader in first:
            with contextlib.suppress(MisfitError):
                return reader(data)
        return last(data)

    return read


def _literal_reader(values: tuple[Any, ...]) -> Reader:
    def read(data: Any) -> Any:
        if data in values:
            return data
        raise MisfitError(f"{data!r} is none of {values}")

    return read


def _tuple_reader(kinds: tuple[Any, ...]) -> Reader:
    alike = len(kinds) == 2 and kinds[1] is Ellipsis
    readers = tuple(reader_of(kind) for kind in (kinds[:1] if alike else kinds))

    def read(data: Any) -> Any:
        if not isinstance(data, list):
            raise _unexpected("a list", data)
        expected = readers * len(data) if alike else readers
        if len(expected) != len(data):
            raise MisfitError(f"expected {len(expected)} items, got {len(data)}")
        items: list[Any] = []
        for reader, item in zip(expected, data):
            try:
                items.append(reader(item))
            except MisfitError as misfit:
                raise misfit.below(f"[{len(items)}]") from None
        return tuple(items)

    return read


def _dict_reader(kind: Any) -> Reader:
    reader = reader_of(kind)

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _unexpected("an object", data)
        items = {}
        for key, item in data.items():
            try:
                items[key] = reader(item)
            except MisfitError as misfit:
                raise misfit.below(f".{key}") from None
        return items

    return read


def _scalar_reader(kind: type) -> Reader:
    def read(data: Any) -> Any:
        if type(data) is kind:
            return data
        if kind is float and isinstance(data, int) and not isinstance(data, bool):
            try:
                return float(data)
            except OverflowError:
                raise MisfitError("a number that is too large") from None
        # bool is an int in Python, but not on the wire.
        if isinstance(data, kind) and (kind is bool or not isinstance(data, bool)):
            return data
        raise _unexpected(kind.__name__, data)

    return read


def _unexpected(expected: str, data: Any) -> MisfitError:
    return MisfitError(f"expected {expected}, got {type(data).__name__}")


def tag_of(kind: type) -> str:
    """Return the value of ``type`` for a class: its ``WIRE_TAG``, else its name in snake case.

    A class that was renamed after files contain it keeps its tag.
    """
    tag: str | None = getattr(kind, "WIRE_TAG", None)
    return tag or _to_snake_case(kind.__name__)


@functools.lru_cache(maxsize=None)
def _to_snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def encode(message: object) -> bytes:
    """Encode one message as one line, newline included."""
    return encode_object(_body(message))


def encode_object(body: dict[str, Any]) -> bytes:
    """Encode a message that is plain data already, with its ``type``, as one line."""
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def encode_checked(message: object) -> bytes:
    """Encode a message with content from others, such as a user's workload.

    The line matches what the other side will read: a count in a field of type ``float``, for
    example, becomes a float.

    Raises:
        WireError: the other side could not read it; the text names the part and the reason.
    """
    return encode(from_object(_body(message), (type(message),)))


def _body(message: object) -> dict[str, Any]:
    return {"type": tag_of(type(message)), **to_plain(message)}


def decode(line: bytes, kinds: tuple[type[T], ...]) -> T:
    """Read one line as one of ``kinds``.

    Raises:
        WireError: not JSON, not an object, of an unknown type, or with a field that does not fit.
    """
    return from_object(parse_line(line), kinds)


def from_object(data: Any, kinds: tuple[type[T], ...]) -> T:
    """Build one of ``kinds`` from a line's parsed JSON.

    Raises:
        WireError: not an object, of an unknown type, or with a field that does not fit.
    """
    kind = _find_kind(data, kinds)
    return typing.cast(T, from_plain(kind, data, str(data["type"])))


class EncodedMessage:
    """A message of which only the needed fields are decoded.

    A process that forwards a line needs its type and a field or two, not the whole message.

    Args:
        line: the line received.
        kinds: the accepted types.

    Raises:
        WireError: the line is not JSON, not an object, or of an unknown type.
    """

    def __init__(self, line: bytes, kinds: tuple[type, ...]) -> None:
        self.line = line
        self._data = parse_line(line)
        self.kind: type = _find_kind(self._data, kinds)

    def plain(self, name: str) -> Any:
        """Return one field as JSON has it, unchecked; ``None`` where it is absent."""
        return self._data.get(name)

    def decode(self, kind: type[T]) -> T:
        """Decode the whole message.

        Args:
            kind: the expected type.

        Raises:
            WireError: the type is another, or a field does not fit.
        """
        return from_object(self._data, (kind,))


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number that is too large")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)


def parse_line(line: bytes) -> Any:
    """Return the plain data of a line.

    Raises:
        WireError: it is not JSON.
    """
    try:
        return _DECODER.decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a JSON line: {error}") from error


def _find_kind(data: Any, kinds: tuple[type[T], ...]) -> type[T]:
    """Return the type that the tag names."""
    if not isinstance(data, dict):
        raise WireError(f"expected an object, got {type(data).__name__}")
    tag = data.get("type")
    for kind in kinds:
        if tag == tag_of(kind):
            return kind
    raise WireError(f"unknown message type {tag!r}")
