"""The store: what is put in comes out, whatever happens to the file and whoever else writes."""

from __future__ import annotations

import dataclasses
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.results.samples import BEGAN, kept
from tui.results.store import StoreError, store_file
from tui.results.store.database import Database
from tui.results.store.selection import Selection
from tui.results.store.store_file import APPLICATION_ID, is_on_network

WRITER = "tests.results.writer"
ROOT = Path(__file__).resolve().parents[2]


def test_what_is_put_in_comes_out_and_the_same_is_one(tmp_path: Path) -> None:
    place = tmp_path / "state" / "results.sqlite3"
    ones = [kept(number, workload=f"w{number % 2}", tags=("night",)) for number in range(4)]
    with Database(place, writing=True) as database:
        assert database.add(ones) == 4
        assert database.add(ones) == 0
        rows = database.read_rows()
        assert [row.id for row in rows] == [one.record.id for one in reversed(ones)]
        assert [database.read_result(row) for row in reversed(rows)] == ones
        # Four records of one environment: it is there once.
        assert len(database.read_facts()) == 1
        assert database.count_tags() == {"night": 4}
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    with Database(place) as database:
        assert database.count(Selection(workload="w1")) == 2
        with pytest.raises(StoreError, match="open for reading only"):
            database.add(ones)


def test_a_file_that_is_not_there_is_empty_and_is_not_made_by_reading(tmp_path: Path) -> None:
    place = tmp_path / "none.sqlite3"
    with Database(place) as database:
        assert (database.read_rows(), database.count(), database.count_tags()) == ([], 0, {})
    assert list(tmp_path.iterdir()) == []


def test_halves_of_characters_from_strangers_are_no_obstacle(tmp_path: Path) -> None:
    odd = "a\ud800\x00b"
    with Database(tmp_path / "r", writing=True) as database:
        one = kept(1, workload=odd, facts={"box": odd}, tags=(odd,), warnings=(odd,))
        assert database.add([one]) == 1
        (row,) = database.read_rows(Selection(workload=odd, tags=(odd,)))
        assert database.read_result(row).record == one.record


def test_what_is_deleted_takes_its_body_tags_and_environment_along(tmp_path: Path) -> None:
    with Database(tmp_path / "r", writing=True) as database:
        database.add([kept(1, tags=("a",)), kept(2, facts={"driver": "590.1"})])
        gone = database.read_rows(Selection(tags=("a",)))
        database.delete([row.number for row in gone])
        assert [row.at for row in database.read_rows()] == [BEGAN + 2]
        assert database.count_tags() == {}
        assert [facts.values["driver"] for facts in database.read_facts().values()] == ["590.1"]
        with pytest.raises(StoreError, match="has been deleted"):
            database.read_result(gone[0])


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Selection(facts=(("driver", "580"),)), {1, 3}),
        (Selection(facts=(("driver", "58"),)), set()),
        (Selection(facts=(("torch", "2.13"), ("box", "beta"))), {3}),
        (Selection(facts=(("gpu", "h200"),)), {1, 2, 3}),
        (Selection(before=BEGAN + 2), {1}),
        (Selection(since=BEGAN + 2, device="cuda"), {2}),
        (Selection(device="cpu"), {3}),
        (Selection(processes=("process-1", "process-3")), {1, 3}),
    ],
)
def test_what_is_selected_is_what_holds(wanted: Selection, found: set[int], tmp_path: Path) -> None:
    with Database(tmp_path / "r", writing=True) as database:
        database.add(
            [
                kept(1),
                kept(2, facts={"driver": "590.1"}),
                kept(3, facts={"box": "beta"}, device="cpu"),
            ]
        )
        assert {round(row.at - BEGAN) for row in database.read_rows(wanted)} == found
        assert database.count(wanted) == len(found)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 9), max_size=12), st.lists(st.integers(0, 9), max_size=12))
def test_putting_in_twice_is_putting_in_once(first: list[int], second: list[int]) -> None:
    with TemporaryDirectory() as folder, Database(Path(folder) / "r", writing=True) as database:
        database.add([kept(number) for number in first])
        once = database.read_rows()
        assert database.add([kept(number) for number in first]) == 0
        assert database.read_rows() == once
        assert database.add([kept(number) for number in second]) == len({*second} - {*first})
        assert database.count() == len({*first, *second})


# ---- files that are not well -------------------------------------------------------------------


def test_an_older_file_gets_the_tables_of_today_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "r"
    with Database(place, writing=True) as database:
        database.add([kept(1)])
    added = ("ALTER TABLE results ADD COLUMN more TEXT", "CREATE TABLE extra (x)")
    known = store_file.MIGRATIONS
    monkeypatch.setattr(store_file, "MIGRATIONS", (*store_file.MIGRATIONS, (*added, "no SQL")))
    with pytest.raises(StoreError, match="syntax error"):
        Database(place, writing=True)
    monkeypatch.setattr(store_file, "MIGRATIONS", (*known, added))
    # Reading brings it up too.
    with Database(place) as database:
        assert database.count() == 1
    with sqlite3.connect(place) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (len(known) + 1,)
        assert raw.execute("SELECT count(*) FROM extra").fetchone() == (0,)


