"""Statistics of timings: quantiles, intervals, verdicts, a curve's knee and crossing points."""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from workloads.protocol.results import Verdict

THRESHOLD = 0.01
"""A difference counts if the whole interval is outside 1 ± this."""
SAME_BAND = 0.02
"""Two settings count as the same if the whole interval is within 1 ± this."""

_T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t, 97.5% quantile, for 1 to 30 degrees of freedom (any statistics textbook)."""
_Z975 = statistics.NormalDist().inv_cdf(0.975)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of a non-empty sequence, linear between neighbours (type 7).

    Callers ask for it after each block, so they keep the sequence sorted: ``statistics.quantiles``
    would sort it again each time.
    """
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median_interval(ordered: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95% confidence interval of the median of an ascending sequence.

    Uses order statistics: the ranks that enclose the median with at least 95% probability,
    whatever the distribution (the sign test inverted). ``None`` below six values, where even the
    whole range does not reach 95%.
    """
    n = len(ordered)
    rank = _interval_rank(n)
    return None if rank is None else (ordered[rank], ordered[n - 1 - rank])


def _interval_rank(n: int) -> int | None:
    """Return the largest k with P(Binomial(n, 1/2) <= k) <= 2.5%."""
    if n > 70:
        return max(0, math.floor(n / 2 - _Z975 * math.sqrt(n) / 2) - 1)
    tail, rank = 0.0, None
    for k in range(n // 2):
        tail += math.comb(n, k) * 0.5**n
        if tail > 0.025:
            break
        rank = k
    return rank


FEWEST_BLOCKS = 6
"""Fewest blocks for which an interval of order statistics reaches 95%."""
FEWEST_WORTH = 4.0
"""Fewest equivalent independent blocks for which there is an interval."""
CORRELATION_SEEN = 0.75
"""A correlation of neighbors below this many standard errors (1/√n each) counts as none."""
CORRELATION_MARGIN = 0.75
"""A higher correlation is raised by this many standard errors.

A simulation of ``timing``'s stop rule gave both: AR(1) noise of 0.3, 1 and 3%,
300 measurements each: the interval covers the median in 0.94 to 0.98 of them up to a correlation of
0.8 (in 0.5 to 0.6 if blocks count as independent); quiet runs take a seventh more blocks."""


def independent_blocks(in_order: Sequence[float]) -> float:
    """Return how many independent blocks would give as much information about the median.

    The correlation of neighbors is that of their ranks, so that single outliers do not hide it.
    It is corrected for the bias of a short series (Kendall 1954, Biometrika 41: about -(1 + 3ρ)/n).
    For an AR(1) process, n blocks are equivalent to n(1 - ρ)/(1 + ρ).
    """
    n = len(in_order)
    if n < FEWEST_BLOCKS:
        return float(n)
    ranks = _centred_ranks(in_order)
    spread = sum(rank * rank for rank in ranks)
    if not spread:
        return float(n)
    together = sum(a * b for a, b in itertools.pairwise(ranks))
    correlation = (n * together / spread + 1) / (n - 3)
    error = 1 / math.sqrt(n)
    if correlation < CORRELATION_SEEN * error:
        return float(n)
    correlation = min(0.98, correlation + CORRELATION_MARGIN * error)
    return n * (1 - correlation) / (1 + correlation)


def _centred_ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, less the mean rank; equal values share a rank."""
    ordered = sorted(values)
    last = len(values) - 1
    shared = {
        value: (bisect.bisect_left(ordered, value) + bisect.bisect_right(ordered, value) - 1) / 2
        for value in set(values)
    }
    return [shared[value] - last / 2 for value in values]


def block_interval(
    in_order: Sequence[float], ordered: Sequence[float]
) -> tuple[float, float] | None:
    """Return the 95% confidence interval of the median of consecutive blocks.

    Args:
        in_order: the blocks in the order measured.
        ordered: the same blocks, ascending.

    Returns:
        An interval, wider than that of independent blocks where neighbors resemble each other;
        ``None`` where the blocks are equivalent to too few independent ones.
    """
    worth = independent_blocks(in_order)
    if worth >= len(in_order):
        return median_interval(ordered)
    if worth < FEWEST_WORTH:
        return None
    share = 0.5 - t_quantile(int(worth) - 1) / (2 * math.sqrt(worth))
    return None if share < 0 else (quantile(ordered, share), quantile(ordered, 1 - share))


def relative_half_width(interval: tuple[float, float] | None, middle: float) -> float | None:
    """Return half of an interval over its middle; ``None`` without an interval."""
    if interval is None or middle <= 0:
        return None
    return (interval[1] - interval[0]) / 2 / middle


def relative_iqr(ordered: Sequence[float]) -> float:
    """Return the distance between the quartiles over the median."""
    middle = quantile(ordered, 0.5)
    return (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / middle if middle > 0 else 0.0


def relative_spread(values: Sequence[float]) -> float:
    """Return the standard deviation over the mean of two or more values; infinite at mean zero."""
    mean = statistics.fmean(values)
    return math.inf if mean == 0 else statistics.stdev(values, mean) / mean


def t_quantile(degrees: int) -> float:
    """Return Student's t at 97.5%; beyond the table by Cornish-Fisher (error below 1e-4)."""
    if degrees <= len(_T975):
        return _T975[degrees - 1]
    z = _Z975
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Time A over time B, from pairs; above 1, B is faster."""

    value: float
    ci95: tuple[float, float] | None
    """``None`` for a single pair."""
    pairs: int


MEDIAN_FROM = 12
"""Number of pairs from which order statistics give a narrow enough interval."""


def paired_ratio(ratios: Sequence[float]) -> Ratio:
    """Return the center of the pairs' ratios A/B with its 95% interval.

    For many pairs, the median with the interval of its order statistics, which a few disturbed
    pairs do not shift. For few pairs, the geometric mean with Student's interval.

    Args:
        ratios: one per pair, each positive; not empty.
    """
    logs = sorted(math.log(ratio) for ratio in ratios)
    n = len(logs)
    interval = median_interval(logs)
    if n >= MEDIAN_FROM and interval is not None:
        bounds = (math.exp(interval[0]), math.exp(interval[1]))
        return Ratio(math.exp(quantile(logs, 0.5)), bounds, n)
    mean = statistics.fmean(logs)
    if n < 2:
        return Ratio(math.exp(mean), None, n)
    half = t_quantile(n - 1) * statistics.stdev(logs, mean) / math.sqrt(n)
    return Ratio(math.exp(mean), (math.exp(mean - half), math.exp(mean + half)), n)


def verdict(ratio: Ratio) -> Verdict:
    """Return the verdict on B against A.

    This is stricter than asking whether the interval excludes 1: in repeated measurements on noisy
    machines, one in twenty such intervals does so by chance. A difference needs a whole interval
    beyond :data:`THRESHOLD`; sameness also needs evidence, not just the lack of a difference.
    """
    if ratio.ci95 is None or ratio.pairs < 3:
        return "unclear"
    low, high = ratio.ci95
    if low > 1 + THRESHOLD:
        return "faster"
    if high < 1 / (1 + THRESHOLD):
        return "slower"
    if low >= 1 / (1 + SAME_BAND) and high <= 1 + SAME_BAND:
        return "same"
    return "unclear"


SCATTERED = 2.0
"""Pairs without a verdict disagree if their ratios reach over more than this factor."""
CLOSE = 1.1
"""The quotient of two times agrees with a ratio up to this factor."""


def find_disagreement(
    ratio: Ratio, pair_ratios: Sequence[float], medians: tuple[float, float]
) -> tuple[float, float] | None:
    """Return the reach of pairs that give no common ratio; ``None`` if they do.

    Two modes or a drift can leave the pairs' median where few pairs are, or opposite to the
    quotient of the settings' medians. No figure then stands for the pairs. A verdict needs all of
    an interval on one side, so only pairs without one can disagree.

    Args:
        ratio: the center of the pairs' ratios.
        pair_ratios: one per pair, each positive.
        medians: each setting's median, seconds.
    """
    if verdict(ratio) != "unclear" or ratio.ci95 is None or ratio.pairs < 3:
        return None
    few = ratio.pairs < MEDIAN_FROM
    low, high = (min(pair_ratios), max(pair_ratios)) if few else ratio.ci95
    quotient = medians[0] / medians[1]
    outside = not low / CLOSE <= quotient <= high * CLOSE
    against = min(ratio.value, quotient) < 1 / CLOSE and max(ratio.value, quotient) > 1 + THRESHOLD
    return (low, high) if high > SCATTERED * low or outside or against else None


def times_of_ratio(ratio: Ratio, pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return a time of each setting, seconds, whose quotient agrees with the ratio.

    They are the settings' medians where these agree with it. Otherwise, as when the machine's speed
    drifts, they are the geometric means of the pairs that the ratio comes from: the ones in the
    middle, or all pairs if they are few.

    Args:
        ratio: the center of the pairs' ratios.
        pairs: both times of each pair, positive; not empty.
    """
    a, b = (statistics.median(times) for times in zip(*pairs, strict=True))
    low, high = ratio.ci95 or (ratio.value, ratio.value)
    low, high = max(low, ratio.value / CLOSE), min(high, ratio.value * CLOSE)
    if low / (1 + THRESHOLD) <= a / b <= high * (1 + THRESHOLD):
        return a, b
    ordered = sorted(pairs, key=lambda pair: pair[0] / pair[1])
    if len(pairs) >= MEDIAN_FROM:
        ordered = ordered[(len(pairs) - 1) // 2 : len(pairs) // 2 + 1]
    first, second = (statistics.geometric_mean(times) for times in zip(*ordered, strict=True))
    return first, second


def break_even_calls(
    first_a: float, steady_a: float, first_b: float, steady_b: float
) -> float | str:
    """Return after how many calls, the first included, B has repaid its slower first call.

    Args:
        first_a: seconds of the first call with A.
        steady_a: median seconds of a later call with A.
        first_b: the same with B.
        steady_b: the same with B.

    Returns:
        A number above 1, or the reason why there is none.
    """
    gain = steady_a - steady_b
    if gain <= 0:
        return "the medians do not show which setting is faster"
    if first_b <= first_a:
        return "the faster setting's first call takes no longer"
    return 1 + (first_b - first_a) / gain


NEAR_THE_TOP = 0.8


def doublings(smallest: int, largest: int, factor: int = 2) -> list[int]:
    """Return sizes from the smallest up, each ``factor`` times the previous, ending at the largest.

    Args:
        smallest: at least 1.
        largest: the last size; the only one where it is below ``smallest``.
        factor: at least 2.
    """
    sizes = []
    size = smallest
    while size < largest:
        sizes.append(size)
        size *= factor
    return [*sizes, largest]


def knee(sizes: Sequence[int], rates: Sequence[float], share: float = NEAR_THE_TOP) -> int:
    """Return the smallest size whose rate reaches a share of the highest rate.

    Args:
        sizes: ascending, not empty.
        rates: one for each size.
        share: above 0, up to 1.
    """
    enough = share * max(rates)
    return next(size for size, rate in zip(sizes, rates, strict=True) if rate >= enough)


@dataclass(frozen=True, slots=True)
class Crossing:
    """The sizes between which one way becomes faster than another for good."""

    after: int | None
    """The largest size at which it is not faster; ``None`` if it is faster at all sizes."""
    before: int | None
    """The next size, from which it is faster; ``None`` where it never is."""
    changes: int = 1
    """How often the faster one changes from size to size."""


def crossing(
    sizes: Sequence[int], ours: Sequence[float], theirs: Sequence[float]
) -> Crossing | None:
    """Find where ``ours`` becomes faster than ``theirs`` for good.

    Args:
        sizes: ascending.
        ours: seconds for each size.
        theirs: seconds of the other way; sizes beyond its last are ignored.

    Returns:
        The crossing, or ``None`` without sizes to compare.
    """
    pairs = list(zip(sizes, ours, theirs, strict=False))
    if not pairs:
        return None
    behind = [index for index, (_, mine, other) in enumerate(pairs) if mine >= other]
    if not behind:
        return Crossing(None, pairs[0][0], 0)
    last = behind[-1]
    following = pairs[last + 1][0] if last + 1 < len(pairs) else None
    ahead = [mine < other for _, mine, other in pairs]
    changes = sum(before != after for before, after in itertools.pairwise(ahead))
    return Crossing(pairs[last][0], following, changes)


def describe_crossing(who: str, whom: str, at: Crossing, symbol: str = "n") -> str:
    """Describe a crossing in a sentence, for a chart's mark."""
    if at.before is None:
        return f"{who} does not overtake {whom} up to {symbol}={at.after}"
    if at.after is None:
        return f"{who} is ahead of {whom} from the smallest size on, {symbol}={at.before}"
    between = f"between {symbol}={at.after} and {symbol}={at.before}"
    if at.changes > 1:
        return f"{who} and {whom} overtake each other {at.changes} times, last {between}"
    return f"{who} overtakes {whom} {between}"
