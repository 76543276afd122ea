"""The store as a file: how it is opened, its tables and versions, what is wrong with it."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote


class StoreError(Exception):
    """What is wrong with the store and what to do; one line, the file's path in it."""


_ADVICE = (
    ("locked", "another program has locked it; try again when that program has ended"),
    ("busy", "another program has locked it; try again when that program has ended"),
    ("full", "make room on the disk"),
    ("not a database", "it is damaged; move it away, and a new one is made"),
    ("malformed", "it is damaged; move it away, and a new one is made"),
    ("encrypted", "it is damaged; move it away, and a new one is made"),
    ("readonly", "make it writable, or set GPU_WORKBENCH_STATE to a folder that is"),
    ("read-only", "make it writable, or set GPU_WORKBENCH_STATE to a folder that is"),
    ("unable to open", "make its folder writable, or set GPU_WORKBENCH_STATE to one that is"),
    ("disk i/o", "look at the disk, and whether there is room on it"),
)
"""What to do, by a word of SQLite's message; Python 3.10 does not tell its code."""


def explained(path: Path, error: sqlite3.Error | OSError) -> StoreError:
    """SQLite's or the system's error about a file, with what to do about it."""
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    advice = next((what for word, what in _ADVICE if word in text.lower()), "")
    return StoreError(f"{path}: {text}" + (f"; {advice}" if advice else ""))


_MOUNTS = Path("/proc/self/mounts")
_OF_A_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|lustre|gpfs|beegfs|ceph|afs|9p|wekafs|panfs|glusterfs|ocfs2|gfs2"
    r"|fuse\.(?!fuse-overlayfs|rclone-local).*"
)
"""Kinds of file systems that several machines may have mounted."""


