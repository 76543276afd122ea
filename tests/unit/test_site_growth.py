"""A site's memory over the events of a trace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.kit.lines import plain, width
from tui.snapshots.model.pictures import REST, Bucket, Layer, Timeline
from tui.snapshots.views.site_growth import find_layer, growth_lines

MIB = 1 << 20


def timeline(*sizes: int) -> Timeline:
    buckets = tuple(
        Bucket(10 * at, 10 * at + 9, None, size, 10 * at + 5, size, 0)
        for at, size in enumerate(sizes)
    )
    own = Layer("train.py:12", "train.py:12 step", sizes, ("forward pass",), 0)
    rest = Layer(REST, "other sites", (0,) * len(sizes), (), 1)
    last, most = 10 * len(sizes) - 1, max(sizes)
    return Timeline(0, 0, last, most, buckets, None, None, most, (), (), "site", (own, rest))


def test_a_site_is_found_by_its_key_and_the_rest_is_none() -> None:
    shown = timeline(MIB, 2 * MIB)
    own = find_layer(shown, "train.py:12")
    assert own is not None
    assert own.label == "train.py:12 step"
    assert find_layer(shown, "train.py:13") is None
    assert find_layer(shown, REST) is None


def test_it_is_drawn_with_its_highest_size_and_the_moment() -> None:
    shown = timeline(*(at * MIB for at in range(60)))
    lines = [plain(row) for row in growth_lines(shown, shown.layers[0], 300, 60, 16)]
    assert lines[0] == "train.py:12 step  highest 59.0 MiB"
    assert "MiB over events" in lines[1]
    assert len(lines) <= 16
    assert any("▾" in row for row in lines)


@given(
    st.lists(st.integers(0, 1 << 45), min_size=1, max_size=80),
    st.integers(1, 200),
    st.integers(0, 60),
    st.one_of(st.none(), st.integers(-1, 900)),
)
def test_it_fits_every_room(sizes: list[int], cells: int, rows: int, event: int | None) -> None:
    shown = timeline(*sizes)
    drawn = growth_lines(shown, shown.layers[0], event, cells, rows)
    assert len(drawn) <= rows
    assert all(width(row) <= cells for row in drawn)
