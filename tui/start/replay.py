"""Start the screens over a recording."""

from __future__ import annotations

import sys
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from tui.cli.arguments import UsageError
from tui.cli.resolve import resolve
from tui.recordings.lines import RecordingError
from tui.recordings.source import Found, look_through
from tui.start.workbench import check_terminal, prepare_screen

if TYPE_CHECKING:
    from tui.cli.arguments import Arguments

DEMO = "demo.jsonl.gz"
"""The recording that comes with the program, beside the code that plays it."""


def run_replay(arguments: Arguments) -> int:
    """Play a recording on the terminal; returns the exit code.

    Raises:
        UsageError: no file is named, there is no terminal, or it cannot place text.
    """
    if len(arguments.names) + arguments.shipped != 1:
        raise UsageError("replay: name a recording, or give --demo for the one that comes with it")
    if not arguments.shipped:
        return _play(Path(arguments.names[0]), arguments)
    with as_file(files("tui.recordings") / DEMO) as path:
        return _play(path, arguments)


def _play(path: Path, arguments: Arguments) -> int:
    try:
        found = look_through(path)
    except RecordingError as error:
        sys.stderr.write(f"gpu-workbench: {error}\n")
        return 1
    return _show(found, arguments)


def _show(found: Found, arguments: Arguments) -> int:
    check_terminal()
    chosen, problems = resolve(arguments)
    prepare_screen(chosen)
    from tui.app.replay import ReplayApp
    from tui.recordings.replay import ReplaySession
    from tui.terminal.themes import with_theme

    chosen, problems = with_theme(chosen, problems)
    session = ReplaySession(found, arguments.speed, loop=arguments.loop)
    app = ReplayApp(session, theme=str(chosen.value("theme")))
    app.run(mouse=bool(chosen.value("mouse")))
    for problem in problems:
        sys.stderr.write(f"gpu-workbench: {problem}\n")
    return app.return_code or 0
