"""Changes of messages: what the writer leaves out, the reader has from the message before."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import NOW, gpu, gpu_process, sample
from tests.screens.watching import figures, torch_process
from tui.allocators.messages import ProcessFigures, TorchProcesses
from tui.monitor.messages import Sample
from workloads.protocol import wire
from workloads.protocol.change_reader import ChangeReader, change_message
from workloads.protocol.change_writer import ChangeWriter, find_change


@dataclass(frozen=True)
class Inner:
    size: int
    share: float | None = None


@dataclass(frozen=True)
class Other:
    words: tuple[str, ...]


@dataclass(frozen=True)
class Outer:
    name: str
    inner: tuple[Inner, ...]
    pair: Optional[tuple[float, int]]  # noqa: UP045 (this form of a union, too)
    table: dict[str, int]
    either: Union[Inner, Other, None]


numbers = st.integers(0, 3)
"""Few values, so that parts of two messages are often equal."""
inners = st.builds(Inner, numbers, st.sampled_from([None, 0.0, 1.0, 1.5]))
outers = st.builds(
    Outer,
    st.sampled_from(["", "a"]),
    st.lists(inners, max_size=3).map(tuple),
    st.one_of(st.none(), st.tuples(st.sampled_from([0.0, 1.0]), numbers)),
    st.dictionaries(st.sampled_from("ab"), numbers),
    st.one_of(
        st.none(), inners, st.builds(Other, st.lists(st.sampled_from("xy"), max_size=2).map(tuple))
    ),
)


@given(st.lists(outers, min_size=1, max_size=6))
def test_all_messages_arrive_as_they_were_sent(messages: list[Outer]) -> None:
    writer, reader = ChangeWriter((Outer,)), ChangeReader((Outer,))
    for message in messages:
        found = reader.decode(writer.encode(message))
        assert found == message
        # The order counts: the first of several reasons is the one that is shown.
        assert list(found.table) == list(message.table)


def test_a_second_message_has_what_changed_and_shares_the_rest() -> None:
    before = Outer("a", (Inner(1), Inner(2)), None, {}, None)
    after = replace(before, inner=(Inner(1), Inner(3)))
    writer, reader = ChangeWriter((Outer,)), ChangeReader((Outer,))
    known = reader.decode(writer.encode(before))
    line = writer.encode(after)
    assert json.loads(line)["changed"] == {"inner": {"1": {"size": [3]}}}
    assert reader.decode(line).inner[0] is known.inner[0]


@dataclass(frozen=True)
class Renamed:
    WIRE_KEYS: ClassVar[dict[str, str]] = {"size": "bytes"}

    size: int
    share: float = 0.0


def test_a_field_has_the_key_that_it_has_in_whole_messages() -> None:
    writer, reader = ChangeWriter((Renamed,)), ChangeReader((Renamed,))
    reader.decode(writer.encode(Renamed(1)))
    line = writer.encode(Renamed(2))
    assert json.loads(line)["changed"] == {"bytes": [2]}
    assert reader.decode(line) == Renamed(2)


def test_other_messages_are_written_whole() -> None:
    writer, reader = ChangeWriter((Outer,)), ChangeReader((Outer, Inner))
    for _ in range(2):
        line = writer.encode(Inner(1))
        assert line == wire.encode(Inner(1))
        assert reader.decode(line) == Inner(1)


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), (None, 0), ([], {})])
def test_equal_values_of_two_types_are_two_values(one: Any, other: Any) -> None:
    assert find_change(one, other) == [other]


KNOWN = Outer("a", (Inner(1),), (1.0, 2), {"b": 1}, Inner(1))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (None, "outer: expected a change or one new value"),
        ([], "outer: expected a change or one new value"),
        ({"name": [1]}, "outer.name: expected str, got int"),
        ({"name": ["a", "b"]}, "outer.name: expected a change or one new value"),
        ({"name": {"0": ["b"]}}, "outer.name: a str has no parts"),
        ({"nothing": [1]}, "outer.nothing: no such field"),
        ({"inner": {"1": [{"size": 1}]}}, "outer.inner[1]: no such item"),
        ({"inner": {"-1": [{"size": 1}]}}, "outer.inner[-1]: no such item"),
        ({"inner": {"0": {"size": ["x"]}}}, "outer.inner[0].size: expected int, got str"),
        ({"pair": {"1": [None]}}, "outer.pair[1]: expected int, got NoneType"),
        ({"table": {"c": [1]}}, "outer.table.c: no such key"),
        ({"either": {"words": [["x"]]}}, "outer.either.words: no such field"),
    ],
)
def test_a_change_that_does_not_fit_says_where(change: Any, why: str) -> None:
    with pytest.raises(wire.WireError) as caught:
        change_message(KNOWN, change)
    assert str(caught.value) == why


def test_a_change_of_nothing_is_refused() -> None:
    reader = ChangeReader((Outer,))
    with pytest.raises(wire.WireError, match="a change of 'outer', of which there was none"):
        reader.decode(b'{"type":"change","of":"outer","changed":{}}')


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(
            st.sampled_from(["name", "inner", "pair", "table", "either", "size", "0", "1", "b"]),
            inner,
            max_size=3,
        ),
    ),
)


@given(json_values)
def test_any_change_is_applied_or_refused_in_one_line(change: Any) -> None:
    text, found = "", KNOWN
    try:
        found = change_message(KNOWN, change)
    except wire.WireError as error:
        text = str(error)
    assert "\n" not in text
    assert wire.decode(wire.encode(found), (Outer,)) == found


def test_samples_and_figures_arrive_as_they_were_sent() -> None:
    first = sample(gpu(0, processes=(gpu_process(4711),)), gpu(1))
    busy = gpu(0, processes=(gpu_process(4711), gpu_process(4712)))
    later = sample(busy, gpu(1))
    writer, reader = ChangeWriter((Sample,)), ChangeReader((Sample,))
    for one in (first, later, replace(later, at=NOW + 1), first):
        assert reader.decode(writer.encode(one)) == one
    kinds = (TorchProcesses, ProcessFigures)
    writer, torch = ChangeWriter(kinds), ChangeReader[Any](kinds)
    listed = TorchProcesses(NOW, (torch_process(4711),))
    read = ProcessFigures(NOW, (figures(4711),), {}, {"4711": 1})
    read_later, none_listed = replace(read, at=NOW + 1), replace(listed, processes=())
    for each in (listed, read, read_later, none_listed):
        assert torch.decode(writer.encode(each)) == each
