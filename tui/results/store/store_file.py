"""The store as a file: opening, tables, versions, and errors."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from tui.results.store import StoreError

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
    ("disk i/o", "check the disk and its free space"),
)
"""Advice by a word of SQLite's message; Python 3.10 does not expose the error code."""


def explain_error(path: Path, error: sqlite3.Error | OSError) -> StoreError:
    """Return SQLite's or the system's error about a file, with advice."""
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    advice = next((hint for word, hint in _ADVICE if word in text.lower()), "")
    return StoreError(f"{path}: {text}" + (f"; {advice}" if advice else ""))


_MOUNTS = Path("/proc/self/mounts")
_OF_A_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|lustre|gpfs|beegfs|ceph|afs|9p|wekafs|panfs|glusterfs|ocfs2|gfs2"
    r"|fuse\.(?!fuse-overlayfs|rclone-local).*"
)
"""Types of file systems that several machines can mount."""


def is_on_network(place: Path, mounts: str | None = None) -> bool:
    """Return whether several machines can open a file at once.

    Args:
        place: the file.
        mounts: text in the format of ``/proc/self/mounts``, which is read by default. Without
            that file, every file counts as local.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
    above = {str(place.absolute()), *map(str, place.absolute().parents)}
    file_system, longest = "", -1
    for entry in mounts.splitlines():
        parts = entry.split(" ")
        if len(parts) > 2:
            # A space in a name is written in octal.
            point = parts[1].replace("\\040", " ")
            # If two mounts share a place, the later one is visible.
            if point in above and len(point) >= longest:
                file_system, longest = parts[2], len(point)
    return _OF_A_NETWORK.fullmatch(file_system) is not None


APPLICATION_ID = 0x67707762
"""``gpwb``: distinguishes our file from any other database."""

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
"""The body of a record has its own table, so that a list reads no page of it."""

_SECOND = (
    """
    CREATE INDEX results_by_setting ON results (workload, device, parameters, environment, at)
    WHERE kind = 'run' AND status = 'ok' AND median_s IS NOT NULL
    """,
)
"""The index finds the newest run of each setting without reading other runs."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND)
"""One migration from each version of the file to the next. Entries are only appended."""

READABLE_FROM = 1
"""The oldest version with today's tables, which can be read without a migration."""


def read_version(connection: sqlite3.Connection) -> int:
    """Return the version of the file, 0 for a new one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> None:
    """Migrate a file to the newest version, completely or not at all.

    Args:
        connection: a connection in autocommit mode.

    Raises:
        sqlite3.Error: the migration failed; the file is unchanged.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Checked within the transaction: another program may have migrated the file meanwhile.
        for number, statements in enumerate(MIGRATIONS, 1):
            if number > read_version(connection):
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


def connect(place: Path, *, writing: bool, traceless: bool, busy_s: float) -> sqlite3.Connection:
    """Open an existing file at a readable version.

    Args:
        place: the file.
        writing: migrate it to the newest version; if false, only if it is unreadable otherwise.
        traceless: read without any lock, extra file or migration.
        busy_s: seconds to wait for another program that writes.

    Returns:
        A connection in autocommit mode.

    Raises:
        StoreError: the file has a version that this program does not know, or may not migrate.
        sqlite3.Error: the file cannot be opened, or is damaged.
    """
    try:
        return _connect(place, writing=writing, traceless=traceless, busy_s=busy_s)
    except sqlite3.OperationalError as error:
        # A WAL needs files beside the store, which a read-only folder does not allow.
        text = str(error).lower()
        read_only = any(word in text for word in ("readonly", "read-only", "unable to open"))
        if writing or traceless or not read_only:
            raise
        return _connect(place, writing=False, traceless=True, busy_s=busy_s)


def _check_owner(connection: sqlite3.Connection, place: Path) -> None:
    """Reject a database of another application.

    Raises:
        StoreError: the database is not ours.
    """
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    version = read_version(connection)
    # Last: another program may fill the empty file meanwhile, at once with its tables and its mark.
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if owner != APPLICATION_ID and (owner or tables or version):
        raise StoreError(
            f"{place}: it belongs to another application, and is left as it is; move it away, or "
            "set GPU_WORKBENCH_STATE to another folder"
        )


def _connect(place: Path, *, writing: bool, traceless: bool, busy_s: float) -> sqlite3.Connection:
    uri = f"file:{quote(str(place.absolute()))}?mode={'rw' if writing else 'ro'}"
    if traceless:
        uri += _build_traceless_option(place)
    connection = sqlite3.connect(uri, uri=True, timeout=busy_s, isolation_level=None)
    try:
        _check_owner(connection, place)
        version, newest = read_version(connection), len(MIGRATIONS)
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
            # Its tables need a migration before they can be read.
            connect(place, writing=True, traceless=False, busy_s=busy_s).close()
            return connect(place, writing=False, traceless=False, busy_s=busy_s)
    except BaseException:
        connection.close()
        raise
    return connection


def _build_traceless_option(place: Path) -> str:
    """Return the URI option that keeps SQLite from writing files beside the store.

    If no program has the store open for writing, there is no WAL: the file has all data, and nobody
    changes it before a WAL exists. Otherwise the WAL's index exists, and is only read.
    """
    journal = place.with_name(f"{place.name}-wal")
    in_use = journal.exists() and journal.stat().st_size > 0
    return "&readonly_shm=1" if in_use else "&immutable=1"


def _prepare(connection: sqlite3.Connection, place: Path, busy_s: float) -> None:
    """Configure a connection for writing."""
    # Programs on two machines cannot share the memory that WAL needs.
    journal = "DELETE" if is_on_network(place) else "WAL"
    _retry_while_locked(
        lambda: connection.execute(f"PRAGMA journal_mode = {journal}").fetchone(), busy_s
    )
    # A run reported as stored survives a loss of power.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _retry_while_locked(change: Callable[[], object], busy_s: float) -> None:
    """Retry a change of the journal mode, for which SQLite does not wait for other programs."""
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
