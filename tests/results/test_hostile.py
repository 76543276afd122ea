"""Results of strangers: what cannot be true is refused; what a store has of it is shown."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.results.samples import BEGAN, kept
from tui.kit.table import row_line
from tui.results.cli import results as command
from tui.results.cli.results import ResultsOptions
from tui.results.store import StoreError, exchange
from tui.results.store.database import Database
from tui.results.store.exchange import ExchangeError, encode_lines, read_file
from tui.results.store.queries import read_listing
from tui.results.store.validity import FIRST_S, is_time
from tui.results.views.result_list import ListedRow, fit_list_columns, render_selected
from tui.results.views.results import build_list_table

Change = Callable[[dict[str, Any]], None]


def changed(change: Change, number: int = 1) -> str:
    """Return the lines of an export of two results, the last of them changed."""
    head, first, last = encode_lines([kept(0), kept(number)])
    found = json.loads(last)
    change(found)
    return "\n".join([head, first, json.dumps(found)]) + "\n"


def put(*path: str, value: Any) -> Change:
    def change(found: dict[str, Any]) -> None:
        *way, last = path
        for name in way:
            found = found[name]
        found[last] = value

    return change


IMPOSSIBLE = {
    "milliseconds": put("record", "at", value=1e12),
    "far ahead": put("record", "at", value=1e300),
    "far back": put("record", "at", value=-1e300),
    "before our era": put("record", "at", value=-1e11),
    "infinite time": put("record", "at", value=float("inf")),
    "no number": put("record", "at", value=float("nan")),
    "infinite median": put("record", "run", "time", "median_s", value=float("inf")),
    "median of nothing": put("record", "run", "time", "median_s", value=0.0),
    "median below zero": put("record", "run", "time", "median_s", value=-1e-3),
    "a block that is no number": put(
        "record", "run", "time", "block_times_s", value=[1e-3, float("nan")]
    ),
    "another median": put("record", "run", "time", "block_times_s", value=[1.0] * 7),
    "another id": put("record", "id", value="0123456789abcdef"),
    "no id": put("record", "id", value="../../etc"),
    "a long name": put("record", "workload", value="w" * 1_000_000),
    "a long fact": put("facts", "values", value={"gpu": "g" * 1_000_000}),
    "a long tag": put("tags", value=["t" * 1_000_000]),
    "two workloads": put("record", "workload", value="conv2d"),
    "a kind that it is not": put("record", "kind", value="comparison"),
    "bytes below zero": put("record", "run", "memory", "allocated_peak", value=-1),
    "large": put("record", "run", "memory", "allocated_peak", value=1 << 80),
    "deep": put("record", "run", "log", value=json.loads("[" * 500 + "]" * 500)),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_cannot_be_is_refused_with_its_line_and_nothing_is_taken_in(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "f"
    path.write_text(changed(IMPOSSIBLE[name]))
    with pytest.raises(ExchangeError, match=r"f: line 3 is damaged: .*; nothing was imported$"):
        read_file(path)


def test_a_number_too_large_for_a_float_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "f"
    text = changed(put("record", "run", "time", "median_s", value=123456789))
    path.write_text(text.replace("123456789", "1e999"))
    with pytest.raises(ExchangeError, match="line 3 is damaged: a number is too large"):
        read_file(path)


@pytest.mark.parametrize("version", [0, -5, True, None, "1", 1.0])
def test_a_version_that_is_none_is_refused(version: object, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text(json.dumps({"format": exchange.FORMAT, "version": version}) + "\n")
    with pytest.raises(ExchangeError, match=r"version .* is no version"):
        read_file(path)


def test_an_endless_file_is_refused_after_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LONGEST_LINE", 1 << 20)
    with pytest.raises(ExchangeError, match="/dev/zero: line 1: it is longer than"):
        read_file(Path("/dev/zero"))


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LONGEST_FILE", 8000)
    path = tmp_path / "f"
    path.write_text("\n".join(encode_lines([kept(number) for number in range(9)])) + "\n")
    with pytest.raises(ExchangeError, match="it is larger than"):
        read_file(path)


def test_a_known_id_with_other_content_is_an_error(tmp_path: Path) -> None:
    def faster(found: dict[str, Any]) -> None:
        found["record"]["run"]["time"]["median_s"] /= 2

    path = tmp_path / "f"
    path.write_text(changed(faster))
    other = read_file(path)
    with Database(tmp_path / "r", writing=True) as database:
        database.add([kept(1)])
        with pytest.raises(StoreError, match="is stored with different content"):
            database.add(other)
        assert database.count() == 1
    path.write_text("\n".join([*encode_lines([kept(1)]), changed(faster).splitlines()[-1]]))
    with pytest.raises(ExchangeError, match=r"line 3: .* occurs twice with different content"):
        read_file(path)


def test_what_is_redacted_is_what_was_kept(tmp_path: Path) -> None:
    one = kept(1, facts={"box": "alpha"}, workload="matmul")
    redacted = exchange.ResultRedaction(["alpha"])(one)
    assert redacted.facts.values["box"] != "alpha"
    with Database(tmp_path / "r", writing=True) as database:
        database.add([one])
        assert database.add([redacted]) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
PLACES = [
    ("record", "at"), ("record", "id"), ("record", "run"), ("record", "parameters"),
    ("record", "run", "time"), ("record", "run", "time", "median_s"), ("record", "conditions"),
    ("record", "run", "memory"), ("record", "run", "rates"), ("facts", "values"), ("tags",),
    ("record", "status"), ("record", "kind"), ("record", "run", "ended_at"), ("facts",),
]  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLACES), JSON)
def test_any_line_is_refused_or_goes_round(
    tmp_path: Path, place: tuple[str, ...], value: Any
) -> None:
    path, state = tmp_path / "f", tmp_path / "r"
    state.unlink(missing_ok=True)
    path.write_text(changed(put(*place, value=value)))
    found = None
    with contextlib.suppress(ExchangeError):
        found = read_file(path)
    if found is None:
        return
    with Database(state, writing=True) as database:
        database.add(found)
        seen = shown(database)
        assert "matmul" in seen
        again = list(map(database.read_result, database.read_rows()[::-1]))
    path.write_text("\n".join(encode_lines(again)) + "\n")
    assert {one.record.id for one in read_file(path)} == {one.record.id for one in found}


def shown(database: Database) -> str:
    """All that lists show of a store."""
    rows = database.read_rows()
    facts = database.read_facts()
    table = build_list_table(rows, facts, database.read_tags(rows))
    found = read_listing(database.place, "", time.time(), traceless=False)
    columns = fit_list_columns(found, rows, 120, time.time())
    lines = [row_line(columns, ListedRow(at, row, "")) for at, row in enumerate(rows)]
    lines += [each for row in rows for each in render_selected(row, found, 80)]
    return str(table) + "\n".join("".join(span.text for span in line) for line in lines)


HOSTILE: list[tuple[str, object]] = [
    ("at", 1e300), ("at", -1e11), ("at", float("inf")), ("at", "yesterday"), ("at", 1e12),
    ("median_s", float("inf")), ("median_s", -1.0), ("median_s", "fast"), ("low_s", -1.0),
    ("parameters", "[[["), ("parameters", "[]"), ("parameters", '{"n": [1]}'), ("parameters", b"x"),
    ("workload", "w" * 1_000_000), ("device", "\x1b[2J"), ("status", "wonderful"), ("kind", "song"),
    ("marks", "{"), ("marks", "[1]"), ("limits", "null"), ("environment", "nowhere"),
    ("clock_mhz", float("inf")), ("clock_mhz", "high"), ("said", "s" * 1_000_000), ("id", 7),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value"), HOSTILE)
def test_a_bad_row_is_shown_and_costs_no_other(
    column: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    place = tmp_path / "results.sqlite3"
    with Database(place, writing=True) as database:
        newer = [kept(number, facts={"driver": "590.1"}) for number in (7, 8)]
        database.add([kept(0), kept(1), kept(2), *newer])
    with sqlite3.connect(place) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(f"UPDATE results SET {column} = ? WHERE number = 2", (value,))
        connection.execute("UPDATE bodies SET body = ? WHERE number = 2", ("[" * 5000,))
    with Database(place) as database:
        rows = database.read_rows()
        assert len(rows) == 5
        assert len(shown(database)) < 50_000
    assert all(is_time(row.at) or "n/a" in row.outcome for row in rows)
    for verb in ("list", "export"):
        code = command.perform(ResultsOptions(verb=verb))
        told = capsys.readouterr()
        assert code == (0 if verb == "list" else 1)
        if verb == "export":
            assert len(told.out.splitlines()) == 5
            assert "1 of 5 results left out: impossible" in told.err
    code = command.perform(ResultsOptions(verb="compare", words=("driver=580", "driver=590")))
    assert code == 0


def test_the_time_of_the_samples_is_one() -> None:
    assert FIRST_S < BEGAN < time.time()
