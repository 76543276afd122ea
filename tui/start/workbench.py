"""Start the screens."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from tui.cli.arguments import UsageError
from tui.cli.resolve import resolve, take_python
from tui.terminal import theme

if TYPE_CHECKING:
    from tui.cli.arguments import Arguments
    from tui.recordings.recorder import Recorder
    from tui.settings import Settings

DUMB = ("dumb", "unknown")
"""What TERM is where text cannot be placed; the screen would come as a stream of escape codes."""
SWITCH_S = 0.001
"""A frame is written by a thread, which waits for so long where the loop goes on working. Python's
own 5 ms can be felt: they are a fifth of what a key takes to be answered."""
WITHOUT_SCREEN = "devices, list, run, compare, snapshot or doctor"


def run_app(arguments: Arguments) -> int:
    """Run the workbench on the terminal; returns the exit code.

    Raises:
        UsageError: there is no terminal to draw on, or it cannot place text.
    """
    check_terminal()
    oom_text = _oom_text(arguments)
    chosen, problems = resolve(arguments)
    take_python(arguments, chosen)
    prepare_screen(chosen)
    from tui.app.workbench import WorkbenchApp
    from tui.session.preferences import Preferences
    from tui.session.session import Session
    from tui.terminal.themes import with_theme

    preferences = Preferences(*with_theme(chosen, problems), keep=not arguments.readonly)
    recorder = _recorder(arguments)
    session = Session(arguments.python, preferences.refresh, arguments.files, recorder)
    preferences.attach(session)
    app = WorkbenchApp(
        session, readonly=arguments.readonly, demo=arguments.demo, preferences=preferences
    )
    if arguments.snapshot:
        app.open_at_start(arguments.snapshot, oom_text)
    app.run(mouse=chosen.value("mouse"))
    for problem in preferences.problems:
        sys.stderr.write(f"gpu-workbench: {problem}\n")
    return app.return_code or 0


def check_terminal() -> None:
    """See that there is something to draw on.

    Raises:
        UsageError: there is no terminal, or it cannot place text.
    """
    if "TEXTUAL_DRIVER" in os.environ:
        return  # it draws elsewhere, as in a browser
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"the workbench needs a terminal; without one use {WITHOUT_SCREEN}")
    term = os.environ.get("TERM", "")
    if term in DUMB:
        raise UsageError(
            f"TERM={term}: such a terminal cannot place text; set TERM to what it is, as in"
            f" TERM=xterm-256color, or use {WITHOUT_SCREEN}"
        )


def prepare_screen(chosen: Settings) -> None:
    """Set what is read when the screens are imported."""
    if chosen.value("ascii"):
        os.environ["GPU_WORKBENCH_ASCII"] = "1"
    theme.prepare()
    # What is imported stays; the app collects again once it has painted.
    gc.disable()
    sys.setswitchinterval(SWITCH_S)


def _recorder(arguments: Arguments) -> Recorder | None:
    """What writes the recording that was asked for.

    Raises:
        UsageError: the file is there already, or cannot be made.
    """
    if not arguments.record:
        if arguments.redact:
            raise UsageError("--redact belongs to a recording: give --record FILE too")
        return None
    from pathlib import Path

    from tui.recordings.recorder import Recorder
    from tui.recordings.redaction import Redaction

    path = Path(arguments.record)
    try:
        return Recorder(path, Redaction() if arguments.redact else None)
    except FileExistsError:
        raise UsageError(f"--record {path}: it is there already; name another file") from None
    except OSError as error:
        raise UsageError(f"--record {path}: {error.strerror}") from error


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
