"""The trend of a workload's time in the list of results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.results.samples import kept
from tui.core.text import glyphs
from tui.kit.lines import TextStyle
from tui.results.store.records import Facts, StoredResult, StoredRow, build_row
from tui.results.views.trend import (
    FEWEST,
    HIGHEST,
    RUNS,
    TimeTrend,
    choose_change_style,
    choose_trend_style,
    draw_trend,
    find_trends,
    format_change,
)


def trends_of(*results: StoredResult) -> list[TimeTrend | None]:
    """Return the trend of each result, given in the order of their times."""
    rows: list[StoredRow] = [
        build_row(stored, number=number) for number, stored in enumerate(results, 1)
    ]
    facts: dict[str, Facts] = {
        row.environment: stored.facts for row, stored in zip(rows, results, strict=True)
    }
    # The list shows the newest first.
    trends = find_trends(reversed(rows), facts)
    return [trends.get(row.number) for row in rows]


def test_a_change_is_named_only_where_the_intervals_are_apart() -> None:
    trends = trends_of(kept(0), kept(1, median=1.005e-3), kept(2, median=1.1e-3), kept(3))
    assert [format_change(trend) for trend in trends] == ["", "", "+9%", "-9%"]


def test_a_failed_run_has_no_trend_and_is_in_none() -> None:
    failed = kept(1, median=0.5e-3, status="failed")
    first, none, last = trends_of(kept(0), failed, kept(2, median=1.1e-3))
    assert none is None
    assert format_change(none) == ""
    assert choose_change_style(none) is TextStyle.PLAIN
    assert first is not None
    assert last is not None
    assert last.medians_s == (1e-3, 1.1e-3)
    assert format_change(last) == "+10%"


def test_only_runs_that_measured_the_same_in_the_same_place_share_a_trend() -> None:
    _, *others = trends_of(
        kept(0),
        kept(1, workload="conv2d"),
        kept(2, device="cpu"),
        kept(3, parameters={"n": 64}),
        kept(4, facts={"box": "beta"}),
        kept(5, facts={"gpu": "NVIDIA A100"}),
    )
    assert [len(trend.medians_s) for trend in others if trend] == [1] * 5
    assert not any(map(draw_trend, others))
    # Another driver is what a trend is to show.
    _, updated = trends_of(kept(0), kept(1, facts={"driver": "590.1"}))
    assert updated is not None
    assert len(updated.medians_s) == 2


def test_the_slowest_run_is_the_highest() -> None:
    *_, last = trends_of(kept(0, median=1e-3), kept(1, median=2e-3), kept(2, median=1e-3))
    lowest, highest = glyphs.GLYPHS.vertical[0], glyphs.GLYPHS.vertical[HIGHEST - 1]
    assert draw_trend(last) == lowest + highest + lowest
    assert highest != glyphs.GLYPHS.vertical[-1]


def test_two_runs_have_no_trend() -> None:
    *_, last = trends_of(kept(0, median=1e-3), kept(1, median=2e-3))
    assert draw_trend(last) == ""


def test_noise_is_drawn_flat() -> None:
    *_, last = trends_of(*(kept(at, median=s) for at, s in enumerate((1e-3, 1.03e-3, 1e-3))))
    assert draw_trend(last) == 3 * glyphs.GLYPHS.vertical[0]


def test_a_small_change_is_drawn_small() -> None:
    *_, last = trends_of(*(kept(at, median=s) for at, s in enumerate((1e-3, 1e-3, 1.08e-3))))
    lowest, _, higher = list(draw_trend(last))
    steps = glyphs.GLYPHS.vertical
    assert lowest == steps[0]
    assert 0 < steps.index(higher) < len(steps) // 2


@pytest.mark.parametrize("ascii_only", [False, True])
@given(medians=st.lists(st.floats(1e-9, 1e4), min_size=FEWEST, max_size=3 * RUNS))
def test_each_run_has_a_cell(ascii_only: bool, medians: list[float]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if ascii_only:
            patch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
        results = [kept(at, median=median) for at, median in enumerate(medians)]
        *_, last = trends_of(*results)
        assert len(draw_trend(last)) == min(RUNS, len(medians))


def test_a_trend_and_a_change_have_the_color_of_their_verdict() -> None:
    *_, slower = trends_of(kept(0), kept(1, median=1.5e-3))
    *_, faster = trends_of(kept(0), kept(1, median=0.5e-3))
    *_, back = trends_of(kept(0), kept(1, median=2e-3), kept(2))
    *_, flat = trends_of(kept(0), kept(1, median=1.01e-3))
    assert choose_trend_style(slower) is choose_change_style(slower) is TextStyle.NOTE
    assert choose_trend_style(faster) is choose_change_style(faster) is TextStyle.GOOD
    assert choose_trend_style(back) is TextStyle.ALLOCATED
    assert choose_trend_style(flat) is TextStyle.REST
