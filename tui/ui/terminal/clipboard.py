"""What is copied is kept in a file too: no terminal says whether it took it (OSC 52)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui import reports

if TYPE_CHECKING:
    from textual.app import App

NAME = "copied.txt"


def keep(text: str) -> Path:
    """Write what was copied, in place of what was copied before.

    Args:
        text: that was sent to the terminal.

    Returns:
        The file, in the state folder; its owner alone can read it.

    Raises:
        OSError: it cannot be written.
    """
    path = reports.folder() / NAME
    reports.write_private(path, (text.rstrip("\n") + "\n").encode("utf-8", errors="replace"))
    return path


def copy(app: App[Any], what: str, text: str) -> None:
    """Send text to the terminal's clipboard, keep it in a file, and say so.

    Args:
        app: whose terminal it is.
        what: names the text in the message.
        text: all of it.
    """
    app.copy_to_clipboard(text)
    app.notify(told(what, text), markup=False)


def told(what: str, text: str) -> str:
    """Keep the text, and say in a sentence where all of it went."""
    try:
        where = f"and written to {_short(keep(text))}"
    except OSError as error:
        where = f"and not written to a file: {error.strerror or error}"
    return f"{what}: sent to the terminal (OSC 52), which may refuse it, {where}"


def _short(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
