"""What each torch version writes, and what is odd, to the same facts."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.snapshots import raw
from tests.snapshots.raw import BASE, INNER, OUTER, TIME
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.snapshot import NOT_RECORDED, Action, Snapshot, SnapshotError
from tui.snapshots.read import columns
from tui.snapshots.read.normalise import TraceFilter, normalise

FRAMES = (Frame("??", 0, "c10::Allocator::allocate"), Frame("/srv/train.py", 12, "step"))


def frames_of(snapshot: Snapshot, stack: int) -> tuple[Frame, ...]:
    return tuple(snapshot.frames[number] for number in snapshot.stacks[stack])


@pytest.mark.parametrize(
    ("record", "note"),
    [
        (3, "the agent's record is no object: gpu_workbench"),
        ({"oom": 3}, "the agent's record cannot be read: oom"),
        ({"inventory": {"schema": 9}}, "the agent's record cannot be read: inventory"),
        ({"roles": [{"device": "\x1b"}]}, "the agent's record cannot be read: roles"),
        ({"oom": None, "inventory": None}, ""),
    ],
)
def test_a_damaged_record_of_the_agent_is_noted(record: object, note: str) -> None:
    snapshot = normalise({**raw.snapshot(), "gpu_workbench": record})
    assert (snapshot.agent.facts, snapshot.agent.inventory, snapshot.agent.roles) == (
        None,
        None,
        (),
    )
    assert len(snapshot.notes) == bool(note)
    assert all(line.startswith(note) and line.isprintable() for line in snapshot.notes)


def test_a_file_of_torch_2_11() -> None:
    snapshot = normalise(raw.snapshot(), file="a", container="b", byte=7, notes=("c",))
    assert (snapshot.file, snapshot.container, snapshot.byte) == ("a", "b", 7)
    assert (snapshot.form, snapshot.notes) == ("snapshot", ("c",))
    (device,) = snapshot.devices
    (segment,) = device.segments
    assert (segment.address, segment.size, segment.kind) == (BASE, 4096, "small")
    assert (segment.pool, segment.stream, segment.expandable) == ((0, 0), 0, False)
    assert segment.stated == {"allocated_size": 1024, "active_size": 1024, "requested_size": 1000}
    first, second = segment.blocks
    assert (first.address, first.size, first.requested) == (BASE, 1024, 1000)
    assert frames_of(snapshot, first.stack) == FRAMES
    assert (second.state, second.requested, second.stack) == ("inactive", 0, 0)
    trace = device.trace
    assert [Action(action).name for action in trace.action] == [
        "FREE_REQUESTED",
        "FREE_COMPLETED",
        "SEGMENT_ALLOC",
        "ALLOC",
        "ALLOC",
        "FREE_REQUESTED",
        "FREE_COMPLETED",
    ]
    assert trace.size.tolist() == [500, 500, 4096, 1000, 700, 700, 700]
    assert trace.time_us.tolist() == [TIME + number for number in range(7)]
    assert trace.pool.tolist() == [NOT_RECORDED] * 7
    assert trace.context.tolist() == [0] * 7
    assert {frames_of(snapshot, stack) for stack in trace.stack} == {FRAMES}
    assert snapshot.settings["roundup_power2_divisions"] == "1:0, 2:0"
    assert snapshot.settings["expandable_segments"] == "False"
    (annotation,) = snapshot.annotations
    assert (annotation.name, annotation.stage) == ("Optimizer.step#SGD.step", "START")


def test_the_bare_list_of_segments() -> None:
    snapshot = normalise([raw.segment(), raw.segment(BASE + 8192, 3)])
    assert snapshot.form == "segments"
    assert [device.index for device in snapshot.devices] == [0, 3]
    assert [len(device.trace) for device in snapshot.devices] == [0, 0]


def test_an_empty_list_is_a_snapshot_of_nothing() -> None:
    assert normalise([]).devices == ()
    assert normalise({"segments": [], "device_traces": [[], []]}).devices == ()


@pytest.mark.parametrize("whole", [False, True], ids=["bare list", "dict"])
def test_the_history_of_torch_2_0(whole: bool) -> None:
    newest = {"addr": BASE, "real_size": 1000, "frames": [OUTER], "cpp_frames": []}
    older = {"addr": BASE, "real_size": 900, "frames": [INNER]}
    segment = raw.segment()
    for key in ("segment_pool_id", "is_expandable", "frames"):
        del segment[key]
    segment["blocks"] = [
        {"size": 1024, "state": "active_allocated", "history": [newest, older]},
        {"size": 2048, "state": "inactive", "history": [older]},
        {"size": 1024, "state": "active_pending_free", "requested_size": 800, "history": []},
    ]
    snapshot = normalise({"segments": [segment], "device_traces": []} if whole else [segment])
    assert snapshot.form == "history"
    (converted,) = snapshot.devices[0].segments
    assert [block.address for block in converted.blocks] == [BASE, BASE + 1024, BASE + 3072]
    assert [block.requested for block in converted.blocks] == [1000, 0, 800]
    assert frames_of(snapshot, converted.blocks[0].stack) == (FRAMES[1],)
    assert converted.blocks[1].stack == converted.blocks[2].stack == 0
    assert (converted.pool, converted.expandable) == (None, False)


def test_blocks_that_were_not_recorded_have_no_stack() -> None:
    objects = raw.snapshot()
    for block in objects["segments"][0]["blocks"]:
        del block["frames"]
    snapshot = normalise(objects)
    assert {block.stack for block in snapshot.devices[0].segments[0].blocks} == {0}
    assert snapshot.notes == ()


def test_the_documented_name_of_a_pending_block() -> None:
    objects = [raw.segment(BASE, 0, raw.block(BASE, 512, "active_awaiting_free"))]
    (block,) = normalise(objects).devices[0].segments[0].blocks
    assert block.state == "active_pending_free"


@pytest.mark.parametrize(
    "missing", ["frames", "time_us", "compile_context", "user_metadata", "stream"]
)
@pytest.mark.parametrize("where", ["everywhere", "in some entries"])
def test_entries_without_what_other_versions_write(missing: str, where: str) -> None:
    objects = raw.snapshot()
    entries = objects["device_traces"][0]
    for entry in entries if where == "everywhere" else entries[::2]:
        del entry[missing]
    snapshot = normalise(objects)
    trace = snapshot.devices[0].trace
    assert snapshot.notes == ()
    assert trace.size.tolist() == [500, 500, 4096, 1000, 700, 700, 700]
    without = range(7) if where == "everywhere" else range(0, 7, 2)
    for number in range(7):
        has_size = number not in without
        if missing == "frames":
            assert (trace.stack[number] != 0) is has_size
        if missing == "time_us":
            assert trace.time_us[number] == (TIME + number if has_size else NOT_RECORDED)


def test_a_trace_shorter_than_the_devices_and_one_without_segments() -> None:
    objects = raw.snapshot()
    objects["segments"] = [raw.segment(BASE, 2), raw.segment(BASE, 0)]
    objects["device_traces"] = [[], raw.trace()]
    snapshot = normalise(objects)
    assert [(frame.index, len(frame.segments), len(frame.trace)) for frame in snapshot.devices] == [
        (0, 1, 0),
        (1, 0, 7),
        (2, 1, 0),
    ]


def test_an_oom_has_no_address_but_the_free_memory_of_the_device() -> None:
    objects = raw.snapshot()
    objects["device_traces"][0].insert(3, raw.oom(1 << 30, 123, 2))
    trace = normalise(objects).devices[0].trace
    assert trace.action[3] == Action.OOM
    assert (trace.address[3], trace.size[3], trace.device_free) == (0, 1 << 30, {3: 123})


def test_an_unknown_action_keeps_its_name_and_its_neighbours() -> None:
    objects = raw.snapshot()
    objects["device_traces"][0].insert(2, raw.entry("teleport", BASE, 5, 1, portal=[1]))
    snapshot = normalise(objects)
    trace = snapshot.devices[0].trace
    assert (trace.action[2], trace.unknown) == (Action.OTHER, {2: "teleport"})
    assert trace.size.tolist() == [500, 500, 5, 4096, 1000, 700, 700, 700]
    assert snapshot.notes == ()


def test_pools_streams_and_contexts_are_numbered() -> None:
    objects = raw.snapshot()
    entries = objects["device_traces"][0]
    for number, entry in enumerate(entries):
        entry["pool_id"] = (0, number % 2)
        entry["stream"] = 0x55 * (number % 3)
    entries[3]["compile_context"] = "0/1"
    entries[4].update(compile_context="0/1", user_metadata='{"step": 3}')
    snapshot = normalise(objects)
    trace = snapshot.devices[0].trace
    assert [snapshot.pools[number] for number in trace.pool] == [(0, n % 2) for n in range(7)]
    assert [snapshot.streams[number] for number in trace.stream] == [
        0x55 * (n % 3) for n in range(7)
    ]
    assert [snapshot.contexts[number] for number in trace.context] == [
        *[""] * 3,
        "0/1",
        '0/1; {"step": 3}',
        *[""] * 2,
    ]


def test_frames_of_windows_and_of_compiled_graphs() -> None:
    objects = raw.snapshot()
    windows = {"filename": "D:\\work\\a.py", "line": 3, "name": "f", "fx_node_op": "call"}
    objects["device_traces"][0][0]["frames"] = [windows]
    snapshot = normalise(objects)
    assert frames_of(snapshot, snapshot.devices[0].trace.stack[0]) == (
        Frame("D:\\work\\a.py", 3, "f"),
    )


def test_the_pinned_host_memory_of_torch_2_14_is_counted() -> None:
    objects = {**raw.snapshot(), "host_segments": [{}, {}], "host_traces": [{}], "novel": 1}
    snapshot = normalise(objects)
    assert snapshot.host_segments == 2
    assert snapshot.notes == (
        "2 segments of pinned host memory, counted but not replayed",
        "parts that this program does not know: novel",
    )


def test_names_cannot_write_to_the_terminal() -> None:
    objects = raw.snapshot()
    nasty = {"filename": "\x1b]0;x\x07a\nb\ud800\u202ec", "line": 1, "name": "n" * 9999}
    objects["device_traces"][0][0]["frames"] = [nasty]
    objects["device_traces"][0][0]["user_metadata"] = "\x1b[2J"
    snapshot = normalise(objects)
    frame = frames_of(snapshot, snapshot.devices[0].trace.stack[0])[0]
    assert frame.filename == "\ufffd]0;x\ufffda b\ufffd\ufffdc"
    assert len(frame.name) == 4096
    assert snapshot.contexts == ("", "\ufffd[2J")


ODD: dict[str, tuple[str, Any]] = {
    "an entry that is no dict": ("trace entries that are no dicts, left out", 5),
    "an action that is a list": ("", {"action": [], "addr": 1, "size": 2}),
    "an address that is text": ("proper addr", {**raw.entry("alloc", 0, 5, 0), "addr": "x"}),
    "no address": ("proper addr", {"action": "alloc", "size": 5}),
    "a size that is text": ("proper size", {**raw.entry("alloc", 1, 1, 0), "size": "x"}),
    "a negative address": ("proper addr", raw.entry("alloc", -1, 1, 0)),
    "a time that is a float": ("proper time_us", raw.entry("alloc", 1, 1, 0, time_us=1.5)),
    "a stream that is a list": ("streams", raw.entry("alloc", 1, 1, 0, stream=[])),
    "a pool of three": ("pools", raw.entry("alloc", 1, 1, 0, pool_id=(1, 2, 3))),
    "frames that are a number": ("stacks", raw.entry("alloc", 1, 1, 0, frames=5)),
    "frames of numbers": ("frames that", raw.entry("alloc", 1, 1, 0, frames=[5])),
    "a context that is a dict": ("", raw.entry("alloc", 1, 1, 0, user_metadata={"a": 1})),
    "an OOM without figures": ("proper size", {"action": "oom"}),
}


@pytest.mark.parametrize("what", ODD)
def test_an_odd_entry_is_counted_and_the_others_stay(what: str) -> None:
    words, odd = ODD[what]
    objects = raw.snapshot()
    objects["device_traces"][0].insert(3, odd)
    snapshot = normalise(objects)
    sizes = snapshot.devices[0].trace.size.tolist()
    assert sizes[:3] + sizes[-4:] == [500, 500, 4096, 1000, 700, 700, 700]
    assert any(words in note for note in snapshot.notes) or not words
    assert all(note.endswith(": 1") for note in snapshot.notes)


def test_odd_segments_and_blocks_are_counted() -> None:
    segment = raw.segment()
    segment["blocks"] += [3, {"size": -1, "state": "melted", "address": None}]
    objects = [segment, 9, {"blocks": None, "device": "x"}]
    snapshot = normalise(objects)
    assert len(snapshot.devices[0].segments) == 2
    assert len(snapshot.notes) == 8


def test_a_list_named_again_and_again_cannot_pretend_to_be_many() -> None:
    trace = raw.trace() * 100
    with pytest.raises(SnapshotError, match="claims 70 000 entries"):
        normalise({"segments": [], "device_traces": [trace] * 100}, most_items=60_000)
    with pytest.raises(SnapshotError, match="holds 2 000 traces"):
        normalise({"segments": [], "device_traces": [trace] * 2000})


def test_two_devices_that_share_a_trace_both_have_it() -> None:
    trace = raw.trace()
    snapshot = normalise({"segments": [], "device_traces": [trace, trace]}, consume=True)
    assert [len(device.trace) for device in snapshot.devices] == [7, 7]
    assert snapshot.devices[0].trace == snapshot.devices[1].trace


def test_objects_are_left_alone_unless_they_may_be_consumed() -> None:
    objects = raw.snapshot()
    before = deepcopy(objects)
    copied = normalise(objects)
    assert objects == before
    assert normalise(objects, consume=True) == copied
    assert objects["device_traces"] == [[]]


# ---- filters -----------------------------------------------------------------------------------


def test_the_oldest_entries_left_out() -> None:
    (device,) = normalise(raw.snapshot(), trace_filter=TraceFilter(first=3)).devices
    assert device.trace.size.tolist() == [1000, 700, 700, 700]
    assert (device.skipped, device.first, device.inexact) == (3, 3, "")
    assert len(device.segments) == 1


def test_the_newest_entries_left_out() -> None:
    (device,) = normalise(raw.snapshot(), trace_filter=TraceFilter(first=1, last=3)).devices
    assert device.trace.size.tolist() == [500, 4096, 1000]
    assert (device.skipped, device.first) == (4, 1)
    assert device.inexact == "3 newer events were left out"


def test_small_allocations_left_out() -> None:
    (device,) = normalise(raw.snapshot(), trace_filter=TraceFilter(minimal_size=701)).devices
    assert device.trace.size.tolist() == [4096, 1000]
    assert (device.skipped, device.first) == (5, 0)
    assert device.inexact.startswith("5 events below 701 bytes were left out")


def test_one_device_kept() -> None:
    objects = raw.snapshot()
    objects["segments"].append(raw.segment(BASE, 1))
    snapshot = normalise(objects, trace_filter=TraceFilter(device=1))
    assert [device.index for device in snapshot.devices] == [1]
    assert snapshot.notes == ("devices left out by the filter: 1",)


def test_a_device_that_is_not_there_is_refused_with_those_that_are() -> None:
    objects = raw.snapshot()
    objects["segments"].append(raw.segment(BASE, 1))
    with pytest.raises(SnapshotError, match="has no device 5: it has 0, 1"):
        normalise(objects, trace_filter=TraceFilter(device=5))


@given(
    st.integers(0, 12),
    st.one_of(st.none(), st.integers(0, 12)),
    st.integers(0, 5000),
)
def test_what_is_kept_and_what_is_skipped_make_the_whole(
    first: int, last: int | None, size: int
) -> None:
    (device,) = normalise(raw.snapshot(), trace_filter=TraceFilter(None, first, last, size)).devices
    assert len(device.trace) + device.skipped == 7


# ---- whole batches and single entries ----------------------------------------------------------

FRAME = st.builds(
    lambda name, line: {"filename": "/a.py", "line": line, "name": name},
    st.sampled_from("abc"),
    st.integers(0, 3),
)
ENTRY = st.fixed_dictionaries(
    {
        "action": st.sampled_from([*columns.ACTIONS, "odd"]),
        "addr": st.integers(0, 1 << 64),
        "size": st.integers(-(1 << 63), 1 << 63),
    },
    optional={
        "stream": st.integers(0, 3),
        "frames": st.lists(FRAME, max_size=3),
        "time_us": st.integers(0, 1 << 62),
        "pool_id": st.tuples(st.integers(0, 2), st.integers(0, 2)),
        "compile_context": st.sampled_from(["N/A", "0/0", "1/0"]),
        "user_metadata": st.sampled_from(["", "x"]),
        "device_free": st.integers(0, 100),
        "category": st.just("y"),
    },
)


def readable(snapshot: Snapshot) -> list[tuple[Any, ...]]:
    """Return the entries of device 0 with every number replaced by its meaning."""
    trace = snapshot.devices[0].trace
    return [
        (
            trace.action[n],
            trace.address[n],
            trace.size[n],
            snapshot.streams[trace.stream[n]],
            frames_of(snapshot, trace.stack[n]),
            trace.time_us[n],
            None if trace.pool[n] == NOT_RECORDED else snapshot.pools[trace.pool[n]],
            snapshot.contexts[trace.context[n]],
            trace.device_free.get(n),
            trace.unknown.get(n),
        )
        for n in range(len(trace))
    ]


@given(st.lists(ENTRY, min_size=1, max_size=30), st.booleans())
def test_a_batch_gives_what_its_entries_give_one_by_one(
    entries: list[dict[str, Any]], through_pickle: bool
) -> None:
    if through_pickle:
        entries = pickle.loads(pickle.dumps(entries))
    objects = {"segments": [], "device_traces": [entries]}
    together = outcome(objects)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "BATCH", 1)
        assert outcome(objects) == together


def outcome(objects: dict[str, Any]) -> tuple[list[Any], list[str]]:
    """Return the entries and the notes, or the line of a refusal."""
    try:
        snapshot = normalise(objects)
    except SnapshotError as error:
        return [], [str(error)]
    return readable(snapshot), sorted(snapshot.notes)


@given(st.lists(st.lists(FRAME, max_size=4), min_size=1, max_size=8), st.data())
def test_every_entry_gets_its_own_stack_whatever_came_before(
    stacks: list[list[dict[str, Any]]], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(stacks), min_size=1, max_size=60))
    entries = [raw.entry("alloc", 1, 1, 0, frames=stack) for stack in chosen]
    snapshot = normalise({"segments": [], "device_traces": [entries]})
    ours = [frames_of(snapshot, stack) for stack in snapshot.devices[0].trace.stack]
    assert ours == [
        tuple(Frame(frame["filename"], frame["line"], frame["name"]) for frame in stack)
        for stack in chosen
    ]
    assert len(set(snapshot.stacks)) == len(snapshot.stacks)
