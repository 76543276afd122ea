"""Start the workbench: the session, the screens, and what is said after the end."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tui.core import interrupt
from tui.core.child.launch import FOLDER, Launched, launch
from tui.core.events import LogLine
from tui.core.text import glyphs
from tui.devices.monitor import serve_command
from tui.kit import terminal
from tui.kit.command_line.output import UsageError, say
from tui.kit.command_line.values import python_of, resolve, with_theme
from tui.snapshots import STANDARD_INPUT
from tui.snapshots.options import read_oom_text

if TYPE_CHECKING:
    from tui.core.settings import Settings, Value
    from tui.recordings.recorder import Recorder
    from tui.watch.runs.runs import StartedRun

DUMB = ("dumb", "unknown")
"""What TERM is where text cannot be placed; the screen would come as a stream of escape codes."""
SWITCH_S = 0.001
"""A frame is written by a thread, which waits for so long where the loop goes on working. Python's
own 5 ms can be felt: they are a fifth of what a key takes to be answered."""
WITHOUT_SCREEN = "devices, list, run, compare, snapshot or doctor"


@dataclass(frozen=True, slots=True)
class WorkbenchOptions:
    """What can be asked for before a command, and is of use without one."""

    given: Mapping[str, Value] = field(default_factory=dict)
    """Settings, by the names of ``tui.core.settings``."""
    files: Sequence[str] = ()
    """Of workloads that the user brings; absolute paths."""
    readonly: bool = False
    demo: str = ""
    """The group to step through from the start."""
    snapshot: str = ""
    """A snapshot file to open."""
    oom_text: str = ""
    """File with the text of exceptions; empty for none."""
    memory: int | None = None
    """Bytes that reading a snapshot may take; ``None`` for a quarter of what is available."""
    record: str = ""
    """File that what the children say is written to."""
    redact: bool = False
    storing: bool = True
    """Keep what is measured for later."""
    run: Callable[[], StartedRun] | None = None
    """Starts or finds the run under the watch that is shown first, once all else is ready."""


def open_workbench(options: WorkbenchOptions) -> int:
    """Run the workbench on the terminal; returns the exit code.

    Raises:
        UsageError: there is no terminal to draw on, or it cannot place text.
        Failure: the run that it is to show cannot be started.
    """
    check_terminal()
    # Until the app hears signals itself there is nothing to clean up: the children end with it.
    interrupt.end_at_once()
    text = _oom_text(options)
    chosen, problems = resolve(options.given)
    python = python_of(chosen)
    # Before all that takes time: it asks the driver while the screens are imported.
    monitor = _monitor(chosen)
    prepare_screen(chosen)
    # The door to the screens: what they read when they are imported is set by now.
    from tui.app.preferences import Preferences
    from tui.app.workbench import WorkbenchApp
    from tui.results.store.recorder import ResultHistory, ResultRecorder
    from tui.runs.session.session import Session

    preferences = Preferences(*with_theme(chosen, problems), keep=not options.readonly)
    recorder = _recorder(options)
    keeper = ResultRecorder() if options.storing and not options.readonly else None
    history = ResultHistory(traceless=options.readonly)
    session = Session(
        python.path,
        preferences.refresh,
        options.files,
        [each for each in (recorder, keeper, history) if each is not None],
        monitor,
        readonly=options.readonly,
    )
    if python.found:
        words = f"workloads run in {python.path}: {python.why}"
        session.state.publish(LogLine("workbench", words))
    preferences.attach(session.state)
    app = WorkbenchApp(
        session, readonly=options.readonly, demo=options.demo, preferences=preferences
    )
    if options.snapshot:
        app.open_at_start(options.snapshot, text)
    first = options.run() if options.run is not None else None
    if first is not None:
        app.open_run_at_start(first)
    app.snapshot_memory = options.memory
    app.keeps_results = keeper is not None
    app.hears_signals = True
    app.run(mouse=chosen.value("mouse"))
    _print_runs_left(first, app.run_left)
    for problem in (*preferences.problems, *(keeper.problems if keeper else ())):
        say(problem)
    if recorder is not None and recorder.problem:
        say(recorder.problem)
    return app.return_code or int(recorder is not None and bool(recorder.problem))


def _print_runs_left(*seen: StartedRun | None) -> None:
    """Print where each run is that goes on or was started here, and how to come back to it."""
    # By their folders: of one that was opened twice there is more than one record.
    for run in {run.folder: run for run in seen if run is not None}.values():
        # The door to runs, of which a start that opens none reads nothing.
        from tui.watch.runs import start
        from tui.watch.runs.run_words import run_left_words

        if run.goes_on or start.is_child(run):
            say(run_left_words(run))


def check_terminal(instead: str = f"use {WITHOUT_SCREEN}") -> None:
    """See that there is something to draw on.

    Args:
        instead: what to do where there is nothing.

    Raises:
        UsageError: there is no terminal, or it cannot place text.
    """
    if "TEXTUAL_DRIVER" in os.environ:
        return  # it draws elsewhere, as in a browser
    # Keys come from standard input, and the screen is drawn on standard error.
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError(f"the workbench needs a terminal; without one {instead}")
    term = os.environ.get("TERM", "")
    if term in DUMB:
        raise UsageError(
            f"TERM={term}: such a terminal cannot place text; set TERM to what it is, as in"
            f" TERM=xterm-256color, or {instead}"
        )


def _monitor(chosen: Settings) -> Launched | None:
    """Start a monitor; return ``None`` where it cannot start: the session tries again."""
    try:
        return launch(serve_command(chosen.value("refresh")), folder=FOLDER)
    except OSError:
        return None


def prepare_screen(chosen: Settings) -> None:
    """Set what is read when the screens are imported."""
    if chosen.value("ascii"):
        glyphs.use_ascii()
    terminal.prepare_textual()
    # What is imported stays; the app collects again once it has painted.
    gc.disable()
    sys.setswitchinterval(SWITCH_S)


def _recorder(options: WorkbenchOptions) -> Recorder | None:
    """Return the recorder that was asked for.

    Raises:
        UsageError: the file is there already, or cannot be made.
    """
    if not options.record:
        if options.redact:
            raise UsageError("--redact belongs to a recording: give --record FILE too")
        return None
    # The door to recordings, of which a start without one reads nothing.
    from tui.recordings.recorder import Recorder, Redaction

    path = Path(options.record)
    try:
        return Recorder(path, Redaction() if options.redact else None)
    except FileExistsError:
        raise UsageError(f"--record {path}: it is there already; name another file") from None
    except OSError as error:
        raise UsageError(f"--record {path}: {error.strerror}") from error


def _oom_text(options: WorkbenchOptions) -> str:
    """Return the text of exceptions that belongs to the snapshot to be opened.

    Raises:
        UsageError: it cannot be read, or there is no snapshot.
    """
    if not options.oom_text:
        return ""
    if not options.snapshot:
        raise UsageError("--oom-text belongs to a snapshot: give --snapshot FILE too")
    if options.oom_text == STANDARD_INPUT:
        raise UsageError("--oom-text -: the workbench needs standard input for keys; name a file")
    return read_oom_text(options.oom_text, ())
