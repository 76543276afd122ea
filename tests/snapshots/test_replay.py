"""The replay says what the allocator that wrote the file knew."""

from __future__ import annotations

from hypothesis import given, settings

from tests.snapshots.generator import MIB, Options
from tests.snapshots.helpers import OPTIONS, SEEDS, analysed
from tui.snapshots.analysis.timeline import replay
from tui.snapshots.read.normalise import normalise

RUNS = settings(max_examples=30, deadline=None)


@given(SEEDS, OPTIONS)
@RUNS
def test_columns_agree_with_the_model_at_every_event(seed: int, options: Options) -> None:
    _, devices, analysis = analysed(seed, options)
    for truth in devices:
        if truth.index not in analysis.devices:
            assert not truth.entries
            assert not truth.segments or truth.reserved() == 0
            continue
        replayed = analysis.devices[truth.index].replay
        moments = [truth.before, *truth.moments]
        assert list(replayed.live) == [moment.live for moment in moments]
        assert list(replayed.reserved) == [moment.reserved for moment in moments]
        assert replayed.peak == max(moment.live for moment in moments)
        assert replayed.doubts == ()


@given(SEEDS, OPTIONS)
@RUNS
def test_backwards_from_the_end_is_forwards_from_the_beginning(seed: int, options: Options) -> None:
    raw, devices, analysis = analysed(seed, options)
    for truth in devices:
        if truth.index not in analysis.devices:
            continue
        live, reserved = truth.before.live, truth.before.reserved
        column = [(live, reserved)]
        for entry in raw["device_traces"][truth.index]:
            sign = {"alloc": 1, "free_completed": -1}.get(entry["action"], 0)
            step = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
            live += sign * entry["size"]
            reserved += step.get(entry["action"], 0) * entry["size"]
            column.append((live, reserved))
        replayed = analysis.devices[truth.index].replay
        assert list(zip(replayed.live, replayed.reserved, strict=True)) == column


@given(SEEDS, OPTIONS)
@RUNS
def test_table_holds_the_live_set_at_every_event(seed: int, options: Options) -> None:
    _, devices, analysis = analysed(seed, options)
    for truth in devices:
        if truth.index not in analysis.devices:
            continue
        table = analysis.devices[truth.index].allocations
        assert table.doubts == ()
        for event, moment in enumerate([truth.before, *truth.moments], start=-1):
            rows = table.live_at(event)
            assert {table.address[row]: table.size[row] for row in rows} == moment.allocations
            assert len({table.name(row) for row in rows}) == len(rows)


@given(SEEDS, OPTIONS)
@RUNS
def test_layout_is_the_models_at_every_event(seed: int, options: Options) -> None:
    _, devices, analysis = analysed(seed, options)
    for truth in devices:
        if truth.index not in analysis.devices:
            continue
        one = analysis.devices[truth.index]
        requests = any(entry["action"] == "free_requested" for entry in truth.entries)
        for event, moment in enumerate([truth.before, *truth.moments], start=-1):
            layout = one.layout(event)
            state = one.state(event)
            ranges = tuple((part.range.address, part.range.size) for part in layout.filled)
            assert ranges == moment.ranges
            assert (layout.misfits, layout.outside, state.doubts) == (0, 0, ())
            assert state.reserved == state.live + state.rounding + state.cached == moment.reserved
            assert state.live + state.rounding <= moment.blocks
            assert state.allocations == len(moment.allocations)
            if requests:
                assert state.pending == moment.pending
            if options.pool_ids or not options.private_pools:
                # The unsplit rest of a block that is gone may look free.
                assert moment.largest <= state.largest_free_block <= moment.largest + MIB
            for part in layout.filled:
                whole = part.free + sum(block.size for block in part.used)
                assert whole == part.range.size


@given(SEEDS, OPTIONS)
@RUNS
def test_end_is_exact(seed: int, options: Options) -> None:
    _, devices, analysis = analysed(seed, options)
    for truth in devices:
        if truth.index not in analysis.devices:
            continue
        state, end = analysis.devices[truth.index].state(), truth.moment()
        assert state.largest_free_block == end.largest
        assert state.live + state.rounding == end.blocks
        assert (state.live, state.reserved) == (end.live, end.reserved)


@given(SEEDS, OPTIONS)
@RUNS
def test_a_ring_buffer_changes_nothing_about_what_remains(seed: int, options: Options) -> None:
    raw, _, analysis = analysed(seed, options)
    for index, one in analysis.devices.items():
        entries = raw["device_traces"][index][one.replay.events // 2 :]
        traces = [entries if i == index else [] for i in range(len(raw["device_traces"]))]
        cut = normalise({**raw, "device_traces": traces})
        device = next(device for device in cut.devices if device.index == index)
        replayed = replay(device)
        assert replayed.live == one.replay.live[-len(entries) - 1 :]
        assert replayed.reserved == one.replay.reserved[-len(entries) - 1 :]


def test_memory_that_predates_the_trace_counts_in_the_peak() -> None:
    _, (truth,), analysis = analysed(3, Options(steps=200, record_from=100))
    one = analysis.devices[0]
    assert truth.before.live > 0
    assert one.replay.live_at_start == truth.before.live
    assert one.summary().live_at_start == truth.before.live


def test_skipped_frees_and_allocs_are_doubted() -> None:
    skip_allocs = Options(steps=300, skip_actions=frozenset({"alloc"}))
    assert analysed(1, skip_allocs)[2].devices[0].allocations.doubts
    skip_frees = Options(steps=300, skip_actions=frozenset({"free_completed", "free_requested"}))
    one = analysed(1, skip_frees)[2].devices[0]
    assert one.allocations.doubts
    assert "below zero" in one.replay.doubts[0]


def test_skipped_free_requests_change_nothing() -> None:
    options = Options(steps=300, skip_actions=frozenset({"free_requested"}))
    _, (truth,), analysis = analysed(2, options)
    one = analysis.devices[0]
    assert list(one.replay.live[1:]) == [moment.live for moment in truth.moments]
    assert one.allocations.doubts == ()
