"""Start the screens."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from tui import theme
from tui.arguments import UsageError

if TYPE_CHECKING:
    from tui.arguments import Arguments

DUMB = ("dumb", "unknown")
"""What TERM is where text cannot be placed; the screen would come as a stream of escape codes."""
WITHOUT_SCREEN = "devices, list, run, compare, snapshot or doctor"


def run_app(arguments: Arguments) -> int:
    """Run the workbench on the terminal; returns the exit code.

    Raises:
        UsageError: there is no terminal to draw on, or it cannot place text.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"the workbench needs a terminal; without one use {WITHOUT_SCREEN}")
    term = os.environ.get("TERM", "")
    if term in DUMB:
        raise UsageError(
            f"TERM={term}: such a terminal cannot place text; set TERM to what it is, as in"
            f" TERM=xterm-256color, or use {WITHOUT_SCREEN}"
        )
    oom_text = _oom_text(arguments)
    theme.prepare()
    # What is imported stays; the app collects again once it has painted.
    gc.disable()
    from tui.app import WorkbenchApp
    from tui.session import Session

    session = Session(arguments.python, files=arguments.files)
    app = WorkbenchApp(session, readonly=arguments.readonly, demo=arguments.demo)
    if arguments.snapshot:
        app.open_at_start(arguments.snapshot, oom_text)
    app.run(mouse=arguments.mouse)
    return app.return_code or 0


def _oom_text(arguments: Arguments) -> str:
    """The text of exceptions that belongs to the snapshot to be opened.

    Raises:
        UsageError: it cannot be read, or there is no snapshot.
    """
    if not arguments.oom_text:
        return ""
    if not arguments.snapshot:
        raise UsageError("--oom-text belongs to a snapshot: give --snapshot FILE too")
    if arguments.oom_text == "-":
        raise UsageError("--oom-text -: the workbench needs standard input for keys; name a file")
    from tui.headless.snapshot import oom_text

    return oom_text(arguments.oom_text, ())
