"""Run the program with a heart in its loop: ``-m benchmarks.soak.probe FILE [ARGUMENT…]``."""

from __future__ import annotations

import asyncio
import sys

from benchmarks.soak.heart import Heart
from tui.app import workbench as app
from tui.cli.main import main

_tasks: set[asyncio.Task[None]] = set()


class ProbedApp(app.WorkbenchApp):
    """The workbench with a heart; Textual calls this handler besides the inherited one."""

    def on_mount(self) -> None:
        _tasks.add(asyncio.create_task(Heart(HEART_FILE).beat()))


if __name__ == "__main__":
    HEART_FILE = sys.argv.pop(1)
    app.WorkbenchApp = ProbedApp  # type: ignore[misc]
    sys.exit(main())
