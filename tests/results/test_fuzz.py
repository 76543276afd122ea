"""Any line of a file, and any row that stands in a store, through every view of results."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.results.samples import BEGAN, HOUR, kept
from tests.tiers import VARIANT
from tui.cli.program import Invocation, parse
from tui.kit.command_line.output import UsageError
from tui.kit.lines import plain
from tui.kit.table import heading_line, row_line
from tui.results.store import store_path
from tui.results.store.database import Database
from tui.results.store.earlier import EarlierSessions
from tui.results.store.exchange import encode_lines
from tui.results.store.queries import compare_environments, read_history, read_listing
from tui.results.store.selection import SelectionError
from tui.results.views.comparison import (
    fit_comparison_columns,
    format_comparison_title,
    format_history_title,
    render_foot,
    render_history,
    render_sides,
)
from tui.results.views.result_list import ListedRow, fit_list_columns, render_selected, sort_rows

NOW = BEGAN + 1000 * HOUR
FUZZ = settings(
    max_examples=20,
    deadline=None,
    # Each example goes through every view: to make a failing one smaller would take minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from([1e12, 1e300, -1e11, 5e-324, 1.7e308, 0.0])
    | st.text(max_size=8)
    | st.sampled_from(["\x1b[2J", "ok", "run", "\ud800", "w" * 100_000])
)
JSON = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))


def command(*words: str) -> tuple[int, str, str]:
    """Run ``results`` with these words; what is wrong with them is one line."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code = parsed(*words).carry_out()
        except UsageError as wrong:
            code = 2
            print(wrong, file=error)
    assert code != 2 or error.getvalue().count("\n") == 1
    return code, out.getvalue(), error.getvalue()


@functools.lru_cache(maxsize=256)
def parsed(*words: str) -> Invocation:
    """Parse a command once: to build the parser takes longer than most commands."""
    return parse(["results", *words])


def every_view(place: Path) -> None:
    """See each view of a store through."""
    for words in (
        ["list"], ["list", "--json"],
        ["export", "--markdown"], ["export", "--markdown", "--redact"],
        ["compare", "driver=580", "driver=590"], ["compare", "driver=580", "driver=590", "--json"],
        ["compare", "workload=matmul,driver=580", "since:2001-09-01,driver=590"],
    ):  # fmt: skip
        code, out, error = command(*words)
        assert code in (0, 2), (words, error)
        assert len(out) < 1_000_000
        if words[-1] == "--json" and code == 0:
            json.loads(out, parse_constant=pytest.fail)
    for words in (["export"], ["export", "--redact"]):
        code, out, error = command(*words)
        assert code in (0, 1)
        exported = place.with_name("exported")
        exported.write_text(out)
        assert (code == 1) is ("left out: impossible" in error)
        before = command("export")[1] if words == ["export"] else None
        code, _, error = command("import", str(exported))
        # What a result was measured on may be lost in the store; the export then says so.
        assert code == 0 or "is stored with different content" in error, error
        if before is not None:
            assert command("export")[1] == before
    see_the_tab(place)
    for one in EarlierSessions(place, NOW).read_newest("alpha"):
        assert one.failure or (one.median_s is not None and one.median_s > 0)
    EarlierSessions(place, NOW).compare_stored([kept(2000 * HOUR)])


def see_the_tab(place: Path) -> None:
    found = read_listing(place, "", NOW, traceless=False)
    for order in ("newest", "workload", "time"):
        rows = sort_rows(found.rows, order)
        columns = fit_list_columns(found, rows, 120, NOW)
        lines = [row_line(columns, ListedRow(at, row, "A")) for at, row in enumerate(rows)]
        lines += [each for row in rows for each in render_selected(row, found, 80)]
        assert all(len(plain(line)) < 100_000 for line in lines)
    for row in found.rows:
        # The tab says in one line where a row is not found by what it was listed as.
        with contextlib.suppress(SelectionError):
            history = read_history(place, row, traceless=False)
            assert format_history_title(history)
            if history.rows:
                render_history(history, 100, 30)
        for other in (found.rows[0], found.rows[-1]):
            with contextlib.suppress(SelectionError):
                see_sides(place, other, row)
    with Database(place) as database:
        for row in database.read_rows():
            command("show", row.id)


