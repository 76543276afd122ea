"""The schedule of the pairs of hosts that are measured at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def tournament(members: Sequence[T]) -> list[list[tuple[T, T]]]:
    """Return rounds of disjoint pairs, in which each member meets each other once.

    The circle method of a round-robin tournament: one member stays, the others move on by one
    place from round to round. With n members, n even, there are n-1 rounds; with n odd there are
    n, and in each round one member rests.

    Args:
        members: all different.

    Returns:
        The rounds; in each pair, the member that comes first in ``members`` is first.
    """
    count = len(members)
    if count < 2:
        return []
    even = count + count % 2
    order = list(range(even))
    rounds = []
    for _ in range(even - 1):
        pairs = [
            (min(order[place], order[-1 - place]), max(order[place], order[-1 - place]))
            for place in range(even // 2)
        ]
        rounds.append(
            [(members[first], members[second]) for first, second in pairs if second < count]
        )
        order = [order[0], order[-1], *order[1:-1]]
    return rounds
