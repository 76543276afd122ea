"""A site's memory over the events of a trace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.kit.lines import plain, width
from tui.snapshots.model.pictures import SiteHistory
from tui.snapshots.views.site_growth import growth_lines

MIB = 1 << 20


def history(*sizes: int) -> SiteHistory:
    return SiteHistory(tuple((10 * at, size) for at, size in enumerate(sizes)), max(sizes))


def test_it_is_drawn_with_its_highest_size_and_the_moment() -> None:
    shown = history(*(at * MIB for at in range(60)))
    lines = [plain(row) for row in growth_lines(shown, "train.py:12 step", 0, 300, 60, 16)]
    assert lines[0] == "train.py:12 step  highest 59.0 MiB"
    assert "MiB over events" in lines[1]
    assert len(lines) <= 16
    assert any("▾" in row for row in lines)


def test_a_trace_without_a_second_event_has_no_plot() -> None:
    assert growth_lines(history(MIB), "a", None, None, 60, 16) == []
    assert growth_lines(SiteHistory((), 0), "a", None, None, 60, 16) == []


@given(
    st.lists(st.integers(0, 1 << 45), min_size=1, max_size=80),
    st.integers(1, 200),
    st.integers(0, 60),
    st.one_of(st.none(), st.integers(-1, 900)),
)
def test_it_fits_every_room(sizes: list[int], cells: int, rows: int, event: int | None) -> None:
    drawn = growth_lines(history(*sizes), "train.py:12 step", None, event, cells, rows)
    assert len(drawn) <= rows
    assert all(width(row) <= cells for row in drawn)
