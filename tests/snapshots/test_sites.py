"""The tree of sites: sums, paths, groupings and the search."""

from __future__ import annotations

import re
import time
from typing import get_args

import pytest
from hypothesis import given, settings

from tests.snapshots.generator import Options
from tests.snapshots.helpers import OPTIONS, SEEDS, analysed
from tests.snapshots.scenes import MIB, oom, scene, segment
from tui.snapshots.analysis.analysis import Analysis, DeviceAnalysis, compare
from tui.snapshots.analysis.frames import SearchError, refuse_costly
from tui.snapshots.analysis.sites import Query, SiteTree
from tui.snapshots.model.results import Grouping, SiteRow
from tui.snapshots.read.normalise import normalise

GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)


def one(options: Options | None = None) -> DeviceAnalysis:
    return analysed(5, options or Options(steps=300))[2].devices[0]


def at_peak(grouping: Grouping = "site", search: str = "", *, regex: bool = False) -> SiteTree:
    device = one()
    return device.sites(Query(device.replay.peak_event, grouping, search, regex))


def walk(tree: SiteTree, path: tuple[str, ...] = ()) -> list[tuple[int, SiteRow]]:
    rows = []
    for row in tree.listing(path, limit=10_000).rows:
        rows.append((len(path), row))
        if row.children:
            rows += walk(tree, (*path, row.key))
    return rows


@given(SEEDS, OPTIONS)
@settings(max_examples=25, deadline=None)
def test_every_grouping_adds_up_to_what_is_live(seed: int, options: Options) -> None:
    _, _, analysis = analysed(seed, options)
    for device in analysis.devices.values():
        event = device.replay.events // 2 - 1
        for grouping in GROUPINGS:
            tree = device.sites(Query(event=event, grouping=grouping))
            rows = tree.listing(limit=10_000).rows
            assert sum(row.bytes for row in rows) == tree.bytes == device.replay.live_at(event)
            assert sum(row.count for row in rows) == tree.count == device.state(event).allocations


def test_children_add_up_to_no_more_than_their_parent() -> None:
    tree = at_peak(grouping="size class")
    for row in tree.listing().rows:
        children = tree.listing((row.key,), limit=10_000).rows
        assert len(children) == row.children
        assert sum(child.bytes for child in children) == row.bytes
    assert max(depth for depth, _ in walk(tree)) == 2


def test_a_listing_counts_the_rows_that_it_leaves_out() -> None:
    tree = at_peak()
    whole, part = tree.listing(), tree.listing(limit=2)
    assert part.rows == whole.rows[:2]
    assert part.more == len(whole.rows) - 2
    assert part.more_bytes == sum(row.bytes for row in whole.rows[2:])


def test_orders() -> None:
    tree = at_peak()
    sizes = [row.bytes for row in tree.listing(order="bytes").rows]
    counts = [row.count for row in tree.listing(order="count").rows]
    names = [row.label for row in tree.listing(order="name").rows]
    assert sizes == sorted(sizes, reverse=True)
    assert counts == sorted(counts, reverse=True)
    assert names == sorted(names)


def test_search_by_text_finds_any_frame_of_the_stack() -> None:
    assert at_peak(search="TRAIN.PY:7").bytes == at_peak().bytes
    (row,) = at_peak(search="layer3").listing().rows
    assert row.label == "model.py:13 layer3"
    assert at_peak(search="absent").count == 0


def test_search_by_regular_expression() -> None:
    rows = at_peak(search="layer[12]$", regex=True).listing().rows
    assert {row.label for row in rows} == {"model.py:11 layer1", "model.py:12 layer2"}


def test_search_by_address_finds_the_allocation_around_it() -> None:
    device = one()
    event = device.replay.events // 2
    table = device.allocations
    row = max(table.live_at(event), key=table.size.__getitem__)
    inside = table.address[row] + table.size[row] - 1
    tree = device.sites(Query(event=event, search=hex(inside)))
    assert (tree.count, tree.bytes) == (1, table.size[row])


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"(a|a)*b",
        r"(?:x*){2,}",
        r"(\w)\1",
        r"(?P<a>x)(?P=a)",
        r"a*a*a*a*b",
        "a?" * 30 + "a" * 30,
        "(a|a)" * 25 + "b",
        r".{0,999}.{0,999}.{0,999}.{0,999}",
        "(",
        "[z-a]",
        "x" * 300,
        r"a{99999999999999999999}",
    ],
)
def test_a_bad_or_costly_pattern_is_refused_in_one_line(pattern: str) -> None:
    began = time.monotonic()
    with pytest.raises(SearchError) as caught:
        at_peak(search=pattern, regex=True)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    "pattern", [r"a.*b.*c", r"[*+]{3}", r"\+\*\)", r"(foo|bar)?x", r"^\S+:12 ", r"(?i)a*?b??c"]
)
def test_plain_patterns_are_allowed(pattern: str) -> None:
    refuse_costly(pattern)
    re.compile(pattern)


