"""The verdict on a flag, for a colleague who does not see the screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.helpers import make_store
from tests.screens.results import compare_queued, compared, comparison
from tui.runs.views.verdict_sentence import format_verdicts
from workloads.protocol import messages
from workloads.protocol.results import Arm, Verdict

CASES: dict[Verdict, tuple[float, str]] = {
    "faster": (1.436, "cudnn.benchmark on is 1.44x faster than off (95% interval 1.40–1.47"),
    "slower": (1 / 1.436, "cudnn.benchmark on is 1.44x slower than off (95% interval 1.40–1.47"),
    "same": (1.0, "cudnn.benchmark on is as fast as off: 1.00x"),
    "unclear": (
        1.05,
        "it is unclear whether cudnn.benchmark matters: on has 1.02–1.07x the speed of",
    ),
}


@pytest.mark.parametrize("verdict", CASES)
def test_a_verdict_is_a_sentence_with_its_evidence(verdict: Verdict) -> None:
    ratio, words = CASES[verdict]
    low, high = (1 / 1.47, 1 / 1.40) if verdict == "slower" else (ratio * 0.975, ratio * 1.0237)
    found = compared(verdict=verdict, ratio=ratio, ci95=(low, high))
    said = format_verdicts(make_store("one gpu", *found).runs, "cudnn.benchmark")
    assert said.startswith("conv2d on cuda:0 (NVIDIA H200, torch ")
    assert ", cuDNN " in said
    assert f"): {words}" in said
    assert "5 pairs)." in said
    assert "A call takes 412 µs with off and 287 µs with on." in said
    assert "The first call takes 12.1 ms with off and 392 ms with on; this pays off after" in said


def test_without_a_verdict_the_reason_is_given_and_doubts_are_named() -> None:
    arms = (Arm(False, None, None), Arm(True, None, None))
    found = replace(
        comparison(), ratio=None, ci95=None, arms=arms, status="failed", reason="out of memory",
        warnings=("the clocks changed.",),
    )  # fmt: skip
    state = make_store("one gpu", compare_queued(), messages.Compared(found, True))
    said = format_verdicts(state.runs, "cudnn.benchmark")
    assert "no verdict on cudnn.benchmark on against off: out of memory." in said
    assert said.endswith("Doubt: the clocks changed.")
    assert "call" not in said


def test_without_a_comparison_of_the_flag_all_are_told_and_without_any_none() -> None:
    state = make_store("one gpu", *compared())
    assert format_verdicts(state.runs, "cudnn.enabled") == format_verdicts(
        state.runs, "cudnn.benchmark"
    )
    assert format_verdicts(make_store().runs, None) == ""
