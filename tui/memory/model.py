"""What an account of a device's memory consists of."""

from __future__ import annotations

from itertools import pairwise

from tui.state.reading import Absent, Reading, Stale, Value, value_of
from tui.text import numbers as text
from workloads.protocol.frozen import frozen


@frozen
class Slice:
    """A part of the bar. The known slices of a gauge add up to its total."""

    key: str
    """Names its glyph and its colour."""
    label: str
    bytes: Reading[int]


@frozen
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
    """What torch has pinned of the host's memory, in use or kept for the next copy."""
    about = "of the host: locked by torch for copies, cache included"
    return Term(PINNED, "pinned host memory", size, "torch host_memory_stats", about)


@frozen
class Counter:
    """How often something happened since the last run began."""

    label: str
    count: Reading[int]
    about: str


@frozen
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


def as_old_as(value: int, other: Reading[int]) -> Reading[int]:
    """A size that was worked out, as old as what it was worked out from."""
    return Stale(value, other.age_s, other.reason) if isinstance(other, Stale) else Value(value)


def chain_breaks(chain: tuple[Term, ...], causes: dict[str, str]) -> list[str]:
    """A sentence for each known term that is larger than the next known one.

    Args:
        chain: terms that must not fall, smallest first; absent ones are left out.
        causes: what may explain a break, by the key of the term that is too small.
    """
    known = [term for term in chain if not isinstance(term.bytes, Absent)]
    sentences = []
    for smaller, larger in pairwise(known):
        low, high = value_of(smaller.bytes), value_of(larger.bytes)
        if low is not None and high is not None and low > high:
            sentences.append(_break(smaller, low, larger, high, causes))
    return sentences


def _break(smaller: Term, low: int, larger: Term, high: int, causes: dict[str, str]) -> str:
    a, b = text.size(low), text.size(high)
    if a == b:
        a, b = text.count(low, "byte"), text.count(high, "byte")
    cause = causes.get(larger.key, "")
    sentence = f"{smaller.label} {a} is more than {larger.label} {b}"
    return f"{sentence}: {cause}" if cause else sentence
