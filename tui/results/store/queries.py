"""What a screen asks of the store, each question in one go: it is asked in a thread.

Every function opens the file, so that what another program moved away or made anew is found.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.results.store.compare import StoreComparison, compare
from tui.results.store.database import Database
from tui.results.store.records import FLAG, Facts, StoredRow, gpu_of
from tui.results.store.selection import Selection, SelectionError, both, read
from tui.results.store.validity import is_time

MOST = 2000
"""Results that a list holds; a filter finds any of the others."""
_DATED = re.compile(r"(before|since):")
_HEXADECIMAL = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Listed:
    """The newest results that a filter leaves."""

    rows: tuple[StoredRow, ...]
    facts: dict[str, Facts]
    """What they were measured on, by hash."""
    tags: dict[int, tuple[str, ...]]
    """By the rows' numbers."""
    matching: int
    """How many the filter leaves, of which :data:`MOST` are here."""
    all: int
    """How many there are."""


@dataclass(frozen=True, slots=True)
class Sides:
    """What two results stand for, side by side."""

    names: tuple[str, str]
    """Of A and of B: what the two sets are, in words."""
    compared: StoreComparison
    facts: dict[str, Facts]


@dataclass(frozen=True, slots=True)
class Past:
    """A workload with one setting and the same flags, over time on one device of one box."""

    subject: StoredRow
    rows: tuple[StoredRow, ...]
    """The oldest first."""
    facts: dict[str, Facts]
    elsewhere: int
    """Further runs of the same on other boxes, on other GPUs or with other flags."""


def filter_of(text: str, now: float) -> Selection:
    """Parse the filter typed to narrow a list: words of ``results compare``, or any others.

    Args:
        text: parts divided by blanks or commas. ``box=a``, ``since:7d`` and the like are conditions
            on facts; every other part is to be in the workload's name, or to be its device, its
            status, a tag, or the beginning of an id.
        now: Unix time; of dates that count back from it.

    Raises:
        SelectionError: a part is not finished, or of no known form.
    """
    found = Selection()
    for part in text.replace(",", " ").split():
        if "=" in part or _DATED.match(part):
            found = both(found, read(part, now)[0])
        else:
            found = both(found, Selection(words=(part,)))
    return found


def listed(place: Path, text: str, now: float, *, traceless: bool) -> Listed:
    """Return the newest results that a filter leaves.

    Raises:
        StoreError: the store cannot be read.
        SelectionError: as of :func:`filter_of`.
    """
    wanted = filter_of(text, now)
    with Database(place, traceless=traceless) as database, database.moment():
        rows = database.rows(wanted, MOST)
        total = database.count()
        many = len(rows) if len(rows) < MOST else database.count(wanted)
        tags = database.tags_of(rows)
        used = {row.environment for row in rows}
        facts = {key: database.facts()[key] for key in used}
    return Listed(tuple(rows), facts, tags, many, total)


def sides(place: Path, a: StoredRow, b: StoredRow, *, traceless: bool) -> Sides:
    """Compare what two results stand for, over all workloads that both have.

    A result stands for all that was measured in exactly its environment; where both are of one
    environment, for what its session measured there.

    Raises:
        StoreError: the store cannot be read.
        SelectionError: both stand for the same, or one has been deleted.
    """
    with Database(place, traceless=traceless) as database, database.moment():
        facts = database.facts()
        of_session = a.environment == b.environment
        if of_session and session_of(a) == session_of(b):
            raise SelectionError(
                "both were measured by one session in one environment: mark results of two"
            )
        names, sets = [], []
        for one, other in ((a, b), (b, a)):
            rows = database.rows(Selection(environments=(one.environment,)))
            _check_kept(one, rows)
            if of_session:
                rows = [row for row in rows if session_of(row) == session_of(one)]
            sets.append(rows)
            names.append(stands_for(one, other, facts, of_session=of_session))
        found = compared(database, *sets)
    return Sides((names[0], names[1]), found, facts)


def _check_kept(row: StoredRow, rows: Sequence[StoredRow]) -> None:
    """See that another program has not deleted it since it was listed."""
    if all(one.number != row.number for one in rows):
        raise SelectionError(
            f"{row.id[:8]} has been deleted, or its row in the store is damaged; open the tab again"
            " for a new list"
        )


