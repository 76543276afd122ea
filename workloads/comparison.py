"""Two settings of a flag, pair by pair: what can be said so far. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from workloads import statistics
from workloads.fact import fact
from workloads.protocol import Arm, Budget, Compare, Comparison, Setting

FRESH_PAIRS: dict[Budget, int] = {"quick": 3, "normal": 5, "careful": 10}
"""Pairs of processes: three see a difference of some 10 %, five of 5 %, ten of 2 %."""
BLOCK_PAIRS: dict[Budget, int] = {"quick": 12, "normal": 24, "careful": 80}
"""Pairs of blocks in one process."""


@fact
class ArmSample:
    """One block or one process with one setting, seconds."""

    steady_s: float
    first_call_s: float


@fact
class Pair:
    """The two settings one after the other."""

    a: ArmSample
    b: ArmSample


def order(pair: int) -> tuple[int, int]:
    """Which setting comes first in a pair: A B, B A, A B …, so that a drift falls on both alike."""
    return (0, 1) if pair % 2 == 0 else (1, 0)


def pairs_wanted(request: Compare, fresh_process: bool) -> int:
    """As many as asked for, or as the budget allows."""
    return request.pairs or (FRESH_PAIRS if fresh_process else BLOCK_PAIRS)[request.budget]


def summarise(
    request: Compare,
    pairs: Sequence[Pair],
    *,
    fresh_process: bool,
    parameters: dict[str, Setting],
) -> Comparison:
    """The comparison so far."""
    unavailable: dict[str, str] = {}
    ratio = None
    if pairs:
        ratio = statistics.paired_ratio([pair.a.steady_s / pair.b.steady_s for pair in pairs])
        if ratio.ci95 is None:
            unavailable["ci95"] = "one pair has no interval"
    else:
        unavailable["ratio"] = unavailable["ci95"] = "no pair was measured"
    arms = [_arm(request.settings[index], pairs, index) for index in (0, 1)]
    break_even = _break_even(arms[0], arms[1], fresh_process, unavailable)
    return Comparison(
        id=request.id,
        workload=request.workload,
        device=request.device,
        parameters=parameters,
        flag=request.flag,
        arms=(arms[0], arms[1]),
        ratio=ratio.value if ratio else None,
        ci95=ratio.ci95 if ratio else None,
        pairs=len(pairs),
        pairs_wanted=pairs_wanted(request, fresh_process),
        verdict=statistics.verdict(ratio) if ratio else "unclear",
        break_even_calls=break_even,
        fresh_process=fresh_process,
        pair_ratios=tuple(pair.a.steady_s / pair.b.steady_s for pair in pairs),
        unavailable=unavailable,
    )


def _arm(setting: bool, pairs: Sequence[Pair], index: int) -> Arm:
    samples = [pair.a if index == 0 else pair.b for pair in pairs]
    if not samples:
        return Arm(setting, None, None)
    return Arm(
        setting,
        statistics.median([sample.steady_s for sample in samples]),
        statistics.median([sample.first_call_s for sample in samples]),
    )


def _break_even(a: Arm, b: Arm, fresh_process: bool, unavailable: dict[str, str]) -> float | None:
    """Calls after which the setting with the dearer first call has paid for it."""
    path = "break_even_calls"
    if not fresh_process:
        unavailable[path] = "the flag acts at once: there is no search to pay for"
        return None
    if a.median_s is None or b.median_s is None or a.first_call_s is None or b.first_call_s is None:
        unavailable[path] = "no pair was measured"
        return None
    calls = statistics.break_even_calls(
        a.first_call_s - a.median_s, a.median_s, b.first_call_s - b.median_s, b.median_s
    )
    if calls is None:
        unavailable[path] = "the second setting is not faster once warm, so it never pays"
    return calls
