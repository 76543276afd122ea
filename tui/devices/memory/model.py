"""What an account of a device's memory consists of: readings, slices, terms, the gauge.

A reading is a value, an absence with its reason, or a value that has grown old.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar, Union

from tui.core.text import numbers as text
from tui.core.text.numbers import old

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """A value that is current."""

    value: T


@dataclass(frozen=True, slots=True)
class Stale(Generic[T]):
    """A value that was current once."""

    value: T
    age_s: float | None
    """``None`` where nobody knows how old it is."""
    reason: str


@dataclass(frozen=True, slots=True)
class Absent:
    """No value, and why: ``short`` stands in its place, ``reason`` is shown on focus."""

    reason: str
    short: str = "n/a"


Reading = Union[Value[T], Stale[T], Absent]


def reading(value: T | None, reason: str | None = None) -> Value[T] | Absent:
    """Return a field of a message and the reason that came with it, as a reading."""
    if value is not None:
        return Value(value)
    return Absent(reason or "not reported")


def get_value(read: Reading[T]) -> T | None:
    """Return the value, current or old; ``None`` for an absence."""
    return None if isinstance(read, Absent) else read.value


def format_reading(read: Reading[T], text: Callable[[T], str]) -> str:
    """Return the value as text, with its age if it is old, or the short word for its absence."""
    if isinstance(read, Absent):
        return read.short
    if isinstance(read, Stale):
        age_text = "old" if read.age_s is None else f"{old(read.age_s)} old"
        return f"{text(read.value)} ({age_text})"
    return text(read.value)


def mark_stale(read: Reading[T], age_s: float | None, reason: str) -> Reading[T]:
    """Return a current value as an old one; an absence stays what it is."""
    return Stale(read.value, age_s, reason) if isinstance(read, Value) else read


def derive(compute: Callable[..., R], *sources: Reading[T]) -> Reading[R]:
    """Compute a reading from others: absent if one of them is, as old as the oldest."""
    values: list[T] = []
    oldest: Stale[T] | None = None
    for source in sources:
        if isinstance(source, Absent):
            return source
        values.append(source.value)
        if isinstance(source, Stale) and (oldest is None or _is_older(source, oldest)):
            oldest = source
    result = compute(*values)
    return Stale(result, oldest.age_s, oldest.reason) if oldest else Value(result)


def _is_older(a: Stale[T], b: Stale[T]) -> bool:
    return b.age_s is not None and (a.age_s is None or a.age_s > b.age_s)


@dataclass(frozen=True, slots=True)
class AccountWording:
    """The words of an account for the process that it is of."""

    about: str
    """What that process is."""
    others: str
    """What the others are."""
    since: str
    """When its counts began."""
    source: str
    """Where torch's figures come from."""
    no_workspace: str
    busy: str
    """Why NVML's newest reading is not split by what torch says."""
    ended: str
    frees: str
    """What would return its cache; empty for the key of this program."""
    pinned: bool
    """Whether it says what it has pinned of the host's memory."""


WORKER = AccountWording(
    about="the runner's process",
    others="processes that are not this program's",
    since="the last run began",
    source="torch memory_stats",
    no_workspace="the runner has not said how much cuBLAS was given",
    busy="the runner is busy and has not reported since NVML was read",
    ended="its process has ended, and the next has not used this device yet",
    frees="",
    pinned=True,
)
OUTSIDE = AccountWording(
    about="the selected process",
    others="all other processes that are not this workbench's",
    since="the process began",
    source="read from outside",
    no_workspace="not told apart from outside: it is among the allocated",
    busy="torch has reserved or given back memory since NVML was read",
    ended="the process has ended",
    frees="empty_cache() frees",
    pinned=False,
)


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """What another process holds of a device, by NVML and, where it may be read, by torch."""

    pid: int
    command: str | None
    key: tuple[int, float | None, str] | None
    """Key of its allocator in the watched processes; ``None`` where that is not read."""
    process: Reading[int]
    allocated: Reading[int]
    cached: Reading[int]
    context: Reading[int]
    peak: Reading[int]
    """The most that tensors held since the process began, or since it reset that."""
    retries: Reading[int]
    ooms: Reading[int]
    advice: str = ""
    """What would help where they are absent."""

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Keys and sizes of what makes up the process's figure; none where that is not known."""
        sizes = [get_value(each) for each in (self.allocated, self.cached, self.context)]
        known = [size for size in sizes if size is not None and size >= 0]
        return tuple(zip(OTHER_PARTS, known, strict=True)) if len(known) == len(sizes) else ()


