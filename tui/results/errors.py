"""Why results cannot be kept or read, in one line."""

from __future__ import annotations

import sqlite3
from pathlib import Path


class StoreError(Exception):
    """What is wrong with the store and what to do; one line, the file's path in it."""


class SelectionError(ValueError):
    """What was typed selects nothing that there can be; one line."""


_ADVICE = (
    ("locked", "another program holds it; try again when that has ended"),
    ("busy", "another program holds it; try again when that has ended"),
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
