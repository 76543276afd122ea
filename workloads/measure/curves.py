"""What there is to see in a curve: its sizes, its knee, where one overtakes the other. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.protocol.frozen import frozen

NEAR_THE_TOP = 0.8


def doublings(smallest: int, largest: int, factor: int = 2) -> list[int]:
    """Sizes from the smallest up, each ``factor`` times the one before; the largest is the last.

    Args:
        smallest: at least 1.
        largest: where it is below ``smallest``, it is the only size.
        factor: at least 2.
    """
    sizes = []
    size = smallest
    while size < largest:
        sizes.append(size)
        size *= factor
    return [*sizes, largest]


def knee(sizes: Sequence[int], rates: Sequence[float], share: float = NEAR_THE_TOP) -> int:
    """The smallest size whose rate reaches a share of the highest rate.

    Args:
        sizes: ascending, not empty.
        rates: one for each size.
        share: above 0, up to 1.
    """
    enough = share * max(rates)
    return next(size for size, rate in zip(sizes, rates, strict=True) if rate >= enough)


@frozen
class Crossing:
    """Where one way comes to take less time than another, and stays so."""

    after: int | None
    """The largest size at which it does not yet; ``None`` where it is ahead from the start."""
    before: int | None
    """The next size, from which on it is ahead; ``None`` where it never is."""


def crossing(
    sizes: Sequence[int], ours: Sequence[float], theirs: Sequence[float]
) -> Crossing | None:
    """Where ``ours`` gets ahead of ``theirs`` for good.

    Args:
        sizes: ascending.
        ours: seconds for each size.
        theirs: the same of the other way; sizes beyond its last are not compared.

    Returns:
        ``None`` where there is nothing to compare.
    """
    pairs = list(zip(sizes, ours, theirs, strict=False))
    if not pairs:
        return None
    behind = [index for index, (_, mine, other) in enumerate(pairs) if mine >= other]
    if not behind:
        return Crossing(None, pairs[0][0])
    last = behind[-1]
    following = pairs[last + 1][0] if last + 1 < len(pairs) else None
    return Crossing(pairs[last][0], following)


def crossing_words(who: str, whom: str, found: Crossing, symbol: str = "n") -> str:
    """The same as a sentence, for a chart's mark."""
    if found.before is None:
        return f"{who} does not overtake {whom} up to {symbol}={found.after}"
    if found.after is None:
        return f"{who} is ahead of {whom} from the smallest size on, {symbol}={found.before}"
    return f"{who} overtakes {whom} between {symbol}={found.after} and {symbol}={found.before}"
