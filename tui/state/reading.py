"""A reading is a value, an absence with its reason, or a value that has grown old."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, Union

from tui.text.numbers import old
from workloads.protocol.frozen import frozen

T = TypeVar("T")
R = TypeVar("R")


@frozen
class Value(Generic[T]):
    """A value that is current."""

    value: T


@frozen
class Stale(Generic[T]):
    """A value that was current once."""

    value: T
    age_s: float | None
    """``None`` where nobody knows how old it is."""
    reason: str


@frozen
class Absent:
    """No value, and why: ``short`` stands in its place, ``reason`` is shown on focus."""

    reason: str
    short: str = "n/a"


Reading = Union[Value[T], Stale[T], Absent]


def reading(value: T | None, reason: str | None = None) -> Value[T] | Absent:
    """A field of a message and the reason that came with it, as a reading."""
    if value is not None:
        return Value(value)
    return Absent(reason or "not reported")


def value_of(read: Reading[T]) -> T | None:
    """The value, current or old; ``None`` for an absence."""
    return None if isinstance(read, Absent) else read.value


def reading_text(read: Reading[T], text: Callable[[T], str]) -> str:
    """The value as text, with its age if it is old, or the short word for its absence."""
    if isinstance(read, Absent):
        return read.short
    if isinstance(read, Stale):
        age_text = "old" if read.age_s is None else f"{old(read.age_s)} old"
        return f"{text(read.value)} ({age_text})"
    return text(read.value)


def aged(read: Reading[T], age_s: float | None, reason: str) -> Reading[T]:
    """A current value as an old one; an absence stays what it is."""
    return Stale(read.value, age_s, reason) if isinstance(read, Value) else read


def derive(compute: Callable[..., R], *sources: Reading[T]) -> Reading[R]:
    """What follows from other readings: absent if one of them is, as old as the oldest."""
    values: list[T] = []
    oldest: Stale[T] | None = None
    for source in sources:
        if isinstance(source, Absent):
            return source
        values.append(source.value)
        if isinstance(source, Stale) and (oldest is None or _older(source, oldest)):
            oldest = source
    result = compute(*values)
    return Stale(result, oldest.age_s, oldest.reason) if oldest else Value(result)


def _older(a: Stale[T], b: Stale[T]) -> bool:
    return b.age_s is not None and (a.age_s is None or a.age_s > b.age_s)