def see_sides(place: Path, a: Any, b: Any) -> None:
    both = compare_environments(place, a, b, traceless=False)
    columns = fit_comparison_columns(both, 100)
    heading_line(columns)
    format_comparison_title(both)
    render_sides(both, 100)
    render_foot(both, None, 100)
    for one in both.compared.questions:
        assert plain(row_line(columns, one))
        render_foot(both, one, 100)


def fill() -> None:
    store_path().unlink(missing_ok=True)
    for name in ("-wal", "-shm"):
        store_path().with_name(store_path().name + name).unlink(missing_ok=True)
    with Database(store_path(), writing=True) as database:
        database.add(kept(number * HOUR) for number in range(3))
        database.add(kept((9 + n) * HOUR, facts={"driver": "590"}) for n in range(3))


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to each value within a value."""
    found = [way] if way else []
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = [*value.items()]
    elif isinstance(value, list):
        items = [*enumerate(value[:2])]
    return found + [each for name, one in items for each in places(one, (*way, name))]


HEAD, LINE = encode_lines([kept(50 * HOUR, facts={"driver": "590"})])
PLACES = places(json.loads(LINE))


@FUZZ
@given(st.sampled_from(PLACES), JSON, st.booleans())
@example(("record", "run", "time", "median_s"), 5e-324, True)
@example(("record", "at"), 1e12, True)
def test_any_line_comes_in_and_is_shown_or_is_refused_in_one_line(
    tmp_path: Path, way: tuple[Any, ...], value: Any, renamed: bool
) -> None:
    fill()
    found = json.loads(LINE)
    at = found
    for name in way[:-1]:
        at = at[name]
    at[way[-1]] = value
    text = json.dumps(found)
    file = tmp_path / "f"
    file.write_text(f"{HEAD}\n{text}\n")
    code, _, error = command("import", str(file))
    if renamed and code and "its content has" in error:
        # With the id that this content has, so that it is not the id alone that is refused.
        found["record"]["id"] = error.partition("its content has ")[2].split(";")[0].strip()
        file.write_text(f"{HEAD}\n{json.dumps(found)}\n")
        code, _, error = command("import", str(file))
    if code:
        assert error.count("\n") == 1
        assert "line 2" in error or "is stored with different content" in error
        with Database(store_path()) as database:
            assert database.count() == 6
    else:
        every_view(store_path())


@FUZZ
@given(JSON)
def test_a_line_of_any_shape_is_refused_in_one_line(tmp_path: Path, value: Any) -> None:
    file = tmp_path / "f"
    file.write_text(f"{HEAD}\n{json.dumps(value)}\n")
    code, _, error = command("import", str(file))
    assert (code, error.count("\n")) == (1, 1)
    assert "line 2 is damaged" in error


COLUMNS = (
    "id", "kind", "at", "process", "sweep", "workload", "device", "parameters", "status",
    "median_s", "low_s", "high_s", "environment", "marks", "said", "clock_mhz", "limits",
)  # fmt: skip
CELL = st.one_of(
    st.floats(allow_nan=False),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=6).map(lambda text: text.encode(errors="replace").decode()),
    st.binary(max_size=6),
    st.sampled_from([1e12, 1e300, 5e-324, 1.7e308, "[" * 5000, "{}", '{"n":[1]}', "w" * 100_000]),
    JSON.map(json.dumps),
)


@FUZZ
@given(st.dictionaries(st.sampled_from(COLUMNS), CELL, min_size=1, max_size=4), CELL, CELL, CELL)
@example({"median_s": 5e-324}, "x", "x", "x")
@example({"clock_mhz": 5e-324}, "x", "x", "x")
@VARIANT
def test_any_row_in_the_store_is_shown(
    row: dict[str, Any], body: Any, facts: Any, unknown: Any
) -> None:
    fill()
    with contextlib.closing(sqlite3.connect(store_path())) as raw, raw:
        for column, value in row.items():
            with contextlib.suppress(sqlite3.IntegrityError):
                raw.execute(f"UPDATE results SET {column} = ? WHERE number = 2", (value,))
                raw.execute(f"UPDATE results SET {column} = ? WHERE number = 5", (value,))
        with contextlib.suppress(sqlite3.IntegrityError):
            raw.execute("UPDATE bodies SET body = ? WHERE number = 2", (body,))
            raw.execute("INSERT INTO tags VALUES (?, 3)", (facts,))
            raw.execute(
                "INSERT OR REPLACE INTO environments VALUES ('bad', ?, ?)", (facts, unknown)
            )
            raw.execute("UPDATE results SET environment = 'bad' WHERE number = 4")
    every_view(store_path())
