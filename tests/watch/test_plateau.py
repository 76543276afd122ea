"""Growth that has stopped is a plateau, and neither growth nor unknown."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.watch.test_findings import GIB, MIB, figures, leaking
from tui.allocators.findings import Track
from tui.allocators.growth import grows_steadily
from tui.allocators.plateau import NEWEST, find_plateau

Points = list[tuple[float, float]]


def filling(count: int, filled: int, noise: float = 0.0, seed: int = 7) -> Points:
    """Return what grows by one in all until a point, with values up to ``noise`` above."""
    chance = random.Random(seed)
    return [(float(at), min(at, filled) / filled + noise * chance.random()) for at in range(count)]


@pytest.mark.parametrize(("noise", "after"), [(0.0, 24), (0.05, 40), (0.1, 60)])
def test_a_plateau_is_found_soon_after_it_begins(noise: float, after: int) -> None:
    plateaus = [find_plateau(filling(150 + after, 150, noise, seed)) for seed in range(20)]
    found = [plateau for plateau in plateaus if plateau is not None]
    assert len(found) >= 18
    assert all(130 <= plateau.first <= 155 for plateau in found)
    assert all(plateau.rise == pytest.approx(1.0, abs=0.1) for plateau in found)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3, 1.0, 3.0])
def test_what_grows_on_is_at_no_moment_a_plateau(noise: float) -> None:
    found = 0
    for seed in range(20):
        points = filling(300, 300, noise, seed)
        for count in range(NEWEST, len(points)):
            plateau = find_plateau(points[:count])
            found += plateau is not None and grows_steadily(points[: plateau.first])
    assert found == 0


def test_a_pause_like_those_before_is_no_plateau() -> None:
    stairs = [(float(at), float(at // 50)) for at in range(800)]
    for count in range(400, 800):
        assert find_plateau(stairs[:count]) is None
    stopped = [*stairs, *((float(at), 15.0) for at in range(800, 1100))]
    plateau = find_plateau(stopped)
    assert plateau is not None
    assert stopped[plateau.first][0] == 750


def test_a_peak_that_fell_is_no_plateau() -> None:
    points = [(float(at), float(min(at, 300 - at))) for at in range(250)]
    assert find_plateau([*points, *((float(at), 50.0) for at in range(250, 400))]) is None


@given(
    st.lists(st.integers(0, 1000), max_size=80),
    st.floats(1e-3, 1e9),
    st.floats(1e-3, 1e9),
)
def test_units_change_nothing(values: list[int], seconds: float, size: float) -> None:
    points = [(float(at), float(value)) for at, value in enumerate(values)]
    scaled = [(at * seconds, value * size) for at, value in points]
    plateau, other = find_plateau(points), find_plateau(scaled)
    assert (plateau is None) == (other is None)
    assert plateau is None or other is None or plateau.first == other.first


def buffered(steps: int, filled: int) -> Track:
    """Return a replay buffer that fills at 16 MiB a step, under the steps of a training."""
    track = Track()
    for number in range(5 * steps):
        step, part = divmod(number, 5)
        held = GIB // 8 + min(step, filled) * 16 * MIB + part * 20 * MIB
        track.add(figures(number / 25, allocated=held, reserved=4 * GIB), step)
    return track


def test_a_buffer_that_is_full_grew_until_then() -> None:
    (before,) = buffered(150, 150).findings()
    assert before.text == "allocated grows 16.0 MiB/step, in 149 steps"
    track = buffered(178, 150)
    (found,) = track.findings()
    assert found.key == "plateau"
    words = "allocated rose 2.3 GiB until about step 146, then stayed level for 31 steps"
    assert found.text == words
    assert not found.is_warning
    assert found.source.endswith("the lowest readings since then rose by less than 2% of that")
    growth = track.growth()
    assert growth is not None
    assert growth.low <= 0
    assert track.growth_finding() is None
    # It says so to the end, and of a process that has ended.
    assert [each.key for each in buffered(900, 150).before_end().findings(ended=True)] == [
        "plateau"
    ]


def test_without_steps_a_plateau_is_dated_in_seconds() -> None:
    track = Track()
    for number in range(1800):
        held = GIB + min(number, 1000) * MIB
        track.add(figures(number / 10, allocated=held))
    (found,) = track.findings()
    words = "allocated rose 1.0 GiB for 1 min 38 s, then stayed level for 1 min 21 s"
    assert found.text == words


def test_a_growth_that_goes_on_after_a_pause_grows_again() -> None:
    track = Track()
    for number in range(3000):
        step, part = divmod(number, 5)
        grown = step if step < 150 else max(150, step - 100)
        held = GIB // 8 + grown * 16 * MIB + part * 20 * MIB
        track.add(figures(number / 25, allocated=held, reserved=16 * GIB), step)
    assert "growth" in [found.key for found in track.findings()]


def test_what_the_first_steps_leave_is_no_plateau() -> None:
    track = Track()
    for number in range(1000):
        step, part = divmod(number, 5)
        held = GIB + min(step, 6) * 500 * MIB + part * 100 * MIB
        track.add(figures(number / 10, allocated=held), step)
        assert number % 5 or track.findings() == ()


def test_a_leak_that_ends_in_python_freeing_it_is_no_plateau() -> None:
    assert [found.key for found in leaking(60).before_end().findings(ended=True)] == ["growth"]
