"""The growth of a watched process in words: its rate, when the GPU is full, and peaks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import GIB, MIB
from tests.screens.watched import device
from tui.allocators.findings import NO_GROWTH, Finding, GrowthPer
from tui.allocators.growth import GrowthRate
from tui.devices.state.resident_memory import HOST_GROWTH
from tui.kit.lines import plain
from tui.watch.state.run import GpuOccupancy
from tui.watch.views.run import format_growth, summarize_memory, trend_lines


@pytest.mark.parametrize(
    ("growth", "per", "said"),
    [
        (
            GrowthRate(6.1 * MIB, 5.9 * MIB, 6.3 * MIB),
            "step",
            "allocated grows 6.1 MiB/step, 5.9 to 6.3 (95%)",
        ),
        (
            GrowthRate(6.1 * MIB, 5.9 * MIB, 6.3 * MIB, steady=False),
            "step",
            "allocated grew, but not steadily: 6.1 MiB/step, 5.9 to 6.3 (95%)",
        ),
        (
            GrowthRate(-3.0 * GIB, -3.2 * GIB, -2.8 * GIB),
            "s",
            "allocated falls 3.0 GiB/s, 2.8 to 3.2 (95%)",
        ),
        (
            GrowthRate(0.0, -512.0, 512.0),
            "step",
            "may grow, fall or stay: 0 B/step, -600 to 600 (95%)",
        ),
        (GrowthRate(0.0, 0.0, 0.0), "step", "allocated does not grow: 0 B/step"),
    ],
)
def test_growth_is_told_with_its_interval(growth: GrowthRate, per: str, said: str) -> None:
    assert said in format_growth(device(growth=growth, growth_per=per))


@given(st.floats(-1e15, 1e15), st.floats(0, 1e15), st.floats(0, 1e15))
def test_growth_can_be_told_of_any_rate(rate: float, below: float, above: float) -> None:
    assert "allocated" in format_growth(device(growth=GrowthRate(rate, rate - below, rate + above)))


def test_growth_that_is_not_known_has_its_reason() -> None:
    row = device(growth=None, why_no_growth=NO_GROWTH)
    assert format_growth(row) == "growth of allocated: not known yet (needs 30 s or 48 readings)"


def test_a_device_of_an_ended_run_is_summed_up_in_one_line() -> None:
    assert summarize_memory(device()).startswith("peak ")
    still = device(growth=GrowthRate(0.0, 0.0, 0.0))
    assert summarize_memory(still).endswith(" reserved, no growth")
    counted = device(growth=GrowthRate(0.0, 0.0, 0.0, span=59.0), growth_per="step")
    assert summarize_memory(counted).endswith(" reserved, no growth in 59 steps")
    of_all = GpuOccupancy(8 * GIB, 0, ())
    assert " of 8.0 GiB allocated" in summarize_memory(replace(counted, gpu=of_all))
    leak = Finding("growth", "allocated grows 6.1 MiB/step", "torch's figures")
    assert "grow" not in summarize_memory(device(findings=(leak,)))
    unread = device(figures=None)
    unread = replace(unread, process=replace(unread.process, reason="torch is still being loaded"))
    assert summarize_memory(unread) == "peak n/a: torch is still being loaded"


def test_a_process_that_ended_without_an_oom_has_the_same_conclusion_on_its_page() -> None:
    row = device(growth=GrowthRate(0.0, 0.0, 0.0, span=59.0), growth_per="step", ended="ended")
    row = replace(row, at_oom=None)
    assert plain(trend_lines(row, 120)[-1]).strip() == summarize_memory(row)


def test_a_leak_is_named_with_its_rate_and_its_source_is_left_to_the_explanation() -> None:
    leak = Finding("growth", "allocated grows 6.1 MiB/step, 5.9 to 6.3 (95%)", "torch's figures")
    rows = [plain(row).rstrip() for row in trend_lines(device(findings=(leak,)), 120)]
    assert rows == ["allocated grows 6.1 MiB/step, 5.9 to 6.3 (95%)"]


@pytest.mark.parametrize(
    ("per", "rate", "steps_per_s", "expected"),
    [
        ("step", 128 * MIB, None, "in about 15 steps"),
        ("step", 128 * MIB, 3.0, "in about 15 steps, 5 s"),
        ("step", 4 * GIB, 3.0, "in the next step"),
        ("s", 32 * MIB, None, "in about 1 min 02 s"),
        # A minute is not known from the growth of two seconds.
        ("s", MIB, None, ""),
    ],
)
def test_a_growth_says_when_the_gpu_is_full(
    per: GrowthPer, rate: int, steps_per_s: float | None, expected: str
) -> None:
    growth = GrowthRate(rate, rate, rate, span=60.0)
    leak = Finding("growth", "allocated grows", "torch's figures", growth, per, -GIB)
    row = replace(
        device(findings=(leak,), steps_per_s=steps_per_s),
        gpu=GpuOccupancy(8 * GIB, GIB - 60 * MIB, ()),
    )
    (words,) = [plain(line).rstrip() for line in trend_lines(row, 120)]
    full = f"; at this rate, the GPU is full {expected}" if expected else ""
    assert words == f"allocated grows{full}"
    ended = [plain(line).rstrip() for line in trend_lines(replace(row, ended="ended"), 120)]
    assert "full" not in " ".join(ended)


def test_a_rise_takes_the_place_of_a_growth_that_is_not_known_yet() -> None:
    rise = Finding(
        "rise", "allocated has risen 6.1 MiB/step, in 14 steps so far", "torch's figures"
    )
    rows = [plain(row).rstrip() for row in trend_lines(device(findings=(rise,)), 120)]
    assert rows == [rise.text]


def test_a_growth_of_host_memory_says_when_the_host_is_full() -> None:
    growth = GrowthRate(32 * MIB, 32 * MIB, 32 * MIB, span=60.0)
    found = Finding(HOST_GROWTH, "host memory grows", "/proc", growth, "s", 0)
    row = replace(device(findings=(found,), growth=None), host_available=GIB)
    words = " ".join(plain(line) for line in trend_lines(row, 120))
    assert "host memory grows; at this rate, the host's memory is full in about 32 s" in words
    unknown = " ".join(plain(line) for line in trend_lines(replace(row, host_available=None), 120))
    assert "full" not in unknown