OTHER_PARTS = ("other_allocated", "other_cached", "other_context")
"""Keys of the slices of another process."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the bar. The known slices of a gauge add up to its total."""

    key: str
    """Names its glyph and its colour."""
    label: str
    bytes: Reading[int]


@dataclass(frozen=True, slots=True)
class Term:
    """A figure of the full account."""

    key: str
    label: str
    bytes: Reading[int]
    source: str
    """Who says so: torch memory_stats, NVML, the operating system, or derived from those."""
    about: str = ""


PINNED = "pinned"
"""Key of the term that is told beside a device's account: memory of the host, in no bar."""


def pinned_term(size: Reading[int]) -> Term:
    """Return the term for host memory that torch has pinned, in use or cached."""
    about = "of the host: locked by torch for copies, cache included"
    return Term(PINNED, "pinned host memory", size, "torch host_memory_stats", about)


@dataclass(frozen=True, slots=True)
class Counter:
    """How often something happened since the last run began."""

    label: str
    count: Reading[int]
    about: str


@dataclass(frozen=True, slots=True)
class Gauge:
    """The memory of one device, who holds it, and what does not fit together."""

    total: Reading[int]
    slices: tuple[Slice, ...]
    terms: tuple[Term, ...]
    peaks: tuple[Term, ...]
    counters: tuple[Counter, ...]
    would_free: Reading[int]
    """What emptying the cache would return at most."""
    warnings: tuple[str, ...]
    explanation: tuple[str, ...]
    """Sentences that say where the memory is."""
    others: tuple[ProcessMemory, ...] = ()
    """The processes that are not this program's and use torch, the largest first."""
    wording: AccountWording = WORKER
    unified: bool = False
    """The device has no memory of its own: the total is the host's."""

    def term(self, key: str) -> Term:
        """One term or peak by its key.

        Raises:
            KeyError: the account has no such term.
        """
        for term in (*self.terms, *self.peaks):
            if term.key == key:
                return term
        raise KeyError(key)

    @property
    def known(self) -> tuple[Slice, ...]:
        """The slices whose size is known, in the order in which they are drawn."""
        return tuple(part for part in self.slices if not isinstance(part.bytes, Absent))


def clip(value: int | None, low: int, high: int) -> int:
    """``value`` within bounds; nothing counts as ``low``."""
    return low if value is None else max(low, min(value, high))


def copy_age(value: int, other: Reading[int]) -> Reading[int]:
    """Return a size that was worked out, as old as what it was worked out from."""
    return Stale(value, other.age_s, other.reason) if isinstance(other, Stale) else Value(value)


def find_chain_breaks(chain: tuple[Term, ...], causes: dict[str, str]) -> list[str]:
    """Return a sentence for each known term that is larger than the next known one.

    Args:
        chain: terms that must not fall, smallest first; absent ones are left out.
        causes: what may explain a break, by the key of the term that is too small.
    """
    known = [term for term in chain if not isinstance(term.bytes, Absent)]
    sentences = []
    for smaller, larger in pairwise(known):
        low, high = get_value(smaller.bytes), get_value(larger.bytes)
        if low is not None and high is not None and low > high:
            sentences.append(_describe_break(smaller, low, larger, high, causes))
    return sentences


def _describe_break(
    smaller: Term, low: int, larger: Term, high: int, causes: dict[str, str]
) -> str:
    a, b = text.size(low), text.size(high)
    if a == b:
        a, b = text.count(low, "byte"), text.count(high, "byte")
    cause = causes.get(larger.key, "")
    sentence = f"{smaller.label} {a} is more than {larger.label} {b}"
    return f"{sentence}: {cause}" if cause else sentence
