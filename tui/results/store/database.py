"""The file that stores results: an SQLite database, which several programs may open at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tui.core import reports
from tui.core.text import numbers as text
from tui.core.text.ratios import format_verdict
from tui.results.store import StoreError
from tui.results.store.records import (
    Facts,
    Record,
    StoredResult,
    StoredRow,
    build_row,
    encode_canonical,
)
from tui.results.store.selection import EVERYTHING, Selection, build_where
from tui.results.store.store_file import connect, explain_error
from tui.results.store.validity import (
    NO_FACTS,
    ImpossibleError,
    decode_facts,
    decode_row,
    has_same_content,
    parse_finite,
)
from workloads.measure.comparison import withdraw_ratio
from workloads.protocol import wire
from workloads.protocol.flag_words import format_switched
from workloads.protocol.results import Setting

BUSY_S = 5.0
"""Seconds to wait for another program that writes."""
_AT_ONCE = 500
"""Values in one query; older libraries accept at most 999."""
_ROW = (
    "r.number, r.id, r.kind, r.at, r.process, r.workload, r.device, r.parameters, r.status,"
    " r.median_s, r.low_s, r.high_s, r.environment, r.marks, r.said,"
    " r.clock_mhz, r.limits"
)
_TAGS = "(SELECT name, number FROM tags WHERE typeof(name) = 'text')"
"""Tags with valid names: SQLite stores values of any type in any column."""


class Database:
    """An open store, for use by one thread.

    Args:
        place: the file.
        writing: create a missing file, and migrate it to the newest version; if false, write
            nothing, and treat a missing file as an empty one.
        busy_s: seconds to wait for another program that writes.
        traceless: read without any lock, extra file or migration.

    Raises:
        StoreError: the file cannot be opened, is damaged, or is newer than this program.
    """

    def __init__(
        self, place: Path, *, writing: bool = False, busy_s: float = BUSY_S, traceless: bool = False
    ) -> None:
        self.place = place
        self._writing = writing
        self._facts: dict[str, Facts] | None = None
        self._connection: sqlite3.Connection | None = None
        with self._explain_errors():
            if writing:
                reports.make_private_folder(place.parent)
                # Created here and not by SQLite, so that other users cannot read it.
                place.touch(mode=0o600)
            if writing or place.exists():
                self._connection = connect(
                    place, writing=writing, traceless=traceless, busy_s=busy_s
                )

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise explain_error(self.place, error) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        if connection is None or not self._writing:
            raise StoreError(f"{self.place}: it is open for reading only")
        with self._explain_errors():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    # ---- change ----

    def add(self, results: Iterable[StoredResult]) -> int:
        """Store all records or none; return the number of new ones.

        Raises:
            StoreError: they cannot be stored, or a different record has the id of one.
        """
        self._facts = None
        new = 0
        with self._transaction() as connection:
            for result in results:
                number, is_new = _insert(connection, result)
                new += is_new
                if not is_new:
                    self._check_same(connection, number, result)
                connection.executemany(
                    "INSERT OR IGNORE INTO tags VALUES (?, ?)",
                    [(_replace_surrogates(tag), number) for tag in result.tags],
                )
        return new

    def _check_same(
        self, connection: sqlite3.Connection, number: int, result: StoredResult
    ) -> None:
        """Compare a record with the stored record of the same id.

        Raises:
            StoreError: they differ.
        """
        bodies = connection.execute(
            "SELECT b.body, e.facts, e.unknown FROM bodies b JOIN results r USING (number)"
            " JOIN environments e ON e.hash = r.environment WHERE b.number = ?",
            (number,),
        ).fetchone()
        same = False
        if bodies is not None:
            with suppress(ImpossibleError, wire.WireError):
                record = wire.from_plain(Record, parse_finite(str(bodies[0]).encode()))
                same = has_same_content(StoredResult(record, decode_facts(*bodies[1:])), result)
        if not same:
            raise StoreError(
                f"{self.place}: {result.record.id} is stored with different content; nothing was "
                "imported: one of the two was changed after it was measured"
            )

    def tag(self, numbers: Sequence[int], name: str) -> None:
        """Tag records with a name, which other records may share.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO tags VALUES (?, ?)",
                [(_replace_surrogates(name), number) for number in numbers],
            )

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete records, and environments that no other record uses.

        Raises:
            StoreError: the store cannot be written.
        """
        self._facts = None
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM results WHERE number = ?", [(number,) for number in numbers]
            )
            connection.execute(
                "DELETE FROM environments WHERE NOT EXISTS"
                " (SELECT 1 FROM results WHERE environment = hash)"
            )

    # ---- read ----

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Read one state of the store in all queries of the block, even if others write.

        Raises:
            StoreError: the store cannot be read.
        """
        if self._connection is not None:
            with self._explain_errors():
                self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _query(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        if self._connection is None:
            return []
        with self._explain_errors():
            return self._connection.execute(query, [*map(_replace_surrogates, values)]).fetchall()

    def read_facts(self) -> dict[str, Facts]:
        """Return the environments of all records, by hash."""
        if self._facts is None:
            stored = self._query("SELECT hash, facts, unknown FROM environments")
            self._facts = _KnownFacts(
                (hash_, decode_facts(facts, unknown)) for hash_, facts, unknown in stored
            )
        return self._facts

    def count(self, selection: Selection = EVERYTHING) -> int:
        """Count the selected records."""
        where, values = self._build_where(selection)
        counts = self._query(f"SELECT count(*) FROM results r {where}", values)
        return int(counts[0][0]) if counts else 0

    def read_rows(
        self, selection: Selection = EVERYTHING, limit: int | None = None
    ) -> list[StoredRow]:
        """Return the selected records, newest first.

        Args:
            selection: which records to return.
            limit: most records to return; ``None`` for all.
        """
        where, values = self._build_where(selection)
        most = "" if limit is None else f" LIMIT {limit}"
        order = "ORDER BY r.at DESC, r.number DESC"
        return [
            decode_row(columns)
            for columns in self._query(
                f"SELECT {_ROW} FROM results r {where} {order}{most}", values
            )
        ]

    def find_newest(
        self, environments: Sequence[str], before: float | None = None, *, failed: bool = False
    ) -> list[StoredRow]:
        """Return the newest successful run of each workload, device and set of parameters.

        Args:
            environments: hashes of facts; a run must have one of them.
            before: Unix time; runs must have ended earlier.
            failed: return the newest failed runs instead.
        """
        status = "status = 'failed'" if failed else "status = 'ok' AND median_s IS NOT NULL"
        marks = ",".join("?" * len(environments))
        until = "" if before is None else "AND at < ?"
        # SQLite takes the columns beside a maximum from the row that has it.
        selected = self._query(
            "SELECT number, workload, device, parameters, max(at) FROM results"
            f" WHERE kind = 'run' AND {status}"
            # The sign makes SQLite use the index of the settings, which covers this query.
            f" AND +environment IN ({marks}) {until} GROUP BY workload, device, parameters",
            [*environments, *(() if before is None else (before,))],
        )
        numbers = [number for number, *_ in selected]
        stored = self._query_numbers(f"SELECT {_ROW} FROM results r WHERE r.number", numbers)
        # A run from before the workload gained a parameter is a row of its own in the query.
        newest: dict[tuple[str, str, str], StoredRow] = {}
        for row in map(decode_row, stored):
            key = (row.workload, row.device, row.measured)
            if key not in newest or row.at >= newest[key].at:
                newest[key] = row
        return list(newest.values())

    def read_requested(self, rows: Sequence[StoredRow]) -> dict[int, dict[str, Setting]]:
        """Return the parameters that runs were requested with, by their numbers.

        For a parameter that is left to the workload, the row has the chosen value.
        """
        numbers = [row.number for row in rows]
        stored = self._query_numbers("SELECT number, body FROM bodies WHERE number", numbers)
        return {number: _parse_requested(body) for number, body in stored}

    def _query_numbers(self, query: str, numbers: Sequence[int]) -> Iterator[Any]:
        """Yield the rows of a query for some numbers; the query ends with their column."""
        for first in range(0, len(numbers), _AT_ONCE):
            some = numbers[first : first + _AT_ONCE]
            marks = ",".join("?" * len(some))
            yield from self._query(f"{query} IN ({marks})", some)

    def read_result(self, row: StoredRow) -> StoredResult:
        """Return a record in full, with its facts and tags.

        Raises:
            StoreError: the record was deleted, or its content is unreadable.
        """
        bodies = self._query("SELECT body FROM bodies WHERE number = ?", (row.number,))
        if not bodies:
            raise StoreError(f"{self.place}: {row.id} has been deleted")
        named = f"SELECT name FROM {_TAGS} WHERE number = ? ORDER BY name"
        tags = self._query(named, (row.number,))
        try:
            record = wire.from_plain(Record, parse_finite(str(bodies[0][0]).encode()))
        except (ImpossibleError, wire.WireError) as error:
            raise StoreError(f"{self.place}: {row.id} cannot be read: {error}") from error
        return StoredResult(
            record, self.read_facts()[row.environment], tuple(name for (name,) in tags)
        )

    def count_tags(self) -> dict[str, int]:
        """Return each tag with its number of records."""
        return dict(self._query(f"SELECT name, count(*) FROM {_TAGS} GROUP BY name ORDER BY name"))

    def read_tags(self, rows: Sequence[StoredRow]) -> dict[int, tuple[str, ...]]:
        """Return the tags of records, by their numbers."""
        numbers = {row.number for row in rows}
        tags: dict[int, list[str]] = {}
        for name, number in self._query(f"SELECT name, number FROM {_TAGS} ORDER BY name"):
            if number in numbers:
                tags.setdefault(number, []).append(name)
        return {number: tuple(names) for number, names in tags.items()}

    def find_ids(self, beginning: str) -> list[str]:
        """Return ids with this beginning; only some if there are many."""
        end = f"{beginning}g"
        return [
            result_id
            for (result_id,) in self._query(
                "SELECT id FROM results WHERE id >= ? AND id < ? LIMIT 5", (beginning, end)
            )
        ]

    def _build_where(self, selection: Selection) -> tuple[str, list[object]]:
        return build_where(selection, self.read_facts() if selection.facts else {})


class _KnownFacts(dict[str, Facts]):
    """Facts by hash; a hash that is missing from a damaged store has no facts."""

    def __missing__(self, _hash: str) -> Facts:
        return NO_FACTS


def _insert(connection: sqlite3.Connection, stored: StoredResult) -> tuple[int, bool]:
    """Insert a record unless it exists; return its number, and whether it is new."""
    record, facts = stored.record, stored.facts
    connection.execute(
        "INSERT OR IGNORE INTO environments VALUES (?, ?, ?)",
        (facts.hash, encode_canonical(facts.values), encode_canonical(facts.unknown)),
    )
    row = build_row(stored, describe_outcome(record))
    values = map(
        _replace_surrogates,
        [
            row.id,
            row.kind,
            row.at,
            row.process,
            record.sweep,
            row.workload,
            row.device,
            row.parameters,
            row.status,
            row.median_s,
            *(row.ci95_s or (None, None)),
            row.environment,
            encode_canonical(row.marks) if row.marks else "",
            row.outcome,
            row.clock_mhz,
            encode_canonical(row.limits) if row.limits else "",
        ],
    )
    added = f"INSERT OR IGNORE INTO results VALUES (NULL{', ?' * 17})"
    written = connection.execute(added, [*values])
    is_new = written.rowcount == 1
    ((number,),) = connection.execute("SELECT number FROM results WHERE id = ?", (record.id,))
    if is_new:
        connection.execute("INSERT INTO bodies VALUES (?, ?)", (number, encode_canonical(record)))
    return int(number), is_new


def _replace_surrogates(value: object) -> object:
    """Replace lone surrogates, which imported text may contain and SQLite rejects."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _parse_requested(body: Any) -> dict[str, Setting]:
    """Return the requested parameters in a body, or none if it cannot be read."""
    try:
        record: Record = wire.from_plain(Record, parse_finite(str(body).encode()))
    except (ImpossibleError, wire.WireError):
        return {}
    return record.run.parameters if record.run is not None else {}


def describe_outcome(record: Record) -> str:
    """Return the text that a list shows for a record without a time."""
    compared = record.comparison
    if compared is not None and compared.status == "ok" and compared.pairs:
        compared = withdraw_ratio(compared)
        flag = format_switched(compared.flag, compared.arms[1].setting)
        if compared.ratio is not None:
            outcome = format_verdict(compared.verdict, compared.ratio, compared.ci95)
        else:
            outcome = f"{compared.verdict}: {compared.unavailable.get('ratio', 'no ratio')}"
        before, after = (arm.median_s for arm in compared.arms)
        if before is None or after is None or compared.verdict not in ("faster", "slower"):
            return f"{outcome} with {flag}"
        return f"{outcome} with {flag}, {text.seconds(after)} instead of {text.seconds(before)}"
    if compared is not None and compared.status == "cancelled" and compared.ratio is not None:
        pairs = f"{compared.pairs} of {text.count(compared.pairs_wanted, 'pair')}"
        return f"cancelled after {pairs}: so far {text.ratio(compared.ratio)}"
    return (record.reason or "") if record.median_s is None or record.status != "ok" else ""
