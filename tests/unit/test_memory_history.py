"""The histories of the memory tab: their scale, their rows, and one time axis for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import GIB, NOW, gpu, make_store, sample
from tui.core.text import numbers as text
from tui.devices.state.devices import DeviceView
from tui.devices.state.history import MOST_POINTS, Point
from tui.devices.views.history import RecentReadings, plotted_figures
from tui.devices.views.large_history import (
    LEAST_ROWS,
    LEAST_SHARE,
    MEMORY,
    MOST_ROWS,
    choose_scale,
    fitting_rows,
    large_lines,
    round_up,
)
from tui.devices.views.memory_history import (
    BESIDE_FROM,
    LEAST_AREA,
    MOST_AREA,
    account_history,
    account_rows,
)
from tui.kit.lines import plain, width

TOTAL = 140 * GIB


def read(*used: float, reserved: bool = True) -> tuple[DeviceView, RecentReadings]:
    """Return a device and its readings, one a second, of so many GiB."""
    state = make_store("one gpu", sample(gpu(), at=NOW))
    points = [
        Point(
            NOW + 1 - len(used) + at,
            used=round(size * GIB),
            reserved=GIB if reserved else None,
            utilization=50.0,
            power=300.0,
        )
        for at, size in enumerate(used)
    ]
    return state.machine.selected_device, RecentReadings(points, state.machine.sample, NOW)


@given(st.integers(1, 1 << 45))
def test_a_rounded_size_is_the_next_power_of_two_or_half_as_much_again(size: int) -> None:
    top = round_up(size)
    assert size <= top < 2 * size or size == 1
    odd = top // (top & -top)
    assert odd in (1, 3)


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (20.7, "24.0 GiB"),
        (12.0, "16.0 GiB"),
        (11.5, "12.0 GiB"),
        (130.0, "139.8 GiB"),
        (0.1, "3.0 GiB"),
    ],
)
def test_the_scale_ends_just_above_the_highest_reading(used: float, words: str) -> None:
    view, recent = read(0.05, used, 0.05)
    figure = plotted_figures(view, recent.sample)[1]
    shown = choose_scale(figure, recent, 100, text.size)
    assert shown.full is not None
    assert shown.full >= used * GIB
    assert shown.full >= TOTAL / LEAST_SHARE - GIB
    top = next(line for line in account_history(view, recent, 100, 12)[1:])
    assert plain(top).strip().startswith(words)


def test_readings_before_the_picture_do_not_count_for_its_scale() -> None:
    long_ago = [100.0, *[1.0] * (MOST_POINTS - 1)]
    view, recent = read(*long_ago)
    figure = plotted_figures(view, recent.sample)[1]
    recently, whole = (choose_scale(figure, recent, columns, text.size) for columns in (500, 900))
    assert recently.full is not None
    assert whole.full is not None
    assert recently.full < 100 * GIB <= whole.full


def draw(recent: RecentReadings, view: DeviceView, *, zoomed: bool) -> list[str]:
    lines = large_lines(view, recent, MEMORY, 70, 9, valued=not zoomed, zoomed=zoomed)
    return [plain(line) for line in lines]


def test_the_memory_pane_has_the_same_scale_and_says_so() -> None:
    view, recent = read(*[20.7] * 60)
    lines = draw(recent, view, zoomed=True)
    assert "zoomed" in lines[0]
    assert lines[1].split()[0] == "24.0G"
    # Most of the area is filled.
    assert "\u2588" in lines[3]


def test_beside_other_figures_the_memory_has_the_scale_of_the_device() -> None:
    view, recent = read(*[20.7] * 60)
    lines = draw(recent, view, zoomed=False)
    assert lines[1].split()[0] == "139.8G"
    # An eighth of 139.8 GiB is 17.5.
    assert not any("\u2588" in line for line in lines[1:7])


@pytest.mark.parametrize(
    ("used", "rows"),
    [
        ([20.7] * 60, MOST_ROWS + 1),
        ([20.7] * 5, LEAST_ROWS + 1),
        ([0.1] * 60, LEAST_ROWS + 1),
        ([], LEAST_ROWS + 1),
    ],
    ids=["filled", "the first seconds", "idle", "no reading"],
)
def test_a_picture_that_would_be_almost_empty_is_lower(used: list[float], rows: int) -> None:
    view, recent = read(*used)
    assert fitting_rows(view, recent, 60, 20) == rows
    assert fitting_rows(view, recent, 60, 2) == 2
    assert fitting_rows(view, recent, 60, 1) == 0


def test_the_rows_below_an_area_share_its_time_axis() -> None:
    view, recent = read(*[20.0] * 100)
    lines = [plain(line) for line in account_history(view, recent, 100, 12)]
    assert lines[0].startswith("\u2500 cuda:0 memory 20.0 GiB  last ")
    begins = {len(line.rstrip()) for line in lines[2:]}
    starts = {next(at for at, sign in enumerate(line) if sign > "\u2580") for line in lines[8:12]}
    assert len(begins) == len(starts) == 1
    assert [line.split()[0] for line in lines[9:]] == ["util", "reserved", "power"]


@given(st.integers(40, 220), st.integers(0, 40), st.booleans(), st.integers(0, 3))
def test_the_histories_fill_their_rows(cells: int, most: int, reserved: bool, count: int) -> None:
    view, recent = read(*[20.0] * count, reserved=reserved)
    rows = account_rows(view, recent, cells, most)
    assert rows <= most
    if rows:
        lines = account_history(view, recent, cells, rows)
        assert len(lines) == rows
        assert all(width(line) <= cells for line in lines)


def test_a_wide_screen_has_the_load_beside_the_memory() -> None:
    view, recent = read(*[20.0] * 9)
    narrow, wide = (
        [plain(line) for line in account_history(view, recent, cells, MOST_AREA + 2)]
        for cells in (BESIDE_FROM - 1, BESIDE_FROM)
    )
    assert "util 50%" not in narrow[0]
    assert "cuda:0 memory 20.0 GiB" in wide[0]
    assert "util 50%" in wide[0]
    assert "reserved" in wide[-1]
    assert "power" in wide[-1]


def test_an_area_that_would_be_almost_empty_has_the_least_rows() -> None:
    for view, recent in (read(*[0.1] * 90), read(20.0)):
        rows = account_rows(view, recent, 100, 40)
        full = account_rows(*read(*[20.0] * 90), 100, 40)
        assert full - rows == MOST_AREA - LEAST_AREA