def session_of(row: StoredRow) -> str:
    """Return the name of the session that measured a result, whichever its runner."""
    return row.process.rpartition("-")[0] or row.process


def stands_for(
    row: StoredRow, other: StoredRow, facts: dict[str, Facts], *, of_session: bool
) -> str:
    """Describe the environment of a result briefly, with the flags that differ from another's."""
    values, theirs = facts[row.environment].values, facts[other.environment].values
    words = [values.get("box") or "box not known", row.device]
    if gpu_of(facts[row.environment]):
        words.append(f"driver {values.get('driver', 'not known')}")
    words.append(f"torch {values.get('torch', 'not known')}")
    words += [
        f"{name} {text}"
        for name, text in values.items()
        if name.startswith(FLAG) and theirs.get(name) != text
    ]
    if of_session:
        # To the second where the minute is that of the other one.
        cells = 16 if _when(row)[:16] != _when(other)[:16] else 19
        words.append(f"the session of {_when(row)[:cells]}")
    return ", ".join(words)


def _when(row: StoredRow) -> str:
    known = is_time(row.at)
    return f"{datetime.datetime.fromtimestamp(row.at):%Y-%m-%d %H:%M:%S}" if known else "n/a"


def past(place: Path, subject: StoredRow, *, traceless: bool) -> Past:
    """All that is kept of the same as one result.

    Raises:
        StoreError: the store cannot be read.
        SelectionError: it has been deleted.
    """
    with Database(place, traceless=traceless) as database, database.moment():
        facts = database.facts()
        rows = database.rows(Selection(workload=subject.workload))
    _check_kept(subject, rows)
    timed = [
        row
        for row in rows
        if row.status == "ok" and row.median_s and row.parameters == subject.parameters
    ]
    kind = subject.device.partition(":")[0]
    mine = _place(facts.get(subject.environment))
    here = [
        row
        for row in timed
        if row.device.partition(":")[0] == kind and _place(facts[row.environment]) == mine
    ]
    used = {row.environment for row in here}
    return Past(
        subject,
        tuple(sorted(here, key=lambda row: row.at)),
        {key: facts[key] for key in used},
        len(timed) - len(here),
    )


def _place(facts: Facts | None) -> tuple[object, ...]:
    """Return the facts that all runs of one history share."""
    if facts is None:
        return ()
    return facts.values.get("box"), gpu_of(facts), facts.flags


def compared(database: Database, a: Sequence[StoredRow], b: Sequence[StoredRow]) -> StoreComparison:
    """Two sets of results side by side.

    Raises:
        SelectionError: a result is in both.
    """
    facts = database.facts()
    boxes = {facts[row.environment].values.get("box") for row in (*a, *b)}

    def history() -> list[StoredRow]:
        return [
            row
            for name in {row.workload for row in (*a, *b)}
            for row in database.rows(Selection(workload=name))
            if facts[row.environment].values.get("box") in boxes
        ]

    return compare(a, b, facts, history)


# ---- change ------------------------------------------------------------------------------------


def check_tag(database: Database, name: str) -> None:
    """See that results can be called by a name.

    Raises:
        SelectionError: it would be taken for something else.
    """
    if not name or any(letter in name for letter in "=:,") or name != name.strip():
        raise SelectionError(f"{name}: a tag has no comma, colon or equals sign")
    if _HEXADECIMAL.issuperset(name) and database.ids(name):
        raise SelectionError(f"{name}: that is the beginning of a result's id; give another name")


def tag(place: Path, rows: Sequence[StoredRow], name: str) -> None:
    """Give results a name.

    Raises:
        StoreError: it cannot be written.
        SelectionError: as of :func:`check_tag`.
    """
    with Database(place, writing=True) as database:
        check_tag(database, name)
        database.tag([row.number for row in rows], name)


def delete(place: Path, rows: Sequence[StoredRow]) -> None:
    """Forget results.

    Raises:
        StoreError: it cannot be written.
    """
    with Database(place, writing=True) as database:
        database.delete([row.number for row in rows])
