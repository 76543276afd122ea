"""The store of results: its path and its errors. Only modules in it import SQLite."""

from __future__ import annotations

from pathlib import Path

from tui.core import reports


class StoreError(Exception):
    """An error of the store; the message is one line with the file's path and advice."""


def store_path() -> Path:
    """Return the path of this user's store."""
    return reports.folder() / "results.sqlite3"
