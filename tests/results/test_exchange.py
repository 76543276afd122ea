"""Results go from box to box: what is taken in twice is there once, and names can be left out."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.results.samples import kept
from tui.results.store.database import Database
from tui.results.store.exchange import ExchangeError, ResultRedaction, encode_lines, read_file
from tui.results.store.records import StoredResult
from workloads.protocol import wire


def _write(place: Path, ones: list[StoredResult]) -> Path:
    place.write_text("\n".join(encode_lines(ones)) + "\n", encoding="utf-8")
    return place


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.text(max_size=8),
            st.dictionaries(
                st.text(max_size=5),
                st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.booleans(),
            ),
        ),
        max_size=8,
    )
)
def test_taken_in_twice_is_taken_in_once(drawn: list[tuple[int, str, dict[str, object]]]) -> None:
    ones = [
        kept(number, facts={"box": box}, parameters=parameters, tags=(box,) if box else ())  # type: ignore[arg-type]
        for number, box, parameters in drawn
    ]
    with TemporaryDirectory() as folder:
        place = _write(Path(folder) / "f", ones)
        assert read_file(place) == ones
        with Database(Path(folder) / "r", writing=True) as database:
            first = database.add(read_file(place))
            rows, tags = database.read_rows(), database.count_tags()
            assert database.add(read_file(place)) == 0
            assert (database.read_rows(), database.count_tags()) == (rows, tags)
            assert first == len({one.record.id for one in ones}) == len(rows)
            # What goes out again is what came in.
            again = _write(Path(folder) / "g", [database.read_result(row) for row in rows])
            assert {one.record.id: one.record for one in read_file(again)} == {
                one.record.id: one.record for one in reversed(ones)
            }


def test_without_names_it_tells_neither_box_nor_user_and_is_the_same_result() -> None:
    facts = {"box": "jane-box", "variable LD_PRELOAD": "/home/jane/lib.so", "gpu uuid": "GPU-7"}
    ones = [
        kept(1, facts=facts, warnings=("on jane-box: /home/jane/x is slow",)),
        kept(2, facts={**facts, "box": "cuda", "gpu uuid": "GPU-8"}),
        kept(3, facts=facts),
    ]
    redaction = ResultRedaction(["jane-box", "cuda"], home=Path("/home/jane"))
    found = [redaction(one) for one in ones]
    text = "\n".join(encode_lines(found))
    assert not [word for word in ("jane", "GPU-7", "GPU-8") if word in text]
    assert [one.record.id for one in found] == [one.record.id for one in ones]
    assert [one.facts.values["box"] for one in found] == ["host", "host 2", "host"]
    assert [one.record.device for one in found] == ["cuda:0"] * 3
    assert found[0].facts == found[2].facts
    assert found[0].record.marks == ("on host: /home/user/x is slow",)
    assert found[0].record.run is not None
    assert ones[0].record.run is not None
    assert found[0].record.run.time == ones[0].record.run.time


def _printed(ones: list[StoredResult], **more: object) -> dict[str, object]:
    """Return what ``run --json`` prints for these runs."""
    results = [
        {**wire.to_plain(one.record.run), "conditions": wire.to_plain(one.record.conditions)}
        for one in ones
    ]
    return {"schema": 1, "environment": None, "results": results, **more}


def test_what_run_printed_is_taken_in_and_is_what_was_kept_of_it(tmp_path: Path) -> None:
    ones = [kept(1), kept(2, workload="softmax")]
    place = tmp_path / "run.json"
    place.write_text(json.dumps(_printed(ones), indent=2))
    found = read_file(place)
    assert [one.record.id for one in found] == [one.record.id for one in ones]
    assert [one.record.run for one in found] == [one.record.run for one in ones]
    assert found[0].facts.unknown["box"] == "not in the output of run --json"
    with Database(tmp_path / "r", writing=True) as database:
        assert database.add(ones) == 2
        assert database.add(found) == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it has no results: give a file that results export or run --json wrote"),
        ("[1, 2]", "it has no results"),
        ("[" * 100_000, "it has no results"),
        (json.dumps(_printed([], schema=9)), "schema 9, and this program knows 1"),
        (json.dumps({**_printed([]), "results": 3}), "results: expected a list"),
        (
            json.dumps({**_printed([]), "results": [{}]}),
            "results[0].id: missing; nothing was",
        ),
        ('{"format":"gpu-workbench results","version":7}', "version 7, and this program knows 1"),
    ],
)
def test_another_file_is_one_line(content: str, said: str, tmp_path: Path) -> None:
    place = tmp_path / "f"
    place.write_text(content)
    with pytest.raises(ExchangeError) as found:
        read_file(place)
    assert str(found.value).startswith(f"{place}: ")
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_a_damaged_line_is_named_and_nothing_is_taken_in(tmp_path: Path) -> None:
    place = _write(tmp_path / "f", [kept(1), kept(2), kept(3)])
    text = place.read_text().split("\n")
    place.write_text("\n".join([*text[:2], text[2][:100], *text[3:]]))
    with pytest.raises(ExchangeError, match=r"line 3 is damaged: .*; nothing was imported"):
        read_file(place)
    foreign = text[1].replace(kept(1).record.id, "../../etc")
    place.write_text("\n".join([text[0], foreign]))
    with pytest.raises(ExchangeError, match=r"line 2 is damaged: its id is '../../etc'"):
        read_file(place)
