"""What figures tell over time: that, and no more."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui.allocators.findings import MOST_POINTS, Track, format_rate, project_full
from tui.allocators.growth import (
    FEWEST_BLOCKS,
    GrowthRate,
    estimate_growth,
    grows_steadily,
    still_grows,
)
from workloads.protocol.messages import TorchMemory

MIB, GIB = 2**20, 2**30


def figures(at: float, **values: int) -> TorchMemory:
    known = {
        "requested": 0,
        "allocated": 4 * GIB,
        "active": 4 * GIB,
        "reserved": 4 * GIB,
        "inactive_split": 0,
        "allocated_peak": 0,
        "reserved_peak": 0,
        "alloc_retries": 0,
        "ooms": 0,
    }
    return TorchMemory(device="cuda:0", pid=7, at=at, **{**known, **values})


def told(readings: Iterable[TorchMemory]) -> dict[str, str]:
    track = Track()
    for each in readings:
        track.add(each)
    found = track.findings()
    assert all(each.source for each in found)
    return {each.key: each.text for each in found}


def over(
    seconds: float, make: Callable[[float], dict[str, int]], every: float = 0.1
) -> dict[str, str]:
    count = round(seconds / every)
    return told(figures(1e9 + number * every, **make(number * every)) for number in range(count))


# ---- growth ----


@given(st.floats(-1e6, 1e6), st.integers(FEWEST_BLOCKS * 3, 400))
def test_what_grows_evenly_has_that_rate(rate: float, count: int) -> None:
    found = estimate_growth([(float(at), rate * at) for at in range(count)])
    assert found is not None
    assert found.low <= found.rate <= found.high
    assert found.rate == pytest.approx(rate, rel=1e-6, abs=1e-6)


@given(st.lists(st.floats(0, 1e12), min_size=0, max_size=60))
def test_a_rate_lies_within_its_interval(values: list[float]) -> None:
    found = estimate_growth(list(enumerate(values)))
    assert found is None or found.low <= found.rate <= found.high


@given(st.floats(0, 1e9), st.integers(30, 300))
def test_what_stands_still_does_not_grow(value: float, count: int) -> None:
    assert estimate_growth([(float(at), value) for at in range(count)]) == GrowthRate(0, 0, 0)


def test_noise_is_called_growth_no_more_often_than_its_interval_says() -> None:
    chance = random.Random(3)
    wrong = 0
    for _ in range(300):
        found = estimate_growth([(float(at), chance.random()) for at in range(480)])
        assert found is not None
        wrong += found.low > 0 or found.high < 0
    assert wrong <= 300 * 0.05 * 1.6


def test_a_leak_under_the_steps_of_a_training_is_reported_with_its_interval() -> None:
    chance = random.Random(5)

    sizes = [chance.random() * MIB for _ in range(121)]

    def training(at: float) -> dict[str, int]:
        # A step ends near the floor of the one before, and rises far above it in between.
        floor = 4 * GIB + at * 31 * MIB / 60 + sizes[int(at)]
        return {"allocated": round(floor + at % 1.0 * 2 * GIB)}

    text = over(120, training)["growth"]
    found = re.fullmatch(
        r"allocated grows ([\d.]+) MiB/min, ([\d.]+) to ([\d.]+) \(95%\), over 1 min 59 s", text
    )
    assert found is not None, text
    rate, low, high = map(float, found.groups())
    assert 30 < low < rate < high < 32
    assert low <= 31 <= high

    def noise(_: float) -> dict[str, int]:
        return {"allocated": round(4 * GIB + chance.random() * 2 * GIB)}

    assert "growth" not in over(60, noise)


@pytest.mark.parametrize(
    "make",
    [
        lambda _: {"allocated": 4 * GIB},
        lambda at: {"allocated": round(4 * GIB + (at % 1.0) * GIB)},
        # A warm-up ends.
        lambda at: {"allocated": round(min(at, 10.0) * GIB)},
        # A few blocks of rounding.
        lambda at: {"allocated": round(4 * GIB + at * 1000)},
        lambda at: {"allocated": round(40 * GIB - at * 31 * MIB)},
    ],
)
def test_what_does_not_leak_is_not_reported(make: Callable[[float], dict[str, int]]) -> None:
    assert "growth" not in over(120, make)


def sawtooth(seed: int, teeth: float, slope: float, noise: float) -> Track:
    """Return steps that rise far above their floor, read ten times a second at random moments.

    The agent's messages come twice a second.
    """
    chance, track, seconds = random.Random(seed), Track(), 60
    for number in range(10 * seconds):
        at = number / 10 + chance.random() / 10
        allocated = 4 * GIB + slope * at * 10 + at * teeth / seconds % 1.0 * GIB
        reading = figures(1e9 + at, allocated=round(allocated + chance.random() * noise))
        track.add(reading, int(at * 2) * 5)
    return track


@given(
    st.integers(0, 2**32),
    st.floats(2, 5000),
    st.floats(0, 100 * MIB),
)
def test_steps_that_end_where_they_began_are_no_leak(seed: int, teeth: float, noise: float) -> None:
    track = sawtooth(seed, teeth, 0, noise)
    assert track.growth_per == "step"
    assert "growth" not in {each.key for each in track.findings()}


@given(st.integers(0, 2**32), st.floats(200, 5000), st.floats(2, 100))
def test_a_leak_is_reported_by_step_where_the_steps_are_known(
    seed: int, teeth: float, slope_mib: float
) -> None:
    # The floor of a block of 2.5 s lies within a sample of the lowest part of a tooth.
    track = sawtooth(seed, teeth, slope_mib * MIB, MIB)
    found = track.growth()
    assert found is not None
    assert track.growth_per == "step"
    assert found.rate == pytest.approx(slope_mib * MIB, rel=0.15, abs=1.5 * MIB)
    (text,) = [each.text for each in track.findings() if each.key == "growth"]
    shown = re.fullmatch(
        r"allocated grows [\d.]+ (KiB|MiB|GiB)/step, [\d.]+ to [\d.]+ \(95%\), in 5\d\d steps",
        text.replace("\u202f", ""),
    )
    assert shown, text


def test_a_few_steps_are_no_measure() -> None:
    track = Track()
    for number in range(600):
        at = number / 10
        track.add(figures(at, allocated=round(GIB + at * 31 * MIB / 60)), int(at / 10))
    assert track.growth_per == "s"
    (text,) = [each.text for each in track.findings() if each.key == "growth"]
    assert text.startswith("allocated grows 31.0 MiB/min, over ")


@pytest.mark.parametrize(("steps", "is_known"), [(46, False), (60, True)])
def test_after_enough_steps_a_growth_is_known_before_half_a_minute(
    steps: int, is_known: bool
) -> None:
    track = Track()
    for number in range(steps + 1):
        track.add(figures(number / 5, allocated=GIB + number * 61 * MIB), number)
    assert track.growth_per == "step"
    assert (track.growth() is not None) == is_known
    texts = [each.text for each in track.findings() if each.key == "growth"]
    expected = f"allocated grows 61.0 MiB/step, in {steps} steps"
    assert texts == ([expected] if is_known else [])


def leaking(steps: int, leak: int = 128 * MIB) -> Track:
    """Return steps of half a second that each leave ``leak`` bytes, read five times."""
    track, left = Track(), GIB
    for number in range(5 * steps):
        step, part = divmod(number, 5)
        allocated = left + step * leak + part * 100 * MIB
        most = left + step * leak + 4 * 100 * MIB
        track.add(
            figures(number / 10, allocated=allocated, reserved=most, allocated_peak=most), step
        )
    return track


def test_a_rise_is_reported_after_a_dozen_steps_with_when_the_gpu_is_full() -> None:
    assert leaking(12).findings() == ()
    track = leaking(14)
    assert track.growth() is None
    (found,) = track.findings()
    assert (found.key, found.text) == (
        "rise",
        "allocated has risen 128 MiB/step, in 13 steps so far",
    )
    assert project_full(found, 20 * 128 * MIB) == pytest.approx(20)
    assert project_full(found, 0) == 0
    # So far cannot be seen from thirteen steps.
    assert project_full(found, 300 * 128 * MIB) is None
    (found,) = track.findings(ended=True)
    assert found.text == "allocated rose 128 MiB/step, in 13 steps"


@pytest.mark.parametrize("steps", [14, 60, 900])
def test_what_python_frees_at_the_end_does_not_hide_a_leak(steps: int) -> None:
    track = leaking(steps)
    at = steps / 2
    for number in range(10):
        track.add(figures(at + number / 10, allocated=GIB // 4, reserved=6 * GIB), steps - 1)
    (found,) = track.before_end().findings(ended=True)
    assert "128 MiB/step" in found.text
    assert not any("128 MiB/step" in each.text for each in track.findings(ended=True))


def test_the_end_of_a_process_without_a_leak_is_no_growth() -> None:
    track = leaking(60, leak=0)
    assert track.before_end().findings(ended=True) == ()
    assert Track().before_end().findings(ended=True) == ()


def test_the_bounds_of_a_rate_are_rounded_outwards() -> None:
    rate = GrowthRate(258 * MIB, 256 * MIB, 288 * MIB)
    assert format_rate(rate, "step") == "260 MiB/step, 250 to 290 (95%)"


def test_a_growth_that_is_known_replaces_the_rise() -> None:
    (found,) = leaking(60).findings()
    assert (found.key, found.text) == ("growth", "allocated grows 128 MiB/step, in 59 steps")
    assert project_full(found, 20 * 128 * MIB) == pytest.approx(20)


def test_the_peak_of_the_first_step_projects_nothing() -> None:
    track = Track()
    for number in range(60):
        values = {"allocated": GIB + number * MIB, "allocated_peak": 7 * GIB, "reserved": 7 * GIB}
        track.add(figures(number / 5, **values), number)
    found = track.growth_finding()
    assert found is not None
    assert project_full(found, 8 * MIB) is None


@pytest.mark.parametrize("readings", [2, 5])
def test_steps_that_end_where_they_began_seldom_seem_to_rise(readings: int) -> None:
    chance, seeming = random.Random(3), 0
    for _ in range(200):
        track, rises = Track(), False
        for number in range(30 * readings):
            held = round(4 * GIB + chance.random() * 2 * GIB)
            track.add(figures(number / readings, allocated=held), number // readings)
            if number % readings == 0:
                rises = rises or any(found.key == "rise" for found in track.findings())
        seeming += rises
    assert seeming <= 2


def test_what_the_first_steps_leave_is_no_rise() -> None:
    track = Track()
    for number in range(200):
        step, part = divmod(number, 5)
        held = GIB + min(step, 6) * 500 * MIB + part * 100 * MIB
        track.add(figures(number / 10, allocated=held), step)
        assert step < 12 or track.findings() == ()


def test_a_second_between_readings_is_too_seldom_for_a_growth_before_half_a_minute() -> None:
    chance, wrong = random.Random(7), 0
    for _ in range(300):
        # Steps that end where they began, each read anywhere within one of ten a second.
        track = Track()
        for at in range(30):
            held = round(4 * GIB + chance.random() * 2 * GIB)
            track.add(figures(float(at), allocated=held), 10 * at)
            wrong += any(each.key == "growth" for each in track.findings())
    assert wrong == 0


def test_noise_is_named_a_leak_far_less_often_than_its_interval_says() -> None:
    chance = random.Random(11)
    named = 0
    for _ in range(1000):
        points = [(float(at), chance.random()) for at in range(48)]
        named += grows_steadily(points)
    assert named <= 2


@pytest.mark.parametrize("filled", [0.3, 0.4, 0.5, 0.6, 0.7])
def test_a_cache_that_fills_and_then_stays_is_no_growth(filled: float) -> None:
    chance = random.Random(7)
    seconds = 120

    def cache(at: float) -> dict[str, int]:
        held = min(at / (filled * seconds), 1.0) * 2 * GIB
        return {"allocated": round(4 * GIB + held + chance.random() * MIB)}

    assert "growth" not in over(seconds, cache)
    points = [(float(step), min(step / (filled * 200), 1.0)) for step in range(200)]
    found = estimate_growth(points)
    assert found is not None
    assert not found.steady


@example([(0.0, 0)] * 7 + [(1.0, 0), (5e-324, 0)])
@example([(1.0, 0)] * 7 + [(0.0, 0), (1.0 + 2e-16, 0)])
@given(st.lists(st.tuples(st.floats(0, 1e9), st.integers(0, 1 << 62)), max_size=60))
def test_times_that_fall_as_in_a_damaged_file_are_no_error(points: list[tuple[float, int]]) -> None:
    found = estimate_growth(points)
    assert found is None or found.low <= found.rate <= found.high
    assert still_grows(points) in (True, False)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
def test_a_leak_under_noise_is_steady_growth(noise: float) -> None:
    chance = random.Random(7)
    assert grows_steadily([(float(at), at / 480 + noise * chance.random()) for at in range(480)])


def test_a_short_look_tells_no_growth() -> None:
    assert "growth" not in over(20, lambda at: {"allocated": round(at * GIB)})


# ---- the others ----


def test_a_cache_that_stays_unused_is_reported() -> None:
    text = over(30, lambda _: {"reserved": 22 * GIB})["idle cache"]
    assert text.startswith("18.0 GiB cached but unused in the last 29 s: ")
    # It was used in between: it is no idle cache.
    used = over(30, lambda at: {"reserved": 22 * GIB, "active": 22 * GIB if at == 15 else GIB})
    assert "idle cache" not in used
    assert "idle cache" not in over(30, lambda _: {"reserved": 4 * GIB + 100 * MIB})
    assert "idle cache" not in over(30, lambda _: {"reserved": 200 * GIB, "active": 195 * GIB})
    assert "idle cache" not in over(5, lambda _: {"reserved": 22 * GIB})


def test_what_lies_between_blocks_is_fragmentation_and_no_idle_cache() -> None:
    found = over(30, lambda _: {"reserved": 22 * GIB, "inactive_split": 18 * GIB})
    assert set(found) == {"fragmentation"}
    assert found["fragmentation"].startswith("18.0 GiB cached lies in partly used segments")


def test_retries_that_rise_are_reported_with_their_time() -> None:
    text = over(100, lambda at: {"alloc_retries": 3 + round(at / 5)})["retries"]
    assert text.startswith("the allocator flushed its cache 12 times in the last 57 s")
    assert over(100, lambda _: {"alloc_retries": 3}) == {}
    # What was before the last minute is over.
    assert over(200, lambda at: {"alloc_retries": 3 + (at > 100)}) == {}


def test_flushes_of_a_process_that_has_ended_were_in_its_last_time() -> None:
    track = Track()
    for at in range(100):
        track.add(figures(float(at), alloc_retries=at))
    (text,) = [each.text for each in track.findings(ended=True) if each.key == "retries"]
    assert " times in its last 59 s: " in text


def test_flushes_of_ooms_alone_are_no_edge() -> None:
    flushes = over(100, lambda at: {"alloc_retries": round(at / 5), "ooms": round(at / 5)})
    assert flushes["retries"].endswith("in the last 57 s: each time at an OOM")
    one = told(figures(1e9 + at / 10, alloc_retries=at // 3, ooms=at // 3) for at in range(5))
    assert one["retries"] == "the allocator flushed its cache once: at an OOM"
    more = over(100, lambda at: {"alloc_retries": round(at / 5), "ooms": round(at / 50)})
    assert more["retries"].endswith(": at the edge of the GPU's memory")


def test_nothing_is_advised_to_a_process_that_has_ended() -> None:
    track = Track()
    for at in range(30):
        track.add(figures(float(at), reserved=22 * GIB))
    assert [each.key for each in track.findings()] == ["idle cache"]
    assert track.findings(ended=True) == ()


def test_a_track_is_bounded_and_keeps_what_it_tells() -> None:
    track = Track()
    for number in range(40 * MOST_POINTS):
        track.add(figures(number * 0.1, allocated=GIB + number * 10_000 + number % 7 * MIB))
    assert len(track._points) <= MOST_POINTS
    assert len(track._retries) <= 700
    (found,) = [each.text for each in track.findings() if each.key == "growth"]
    assert found.startswith("allocated grows 5.72 MiB/min, over ")


def test_without_a_reading_nothing_is_reported() -> None:
    assert Track().findings() == ()
