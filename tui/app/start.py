"""Start the workbench: the session, the screens, and the lines printed after the end."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tui.core import interrupt
from tui.core.child.launch import FOLDER, Launched, launch
from tui.core.text import glyphs
from tui.hosts.choice import HostChoice
from tui.kit import terminal
from tui.kit.command_line.output import Failure, UsageError, print_notice
from tui.kit.command_line.values import python_of, resolve, with_theme
from tui.monitor import serve_command
from tui.snapshots import STANDARD_INPUT
from tui.snapshots.options import read_oom_text

if TYPE_CHECKING:
    from tui.app.extras import Extras
    from tui.core.settings import Settings, Value
    from tui.recordings.lines import RecordingSummary
    from tui.watch.runs.runs import StartedRun

DUMB = ("dumb", "unknown")
"""Values of TERM for terminals that cannot place text: they would show escape codes instead."""
SWITCH_S = 0.001
"""Python's switch interval in seconds. A thread writes each frame and waits this long while the
loop is busy; Python's own 5 ms would be a fifth of the time in which a key is answered."""
WITHOUT_SCREEN = "devices, list, run, compare, snapshot or doctor"


@dataclass(frozen=True, slots=True)
class WorkbenchOptions(HostChoice):
    """Options that are accepted before a command and also work without one."""

    overrides: Mapping[str, Value] = field(default_factory=dict)
    """Settings, by the names of ``tui.core.settings``."""
    files: Sequence[str] = ()
    """Files of the user's own workloads; absolute paths."""
    readonly: bool = False
    present: str = ""
    """The group of workloads to step through from the start."""
    snapshot: str = ""
    """A snapshot file to open."""
    oom_text: str = ""
    """A file with the text of exceptions; empty for none."""
    memory: int | None = None
    """Bytes of memory for reading a snapshot; ``None`` for a quarter of the available memory."""
    record: str = ""
    """The file to record the children's messages in."""
    redact: bool = False
    storing: bool = True
    """Store the measured results."""
    run: Callable[[], StartedRun] | None = None
    """Starts or finds the watched run to show first; called once everything else is ready."""

    @property
    def stores(self) -> bool:
        """Return whether measured results are stored."""
        return self.storing and not self.readonly


def open_workbench(options: WorkbenchOptions) -> int:
    """Run the workbench on the terminal; returns the exit code.

    Where the user asks for the demo, it is played in between.

    Raises:
        UsageError: there is no terminal, or it cannot place text.
        Failure: the run to show cannot be started.
    """
    code, demo_requested = _open(options)
    while demo_requested:
        code = play_recording(None, options.overrides, speed=1.0, loop=False, snapshot=None)
        if code:
            return code
        again = replace(options, present="", snapshot="", oom_text="", run=None)
        code, demo_requested = _open(again)
    return code


def play_recording(
    summary: RecordingSummary | None,
    overrides: Mapping[str, Value],
    *,
    speed: float,
    loop: bool,
    snapshot: Path | None,
) -> int:
    """Play a recording on the terminal, as ``tui.recordings.cli.Play`` describes.

    Without one, play the demo that comes with the program.
    """
    check_terminal()
    interrupt.end_at_once()
    chosen, problems = resolve(overrides)
    prepare_screen(chosen)
    # Deferred: Textual reads the variables of prepare_screen() when it is imported (270 ms).
    from tui.app.replay import run_replay

    return run_replay(summary, chosen, problems, speed=speed, loop=loop, snapshot=snapshot)


def open_run(find: Callable[[], StartedRun], instead: str, overrides: Mapping[str, Value]) -> int:
    """Open a watched run on the screen, as ``tui.watch.cli.processes.OpenRun`` describes."""
    check_terminal(instead)
    try:
        return open_workbench(WorkbenchOptions(overrides=overrides, run=find))
    except Failure as failure:
        print_notice(str(failure))
        return failure.code


