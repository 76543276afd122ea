"""Copies: to the terminal's clipboard and, since no terminal confirms one (OSC 52), to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.core import reports

if TYPE_CHECKING:
    from textual.app import App

COPIED = "copied.txt"
"""The file in the state folder."""


def store_copy(text: str) -> Path:
    """Write a copied text to the file, in place of the previous one.

    Returns:
        The file, in the state folder; only its owner can read it.

    Raises:
        OSError: it cannot be written.
    """
    path = reports.folder() / COPIED
    reports.write_private(path, (text.rstrip("\n") + "\n").encode("utf-8", errors="replace"))
    return path


def copy(app: App[Any], subject: str, text: str) -> None:
    """Send a text to the terminal's clipboard, store it in a file, and report both.

    Args:
        app: the app on that terminal.
        subject: names the text in the message.
        text: the text in full.
    """
    app.copy_to_clipboard(text)
    app.notify(copy_message(subject, text), markup=False)


def copy_message(subject: str, text: str) -> str:
    """Store a text in the file, and return a sentence on where it went."""
    try:
        where = f"and written to {shorten_path(store_copy(text))}"
    except OSError as error:
        where = f"and not written to a file: {error.strerror or error}"
    return f"{subject} copied, if the terminal allows it (OSC 52), {where}"


def shorten_path(path: Path) -> str:
    """Return a path with the home folder as a tilde."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
