"""The codec: what goes out comes back, and what does not fit says where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.allocators.messages import StepsCounted
from tui.core.state_folder import StoredCatalogue, StoredCeilings
from tui.runs.state.events import ComparedWithEarlier, ConditionsRecorded
from workloads.protocol import messages, wire


@dataclass(frozen=True)
class Inner:
    size: int
    share: float | None = None


@dataclass(frozen=True)
class Outer:
    name: str
    kind: Literal["a", "b"]
    inner: tuple[Inner, ...]
    pair: tuple[float, float] | None
    table: dict[str, int]


@dataclass(frozen=True)
class Share:
    of: float


KINDS: tuple[type[Any], ...] = (Inner, Outer)

inners = st.builds(
    Inner, st.integers(), st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
)
outers = st.builds(
    Outer,
    st.text(),
    st.sampled_from(["a", "b"]),
    st.lists(inners, max_size=3).map(tuple),
    st.one_of(st.none(), st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


@given(outers)
def test_a_message_survives_the_wire(message: Outer) -> None:
    assert wire.decode(wire.encode(message), KINDS) == message


@given(outers)
def test_a_message_is_one_line(message: Outer) -> None:
    line = wire.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


@dataclass(frozen=True)
class Renamed:
    WIRE_KEYS: ClassVar[Mapping[str, str]] = {"request": "asked"}

    request: int


def test_a_field_that_was_renamed_keeps_its_key() -> None:
    assert json.loads(wire.encode(Renamed(4))) == {"type": "renamed", "asked": 4}
    assert wire.decode(b'{"type":"renamed","asked":4}', (Renamed,)) == Renamed(4)
    with pytest.raises(wire.WireError, match=r"renamed\.asked: missing"):
        wire.decode(b'{"type":"renamed","request":4}', (Renamed,))


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused_in_one_line(line: bytes) -> None:
    try:
        wire.decode(line, KINDS)
    except wire.WireError as error:
        text = str(error)
    else:
        text = ""
    assert "\n" not in text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_float_that_is_not_finite_travels_as_null(value: float) -> None:
    assert json.loads(wire.encode(Inner(1, value)))["share"] is None


@pytest.mark.parametrize("text", [b"NaN", b"-Infinity", b"1e999", b"9" * 400 + b".0"])
def test_a_float_that_is_not_finite_is_refused(text: bytes) -> None:
    with pytest.raises(wire.WireError, match=r"no number|too large"):
        wire.decode(b'{"type":"inner","size":1,"share":%s}' % text, KINDS)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{}", "unknown message type None"),
        (b"[]", "expected an object, got list"),
        (b'{"type":"other"}', "unknown message type 'other'"),
        (b'{"type":"inner"}', "inner.size: missing"),
        (b'{"type":"inner","size":"3"}', "inner.size: expected int, got str"),
        (b'{"type":"inner","size":true}', "inner.size: expected int, got bool"),
        (b'{"type":"inner","size":1,"share":"x"}', "inner.share: expected float, got str"),
        (
            b'{"type":"outer","name":"","kind":"c","inner":[],"pair":null,"table":{}}',
            "outer.kind: 'c' is none of ('a', 'b')",
        ),
        (
            b'{"type":"outer","name":"","kind":"a","inner":[{}],"pair":null,"table":{}}',
            "outer.inner[0].size: missing",
        ),
        (
            b'{"type":"outer","name":"","kind":"a","inner":[],"pair":[1],"table":{}}',
            "outer.pair: expected 2 items, got 1",
        ),
    ],
)
def test_a_misfit_is_named_by_its_path(line: bytes, says: str) -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.decode(line, KINDS)
    assert str(caught.value) == says


def test_unknown_keys_of_a_newer_peer_are_ignored() -> None:
    assert wire.decode(b'{"type":"inner","size":1,"news":[]}', KINDS) == Inner(1)


def test_deep_nesting_is_refused_and_does_not_end_the_reader() -> None:
    with pytest.raises(wire.WireError):
        wire.decode(b"[" * 100_000, KINDS)


def test_the_names_of_all_messages_differ() -> None:
    names = {cls.__name__ for cls in (*messages.EVENTS, *messages.REQUESTS)}
    assert len(names) == len(messages.EVENTS) + len(messages.REQUESTS)


@given(outers)
def test_a_checked_message_is_the_same_line(message: Outer) -> None:
    assert wire.encode_checked(message) == wire.encode(message)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (Share(float("nan")), "share.of: expected float, got NoneType"),
        (Share("x"), "share.of: expected float, got str"),  # type: ignore[arg-type]
        (Share(object()), "share.of: expected float, got object"),  # type: ignore[arg-type]
        (Share(True), "share.of: expected float, got bool"),
    ],
    ids=["no number", "a text", "no JSON", "a truth value"],
)
def test_what_the_other_side_could_not_read_is_refused_with_its_path(
    message: Share, says: str
) -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.encode_checked(message)
    assert str(caught.value) == says


def test_a_count_in_a_field_for_a_float_is_checked_into_a_float() -> None:
    assert wire.encode_checked(Share(3)) == b'{"type":"share","of":3.0}\n'


def test_a_message_that_is_passed_on_is_the_line_that_came() -> None:
    # Spaces, an unknown key, a field that does not fit: none of it is looked at.
    line = b'{"type": "outer", "name": 5, "news": [1]}\n'
    message = wire.EncodedMessage(line, KINDS)
    assert (message.line, message.kind, message.plain("news")) == (line, Outer, [1])
    assert message.plain("pair") is None
    with pytest.raises(wire.WireError, match=r"outer\.name: expected str, got int"):
        message.decode(Outer)
    with pytest.raises(wire.WireError, match="unknown message type 'outer'"):
        message.decode(Inner)


@pytest.mark.parametrize("line", [b"", b"[]\n", b'{"type":"other"}\n', b'{"type":"outer"'])
def test_a_line_of_no_known_type_is_not_passed_on(line: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.EncodedMessage(line, KINDS)


def test_a_renamed_class_keeps_the_tag_that_files_contain() -> None:
    assert wire.encode(messages.ReportMemory()) == b'{"type":"tell_memory"}\n'
    assert wire.decode(b'{"type":"tell_memory"}', messages.REQUESTS) == messages.ReportMemory()


@pytest.mark.parametrize(
    ("kind", "tag"),
    [
        (StepsCounted, "steps_told"),
        (ConditionsRecorded, "conditions_seen"),
        (ComparedWithEarlier, "held_against"),
        (StoredCatalogue, "kept_catalogue"),
        (StoredCeilings, "kept"),
    ],
)
def test_tags_of_stored_classes(kind: type, tag: str) -> None:
    with pytest.raises(wire.WireError) as error:
        wire.from_object({"type": tag, "surplus": 1}, (kind,))
    assert "unknown message type" not in str(error.value)
