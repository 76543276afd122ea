"""Statistical comparison of two sets of runs: ratios of times, with intervals over sessions.

The unit is the session (:func:`tui.results.store.compare.group_sessions`). Blocks within one run
share its process and its memory's layout, and runs within one session share the clocks, the heat
and the neighbours of that hour: neither is independent evidence. A run counts by the median of its
blocks, a session by the median of its runs, and a side by the mean of its sessions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from workloads.measure import estimates
from workloads.measure.estimates import MEDIAN_FROM, THRESHOLD, t_quantile
from workloads.protocol.results import Verdict

FEWEST = 3
"""Least runs of a group for an estimate of their variation."""
FEWEST_SESSIONS = 3
"""Least sessions per side for a verdict; with fewer, only the ratio is reported."""
LEVEL = 0.05
"""Share of tables without any difference that show one by chance."""
TRIMMED = 0.2
"""Share of a side's sessions trimmed at each end, from :data:`MEDIAN_FROM` sessions on."""

LARGEST_LOG = 700.0
"""Largest logarithm of a reported ratio; a float overflows at 709."""

Sessions = Sequence[Sequence[float]]
"""The medians of the runs of each session in seconds, positive; no session is empty."""


@dataclass(frozen=True, slots=True)
class RunRatio:
    """Time of A over time of B, the speed of B relative to A; above 1, B is faster."""

    value: float
    """Ratio of A's :func:`compute_typical_s` to B's."""
    ci95: tuple[float, float] | None
    """95% interval over sessions; ``None`` below :data:`FEWEST_SESSIONS` per side."""
    runs: tuple[int, int]
    """Number of runs of A and B."""
    sessions: tuple[int, int]
    """Number of sessions of A and B."""
    p_value: float | None
    """Probability of such an excess over :data:`THRESHOLD` by chance; ``None`` as ``ci95``."""

    @property
    def alone(self) -> Verdict:
        """The verdict if it were the only question."""
        return estimates.verdict(estimates.Ratio(self.value, self.ci95, min(self.sessions)))


def compute_typical_s(sessions: Sessions) -> float:
    """Compute the time of one side in seconds, used in its column and in the ratio.

    It is the geometric mean over the sessions of the median run of each. From :data:`MEDIAN_FROM`
    sessions on, the :data:`TRIMMED` share at each end is left out, so that a few disturbed sessions
    do not affect it.
    """
    return math.exp(_trimmed_mean(_median_logs(sessions)))


def compare_sessions(a: Sessions, b: Sessions) -> RunRatio:
    """Compare two sides.

    The interval is Student's over the sessions, with Welch's standard error and degrees of freedom
    (Welch 1947, Biometrika 34), rounded down; of trimmed means Yuen's (Yuen 1974, Biometrika 61). A
    bootstrap of sessions and then of runs covers the truth in 83 to 87 of 100 cases with three or
    four sessions a side, this in 94 to 97 (``tests/results/test_calibration.py``).

    Args:
        a: sessions of A; not empty.
        b: sessions of B; not empty.
    """
    runs = (sum(map(len, a)), sum(map(len, b)))
    many = (len(a), len(b))
    logs_a, logs_b = _median_logs(a), _median_logs(b)
    centre = _trimmed_mean(logs_a) - _trimmed_mean(logs_b)
    if min(many) < FEWEST_SESSIONS:
        return RunRatio(_exp_bounded(centre), None, runs, many, None)
    error, degrees = _welch(_squared_error(logs_a), _squared_error(logs_b))
    half = t_quantile(degrees) * error
    beyond = max(0.0, abs(centre) - math.log1p(THRESHOLD))
    return RunRatio(
        _exp_bounded(centre),
        (_exp_bounded(centre - half), _exp_bounded(centre + half)),
        runs,
        many,
        _p_value(beyond, error, degrees),
    )


def _exp_bounded(exponent: float) -> float:
    """Return the ratio for a logarithm, bounded to the range of a float."""
    return math.exp(max(-LARGEST_LOG, min(LARGEST_LOG, exponent)))


def _median_logs(sessions: Sessions) -> list[float]:
    """Return the median logarithm of each session's runs, ascending."""
    return sorted(statistics.median(map(math.log, session)) for session in sessions)


