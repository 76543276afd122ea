"""What is drawn: the timeline, the segment map, and what pins free memory."""

from __future__ import annotations

import itertools
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.snapshots.generator import Options
from tests.snapshots.helpers import OPTIONS, SEEDS, analysed
from tests.snapshots.scenes import MIB, PIECE, scene, segment
from tui.snapshots.analysis.layers import MOST_LAYERS
from tui.snapshots.analysis.layout import Filled, final_layout, fragmentation
from tui.snapshots.analysis.moment import (
    begin_digits,
    find_cheapest_window,
    find_widest_window,
    group_of,
    rank_digits,
    share_out_ranks,
)
from tui.snapshots.analysis.site_history import site_history
from tui.snapshots.analysis.sites import Query
from tui.snapshots.analysis.timeline import TICK_CELLS
from tui.snapshots.model.pictures import REST, Stacking

PIECES = st.lists(
    st.tuples(st.sampled_from(("allocated", "free")), st.integers(1, 9)), min_size=1, max_size=9
)


def filled(pieces: list[PIECE]) -> Filled:
    return final_layout(scene([segment(1 << 30, pieces)]).devices[0].device).filled[0]


@given(SEEDS, OPTIONS, st.integers(1, 40), st.integers(-5, 60), st.integers(-5, 200))
@settings(max_examples=40, deadline=None)
def test_buckets_tile_the_events(
    seed: int, options: Options, width: int, first: int, last: int
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        line = device.timeline(width, first=first, last=last if last > first else None)
        if not device.replay.events or not line.buckets:
            continue
        events = [e for bucket in line.buckets for e in range(bucket.first, bucket.last + 1)]
        assert events == list(range(line.first, line.last + 1))
        assert len(line.buckets) <= width
        for bucket in line.buckets:
            live = [device.replay.live_at(e) for e in range(bucket.first, bucket.last + 1)]
            assert bucket.live_max == max(live)
            assert 0 <= bucket.live_max <= line.scale
            assert bucket.moment == bucket.first + live.index(max(live))
            assert bucket.reserved_max <= line.scale
        assert sum(bucket.ooms for bucket in line.buckets) == len(line.ooms)


@given(
    SEEDS,
    OPTIONS,
    st.integers(1, 40),
    st.integers(0, 60),
    st.sampled_from(("site", "category", "annotation")),
)
@settings(max_examples=40, deadline=None)
def test_layers_add_up_to_what_was_live(
    seed: int, options: Options, width: int, first: int, stacking: Stacking
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        line = device.timeline(width, stacking=stacking, first=first)
        assert len(line.layers) <= MOST_LAYERS + 1
        for column, bucket in enumerate(line.buckets):
            sizes = {layer.key: layer.bytes[column] for layer in line.layers}
            assert sum(sizes.values()) == bucket.live_max
            for layer in line.layers:
                part = device.part(bucket.moment, stacking, layer.key)
                assert (part.bytes, part.live) == (sizes[layer.key], bucket.live_max)
                assert sum(size for _, _, size in part.categories) == part.bytes


@given(SEEDS, OPTIONS)
@settings(max_examples=20, deadline=None)
def test_layers_are_ranked_by_the_most_that_they_held(seed: int, options: Options) -> None:
    for device in analysed(seed, options)[2].devices.values():
        whole = device.timeline(10**4)
        named = [layer for layer in whole.layers if layer.key != REST]
        named.sort(key=lambda layer: layer.rank)
        assert [layer.rank for layer in named] == list(range(len(named)))
        most = [max(layer.bytes, default=0) for layer in named]
        assert most == sorted(most, reverse=True)
        parts = device.timeline(7, first=3).layers
        assert [(one.key, one.rank) for one in parts if one.key != REST] == [
            (one.key, one.rank) for one in whole.layers if one.key != REST
        ]


@given(SEEDS, OPTIONS)
@settings(max_examples=20, deadline=None)
def test_layers_by_site_hold_what_the_tree_of_sites_says(seed: int, options: Options) -> None:
    for device in analysed(seed, options)[2].devices.values():
        line = device.timeline(7)
        for column, bucket in enumerate(line.buckets):
            listing = device.sites(Query(event=bucket.moment)).listing()
            sizes = {row.key: row.bytes for row in listing.rows}
            for layer in line.layers:
                if layer.key != REST:
                    assert layer.bytes[column] == sizes.get(layer.key, 0)


def test_a_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError, match="no layer nowhere"):
        analysed(1, Options())[2].devices[0].part(None, "site", "nowhere")


def test_a_timeline_needs_columns() -> None:
    with pytest.raises(ValueError, match="at least one column"):
        analysed(1, Options())[2].devices[0].timeline(0)


def test_a_part_keeps_the_scale_of_the_whole() -> None:
    device = analysed(1, Options())[2].devices[0]
    assert device.timeline(5, first=0, last=3).scale == device.timeline(5).scale


@given(PIECES, st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_cells_share_out_the_bytes(pieces: list[PIECE], width: int) -> None:
    analysis = scene([segment(1 << 30, pieces)]).devices[0]
    part = filled(pieces)
    drawn = analysis.cells(None, 0, width)
    assert len(drawn) == width
    used = sum(sizes.size for sizes in part.used) / part.range.size
    assert abs(sum(cell.used for cell in drawn) / width - used) < 1e-6
    for cell in drawn:
        assert cell.state in ("allocated", "inactive")
    begun = sum(sizes.address > part.range.address for sizes in part.used)
    assert sum(cell.begins for cell in drawn) == begun


def test_zoom_shows_what_is_outside_as_unmapped() -> None:
    device = scene([segment(1 << 30, [("allocated", 2), ("free", 2)])]).devices[0]
    base = 1 << 30
    drawn = device.cells(None, 0, 6, start=base - MIB, end=base + 5 * MIB)
    states = [cell.state for cell in drawn]
    assert states == ["unmapped", *["allocated"] * 2, *["inactive"] * 2, "unmapped"]
    with pytest.raises(ValueError, match="nothing to draw"):
        device.cells(None, 0, 3, start=base, end=base)


def test_a_block_begins_in_one_cell_whatever_the_zoom() -> None:
    device = scene(
        [segment(1 << 30, [("allocated", 2), ("allocated", 2), ("free", 2), ("allocated", 2)])]
    ).devices[0]
    base = 1 << 30
    assert begin_digits(device.cells(None, 0, 8)) == "00100010"
    assert begin_digits(device.cells(None, 0, 2)) == "11"
    assert begin_digits(device.cells(None, 0, 4, start=base + MIB, end=base + 5 * MIB)) == "0100"
    # Closer than a byte a cell: the same byte is drawn again, and no border with it.
    near = device.cells(None, 0, 8, start=base + 2 * MIB - 2, end=base + 2 * MIB + 2)
    assert sum(cell.begins for cell in near) == 1


@given(SEEDS, OPTIONS, st.integers(1, 60))
@settings(max_examples=20, deadline=None)
def test_blocks_have_the_ranks_of_their_sites_in_the_timeline(
    seed: int, options: Options, width: int
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        labels = {layer.rank: layer.label for layer in device.timeline(40).layers if layer.key}
        rows = device.map_rows()
        in_use = device.in_use(None)
        assert sum(site.bytes for site in in_use) == sum(
            row.allocated + row.pending for row in rows
        )
        assert sum(site.blocks for site in in_use) == sum(row.blocks for row in rows)
        assert {site.label for site in in_use if site.rank is not None} <= {*labels.values()}
        assert len(share_out_ranks(in_use, width)) == (width if in_use else 0)
        for row in rows:
            own = {site.rank for site in device.in_use(None, (row.index,))}
            assert {site.rank for site in in_use} >= own
            cells = device.cells(None, row.index, width)
            assert {cell.rank for cell in cells if cell.used} <= own
            digits = rank_digits(cells)
            assert [digit == "-" for digit in digits] == [cell.rank is None for cell in cells]


def test_full_segments_of_a_kind_are_a_group() -> None:
    device = scene(
        [
            segment(1 << 30, [("allocated", 2)]),
            segment(2 << 30, [("allocated", 2)]),
            segment(3 << 30, [("allocated", 1), ("free", 1)]),
            segment(4 << 30, [("allocated", 4)]),
        ]
    ).devices[0]
    rows = device.map_rows()
    assert group_of(rows, rows[0]) == [0, 1]
    (site,) = device.in_use(None, (0, 1))
    assert (site.bytes, site.blocks) == (4 * MIB, 2)


def test_rows_and_pieces() -> None:
    device = scene([segment(1 << 30, [("free", 3), ("allocated", 2), ("free", 4)])]).devices[0]
    (row,) = device.map_rows()
    assert (row.size, row.allocated, row.free, row.largest_free, row.blocks) == (
        9 * MIB,
        2 * MIB,
        7 * MIB,
        4 * MIB,
        1,
    )
    states = [(piece.state, piece.size // MIB, piece.site) for piece in device.pieces(None, 0)]
    assert states == [
        ("inactive", 3, ""),
        ("allocated", 2, "train.py:5 train_step"),
        ("inactive", 4, ""),
    ]
    pin = device.pinning(None, 0, 1)
    assert pin is not None
    assert (pin.span, pin.cost, pin.count, pin.largest_free) == (9 * MIB, 2 * MIB, 1, 4 * MIB)
    assert pin.blocks[0].name == f"{(1 << 30) + 3 * MIB:#x}#0"


@given(SEEDS, OPTIONS)
@settings(max_examples=20, deadline=None)
def test_pieces_fill_every_segment(seed: int, options: Options) -> None:
    for device in analysed(seed, options)[2].devices.values():
        for event in (None, device.replay.events // 2 - 1):
            for row in device.map_rows(event):
                pieces = device.pieces(event, row.index)
                assert pieces[0].address == row.address
                for low, high in itertools.pairwise(pieces):
                    assert low.address + low.size == high.address
                assert pieces[-1].address + pieces[-1].size == row.address + row.size


def spans(part: Filled, need: int) -> list[tuple[int, int]]:
    """Cost and negative span of every window that is enough, by trying all."""
    gaps = []
    edges = [part.range.address, *(sizes.address + sizes.size for sizes in part.used)]
    begins = [*(sizes.address for sizes in part.used), part.range.end]
    for first in range(len(part.used)):
        for last in range(first, len(part.used)):
            span = begins[last + 1] - edges[first]
            if span >= need:
                gaps.append((sum(h.size for h in part.used[first : last + 1]), -span))
    return gaps


@given(PIECES, st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_cheapest_window_is_the_cheapest_of_all(pieces: list[PIECE], need: int) -> None:
    part = filled(pieces)
    window = find_cheapest_window([part], need * MIB)
    every = spans(part, need * MIB)
    if part.largest >= need * MIB or not every:
        assert window is None
    else:
        assert window is not None
        assert window.cost == min(every)[0]
        assert window.span >= need * MIB


@given(PIECES)
@settings(max_examples=60, deadline=None)
def test_widest_window_of_one_block(pieces: list[PIECE]) -> None:
    part = filled(pieces)
    window = find_widest_window(part, 1)
    if not part.used:
        assert window is None
    else:
        assert window is not None
        assert len(window.blocks) == 1
        singles = [span for cost, span in spans(part, 0) if cost == window.cost]
        assert -window.span in singles


def test_fragmentation() -> None:
    scattered = fragmentation((filled([("free", 3), ("allocated", 4), ("free", 1)]),))
    assert (scattered.free, scattered.pieces, scattered.largest) == (4 * MIB, 2, 3 * MIB)
    assert scattered.unused == 0.5
    assert scattered.clumped == (9 + 1) / 16
    nothing = fragmentation(())
    assert (nothing.unused, nothing.clumped) == (None, None)


@given(SEEDS, OPTIONS, st.integers(-1, 60), st.sampled_from(("site", "category", "annotation")))
@settings(max_examples=40, deadline=None)
def test_the_sizes_of_layers_at_an_event_are_those_of_the_sites(
    seed: int, options: Options, event: int, stacking: Stacking
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        at = min(event, device.replay.events - 1)
        sizes = {each.key: each.bytes for each in device.layer_sizes(at, stacking)}
        assert sum(sizes.values()) == device.replay.live_at(at)
        for key, size in sizes.items():
            assert device.part(at, stacking, key).bytes == size
        if stacking == "site":
            rows = device.sites(Query(event=at)).listing(limit=10_000).rows
            listed = {row.key: row.bytes for row in rows}
            assert all(listed.get(key, 0) == sizes[key] for key in sizes if key != REST)


@given(SEEDS, OPTIONS, st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_the_history_of_a_site_has_its_highest_size_and_its_last(
    seed: int, options: Options, width: int
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        events = device.replay.events
        for row in device.sites(Query()).listing(limit=3).rows:
            found = site_history(device, row.key, width)
            sizes = {
                event: sum(
                    each.bytes
                    for each in device.sites(Query(event=event)).listing(limit=10_000).rows
                    if each.key == row.key
                )
                for event in range(-1, events)
            }
            assert found.peak == max(sizes.values())
            assert all(sizes[event] == size for event, size in found.points)
            after = max((size for event, size in sizes.items() if event >= 0), default=0)
            assert max((size for _, size in found.points), default=0) == after
            assert not events or found.points[-1] == (events - 1, row.bytes)


@given(SEEDS, OPTIONS, st.integers(1, 300), st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_ticks_are_round_events_with_their_times(
    seed: int, options: Options, width: int, first: int
) -> None:
    for device in analysed(seed, options)[2].devices.values():
        line = device.timeline(width, first=first)
        assert len(line.ticks) <= max(2, width // TICK_CELLS)
        steps = {after.event - before.event for before, after in pairwise(line.ticks)}
        assert len(steps) <= 1
        for tick in line.ticks:
            assert line.first <= tick.event <= line.last
            assert tick.time_us in (None, device.trace.time_us[tick.event])
