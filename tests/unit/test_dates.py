"""The ticks of dates: round local moments in the range, rising, at equal steps, never too many."""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.text.numbers import date
from tui.kit.dates import DATE, date_labels
from tui.kit.lines import plain
from tui.kit.plot import Axis, Curve, Event, Plot, plot_lines
from tui.kit.scale import Scale, scale_for


@pytest.fixture(params=["UTC", "Europe/Berlin", "Asia/Kolkata"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def at(local: str) -> float:
    return datetime.datetime.fromisoformat(local).timestamp()


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        ("2026-06-01 09:00", "2026-06-11 09:00", 6, ("06-03", "06-05", "06-07", "06-09", "06-11")),
        ("2026-06-01 09:00", "2026-06-01 15:00", 5, ("10:00", "12:00", "14:00")),
        ("2026-06-01 20:00", "2026-06-02 22:00", 6, ("06-02", "06:00", "12:00", "18:00")),
        ("2026-06-01 09:00:01", "2026-06-01 09:00:06", 3, ("09:00:02", "09:00:04", "09:00:06")),
        ("2024-03-01", "2026-03-01", 4, ("2025-02-02", "2026-02-01")),
    ],
)
@pytest.mark.usefixtures("zone")
def test_ticks_are_round_in_local_time(
    low: str, high: str, most: int, expected: tuple[str, ...]
) -> None:
    drawn = date_labels(Scale(at(low), at(high)), most)
    assert tuple(text for _, text in drawn.ticks) == expected


@pytest.mark.usefixtures("zone")
def test_the_hours_of_a_day_with_a_change_of_the_clock_keep_their_order() -> None:
    drawn = date_labels(Scale(at("2026-03-28 12:00"), at("2026-03-30 12:00")), 9)
    hourly = date_labels(Scale(at("2026-03-28 22:00"), at("2026-03-29 06:00")), 20)
    for labels in (drawn, hourly):
        times = [moment for moment, _ in labels.ticks]
        assert times == sorted({*times})
    assert [text for _, text in drawn.ticks if "-" in text] == ["03-29", "03-30"]


@given(st.floats(1e6, 4e9), st.floats(0, 4e9), st.integers(2, 20))
def test_there_is_a_tick_and_never_too_many(low: float, span: float, most: int) -> None:
    scale = Scale(low, low + span)
    moments = [moment for moment, _ in date_labels(scale, most).ticks]
    assert 1 <= len(moments) <= most
    assert all(low <= moment <= low + span for moment in moments)
    assert all(first < then for first, then in itertools.pairwise(moments))


@pytest.mark.usefixtures("zone")
def test_a_plot_of_dates_writes_no_unix_time() -> None:
    first = at("2026-06-01 09:00")
    points = tuple((first + day * 86_400, 1.0 + day) for day in range(10))
    events = tuple(Event(f"driver number {n}", first + n * 3600) for n in range(4))
    across = Axis("time", DATE, Scale(first, points[-1][0]))
    upright = Axis("time", "s", scale_for([1.0, 10.0]))
    rows = [
        plain(row)
        for row in plot_lines(Plot(across, upright, (Curve("a", points),), events=events), 80, 8)
    ]
    text = "\n".join(rows)
    assert "over time" in text
    assert "06-05" in rows[-1]
    assert f"driver number 1 at {date(events[1].place)}" in " ".join(text.split())
    assert str(round(first))[:5] not in text