def _count_trimmed(logs: Sequence[float]) -> int:
    """Return the number of sessions trimmed at each end."""
    return int(TRIMMED * len(logs)) if len(logs) >= MEDIAN_FROM else 0


def _trimmed_mean(logs: Sequence[float]) -> float:
    cut = _count_trimmed(logs)
    return statistics.fmean(logs[cut : len(logs) - cut])


def _squared_error(logs: Sequence[float]) -> tuple[float, int]:
    """Return the squared standard error of the center of ascending logs, and degrees of freedom."""
    n, cut = len(logs), _count_trimmed(logs)
    # A trimmed value counts as the nearest remaining one (winsorized).
    bounded = [min(max(value, logs[cut]), logs[n - 1 - cut]) for value in logs]
    left = n - 2 * cut
    return statistics.variance(bounded) * (n - 1) / (left * (left - 1)), left - 1


def _welch(a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
    """Return the standard error of a difference of two means, and whole degrees of freedom."""
    (of_a, free_a), (of_b, free_b) = a, b
    total = of_a + of_b
    if total == 0:
        return 0.0, free_a + free_b
    share_a, share_b = of_a / total, of_b / total
    degrees = 1 / (share_a**2 / free_a + share_b**2 / free_b)
    # Do not round down a number that is whole except for rounding errors.
    return math.sqrt(total), max(1, math.floor(degrees + 1e-6))


def _p_value(beyond: float, error: float, degrees: int) -> float:
    """Return the two-sided p-value of a difference, by Student's t."""
    if beyond <= 0:
        return 1.0
    return 0.0 if error == 0 else 1 - two_sided(beyond / error, degrees)


def two_sided(t: float, degrees: int) -> float:
    """Return the probability that Student's t lies within ±t.

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


def two_sided_quantile(degrees: int, error: float) -> float:
    """Return the value that Student's t exceeds in size with the probability ``error``.

    The inverse of :func:`two_sided`, found by bisection. At 5%,
    :func:`~workloads.measure.estimates.t_quantile` is the same from a table.

    Args:
        degrees: of freedom, at least 1.
        error: above 0 and below 1.
    """
    low, high = 0.0, 1.0
    while 1 - two_sided(high, degrees) > error:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if 1 - two_sided(middle, degrees) > error:
            low = middle
        else:
            high = middle
    return high


# ---- many questions ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict on one workload among several."""

    ratio: RunRatio
    verdict: Verdict

    @property
    def corrected(self) -> bool:
        """True if it would be a difference alone, but may be chance among so many."""
        return self.verdict != self.ratio.alone


def apply_holm(ratios: Sequence[RunRatio]) -> list[Answer]:
    """Return verdicts on several workloads at once.

    Thirty questions at 5% give one or two false differences. So differences are accepted by
    Holm's procedure (Holm 1979, Scandinavian Journal of Statistics 6):
    the clearest of m must hold at 5%/m, the next at 5%/(m - 1), and so on until one does not.
    A verdict "same" claims no difference, and does not change.

    Args:
        ratios: the ratio of each workload.
    """
    tested = sorted(
        (ratio.p_value, place) for place, ratio in enumerate(ratios) if ratio.p_value is not None
    )
    believed: set[int] = set()
    for rank, (p_value, place) in enumerate(tested):
        if p_value > LEVEL / (len(tested) - rank):
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


@dataclass(frozen=True, slots=True)
class Spread:
    """The variation of runs of one setting."""

    share: float
    """19 of 20 runs lie within ± this share of their center."""
    runs: int


def compute_spread(groups: Sequence[Sequence[float]]) -> Spread | None:
    """Compute the variation of a box from run to run.

    Args:
        groups: medians of runs; each group has one workload and one environment.

    Returns:
        Twice the standard deviation of the logarithms within the groups; ``None`` if no group
        has :data:`FEWEST` runs.
    """
    logs = [[math.log(value) for value in group] for group in groups if len(group) >= FEWEST]
    if not logs:
        return None
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in logs)
    runs = sum(map(len, logs))
    twice = 2 * math.sqrt(squares / (runs - len(logs)))
    return Spread(math.expm1(min(twice, LARGEST_LOG)), runs)
