"""What a reader has answered: obsolete answers are dropped, long texts are joined."""

from __future__ import annotations

import pytest

from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.calls import (
    REPORT,
    SITES,
    STACK,
    Need,
    ReportArguments,
    SitesArguments,
    StackArguments,
)
from tui.snapshots.model.results import FileInfo
from tui.snapshots.reader.messages import (
    CallAnswer,
    Loaded,
)
from tui.snapshots.session.snapshot_reader import Refused, SnapshotStore
from workloads.protocol.wire import WireError


def store_of_a_file() -> SnapshotStore:
    store = SnapshotStore("loading", ("a.pickle",))
    info = FileInfo("a.pickle", "pickle", "snapshot", 1, {}, (), 0)
    store.apply(Loaded(1, (info,), (), ()))
    return store


def stack(number: int) -> Need[StackArguments, tuple[Frame, ...]]:
    return Need(STACK, StackArguments(number))


def test_an_answer_that_a_newer_one_has_overtaken_is_dropped() -> None:
    store = store_of_a_file()
    older, newer = stack(1), stack(2)
    store.record_call(2, older)
    store.record_call(3, newer)
    frame = {"filename": "a.py", "line": 1, "name": "f"}
    store.apply(CallAnswer(3, [frame]))
    assert not store.waiting
    store.apply(CallAnswer(2, []))
    assert store.find_answer(older) is None
    done = store.find_newest_answer(older)
    assert done is not None
    assert done.need == newer


def test_an_answer_of_another_file_is_dropped() -> None:
    store = store_of_a_file()
    store.record_call(2, stack(1))
    store = SnapshotStore("loading", ("b.pickle",))
    store.apply(Loaded(3, (), (), ()))
    store.apply(CallAnswer(2, []))
    assert store.find_newest_answer(stack(1)) is None


def test_nodes_of_a_tree_are_answered_beside_each_other() -> None:
    store = store_of_a_file()
    root, node = (Need(SITES, SitesArguments(0, None, path)) for path in ((), ("a",)))
    store.record_call(2, root)
    assert store.must_send(node)
    store.record_call(3, node)
    assert not store.must_send(root)
    assert store.is_waiting_for(root)
    assert store.is_waiting_for(node)
    assert store.must_send(Need(SITES, SitesArguments(0, 5)))


def test_a_long_text_is_joined_and_a_refusal_in_it_is_told() -> None:
    store = store_of_a_file()
    need = Need(REPORT, ReportArguments("json"))
    store.record_call(2, need)
    store.apply(CallAnswer(2, "first, ", more=True))
    assert store.waiting
    store.apply(CallAnswer(2, "last"))
    done = store.find_answer(need)
    assert done is not None
    assert done.value == "first, last"
    store.record_call(3, need)
    store.apply(CallAnswer(3, error="why"))
    done = store.find_answer(need)
    assert done is not None
    assert done.value == Refused("why")


def test_a_value_of_another_type_is_an_error_of_the_wire() -> None:
    store = store_of_a_file()
    store.record_call(2, stack(1))
    with pytest.raises(WireError, match="stack"):
        store.apply(CallAnswer(2, {"frames": 3}))


def test_a_file_that_cannot_be_read_is_why_all_ends() -> None:
    store = SnapshotStore("loading", ("a.pickle",))
    store.apply(CallAnswer(1, error="a.pickle is empty"))
    assert (store.status, store.reason) == ("failed", "a.pickle is empty")
