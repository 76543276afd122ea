"""The parts of an account of a device's memory: readings, slices, terms, the gauge.

A reading is a current value, an old value, or an absence with its reason.
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
    """A current value."""

    value: T


@dataclass(frozen=True, slots=True)
class Stale(Generic[T]):
    """An old value."""

    value: T
    age_s: float | None
    """Age in seconds; ``None`` if unknown."""
    reason: str


@dataclass(frozen=True, slots=True)
class Absent:
    """A missing value: ``short`` replaces it, and ``reason`` explains it on focus."""

    reason: str
    short: str = "n/a"


Reading = Union[Value[T], Stale[T], Absent]


def reading(value: T | None, reason: str | None = None) -> Value[T] | Absent:
    """Make a reading of a message's field and the reason for its absence."""
    if value is not None:
        return Value(value)
    return Absent(reason or "not reported")


def get_value(read: Reading[T]) -> T | None:
    """Return the current or old value, or ``None`` for an absence."""
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
    """Return a current value as an old one, and an absence unchanged."""
    return Stale(read.value, age_s, reason) if isinstance(read, Value) else read


def derive(compute: Callable[..., R], *sources: Reading[T]) -> Reading[R]:
    """Compute a reading from others: absent if one is absent, otherwise as old as the oldest."""
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
    """The words of an account about its process."""

    about: str
    """A name for the process."""
    others: str
    """A name for the other processes."""
    ours: str
    """Label of this program's other processes."""
    about_ours: str
    """What those are."""
    since: str
    """The start of its counts."""
    source: str
    """The source of torch's figures."""
    no_workspace: str
    busy: str
    """The reason that torch's figures do not split NVML's newest reading."""
    ended: str
    frees: str
    """The action that releases its cache; empty for the key of this program."""
    pinned: bool
    """The process reports its pinned host memory."""


WORKER = AccountWording(
    about="the runner's process",
    others="processes that are not this program's",
    ours="other runners",
    about_ours="ranks, or runners that are ending",
    since="the last run began",
    source="torch memory_stats",
    no_workspace="the runner has not reported cuBLAS's workspace",
    busy="the runner is busy and has not reported since NVML was read",
    ended="its process has ended, and the next has not used this device yet",
    frees="",
    pinned=True,
)
OUTSIDE = AccountWording(
    about="the selected process",
    others="all other processes that are not this workbench's",
    ours="workbench",
    about_ours="its runner, which N restarts and q ends",
    since="the process began",
    source="read from outside",
    no_workspace="counted in allocated",
    busy="torch reserved or released memory after NVML was read",
    ended="the process has ended",
    frees="empty_cache() frees",
    pinned=False,
)


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Another process's memory on a device, by NVML and, if readable, by torch."""

    pid: int
    command: str | None
    key: tuple[int, float | None, str] | None
    """Key of its allocator in the watched processes; ``None`` if it is not read."""
    process: Reading[int]
    allocated: Reading[int]
    cached: Reading[int]
    context: Reading[int]
    peak: Reading[int]
    """The peak of tensor memory since the process started, or since its last reset."""
    retries: Reading[int]
    ooms: Reading[int]
    advice: str = ""
    """Advice about absent figures."""

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Keys and sizes of the parts of the process's figure; none if unknown."""
        sizes = [get_value(part) for part in (self.allocated, self.cached, self.context)]
        known = [size for size in sizes if size is not None and size >= 0]
        return tuple(zip(OTHER_PARTS, known, strict=True)) if len(known) == len(sizes) else ()


OTHER_PARTS = ("other_allocated", "other_cached", "other_context")
"""Keys of the slices of another process."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the bar. The known slices of a gauge add up to its total."""

    key: str
    """The key of its glyph and its color."""
    label: str
    bytes: Reading[int]


@dataclass(frozen=True, slots=True)
class Term:
    """A figure of the full account."""

    key: str
    label: str
    bytes: Reading[int]
    source: str
    """The source: torch memory_stats, NVML, the operating system, or derived from those."""
    about: str = ""


PINNED = "pinned"
"""Key of the term for pinned host memory, which is beside a device's account and in no bar."""


def pinned_term(size: Reading[int]) -> Term:
    """Return the term for torch's pinned host memory, in use or cached."""
    about = "of the host: locked by torch for copies, cache included"
    return Term(PINNED, "pinned host memory", size, "torch host_memory_stats", about)


@dataclass(frozen=True, slots=True)
class Counter:
    """A count of events since the start of the last run."""

    label: str
    count: Reading[int]
    about: str


@dataclass(frozen=True, slots=True)
class Gauge:
    """The account of one device's memory, with contradictions between its figures."""

    total: Reading[int]
    slices: tuple[Slice, ...]
    terms: tuple[Term, ...]
    peaks: tuple[Term, ...]
    counters: tuple[Counter, ...]
    would_free: Reading[int]
    """The most bytes that emptying the cache would return."""
    warnings: tuple[str, ...]
    explanation: tuple[str, ...]
    """Sentences that explain the use of the memory."""
    others: tuple[ProcessMemory, ...] = ()
    """Other programs' torch processes, largest first."""
    wording: AccountWording = WORKER
    unified: bool = False
    """The device has no memory of its own: the total is the host's."""
    age_s: float | None = None
    """Age of the figures in seconds if the process has newer, other ones that NVML's do not
    match; else ``None``."""

    def term(self, key: str) -> Term:
        """Return the term or peak with this key.

        Raises:
            KeyError: the account has no such term.
        """
        for term in (*self.terms, *self.peaks):
            if term.key == key:
                return term
        raise KeyError(key)

    @property
    def known(self) -> tuple[Slice, ...]:
        """The slices of known size, in drawing order."""
        return tuple(part for part in self.slices if not isinstance(part.bytes, Absent))


def clip(value: int | None, low: int, high: int) -> int:
    """Limit ``value`` to bounds; ``None`` counts as ``low``."""
    return low if value is None else max(low, min(value, high))


def copy_age(value: int, other: Reading[int]) -> Reading[int]:
    """Return a computed size with the age of its source."""
    return Stale(value, other.age_s, other.reason) if isinstance(other, Stale) else Value(value)


def find_chain_breaks(chain: tuple[Term, ...], causes: dict[str, str]) -> list[str]:
    """Return a sentence for each known term that is larger than the next known one.

    Args:
        chain: terms in ascending order; absent terms are skipped.
        causes: possible causes of a break, by the key of the term that is too small.
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
