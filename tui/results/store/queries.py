"""Queries of the store for screens; each is one call, made in a thread.

Every function opens the file, so that it finds a file that another program moved or replaced.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.results.store.compare import StoreComparison, compare
from tui.results.store.database import Database
from tui.results.store.records import FLAG, Facts, StoredRow, find_gpu
from tui.results.store.selection import Selection, SelectionError, intersect, parse_selection
from tui.results.store.validity import is_time

MOST = 2000
"""Most results of a list; a filter finds the others."""
_DATED = re.compile(r"(before|since):")
_HEXADECIMAL = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Listing:
    """The newest results that match a filter."""

    rows: tuple[StoredRow, ...]
    facts: dict[str, Facts]
    """Their environments, by hash."""
    tags: dict[int, tuple[str, ...]]
    """Tags by the rows' numbers."""
    matching: int
    """Number of results that match the filter; at most :data:`MOST` of them are here."""
    all: int
    """Number of all results."""


@dataclass(frozen=True, slots=True)
class EnvironmentComparison:
    """The environments of two results, side by side."""

    names: tuple[str, str]
    """Descriptions of A and B."""
    compared: StoreComparison
    facts: dict[str, Facts]


@dataclass(frozen=True, slots=True)
class WorkloadHistory:
    """A workload with one setting and the same flags, over time on one device of one machine."""

    subject: StoredRow
    rows: tuple[StoredRow, ...]
    """Runs, oldest first."""
    facts: dict[str, Facts]
    elsewhere: int
    """Number of further runs on other machines, on other GPUs or with other flags."""


def parse_filter(text: str, now: float) -> Selection:
    """Parse the typed filter of a list: conditions of ``results compare``, or other words.

    Args:
        text: parts separated by blanks or commas. ``box=a``, ``since:7d`` and the like are
            conditions on facts; every other part must be in the workload's name, or be its device,
            its status, a tag, or the beginning of an id.
        now: Unix time, from which ages count back.

    Raises:
        SelectionError: a part is unfinished, or has an unknown form.
    """
    selection = Selection()
    for part in text.replace(",", " ").split():
        if "=" in part or _DATED.match(part):
            selection = intersect(selection, parse_selection(part, now)[0])
        else:
            selection = intersect(selection, Selection(words=(part,)))
    return selection


def read_listing(place: Path, text: str, now: float, *, traceless: bool) -> Listing:
    """Return the newest results that match a filter.

    Raises:
        StoreError: the store cannot be read.
        SelectionError: as in :func:`parse_filter`.
    """
    selection = parse_filter(text, now)
    with Database(place, traceless=traceless) as database, database.read_transaction():
        rows = database.read_rows(selection, MOST)
        total = database.count()
        matching = len(rows) if len(rows) < MOST else database.count(selection)
        tags = database.read_tags(rows)
        used = {row.environment for row in rows}
        facts = {key: database.read_facts()[key] for key in used}
    return Listing(tuple(rows), facts, tags, matching, total)


def compare_environments(
    place: Path, a: StoredRow, b: StoredRow, *, traceless: bool
) -> EnvironmentComparison:
    """Compare the environments of two results, over all workloads that both have.

    A result represents all results in exactly its environment; if both share one environment, it
    represents the results of its session there.

    Raises:
        StoreError: the store cannot be read.
        SelectionError: both represent the same results, or one was deleted.
    """
    with Database(place, traceless=traceless) as database, database.read_transaction():
        facts = database.read_facts()
        of_session = a.environment == b.environment
        if of_session and find_session(a) == find_session(b):
            raise SelectionError(
                "both are of one session with one torch: mark results of two sessions"
            )
        names, sets = [], []
        for first, other in ((a, b), (b, a)):
            rows = database.read_rows(Selection(environments=(first.environment,)))
            _check_exists(first, rows)
            if of_session:
                rows = [row for row in rows if find_session(row) == find_session(first)]
            sets.append(rows)
            names.append(describe_side(first, other, facts, of_session=of_session))
        comparison = compare_rows(database, *sets)
    return EnvironmentComparison((names[0], names[1]), comparison, facts)


def _check_exists(row: StoredRow, rows: Sequence[StoredRow]) -> None:
    """Raise SelectionError if another program deleted the row after it was listed."""
    if all(other.number != row.number for other in rows):
        raise SelectionError(
            f"{row.id[:8]} has been deleted, or its row in the store is damaged; open the tab again"
            " for a new list"
        )


