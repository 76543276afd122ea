"""Find the slow device among equal ones by statistics. Pure.

In each round every device does the same work. A device's ratio in a round is its time over the
median time of the *other* devices in that round, so that drift which all share cancels.

- **slower**: the whole 95% interval of the mean ratio lies beyond 2%. The interval is Student's,
  with its error divided by the number of comparisons (Bonferroni; Dunn 1961, "Multiple Comparisons
  among Means").
- **odd**: slower, and the mean ratio lies more than 3.5 scaled median absolute deviations above the
  median of the peers' mean ratios (Iglewicz and Hoaglin 1993, "How to Detect and Handle Outliers").
  Devices are odd only as a minority: where half of them or more lie that far above the others,
  there are two kinds, and neither is the usual one. Peers that agree exactly have no spread.
  Where healthy devices spread by more than 2%, *slower* is often simply true of several of them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.results.store.statistics import two_sided_quantile

SLOWER_BY = 0.02
"""Share of the peers' time by which a slower device exceeds it."""
ODD_BEYOND = 3.5
"""Scaled median absolute deviations."""
FEWEST_PEERS = 3
"""With fewer, the unusual device cannot be identified."""
ERROR = 0.05
_TO_SIGMA = 1.4826
"""Scales a median absolute deviation to the standard deviation of a normal distribution."""


@dataclass(frozen=True, slots=True)
class PeerRatio:
    """One device against its peers: time over their median time; above 1, it is slower."""

    device: str
    mean: float
    low: float
    high: float
    rounds: int
    peers: int
    slower: bool
    odd: bool

    @property
    def may_be_slower(self) -> bool:
        """The interval reaches beyond 2%: more rounds could decide."""
        return self.high > 1 + SLOWER_BY


def compare_with_peers(
    rounds: Sequence[Mapping[str, float]], comparisons: int | None = None
) -> tuple[PeerRatio, ...]:
    """Compare each device of one model with the others.

    Args:
        rounds: seconds per call by device, for each round; a failed device is absent. A device is
        compared in the rounds that include a peer.
        comparisons: number of comparisons that the interval's error is divided by; ``None`` for
            the number of devices.

    Returns:
        The devices with at least two rounds, in the order of their first appearance.
    """
    seconds_of: dict[str, list[float]] = {}
    peers: dict[str, set[str]] = {}
    for times in rounds:
        for device, seconds in times.items():
            others = {name: time for name, time in times.items() if name != device}
            if others:
                ratio = seconds / statistics.median(others.values())
                seconds_of.setdefault(device, []).append(ratio)
                peers.setdefault(device, set()).update(others)
    error = ERROR / (comparisons or max(1, len(seconds_of)))
    intervals = {
        device: mean_interval(ratios, error)
        for device, ratios in seconds_of.items()
        if len(ratios) > 1
    }
    means = {device: mean for device, (mean, _, _) in intervals.items()}
    odd = {
        device
        for device, (mean, low, _) in intervals.items()
        if low > 1 + SLOWER_BY
        and is_outlier(mean, [means[peer] for peer in peers[device] if peer in means])
    }
    if 2 * len(odd) >= len(intervals):
        odd.clear()
    return tuple(
        PeerRatio(
            device,
            mean,
            low,
            high,
            len(seconds_of[device]),
            len(peers[device]),
            slower=low > 1 + SLOWER_BY,
            odd=device in odd,
        )
        for device, (mean, low, high) in intervals.items()
    )


def mean_interval(values: Sequence[float], error: float) -> tuple[float, float, float]:
    """Return the mean and Student's interval, which misses it with the probability ``error``.

    Args:
        values: at least two.
        error: of both sides together.
    """
    mean = statistics.fmean(values)
    half = two_sided_quantile(len(values) - 1, error) * statistics.stdev(values, mean)
    half /= math.sqrt(len(values))
    return mean, mean - half, mean + half


def is_outlier(value: float, peers: Sequence[float]) -> bool:
    """Return whether a value lies far above its peers; never with too few of them."""
    if len(peers) < FEWEST_PEERS:
        return False
    middle = statistics.median(peers)
    spread = _TO_SIGMA * statistics.median([abs(peer - middle) for peer in peers])
    return value - middle > ODD_BEYOND * spread


def choose_suspects(ratios: Sequence[PeerRatio], most_peers: int) -> tuple[str, ...]:
    """Return the devices of the further rounds; none if no device may be slower.

    Args:
        ratios: the comparison so far.
        most_peers: number of other devices that run beside the suspects, those nearest to 1.
    """
    suspects = [ratio.device for ratio in ratios if ratio.may_be_slower]
    if not suspects:
        return ()
    others = sorted(
        (ratio for ratio in ratios if not ratio.may_be_slower),
        key=lambda ratio: abs(ratio.mean - 1),
    )
    chosen = {*suspects, *(other.device for other in others[:most_peers])}
    return tuple(ratio.device for ratio in ratios if ratio.device in chosen)