def test_what_is_asked_in_one_moment_is_of_one_moment(tmp_path: Path) -> None:
    place = tmp_path / "results.sqlite3"
    with Database(place, writing=True) as writer:
        writer.add([kept(1, facts={"driver": "570"})])
        with Database(place) as reader, reader.read_transaction():
            facts = reader.read_facts()
            writer.add([kept(2, facts={"driver": "590"})])
            rows = reader.read_rows()
    assert {row.environment for row in rows} <= set(facts)
    assert len(rows) == 1


def test_a_newer_file_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "r"
    with sqlite3.connect(place) as raw:
        raw.execute("PRAGMA user_version = 99")
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    before = place.read_bytes()
    for writing in (True, False):
        with pytest.raises(StoreError, match=r"of version 99, .* install the newer gpu-workbench"):
            Database(place, writing=writing)
    assert place.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 40])
def test_a_damaged_file_is_a_line_with_what_to_do(content: bytes, tmp_path: Path) -> None:
    place = tmp_path / "r"
    place.write_bytes(content)
    for writing in (True, False):
        with pytest.raises(StoreError, match="damaged; move it away") as found:
            Database(place, writing=writing)
        assert len(str(found.value).splitlines()) == 1
    assert place.read_bytes() == content


def test_a_page_of_rubbish_is_told_when_it_is_read(tmp_path: Path) -> None:
    place = tmp_path / "r"
    with Database(place, writing=True) as database:
        database.add([kept(number) for number in range(50)])
    content = bytearray(place.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    place.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"), Database(place) as database:
        database.read_rows()


def test_a_locked_file_is_waited_for_and_then_told(tmp_path: Path) -> None:
    place = tmp_path / "r"
    with Database(place, writing=True) as database:
        database.add([kept(1)])
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Database(place, writing=True, busy_s=0.05) as database:
        with pytest.raises(StoreError, match="locked; another program has locked it"):
            database.add([kept(2)])
        # Who only looks is not kept waiting.
        assert database.count() == 1
        other.execute("ROLLBACK")
        assert database.add([kept(2)]) == 1
    other.close()


def test_a_full_disk_is_told_and_keeps_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "r"
    with Database(place, writing=True) as database:
        database.add([kept(1)])
        assert database._connection is not None
        pages = database._connection.execute("PRAGMA page_count").fetchone()[0]
        # SQLite's own limit gives the error of a disk without room.
        database._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="full; make room on the disk"):
            database.add([kept(number) for number in range(2, 400)])
        assert database.count() == 1


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"Not a directory|File exists"):
        Database(tmp_path / "file" / "below" / "r", writing=True)


@pytest.mark.parametrize(
    ("kind", "network"),
    [("nfs4", True), ("lustre", True), ("fuse.sshfs", True), ("ext4", False), ("overlay", False)],
)
def test_a_disk_of_another_machine_is_known_by_its_kind(kind: str, network: bool) -> None:
    mounts = (
        f"/dev/a / ext4 rw 0 0\nserver:/h /home/a\\040b {kind} rw 0 0\ntmpfs /homes tmpfs rw 0 0"
    )
    assert is_on_network(Path("/home/a b/.local/state/r"), mounts) is network
    assert not is_on_network(Path("/homes/r"), mounts)
    assert not is_on_network(Path("/elsewhere/r"), mounts)


# ---- several programs, and ends of programs ------------------------------------------------------


def _writer(place: Path, *numbers: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", WRITER, str(place), *map(str, numbers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def _begin(writer: subprocess.Popen[str]) -> None:
    assert writer.stdin is not None
    writer.stdin.write("\n")
    writer.stdin.flush()


def test_two_programs_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    place = tmp_path / "r"
    firsts, count = (0, 1_000_000), 40
    # None of them has made the file yet: they do it at once too. Each ends after some records:
    # SQLite has no queue of writers, and one that never ends might leave no gap for the other.
    writers = [_writer(place, first, count) for first in firsts]
    for writer in writers:
        _begin(writer)
    for writer in writers:
        assert writer.stdout is not None
        assert len(writer.stdout.readlines()) == count
        assert writer.wait() == 0
    with Database(place) as database:
        ats = [row.at for row in database.read_rows()]
    assert sorted(ats) == [BEGAN + first + number for first in firsts for number in range(count)]


def _killed_again_and_again(place: Path, times: int) -> None:
    """Each program writes for a while of another length, and is killed in the middle."""
    told: set[float] = set()
    for turn in range(times):
        first = turn * 1_000_000
        writer = _writer(place, first)
        _begin(writer)
        assert writer.stdout is not None
        for number in range(1 + turn % 5):
            line = writer.stdout.readline()
            assert line, f"the writer failed after {number}"
        writer.send_signal(signal.SIGKILL)
        count = 1 + turn % 5 + len(writer.stdout.readlines())
        writer.wait()
        told |= {BEGAN + first + number for number in range(count)}
    with Database(place) as database:
        assert {row.at for row in database.read_rows()} >= told
        for row in database.read_rows(limit=20):
            assert dataclasses.is_dataclass(database.read_result(row))
    with sqlite3.connect(place) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_program_that_is_killed_while_it_writes_damages_and_loses_nothing(tmp_path: Path) -> None:
    _killed_again_and_again(tmp_path / "r", 5)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_programs_that_are_killed_while_they_write_damage_and_lose_nothing(
    tmp_path: Path,
) -> None:
    _killed_again_and_again(tmp_path / "r", 200)
