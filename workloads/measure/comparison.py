"""Compare two settings of a flag pair by pair, and summarize the measured pairs. No torch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from workloads.measure import estimates
from workloads.protocol.messages import Budget, Compare
from workloads.protocol.results import Arm, Comparison, Setting, Verdict

PAIRS_KEPT = "the pairs so far are kept"
"""Reason in the result of a cancelled comparison."""

FRESH_PAIRS: dict[Budget, int] = {"quick": 3, "normal": 5, "careful": 10}
"""Pairs of processes: three detect a difference of some 10%, five of 5%, ten of 2%."""
BLOCK_PAIRS: dict[Budget, int] = {"quick": 12, "normal": 24, "careful": 80}
"""Pairs of blocks in one process."""
BLOCKS_S: dict[Budget, float] = {"quick": 20.0, "normal": 60.0, "careful": 300.0}
"""Time limit of a comparison in one process, once it has three pairs."""


@dataclass(frozen=True, slots=True)
class ArmSample:
    """One block, or one process, with one setting; seconds."""

    steady_s: float
    first_call_s: float | None
    """``None`` where both settings share a process."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two measurements, one with each setting, taken back to back."""

    a: ArmSample
    b: ArmSample


def order(pair: int) -> tuple[int, int]:
    """Return the order of settings in a pair: A B, B A, A B …, so a drift affects both alike."""
    return (0, 1) if pair % 2 == 0 else (1, 0)


def pairs_wanted(request: Compare, fresh_process: bool) -> int:
    """Return the number of pairs requested, or the number that the budget allows."""
    return request.pairs or (FRESH_PAIRS if fresh_process else BLOCK_PAIRS)[request.budget]


def summarise(
    request: Compare,
    pairs: Sequence[Pair],
    *,
    fresh_process: bool,
    parameters: dict[str, Setting],
    warnings: tuple[str, ...] = (),
    measured: Sequence[tuple[float, float]] = (),
    devices: tuple[str, ...] = (),
) -> Comparison:
    """Summarize the two settings from these pairs."""
    unavailable: dict[str, str] = {}
    ratio = None
    if pairs:
        ratio = estimates.paired_ratio([pair.a.steady_s / pair.b.steady_s for pair in pairs])
        if ratio.ci95 is None:
            unavailable["ci95"] = "one pair has no interval"
    else:
        unavailable["ratio"] = unavailable["ci95"] = "no pair was measured"
    arms = _arms(request.settings, pairs, ratio)
    verdict = estimates.verdict(ratio) if ratio else "unclear"
    break_even = _break_even(arms, fresh_process, verdict, unavailable)
    if not fresh_process:
        reason = "one process: the first arm's first call loads what the second's then finds"
        unavailable |= {"arms.0.first_call_s": reason, "arms.1.first_call_s": reason}
    found = Comparison(
        id=request.id,
        workload=request.workload,
        device=request.device,
        parameters=parameters,
        flag=request.flag,
        arms=arms,
        ratio=ratio.value if ratio else None,
        ci95=ratio.ci95 if ratio else None,
        pairs=len(pairs),
        pairs_wanted=pairs_wanted(request, fresh_process),
        verdict=verdict,
        break_even_calls=break_even,
        fresh_process=fresh_process,
        pair_ratios=tuple(pair.a.steady_s / pair.b.steady_s for pair in pairs),
        measured=tuple(measured),
        devices=devices,
        warnings=warnings,
        unavailable=unavailable,
    )
    return withdraw_ratio(found)


def withdraw_ratio(compared: Comparison) -> Comparison:
    """Return the comparison without a ratio, and with the reason, if its pairs disagree."""
    medians = [arm.median_s for arm in compared.arms if arm.median_s]
    if not compared.ratio or len(medians) != 2 or not compared.pair_ratios:
        return compared
    ratio = estimates.Ratio(compared.ratio, compared.ci95, len(compared.pair_ratios))
    reach = estimates.find_disagreement(ratio, compared.pair_ratios, (medians[0], medians[1]))
    if reach is None:
        return compared
    low, high = (f"{end:.2f}x" if end >= 0.1 else f"{end:.2g}x" for end in reach)
    reason = f"the pairs disagree, {low} to {high}"
    return replace(compared, ratio=None, unavailable={**compared.unavailable, "ratio": reason})


def _arms(
    settings: tuple[bool, bool], pairs: Sequence[Pair], ratio: estimates.Ratio | None
) -> tuple[Arm, Arm]:
    """Return both settings' times; medians, or times of the pairs that the ratio comes from."""
    if ratio is None:
        return Arm(settings[0], None, None), Arm(settings[1], None, None)
    a, b = [pair.a for pair in pairs], [pair.b for pair in pairs]
    steady = [(pair.a.steady_s, pair.b.steady_s) for pair in pairs]
    medians = (
        statistics.median(sample.steady_s for sample in a),
        statistics.median(sample.steady_s for sample in b),
    )
    if estimates.find_disagreement(ratio, [one / other for one, other in steady], medians) is None:
        medians = estimates.times_of_ratio(ratio, steady)
    return (
        Arm(settings[0], medians[0], _median_first_call(a)),
        Arm(settings[1], medians[1], _median_first_call(b)),
    )


def _median_first_call(samples: Sequence[ArmSample]) -> float | None:
    known = [sample.first_call_s for sample in samples if sample.first_call_s is not None]
    return statistics.median(known) if known else None


def _break_even(
    arms: tuple[Arm, Arm], fresh_process: bool, verdict: Verdict, unavailable: dict[str, str]
) -> float | None:
    """Return after how many calls the faster setting has repaid its slower first call."""
    path = "break_even_calls"
    if not fresh_process:
        unavailable[path] = "both settings ran in one process: their first calls are not known"
        return None
    if verdict not in ("faster", "slower"):
        unavailable[path] = "no setting was shown to be faster"
        return None
    slow, fast = arms if verdict == "faster" else (arms[1], arms[0])
    calls: float | str = "the first call was not timed with both settings"
    times = (slow.first_call_s, slow.median_s, fast.first_call_s, fast.median_s)
    known = [seconds for seconds in times if seconds is not None]
    if len(known) == len(times):
        calls = estimates.break_even_calls(*known)
    if isinstance(calls, str):
        unavailable[path] = calls
        return None
    return calls