def find_session(row: StoredRow) -> str:
    """Return the name of the session that measured a result, whichever its runner."""
    return row.process.rpartition("-")[0] or row.process


def describe_side(
    row: StoredRow, other: StoredRow, facts: dict[str, Facts], *, of_session: bool
) -> str:
    """Describe the environment of a result briefly, with the flags that differ from another's."""
    values, other_values = facts[row.environment].values, facts[other.environment].values
    words = [values.get("box") or "machine not known", row.device]
    if find_gpu(facts[row.environment]):
        words.append(f"driver {values.get('driver', 'not known')}")
    words.append(f"torch {values.get('torch', 'not known')}")
    words += [
        f"{name} {text}"
        for name, text in values.items()
        if name.startswith(FLAG) and other_values.get(name) != text
    ]
    if of_session:
        # To the second if both have the same minute.
        cells = 16 if _format_time(row)[:16] != _format_time(other)[:16] else 19
        words.append(f"the session of {_format_time(row)[:cells]}")
    return ", ".join(words)


def _format_time(row: StoredRow) -> str:
    known = is_time(row.at)
    return f"{datetime.datetime.fromtimestamp(row.at):%Y-%m-%d %H:%M:%S}" if known else "n/a"


def read_history(place: Path, subject: StoredRow, *, traceless: bool) -> WorkloadHistory:
    """Return all stored runs of the same workload and setting as one result.

    Raises:
        StoreError: the store cannot be read.
        SelectionError: the result was deleted.
    """
    with Database(place, traceless=traceless) as database, database.read_transaction():
        facts = database.read_facts()
        rows = database.read_rows(Selection(workload=subject.workload))
    _check_exists(subject, rows)
    timed = [row for row in rows if row.valid_s and row.measured == subject.measured]
    kind = subject.device.partition(":")[0]
    subject_key = _history_key(facts.get(subject.environment))
    rows_here = [
        row
        for row in timed
        if row.device.partition(":")[0] == kind
        and _history_key(facts[row.environment]) == subject_key
    ]
    used = {row.environment for row in rows_here}
    return WorkloadHistory(
        subject,
        tuple(sorted(rows_here, key=lambda row: row.at)),
        {key: facts[key] for key in used},
        len(timed) - len(rows_here),
    )


def _history_key(facts: Facts | None) -> tuple[object, ...]:
    """Return the facts that all runs of one history share."""
    if facts is None:
        return ()
    return facts.values.get("box"), find_gpu(facts), facts.flags


def compare_rows(
    database: Database, a: Sequence[StoredRow], b: Sequence[StoredRow]
) -> StoreComparison:
    """Compare two sets of results.

    Raises:
        SelectionError: a result is in both sets.
    """
    facts = database.read_facts()
    boxes = {facts[row.environment].values.get("box") for row in (*a, *b)}

    def history() -> list[StoredRow]:
        return [
            row
            for name in {row.workload for row in (*a, *b)}
            for row in database.read_rows(Selection(workload=name))
            if facts[row.environment].values.get("box") in boxes
        ]

    return compare(a, b, facts, history)


# ---- change ------------------------------------------------------------------------------------


def check_tag(database: Database, name: str) -> None:
    """Check that a name is valid as a tag.

    Raises:
        SelectionError: the name would be read as something else.
    """
    if not name or any(letter in name for letter in "=:,") or name != name.strip():
        raise SelectionError(f"{name}: a tag cannot contain a comma, colon or equals sign")
    if _HEXADECIMAL.issuperset(name) and database.find_ids(name):
        raise SelectionError(f"{name}: a result's id begins so; give another name")


def tag_results(place: Path, rows: Sequence[StoredRow], name: str) -> None:
    """Tag results with a name.

    Raises:
        StoreError: the store cannot be written.
        SelectionError: as in :func:`check_tag`.
    """
    with Database(place, writing=True) as database:
        check_tag(database, name)
        database.tag([row.number for row in rows], name)


def delete_results(place: Path, rows: Sequence[StoredRow]) -> None:
    """Delete results.

    Raises:
        StoreError: the store cannot be written.
    """
    with Database(place, writing=True) as database:
        database.delete([row.number for row in rows])
