"""JSON lines between processes: frozen dataclasses out, checked frozen dataclasses in.

One message is one line: a JSON object whose ``type`` names the dataclass. Unknown keys are ignored
so that a newer peer can say more; a missing or ill-typed field is a :class:`WireError` that names
its path. A float that is not finite travels as ``null``: JSON has no NaN.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class WireError(ValueError):
    """A line that is not a message we know; the text says which part and why."""


def to_plain(value: object) -> Any:
    """Turn dataclasses, tuples and mappings into what ``json.dumps`` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


_known_fields: dict[type, tuple[tuple[str, Any, bool], ...]] = {}


def _fields(cls: type) -> tuple[tuple[str, Any, bool], ...]:
    """Name, type and whether it must be given, of each field; resolving types is slow."""
    if cls not in _known_fields:
        hints = typing.get_type_hints(cls)
        missing = dataclasses.MISSING
        _known_fields[cls] = tuple(
            (
                field.name,
                hints[field.name],
                field.default is missing and field.default_factory is missing,
            )
            for field in dataclasses.fields(cls)
        )
    return _known_fields[cls]


def from_plain(kind: Any, data: Any, path: str = "$") -> Any:
    """Build a value of type ``kind`` from plain JSON data.

    Understands dataclasses, ``tuple[X, ...]`` and fixed tuples, ``dict[str, X]``, unions,
    ``Literal``, ``Any`` and the JSON scalars.

    Raises:
        WireError: the data does not fit; the message holds the path of the first misfit.
    """
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _dataclass_from_plain(typing.cast(type, kind), data, path)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _union_from_plain(kind, data, path)
    if origin is typing.Literal:
        if data in typing.get_args(kind):
            return data
        raise WireError(f"{path}: {data!r} is none of {typing.get_args(kind)}")
    if origin is tuple:
        return _tuple_from_plain(kind, data, path)
    if origin is dict:
        if not isinstance(data, dict):
            raise WireError(f"{path}: expected an object, got {type(data).__name__}")
        item_kind = typing.get_args(kind)[1]
        return {key: from_plain(item_kind, item, f"{path}.{key}") for key, item in data.items()}
    return _scalar_from_plain(kind, data, path)


def _dataclass_from_plain(cls: type[T], data: Any, path: str) -> T:
    if not isinstance(data, dict):
        raise WireError(f"{path}: expected an object, got {type(data).__name__}")
    values = {}
    for name, kind, required in _fields(cls):
        if name in data:
            values[name] = from_plain(kind, data[name], f"{path}.{name}")
        elif required:
            raise WireError(f"{path}.{name}: missing")
    return cls(**values)


def _union_from_plain(kind: Any, data: Any, path: str) -> Any:
    problem = ""
    for option in typing.get_args(kind):
        try:
            return from_plain(option, data, path)
        except WireError as error:
            # The option that is not None says more about what was wrong.
            problem = problem if option is type(None) else str(error)
    raise WireError(problem)


def _tuple_from_plain(kind: Any, data: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise WireError(f"{path}: expected a list, got {type(data).__name__}")
    kinds = typing.get_args(kind)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(data)
    if len(kinds) != len(data):
        raise WireError(f"{path}: expected {len(kinds)} items, got {len(data)}")
    return tuple(
        from_plain(item_kind, item, f"{path}[{index}]")
        for index, (item_kind, item) in enumerate(zip(kinds, data, strict=True))
    )


def _scalar_from_plain(kind: Any, data: Any, path: str) -> Any:
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    # bool is an int in Python but not on the wire.
    if isinstance(data, bool) and kind is not bool:
        raise WireError(f"{path}: expected {kind.__name__}, got bool")
    expected = type(None) if kind is None else kind
    if isinstance(data, expected):
        return data
    raise WireError(f"{path}: expected {expected.__name__}, got {type(data).__name__}")


def _tag(cls: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def encode(message: object) -> bytes:
    """One message as one line, newline included."""
    body = {"type": _tag(type(message)), **to_plain(message)}
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes, kinds: tuple[type[T], ...]) -> T:
    """Read one line as one of ``kinds``.

    Raises:
        WireError: not JSON, not an object, of an unknown type, or with a field that does not fit.
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a JSON line: {error}") from error
    if not isinstance(data, dict):
        raise WireError(f"expected an object, got {type(data).__name__}")
    tag = data.get("type")
    for kind in kinds:
        if tag == _tag(kind):
            return _dataclass_from_plain(kind, data, str(tag))
    raise WireError(f"unknown message type {tag!r}")
