"""Start the screens: what must be set before Textual is imported, and the end of the process."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from tui.cli import UsageError

if TYPE_CHECKING:
    from tui.cli import Arguments

FPS_SSH = "15"
"""Frames a second at most over a link, where each frame costs bytes."""
THEME = "ansi-dark"
"""The terminal's own sixteen colours; the variable TEXTUAL_THEME names another."""


def run_app(arguments: Arguments) -> int:
    """Run the workbench on the terminal; returns the exit code.

    Raises:
        UsageError: there is no terminal to draw on.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the workbench needs a terminal; without one use devices, list, run, compare or doctor"
        )
    # Textual reads these when it is imported.
    if "SSH_CONNECTION" in os.environ:
        os.environ.setdefault("TEXTUAL_FPS", FPS_SSH)
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    os.environ.setdefault("TEXTUAL_THEME", THEME)
    # What is imported stays; the app collects again once it has painted.
    gc.disable()
    from tui.app import WorkbenchApp
    from tui.session import Session

    session = Session(arguments.python)
    app = WorkbenchApp(session, readonly=arguments.readonly)
    app.run(mouse=arguments.mouse)
    return app.return_code or 0
