"""Find slow links, and slow ends of several links. Pure.

Each link has an expected rate: the median, over the ends of links of its kind, of each end's best
rate. A healthy end reaches it with some partner, a slow one with none, so the median is right while
most ends are healthy. A link is *low* if its rate, its interval included, is below 80% of that. An
end is named only if it has at least two links and all of them are low: a single low link may be the
fault of either end, or of neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high

from workloads.protocol.collective_names import ALL_REDUCE, bus_factor

LOW_BELOW = 0.8
"""Share of the expected rate. In the published case (NVIDIA/nccl-tests#106) the pairs of the slow
node reached 0.56 of the others."""
FEWEST_LINKS = 2
"""With one link, either end may be at fault."""


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """The rate between two ends."""

    first: str
    second: str
    rate: float
    """Bytes per second."""
    high: float
    """Upper end of the rate's interval, or the rate itself."""
    kind: str = ""
    """Kind of the link, such as NV18 or SYS; only links of one kind are compared."""

    @property
    def ends(self) -> frozenset[str]:
        """Both ends."""
        return frozenset((self.first, self.second))

    def other_end(self, end: str) -> str:
        """Return the end that a link has beside another."""
        return self.second if self.first == end else self.first


@dataclass(frozen=True, slots=True)
class LowLink:
    """A link that is slower than expected."""

    link: MeasuredLink
    expected: float


@dataclass(frozen=True, slots=True)
class LinksVerdict:
    """The slow links."""

    expected: dict[str, float]
    """Rate by kind of link."""
    low: tuple[LowLink, ...]
    """In the order of the links."""
    slow_ends: tuple[str, ...]
    """Ends that have only low links."""

    @property
    def unexplained(self) -> tuple[LowLink, ...]:
        """The low links between ends that are not named."""
        named = set(self.slow_ends)
        return tuple(finding for finding in self.low if not finding.link.ends & named)


def judge_links(links: Sequence[MeasuredLink]) -> LinksVerdict:
    """Find the low links and the slow ends.

    Args:
        links: between different ends; it may contain both directions of a pair.
    """
    expected = {kind: _expected(links, kind) for kind in dict.fromkeys(link.kind for link in links)}
    low = tuple(
        LowLink(link, expected[link.kind])
        for link in links
        if link.high < LOW_BELOW * expected[link.kind]
    )
    ends = dict.fromkeys(end for link in links for end in (link.first, link.second))
    named = tuple(
        end
        for end in ends
        if len({link.other_end(end) for link in links_of(links, end)}) >= FEWEST_LINKS
        and all(any(link is finding.link for finding in low) for link in links_of(links, end))
    )
    return LinksVerdict(expected, low, named)


def _expected(links: Sequence[MeasuredLink], kind: str) -> float:
    """Return the median, over the ends of a kind of link, of each end's best rate."""
    of_kind = [link for link in links if link.kind == kind]
    ends = dict.fromkeys(end for link in of_kind for end in (link.first, link.second))
    return median_high([max(link.rate for link in links_of(of_kind, end)) for end in ends])


def links_of(links: Sequence[MeasuredLink], end: str) -> list[MeasuredLink]:
    """Return the links with an end."""
    return [link for link in links if end in link.ends]


def bus_bandwidth(byte: float, seconds: float, ranks: int) -> float:
    """Return the bytes per second that each link carries in an all-reduce.

    Args:
        byte: size of the tensor.
        seconds: time of one all-reduce.
        ranks: number of ranks, at least 2.
    """
    return byte / seconds * bus_factor(ALL_REDUCE, ranks)
