"""The flame view's frames: widths, order, and what is left out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.snapshots.generator import Options
from tests.snapshots.helpers import OPTIONS, SEEDS, analysed
from tui.snapshots.analysis.flame import MOST_DEPTH, OWN_SHARE
from tui.snapshots.analysis.sites import Query
from tui.snapshots.model.pictures import REST


@given(SEEDS, OPTIONS, st.integers(1, 200), st.booleans())
@settings(max_examples=40, deadline=None)
def test_each_frame_lies_within_its_caller_and_siblings_do_not_overlap(
    seed: int, options: Options, width: int, all_frames: bool
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        picture = device.flame(None, (), width, all_frames=all_frames)
        assert picture.bytes == picture.total_bytes == device.replay.live_at_end
        by_path = {frame.path: frame for frame in picture.frames}
        assert len(by_path) == len(picture.frames)
        ends: dict[tuple[str, ...], int] = {}
        for frame in picture.frames[1:]:
            caller = by_path[frame.path[:-1]]
            assert frame.start == ends.get(caller.path, caller.start)
            ends[caller.path] = frame.start + frame.width
            assert ends[caller.path] <= caller.start + caller.width
            assert 2 * width * frame.bytes >= picture.bytes
            assert len(frame.path) <= MOST_DEPTH


@given(SEEDS, OPTIONS, st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_sizes_below_a_frame_add_up_to_what_it_holds(
    seed: int, options: Options, all_frames: bool
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        for frame in device.flame(None, (), 40, all_frames=all_frames).frames:
            sizes = device.sizes(None, frame.path, 10**6, all_frames=all_frames)
            assert sum(each.size * each.count for each in sizes) == frame.bytes
            assert sum(each.count for each in sizes) == frame.count
            totals = [each.size * each.count for each in sizes]
            assert totals == sorted(totals, reverse=True)
            assert len(device.sizes(None, frame.path, 1, all_frames=all_frames)) <= 1


@given(SEEDS, OPTIONS)
@settings(max_examples=20, deadline=None)
def test_the_innermost_frames_hold_what_the_sites_hold(seed: int, options: Options) -> None:
    for device in analysed(seed, options)[2].devices.values():
        whole = max(1, device.replay.live_at_end)
        picture = device.flame(None, (), whole)
        inner: dict[str, int] = {}
        called: dict[tuple[str, ...], int] = {}
        for frame in picture.frames[1:]:
            called[frame.path[:-1]] = called.get(frame.path[:-1], 0) + frame.bytes
        for frame in picture.frames[1:]:
            own = frame.bytes - called.get(frame.path, 0)
            if own:
                inner[frame.path[-1]] = inner.get(frame.path[-1], 0) + own
        sites = device.sites(Query()).listing(limit=10_000).rows
        assert inner == {row.key: row.bytes for row in sites if row.bytes}


@given(SEEDS, OPTIONS, st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_frame_with_memory_of_its_own_has_its_rank_in_the_timeline(
    seed: int, options: Options, all_frames: bool
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        ranks = {layer.key: layer.rank for layer in device.timeline(40).layers if layer.key != REST}
        picture = device.flame(None, (), 200, all_frames=all_frames)
        whole = {frame.path[-1] for frame in picture.frames if frame.rank is not None}
        for frame in picture.frames:
            assert frame.rank is None or frame.rank == ranks[frame.path[-1]]
        for row in device.sites(Query()).listing(limit=10_000).rows:
            if row.bytes < OWN_SHARE * picture.total_bytes:
                assert row.key not in whole


@given(SEEDS, OPTIONS, st.integers(1, 120))
@settings(max_examples=20, deadline=None)
def test_a_frame_that_is_walked_into_has_the_whole_width(
    seed: int, options: Options, width: int
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        for frame in device.flame(None, (), width).frames:
            within = device.flame(None, frame.path, width)
            assert within.path == frame.path
            assert within.bytes == frame.bytes
            above = [outer for outer in within.frames if len(outer.path) <= len(frame.path)]
            assert all((outer.start, outer.width) == (0, frame.bytes) for outer in above)
            assert len(above) == len(frame.path) + 1


def test_an_unknown_path_counts_as_far_as_it_is_known_and_no_width_is_refused() -> None:
    device = next(iter(analysed(3, Options())[2].devices.values()))
    first = device.flame(None, (), 80).frames[1]
    assert device.flame(None, (*first.path, "no.py:1 f"), 80).path == first.path
    with pytest.raises(ValueError, match="at least one column"):
        device.flame(None, (), 0)


@given(SEEDS, OPTIONS, st.integers(1, 60))
@settings(max_examples=20, deadline=None)
def test_what_a_frame_holds_itself_does_not_depend_on_what_has_room(
    seed: int, options: Options, width: int
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        sites = {row.key: row.bytes for row in device.sites(Query()).listing(limit=10_000).rows}
        narrow = device.flame(None, (), width)
        whole = {frame.path: frame.own for frame in device.flame(None, (), 10**9).frames}
        for frame in narrow.frames[1:]:
            assert frame.own == whole[frame.path]
            assert frame.own <= sites.get(frame.path[-1], 0)
        assert sum(whole.values()) == narrow.total_bytes
