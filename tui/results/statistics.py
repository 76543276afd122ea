"""Whether two sets of runs differ: ratios of their medians, with intervals from run to run.

The unit is the run. Blocks within one run share its process, its memory's layout and the clocks of
that hour, so that they are no independent evidence: a run counts once, by the median of its blocks.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

from workloads.measure import estimates
from workloads.measure.estimates import MEDIAN_FROM, THRESHOLD, t_quantile
from workloads.protocol.frozen import frozen
from workloads.protocol.results import Verdict

FEWEST = 3
"""Runs a side: of fewer nothing is said but their ratio."""
LEVEL = 0.05
"""Of a table without any difference, so many show one by chance."""
RESAMPLES = 1000
_SEED = 20_26
"""The same runs give the same interval each time."""


@frozen
class RunRatio:
    """Time of A over time of B; above 1, B is faster."""

    value: float
    ci95: tuple[float, float] | None
    """From run to run; ``None`` below :data:`FEWEST` runs a side."""
    runs: tuple[int, int]
    """How many, of A and of B."""
    p_value: float | None
    """How likely chance alone shows as much beyond :data:`THRESHOLD`; ``None`` as the interval."""

    @property
    def alone(self) -> Verdict:
        """What would be said if it were the only question."""
        return estimates.verdict(estimates.Ratio(self.value, self.ci95, min(self.runs)))


def ratio_of_runs(a: Sequence[float], b: Sequence[float]) -> RunRatio:
    """Compare runs.

    The ratio is that of the medians over the runs, which a single disturbed run does not move. Its
    interval is that of :data:`RESAMPLES` resampled ratios, for which each side draws its runs anew.
    From :data:`MEDIAN_FROM` runs a side on they are ratios of medians; of fewer, whose medians
    vary more, ratios of geometric means, as in ``workloads.measure.estimates.paired_ratio``. Few
    runs cannot stand for what lies beyond them, so that their interval is at no end narrower than
    Student's with Welch's degrees of freedom (Welch 1947, Biometrika 34).

    Args:
        a: the median of each run in seconds, positive; not empty.
        b: likewise.
    """
    logs_a, logs_b = sorted(map(math.log, a)), sorted(map(math.log, b))
    runs = (len(a), len(b))
    between = statistics.median(logs_a) - statistics.median(logs_b)
    if min(runs) < FEWEST:
        return RunRatio(math.exp(between), None, runs, None)
    many = min(runs) >= MEDIAN_FROM
    draws, resampled = random.Random(_SEED), _resampled_medians if many else _resampled_means
    of_a, of_b = resampled(logs_a, draws), resampled(logs_b, draws)
    ratios = sorted(x - y for x, y in zip(of_a, of_b, strict=True))
    low, high = estimates.quantile(ratios, 0.025), estimates.quantile(ratios, 0.975)
    if many:
        centre, error, degrees = between, statistics.stdev(ratios), min(runs) - 1
    else:
        centre = statistics.fmean(logs_a) - statistics.fmean(logs_b)
        error, degrees = _welch(logs_a, logs_b)
        half = t_quantile(degrees) * error
        low, high = min(low, centre - half), max(high, centre + half)
    # The medians of few runs may lie outside of what their means allow.
    low, high = min(low, between), max(high, between)
    beyond = max(0.0, abs(centre) - math.log1p(THRESHOLD))
    return RunRatio(
        math.exp(between), (math.exp(low), math.exp(high)), runs, _p_value(beyond, error, degrees)
    )


def _resampled_means(logs: Sequence[float], draws: random.Random) -> list[float]:
    """Means of one run fewer than there are, drawn with putting back.

    So many have the variance of the mean itself; as many as there are would have too little
    (Hesterberg 2015, The American Statistician 69, section 4.4).
    """
    fewer = len(logs) - 1
    drawn = draws.choices(logs, k=fewer * RESAMPLES)
    return [sum(drawn[start : start + fewer]) / fewer for start in range(0, len(drawn), fewer)]


def _resampled_medians(logs: Sequence[float], draws: random.Random) -> list[float]:
    """Medians of as many runs as there are, drawn with putting back.

    A median of n draws stands at the place of the median of n uniform numbers, which is of a beta
    distribution: no run needs to be drawn for it, however many there are.
    """
    n = len(logs)
    middle = (n + 1) / 2
    return [logs[min(n - 1, int(n * draws.betavariate(middle, middle)))] for _ in range(RESAMPLES)]


def _welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, int]:
    """Standard error of the difference of two means, and its degrees of freedom, rounded down."""
    of_a, of_b = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    total = of_a + of_b
    if total == 0:
        return 0.0, len(a) + len(b) - 2
    degrees = total**2 / (of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1))
    # What is whole but for rounding is not rounded down.
    return math.sqrt(total), max(1, math.floor(degrees + 1e-6))


def _p_value(beyond: float, error: float, degrees: int) -> float:
    """Both tails of a difference, by Student's t."""
    if beyond <= 0:
        return 1.0
    return 0.0 if error == 0 else 1 - two_sided(beyond / error, degrees)


def two_sided(t: float, degrees: int) -> float:
    """The probability that Student's t lies within ±t.

    The finite series of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 4.

    Args:
        t: zero or above.
        degrees: of freedom, at least 1.
    """
    theta = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = degrees % 2 == 1
    total = term = (cosine if degrees > 1 else 0.0) if odd else 1.0
    for k in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    if odd:
        return 2 / math.pi * (theta + sine * total)
    return sine * total


# ---- many questions ----------------------------------------------------------------------------


@frozen
class Answer:
    """What is said of one workload among several."""

    ratio: RunRatio
    verdict: Verdict

    @property
    def corrected(self) -> bool:
        """Alone it would be called a difference; among so many it may be chance."""
        return self.verdict != self.ratio.alone


def answers(ratios: Sequence[RunRatio]) -> list[Answer]:
    """Verdicts on several workloads at once.

    Who asks thirty times at 5 % hears of a difference that is not there once or twice. So
    differences are believed by Holm's procedure (Holm 1979, Scandinavian Journal of Statistics 6):
    the clearest of m must hold at 5 %/m, the next at 5 %/(m - 1), and so on until one does not.
    That a workload is the same is no claim of a difference, and is left as it is.

    Args:
        ratios: of the workloads.
    """
    asked = sorted(
        (ratio.p_value, place) for place, ratio in enumerate(ratios) if ratio.p_value is not None
    )
    believed: set[int] = set()
    for rank, (p_value, place) in enumerate(asked):
        if p_value > LEVEL / (len(asked) - rank):
            break
        believed.add(place)
    return [
        Answer(
            ratio,
            "unclear"
            if ratio.alone in ("faster", "slower") and place not in believed
            else ratio.alone,
        )
        for place, ratio in enumerate(ratios)
    ]


# ---- from run to run ---------------------------------------------------------------------------


@frozen
class Spread:
    """How much runs of the same differ."""

    share: float
    """Nineteen of twenty runs lie within ± this share of their middle."""
    runs: int


def spread(groups: Sequence[Sequence[float]]) -> Spread | None:
    """How much a box varies from run to run.

    Args:
        groups: medians of runs, each group of one workload under one environment.

    Returns:
        Twice the standard deviation of the logarithms within the groups; ``None`` where no group
        has :data:`FEWEST` runs.
    """
    logs = [[math.log(value) for value in group] for group in groups if len(group) >= FEWEST]
    if not logs:
        return None
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in logs)
    runs = sum(map(len, logs))
    return Spread(math.expm1(2 * math.sqrt(squares / (runs - len(logs)))), runs)
