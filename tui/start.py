"""Start the screens."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from tui import theme
from tui.arguments import UsageError

if TYPE_CHECKING:
    from tui.arguments import Arguments


def run_app(arguments: Arguments) -> int:
    """Run the workbench on the terminal; returns the exit code.

    Raises:
        UsageError: there is no terminal to draw on.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the workbench needs a terminal; without one use devices, list, run, compare or doctor"
        )
    theme.prepare()
    # What is imported stays; the app collects again once it has painted.
    gc.disable()
    from tui.app import WorkbenchApp
    from tui.session import Session

    session = Session(arguments.python)
    app = WorkbenchApp(session, readonly=arguments.readonly)
    app.run(mouse=arguments.mouse)
    return app.return_code or 0
