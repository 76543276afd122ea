"""The tables of the store and how an older file gets those of today."""

from __future__ import annotations

import sqlite3

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
    """The version of the file; 0 of one that is new."""
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
