"""A result is worded once: table, detail, stored list and command line say the same of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.screens.helpers import make_store
from tests.screens.results import ran, result
from tui.kit.lines import plain
from tui.runs.state.result_format import find_peak, format_end, format_rates, format_time
from tui.runs.views.outcome import outcome_lines
from tui.runs.views.result_text import format_summary
from tui.runs.views.workload_table import build_row
from workloads.protocol.results import UNTRUSTED, Limit, PeakMemory, Rates

LIMITS = [
    (Limit("float32", 67e12, 0.76, "told", "published"), "76% of float32 peak"),
    (Limit("float32", 67e12, 0.76, "told", "measured"), "76% of float32 ceiling"),
    (Limit("float32", 67e12, 1.02, "told", "measured"), "102% ±3.0% of float32 ceiling"),
    (Limit("float32", 67e12, 1.9, "told", "derived"), "! 190% of float32 peak, impossible rate"),
    (Limit("memory", 1e12, 1.9, "told", "measured"), "! 190% of memory ceiling, above its ceiling"),
]


def shown(**changes: Any) -> str:
    """Return the detail's first lines of a result, with single blanks."""
    state = make_store("one gpu", *ran(**changes))
    lines = outcome_lines({"cuda:0": state.runs.latest_run("matmul", "cuda:0")}, 120)
    return " ".join(" ".join(map(plain, lines)).split())


@pytest.mark.parametrize(("limit", "words"), LIMITS)
def test_screen_and_command_word_a_limit_alike(limit: Limit, words: str) -> None:
    assert words in shown(limit=limit)
    assert words in format_summary(result(limit=limit)).split("  ")


def test_screen_and_command_give_time_and_rate_the_same_digits() -> None:
    done = result(rates=Rates(50.7123e12, 26.0123e9, None))
    assert format_time(done.time) == "2.71 ms ±0.4%"  # type: ignore[arg-type]
    first, second = format_rates(done)
    assert (first, second) == ("50.7 TFLOP/s", "26.0 GB/s")
    assert format_summary(done).split("  ")[:3] == ["2.71 ms ±0.4%", first, second]
    assert f"2.71 ms ±0.4% {first}" in shown(rates=done.rates)
    state = make_store("one gpu", *ran(rates=done.rates))
    (info,) = (each for each in state.runs.catalogue if each.name == "matmul")
    assert build_row(state.runs, info).cells["rate"].text == first


def test_a_time_that_is_not_trusted_has_no_rate() -> None:
    limit = Limit("float32", 67e12, 0.76, "told", "published")
    done = result(rates=Rates(50.7123e12, 26.0123e9, None), limit=limit)
    doubted = replace(done, warnings=("noisy: quartiles 8% apart",))
    assert format_summary(doubted) == format_summary(done)
    assert "TFLOP/s" in format_summary(done)
    unusable = replace(done, warnings=(f"other programs used 2 cores: {UNTRUSTED}",))
    assert format_summary(unusable).split("  ")[0] == "2.71 ms ±0.4%"
    assert "/s" not in format_summary(unusable)
    assert "  rate n/a: the time is not to be trusted  " in format_summary(unusable)
    no_rates = replace(unusable, rates=Rates(None, None, None))
    assert "rate" not in format_summary(no_rates)
    assert "% of" not in format_summary(unusable)


def test_a_run_that_ended_without_a_reason_has_only_its_status() -> None:
    done = replace(result(), status="cancelled", reason=None, time=None)
    assert format_summary(done) == format_end("cancelled", None) == "cancelled"
    assert format_summary(replace(done, reason="by the user")) == "cancelled: by the user"


def test_the_peak_is_the_allocators_and_never_the_process_s() -> None:
    assert find_peak(PeakMemory(3, None, 5)) == 3
    assert find_peak(PeakMemory(0, None, 5)) == 0
    assert find_peak(PeakMemory(None, None, 5)) is None
    unknown = replace(result(), memory=PeakMemory(None, None, 239 * 2**20))
    assert format_summary(unknown).endswith("  peak n/a")