def test_pools_of_entries_that_do_not_tell_theirs() -> None:
    device = one(Options(steps=300, private_pools=2, pool_ids=False))
    event = device.replay.events // 2
    rows = device.sites(Query(event=event, grouping="pool")).listing().rows
    sizes = {(0, 0): 0}
    for part in device.layout(event).filled:
        pool = part.range.pool or (-1, -1)
        sizes[pool] = sizes.get(pool, 0) + sum(block.requested for block in part.used)
    by_key = {row.key: row.bytes for row in rows}
    for pool, size in sizes.items():
        if size and pool != (-1, -1):
            assert by_key[f"{pool[0]},{pool[1]}"] >= size


def test_annotations_and_what_was_before_the_recording() -> None:
    raw = {
        "segments": [],
        "device_traces": [
            [
                {"action": "free_completed", "addr": 512, "size": 5, "time_us": 9, "stream": 0},
                {"action": "alloc", "addr": 1024, "size": 7, "time_us": 15, "stream": 0},
                {"action": "alloc", "addr": 2048, "size": 11, "time_us": 25, "stream": 0},
                {"action": "free_completed", "addr": 1024, "size": 7, "time_us": 30, "stream": 0},
                {"action": "free_completed", "addr": 2048, "size": 11, "time_us": 31, "stream": 0},
            ]
        ],
        "external_annotations": [
            {"stage": "START", "name": "step", "device": 0, "time_us": 10},
            {"stage": "START", "name": "inner", "device": 0, "time_us": 14},
            {"stage": "END", "name": "inner", "device": 0, "time_us": 20},
        ],
    }
    device = Analysis(normalise(raw)).devices[0]
    assert device.replay.live_at_start == 5
    rows = device.sites(Query(event=2, grouping="annotation")).listing().rows
    assert {row.label: row.bytes for row in rows} == {"inner": 7, "step": 11}
    rows = device.sites(Query(event=-1, grouping="annotation")).listing().rows
    assert {row.label: row.bytes for row in rows} == {"before the recording": 5}
    timeline = device.timeline(10)
    assert [(band.name, band.first, band.last, band.depth) for band in timeline.bands] == [
        ("step", 1, 4, 0),
        ("inner", 1, 1, 1),
    ]


@given(SEEDS, OPTIONS)
@settings(max_examples=20, deadline=None)
def test_a_file_with_itself_does_not_differ(seed: int, options: Options) -> None:
    raw, _, analysis = analysed(seed, options)
    again = Analysis(normalise(raw))
    for at_peak in (False, True):
        for difference in compare(analysis, again, at_peak=at_peak).values():
            assert difference.rows == ()
            assert difference.live_a == difference.live_b


@given(SEEDS, SEEDS)
@settings(max_examples=20, deadline=None)
def test_a_difference_adds_up(seed_a: int, seed_b: int) -> None:
    a, b = (analysed(seed, Options(steps=100))[2] for seed in (seed_a, seed_b))
    forth, back = compare(a, b), compare(b, a)
    for index, difference in forth.items():
        change = sum(row.bytes_b - row.bytes_a for row in difference.rows)
        assert change == difference.live_b - difference.live_a
        assert len(back[index].rows) == len(difference.rows)


def test_changes_are_named() -> None:
    def state(*sites: tuple[int, int]) -> Analysis:
        return scene(
            [
                segment((place + 1) << 30, [("allocated", size)], line=line)
                for place, (line, size) in enumerate(sites)
            ]
        )

    (difference,) = compare(
        state((1, 4), (2, 4), (3, 9), (4, 1)), state((2, 8), (3, 8), (4, 1), (5, 3))
    ).values()
    assert [(row.change, row.label) for row in difference.rows] == [
        ("gone", "train.py:1 train_step"),
        ("grown", "train.py:2 train_step"),
        ("new", "train.py:5 train_step"),
        ("shrunk", "train.py:3 train_step"),
    ]


def test_without_a_history_no_site_claims_a_recording() -> None:
    device = scene([segment(0, [("allocated", 4)], stacks=False)], oom(8, 0)).devices[0]
    assert not device.allocations.has_history
    assert device.top(None)[0].label == "no stack recorded"
    assert device.layers("site").part("no stack recorded", 0, 4 * MIB).bytes == 4 * MIB
    assert [frame.label for frame in device.flame(None, (), 80).frames[1:]] == ["no stack recorded"]
    by_annotation = device.sites(Query(grouping="annotation")).listing().rows
    assert [row.label for row in by_annotation] == ["no annotation"]