def _open(options: WorkbenchOptions) -> tuple[int, bool]:
    """Run the workbench once; returns the exit code, and whether the demo is wanted."""
    check_terminal()
    # Until the app handles signals there is nothing to clean up: the children end with it.
    interrupt.end_at_once()
    text = _oom_text(options)
    chosen, problems = resolve(options.overrides)
    python = python_of(chosen)
    extras = _find_extras(options)
    plan = extras.hosts if extras is not None else None
    # First, because it queries the driver while the screens are imported.
    monitor = _monitor(chosen) if plan is None or plan.here else None
    prepare_screen(chosen)
    # Deferred: the monitor starts and Textual's variables are set before the screens (270 ms).
    from tui.app.build import ResultAttachments, build_app, build_session
    from tui.app.preferences import Preferences

    preferences = Preferences(*with_theme(chosen, problems), write_back=not options.readonly)
    results = ResultAttachments(stores=options.stores, readonly=options.readonly)
    session = build_session(options, python, preferences, results, extras, monitor)
    app = build_app(options, session, preferences, text)
    app.alarms_enabled = chosen.value("alarm")
    # A recording of the session would end with the app.
    recorder = extras.recorder if extras is not None else None
    app.can_play_demo = recorder is None
    first = options.run() if options.run is not None else None
    if first is not None:
        app.open_run_at_start(first)
    app.run(mouse=chosen.value("mouse"))
    # By folder: a run that was opened twice has several records.
    runs = {run.folder: run for run in (first, app.run_left) if run is not None}
    left = chain(*map(app.tab_screens.describe_run, runs.values())) if runs else ()
    problem = recorder.problem if recorder is not None else ""
    for words in (*left, *preferences.problems, *results.problems, problem):
        if words:
            print_notice(words)
    return app.return_code or int(bool(problem)), app.demo_requested


def _find_extras(options: WorkbenchOptions) -> Extras | None:
    """Return the other hosts and the recorder; ``None`` if the options ask for neither.

    Raises:
        UsageError: the hosts cannot be reached as the options say, or nothing can be recorded.
    """
    if options.redact and not options.record:
        raise UsageError("--redact needs --record FILE")
    if not (options.names_hosts or options.record):
        return None
    # Deferred: most starts show this machine alone and record nothing (110 modules, 40 ms).
    from tui.app.extras import build_extras

    return build_extras(options, options.record, redact=options.redact)


def check_terminal(instead: str = f"use {WITHOUT_SCREEN}") -> None:
    """Check that there is a terminal to draw on.

    Args:
        instead: advice for the error message.

    Raises:
        UsageError: there is no terminal, or it cannot place text.
    """
    if "TEXTUAL_DRIVER" in os.environ:
        return  # the screen is drawn elsewhere, as in a browser
    # Keys come from standard input, and the screen is drawn on standard error.
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError(f"the workbench needs a terminal; without one {instead}")
    term = os.environ.get("TERM", "")
    if term in DUMB:
        raise UsageError(
            f"TERM={term}: this terminal cannot position text; set TERM to its type, such as"
            f" xterm-256color, or {instead}"
        )


def _monitor(chosen: Settings) -> Launched | None:
    """Start a monitor; return ``None`` if it cannot start: the session tries again."""
    try:
        return launch(serve_command(chosen.value("refresh")), folder=FOLDER)
    except OSError:
        return None


def prepare_screen(chosen: Settings) -> None:
    """Set the variables that the screens read when they are imported."""
    if chosen.value("ascii"):
        glyphs.use_ascii()
    terminal.prepare_textual()
    # Imported objects stay alive; the app collects again after its first paint.
    gc.disable()
    sys.setswitchinterval(SWITCH_S)


def _oom_text(options: WorkbenchOptions) -> str:
    """Return the text of the exceptions that belong to the snapshot to open.

    Raises:
        UsageError: the text cannot be read, or there is no snapshot.
    """
    if not options.oom_text:
        return ""
    if not options.snapshot:
        raise UsageError("--oom-text needs --snapshot FILE")
    if options.oom_text == STANDARD_INPUT:
        raise UsageError("--oom-text -: the workbench needs standard input for keys; name a file")
    return read_oom_text(options.oom_text, ())