def is_on_network(place: Path, mounts: str | None = None) -> bool:
    """Return whether several machines may have a file open at once.

    Args:
        place: the file.
        mounts: what there is mounted, as in ``/proc/self/mounts``, which is read where it is not
            given. Where there is no such file, nothing is taken for another machine's.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
    above = {str(place.absolute()), *map(str, place.absolute().parents)}
    found, longest = "", -1
    for entry in mounts.splitlines():
        parts = entry.split(" ")
        if len(parts) > 2:
            # A space in a name is written in octal.
            point = parts[1].replace("\\040", " ")
            # Of two at one place the later one is seen.
            if point in above and len(point) >= longest:
                found, longest = parts[2], len(point)
    return _OF_A_NETWORK.fullmatch(found) is not None


APPLICATION_ID = 0x67707762
"""``gpwb``: tells our file from any other database."""

_FIRST = (
    """
    CREATE TABLE environments (
        hash TEXT PRIMARY KEY,
        facts TEXT NOT NULL,
        unknown TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE results (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        at REAL NOT NULL,
        process TEXT NOT NULL,
        sweep TEXT NOT NULL,
        workload TEXT NOT NULL,
        device TEXT NOT NULL,
        parameters TEXT NOT NULL,
        status TEXT NOT NULL,
        median_s REAL,
        low_s REAL,
        high_s REAL,
        environment TEXT NOT NULL REFERENCES environments (hash),
        marks TEXT NOT NULL,
        said TEXT NOT NULL,
        clock_mhz REAL,
        limits TEXT NOT NULL
    )
    """,
    "CREATE INDEX results_by_time ON results (at)",
    "CREATE INDEX results_by_workload ON results (workload, at)",
    "CREATE INDEX results_by_environment ON results (environment)",
    """
    CREATE TABLE bodies (
        number INTEGER PRIMARY KEY REFERENCES results (number) ON DELETE CASCADE,
        body TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE tags (
        name TEXT NOT NULL,
        number INTEGER NOT NULL REFERENCES results (number) ON DELETE CASCADE,
        PRIMARY KEY (name, number)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX tags_by_result ON tags (number)",
)
"""The body of a record is apart, so that a list reads no page of it."""

_SECOND = (
    """
    CREATE INDEX results_by_setting ON results (workload, device, parameters, environment, at)
    WHERE kind = 'run' AND status = 'ok' AND median_s IS NOT NULL
    """,
)
"""The newest of each setting is found without a look at any other."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND)
"""One for each version of the file: what makes it of the version before. Only added to."""

READABLE_FROM = 1
"""The oldest version whose tables are those of today, so that they can be read as they are."""


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the file, 0 for a new one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(
    connection: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...] | None = None
) -> None:
    """Bring a file to the newest version, whole or not at all.

    Args:
        connection: that commits by itself.
        migrations: all that there are.

    Raises:
        sqlite3.Error: it cannot be; the file is as it was.
    """
    steps = MIGRATIONS if migrations is None else migrations
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked within the transaction: another program may have done it in between.
        for number, statements in enumerate(steps, 1):
            if number > version_of(connection):
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_RETRY_S = 0.02


def opened(place: Path, *, writing: bool, traceless: bool, busy_s: float) -> sqlite3.Connection:
    """Open the file, which is there, at a version that can be read.

    Args:
        place: the file.
        writing: bring it to the newest version; without it only where it could not be read else.
        traceless: read and leave no trace: no lock, no file beside it, no newer version.
        busy_s: for how long to wait for another program that writes.

    Returns:
        A connection that commits by itself.

    Raises:
        StoreError: it is of a version that this program does not know, or may not change.
        sqlite3.Error: it cannot be opened, or is damaged.
    """
    try:
        return _opened(place, writing=writing, traceless=traceless, busy_s=busy_s)
    except sqlite3.OperationalError as error:
        # A WAL needs files beside the store, which a folder that is read-only does not take.
        text = str(error).lower()
        read_only = any(word in text for word in ("readonly", "read-only", "unable to open"))
        if writing or traceless or not read_only:
            raise
        return _opened(place, writing=False, traceless=True, busy_s=busy_s)


def _check_owner(connection: sqlite3.Connection, place: Path) -> None:
    """Refuse a database that another application has made.

    Raises:
        StoreError: it is not ours.
    """
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    if owner != APPLICATION_ID and (owner or tables or version_of(connection)):
        raise StoreError(
            f"{place}: it belongs to another application, and is left as it is; move it away, or "
            "set GPU_WORKBENCH_STATE to another folder"
        )


def _opened(place: Path, *, writing: bool, traceless: bool, busy_s: float) -> sqlite3.Connection:
    uri = f"file:{quote(str(place.absolute()))}?mode={'rw' if writing else 'ro'}"
    if traceless:
        uri += _without_trace(place)
    connection = sqlite3.connect(uri, uri=True, timeout=busy_s, isolation_level=None)
    try:
        _check_owner(connection, place)
        version, newest = version_of(connection), len(MIGRATIONS)
        if version > newest:
            raise StoreError(
                f"{place}: it is of version {version}, and this program knows"
                f" {newest}; install the newer gpu-workbench"
            )
        if writing:
            _prepare(connection, place, busy_s)
            if version < newest:
                migrate(connection)
        elif traceless and version < READABLE_FROM:
            raise StoreError(
                f"{place}: it is of version {version}, and here it cannot be brought to {newest};"
                " look at it once without --readonly, where it may be written"
            )
        elif not traceless and version < newest:
            connection.close()
            # Its tables are to be those of today before it can be read.
            opened(place, writing=True, traceless=False, busy_s=busy_s).close()
            return opened(place, writing=False, traceless=False, busy_s=busy_s)
    except BaseException:
        connection.close()
        raise
    return connection


def _without_trace(place: Path) -> str:
    """Return the URI option that keeps SQLite from writing files beside the store.

    While no program has it open for writing there is no WAL: all is in the file, which nobody
    changes before there is one. Else the WAL's index is there, and is only read.
    """
    journal = place.with_name(f"{place.name}-wal")
    in_use = journal.exists() and journal.stat().st_size > 0
    return "&readonly_shm=1" if in_use else "&immutable=1"


def _prepare(connection: sqlite3.Connection, place: Path, busy_s: float) -> None:
    """Set up what a connection that writes goes by."""
    # Programs on two machines cannot share the memory that WAL needs.
    journal = "DELETE" if is_on_network(place) else "WAL"
    _waiting(lambda: connection.execute(f"PRAGMA journal_mode = {journal}").fetchone(), busy_s)
    # A run that is said to be kept outlives a loss of power too.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _waiting(change: Callable[[], object], busy_s: float) -> None:
    """SQLite does not wait for others where the journal's mode is set."""
    until = time.monotonic() + busy_s
    while True:
        try:
            change()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(_RETRY_S)
        else:
            return
