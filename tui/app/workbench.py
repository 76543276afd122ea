"""Connect a session's states to screens, keys to actions, and signals to an orderly end.

The tabs that open later are imported after the first paint, see :mod:`tui.app.tabs`: the start
is measured against an empty app, and each module adds half a millisecond.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from rich.text import Text
from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.filter import LineFilter, Monochrome, NoColor
from textual.geometry import Size
from textual.notifications import SeverityLevel
from textual.reactive import Reactive
from textual.screen import Screen
from textual.scrollbar import ScrollBar
from textual.widgets import Input
from textual.worker import Worker

from tui.app.commands import REGISTRY
from tui.app.drawing import Drawing
from tui.app.tabs import TabbedApp, command_of
from tui.app.theme_screen import ThemeScreen
from tui.app.workload_search import OfferSearch, WorkloadSearch
from tui.core import reports
from tui.core.events import LogLine, Topics
from tui.core.settings import THEME
from tui.core.text import glyphs
from tui.core.text.glyphs import clean
from tui.kit import styles
from tui.kit.command_line.values import theme_names
from tui.kit.command_screen import bindings_of
from tui.kit.commands.silent_keys import explain_silent_key
from tui.kit.dialogs import ConfirmScreen, HelpScreen, Palette, WorkbenchCommands
from tui.kit.few_colors import Nearest256
from tui.kit.pane import AsciiScrollBar, LinesView, pane_of
from tui.kit.picture import make_portable
from tui.kit.terminal import clipboard, ending
from tui.kit.terminal.alarm import alarm_sequence
from tui.kit.terminal.ending import HangupWatch
from tui.kit.terminal.textual_private import FORGET_S, forget_caches, write_to_terminal
from tui.kit.themes import THEMES, find_frame_color, find_ground, theme_for
from tui.runs.screens.program import RunActions
from tui.runs.state.alarms import RunAlarms
from tui.runs.state.state import WorkbenchState
from tui.runs.views.queue import format_quit_warning

if TYPE_CHECKING:
    from tui.app.preferences import Preferences

INTERRUPTED = 130
AT_ONCE_S = 0.05
"""Seconds that the first paint waits for figures that are nearly there: else it would be redone."""
STOP_S = 4.0
"""Seconds to stop a session; a slower one ends when its parent process dies."""
TUI = Path(__file__).parents[1]
FRAMEWORK = TUI / "kit" / "framework.tcss"
"""Styles of widgets that are on no screen before the first paint."""
NO_COLOR = NoColor()
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body style="margin:0">{picture}</body></html>
"""
"""A web page around a picture, whose text can be selected and searched."""
EXACT = ("truecolor", "256", "windows")
"""Rich's names of the color systems in which the program's own theme looks as it should."""
DEFAULT_REFRESH_S = 1.0
REFRESH_STEPS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""The choices of seconds between two samples."""
ALARM_S = 1.0
"""Seconds between two checks for events that deserve an alarm."""
LEAST_S, LETTERS_A_SECOND = 3.0, 20
"""Least seconds that a message stays, and letters that a user reads in a second."""
LEVELS: dict[SeverityLevel, Literal["info", "warning", "error"]] = {
    "information": "info",
    "warning": "warning",
    "error": "error",
}


class SessionLike(RunActions, Protocol):
    """The parts of a session that the app uses."""

    @property
    def state(self) -> WorkbenchState:
        """The current state."""

    def watch(self) -> None:
        """Start reading the devices."""

    async def wait_for_sample(self, timeout_s: float = ...) -> None:
        """Wait for the first reading of the devices, ``timeout_s`` seconds at most."""

    async def start(self) -> None:
        """Start the children that are not running yet."""

    async def stop(self) -> None:
        """End the children."""

    def on_error(self, handler: Callable[[BaseException], None]) -> None:
        """Register a function to call with an error of the session's own."""


def _selected(screen: Screen[object]) -> str:
    """Return the selected text: of the focused field, else of the screen."""
    field = screen.focused
    selected = field.selected_text if isinstance(field, Input) else ""
    return selected or screen.get_selected_text() or ""


class WorkbenchApp(TabbedApp):
    """The workbench on a terminal.

    Args:
        session: the children, the states and the actions; the app starts and stops it.
        readonly: offer no command that sends a request to the runner.
        present: a group of workloads to step through from the start.
        preferences: the settings to apply, written back at the end; ``None`` for the defaults, with
            nothing written.
        clock: returns the current Unix time, from which ages are computed.
    """

    TITLE = "gpu-workbench"
    # Styles of the first screen; the others bring their own when they open.
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        TUI / "devices" / "screens" / "device_panes.tcss",
        TUI / "kit" / "pane.tcss",
        TUI / "runs" / "screens" / "workloads_pane.tcss",
        TUI / "runs" / "screens" / "workbench.tcss",
    ]
    ansi_theme_dark = Reactive(styles.PALETTE_ON_DARK, init=False)
    ansi_theme_light = Reactive(styles.PALETTE_ON_LIGHT, init=False)
    COMMAND_PALETTE_BINDING = "colon"
    COMMANDS: ClassVar = {WorkbenchCommands, WorkloadSearch, OfferSearch}
    handles_signals = False
    """Signals and the terminal's hang-up end the app; true where it has a process to itself."""
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of(command for command in REGISTRY.commands if command.target == "app"),
        Binding("ctrl+c", "interrupt", show=False, priority=True, system=True),
    ]

    def __init__(
        self,
        session: SessionLike,
        *,
        readonly: bool = False,
        present: str = "",
        preferences: Preferences | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(session.state, session, readonly=readonly, clock=clock)
        self.refresh_s = preferences.refresh if preferences else DEFAULT_REFRESH_S
        """Seconds between two samples of the devices."""
        self.alarms_enabled = False
        """Ring, and notify the user, when a long run has ended or memory has run out."""
        self._alarms: dict[str, RunAlarms] = {}
        """Alarms of the runs on this machine and on each other host, by the host's name."""
        self.demo_requested = False
        """The app ended because the user wants to see the demo."""
        if preferences is not None:
            self.borders = preferences.borders
        self._session = session
        self._first_pages = present
        self._applied_theme: tuple[str, bool] | None = None
        """The theme of the parsed styles, and whether its colors are the terminal's."""
        self._drawing = Drawing(self, self._draw)
        self._hooks = ProcessHooks()
        self._preferences = preferences
        for theme in THEMES:
            self.register_theme(theme)
        chosen = preferences.theme if preferences else THEME
        self.theme = theme_for(chosen, self.console.color_system)
        # Textual does not report its own default, textual-dark.
        self.watch_theme(self.theme)
        self._chosen_theme = self.theme
        """The theme to remember; the list of themes also shows others."""
        if preferences:
            preferences.theme = self.theme  # so that only the user's own changes are written back
        self.animation_level = "none"
        if glyphs.GLYPHS.ascii:
            self.add_class("-ascii")
            ScrollBar.renderer = AsciiScrollBar

    # ---- appearance ----

    def watch_theme(self, _name: str) -> None:
        """Use the text styles that are readable in the new theme."""
        exact = self.console.color_system in EXACT and not self.no_color
        native, dark = self.native_ansi_color, self.current_theme.dark
        ground = find_ground(self.current_theme) if exact and not native else None
        shades = self.console.color_system == "truecolor"
        styles.use(native=native, dark=dark, ground=ground, shades=shades)
        self.set_class(dark and ground is not None, "-dark-colors")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colors that the program's styles name and Textual's themes lack."""
        return {"frame": find_frame_color(self.current_theme)}

    def refresh_css(self, animate: bool = True) -> None:
        """Apply another theme; before the first screen there is nothing to restyle.

        Textual also calls it for each screen that it opens, up to three times: it would parse all
        styles again (15 ms). A screen that opens applies the styles anyway.
        """
        applied = (self.theme, self.native_ansi_color)
        if not self.screen_stack:
            self.stylesheet.set_variables(self.get_css_variables())
        elif applied != self._applied_theme:
            super().refresh_css(animate)
        self._applied_theme = applied

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the framework's line filters, except that without colors not even grays are used.

        On a terminal with 256 colors, the nearest ones are drawn.
        """
        filters = super().get_line_filters()
        if self.console.color_system == "256" and not (self.native_ansi_color or self.no_color):
            return [*filters, Nearest256()]
        if not self.no_color:
            return filters
        return [NO_COLOR if isinstance(item, Monochrome) else item for item in filters]

    def on_resize(self, event: events.Resize) -> None:
        """Redraw everything even if the terminal has its old size again.

        If it shrank and grew while the program was busy, it has lost its contents; Textual redraws
        only the difference from what it drew last.

        A signal that interrupts the handler of the one before is reported first, so the last event
        can be of a size that the terminal had earlier: the size of the terminal counts.
        """
        size = self.terminal_size()
        if size not in (None, event.size):
            self.post_message(events.Resize(size, size))
        elif self.screen.size == event.size:
            self.screen.refresh()

    def terminal_size(self) -> Size | None:
        """Return the size of the terminal; ``None`` where the app draws on none."""
        if self.is_headless or self.is_web or sys.__stdout__ is None:
            return None
        return Size(*shutil.get_terminal_size()) if sys.__stdout__.isatty() else None

    # ---- start and end ----

    async def on_load(self) -> None:
        """Read the devices once before there is a screen, so that the first paint shows them."""
        if self.handles_signals:
            self._hooks.loaded(self)
        self._session.on_error(self._session_failed)
        self._session.watch()
        await self._session.wait_for_sample(AT_ONCE_S)
        self.state.bus.on_change(self._drawing.changed)
        self.state.bus.on_change(self.devices_changed)

    def on_mount(self) -> None:
        """Set up the parts that need a screen."""
        self._hooks.mounted(self)
        self.call_after_refresh(self._finish_start)

    async def _finish_start(self) -> None:
        """Finish the parts of the start that the first paint did not wait for."""
        self._hooks.painted()
        self.stylesheet.read(FRAMEWORK)
        self._drawing.watch_age(self.state, self.clock)
        if self.alarms_enabled and not (self.replay or self.is_web):
            self.set_interval(ALARM_S, self._ring)
        if self._preferences is not None:
            self._preferences.warn = self._warn
            for problem in self._preferences.problems:
                self._warn(problem)
        # A function, not a coroutine: if the app ends first, no coroutine is left unawaited.
        _: Worker[None] = self.run_worker(self._start_session, name="session", group="session")
        if self._first_pages:
            await self.open_pages(self._first_pages)
        await self.open_first()

    async def _start_session(self) -> None:
        """Start the runner after the devices are drawn: torch's import would delay the drawing."""
        await self._session.wait_for_sample()
        self.actions.watch_device(detail=False)
        self._drawing.now()
        drawn = asyncio.Event()
        self.call_after_refresh(drawn.set)
        await drawn.wait()
        await self._session.start()
        with contextlib.suppress(ImportError):  # the error is shown when a tab is opened
            await self.import_tabs()

    async def on_unmount(self) -> None:
        """End the session; children that do not end in time end with this process."""
        self._drawing.end()
        self._hooks.end()
        if self._preferences is not None:
            chosen = self._chosen_theme
            self._preferences.remember(self.state, chosen, self.refresh_s, self.borders)
        await self.end_tabs()
        try:
            await asyncio.wait_for(self._session.stop(), STOP_S)
        except asyncio.TimeoutError:
            self.log.warning("the session did not stop in time")

    def _ring(self) -> None:
        """Ring, and notify the user, for each event since the last check."""
        lines: list[str] = []
        for runs in self.all_runs.everywhere:
            host = runs.machine.host
            alarms = self._alarms.setdefault(host, RunAlarms(self.clock))
            lines += [f"{host}: {run}" if host else run for run in alarms.of_runs(runs)]
        if self.watched is not None:
            lines += self.watched.alarm_lines()
        for words in lines:
            sequence = alarm_sequence(self.TITLE or "", words, os.environ)
            write_to_terminal(self, sequence)

    def _session_failed(self, error: BaseException) -> None:
        # With a stopped session, a screen that stays would show old figures as new ones.
        self.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def format_error(self, error: BaseException | None) -> Text:
        """Return one line that names a saved report, without the values of local variables."""
        return Text(clean(f"gpu-workbench {reports.describe_failure(error)}"))

    # ---- drawing ----

    def draw_now(self) -> None:
        """Redraw at once after a key."""
        self._drawing.now()

    def _draw(self, topics: Topics) -> None:
        if topics and self.front is not None:
            with self.batch_update():
                self.front.draw(topics)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a message for as long as it takes to read, and log it."""
        if timeout is None:
            timeout = _reading_time(message)
        # Not published on the bus: a recording has the events, not the messages shown for them.
        self._draw(self.event_log.append(LogLine("workbench", message, LEVELS[severity])))
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def _warn(self, problem: str) -> None:
        """Show a problem that the log has already."""
        super().notify(problem, severity="warning", timeout=_reading_time(problem), markup=False)

    # ---- the program's own commands ----

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Check commands with the registry; always allow the framework's own actions."""
        command = command_of(action, parameters)
        if command is None or command.target != "app":
            return super().check_action(action, parameters)
        # A dialog has the keys; those with priority would not reach it.
        if self.front is None or (command.opens_field and self.screen is not self.front):
            return False
        return command.check(self.front.situation())

    def on_key(self, event: events.Key) -> None:
        """Say why a key does nothing, unless a dialog has the keys."""
        if self.front is None or self.screen is not self.front:
            return
        words = explain_silent_key(REGISTRY, self.front.situation(), event.key)
        if not words:
            return
        # A widget may have bound the key for itself.
        bound = self.screen.active_bindings.get(event.key)
        if bound is None or not bound.enabled:
            self.notify(words, markup=False)

    def action_command_palette(self) -> None:
        """Open the palette, without an id: the one before may not have been removed yet."""
        self.push_screen(Palette(placeholder="type a command"))

    def action_find_command(self) -> None:
        """Open the palette, as the other key does."""
        self.action_command_palette()

    def search_themes(self) -> None:
        """Open the list of themes, which shows each while the cursor is on it."""
        self.push_screen(ThemeScreen(theme_names(), self.theme, self._use_theme), self._save_theme)

    def _use_theme(self, name: str) -> None:
        self.theme = name

    def _save_theme(self, name: str | None) -> None:
        self._chosen_theme = name or self._chosen_theme
        if self._preferences is not None and name is not None:
            problem = self._preferences.remember_theme(name)
            if problem:
                self.notify(problem, severity="warning", markup=False)

    def action_show_help(self) -> None:
        """Explain the focused pane and list the keys."""
        if self.front is not None:
            pane, now = pane_of(self.front.focused), self.front.situation()
            self.push_screen(HelpScreen(REGISTRY, pane, now))

    async def action_quit(self) -> None:
        """End the program, after asking if anything runs or waits. A watched run continues."""
        self._leave()

    def play_demo(self) -> None:
        """End the app as :meth:`action_quit` does; its caller plays the demo."""
        self._leave(demo=True)

    def _leave(self, *, demo: bool = False, return_code: int = 0) -> None:
        left = self.watched.describe_open_run() if self.watched is not None else ""

        def leave() -> None:
            self.demo_requested = demo
            self.exit(return_code=return_code)

        busy = [runs for runs in self.all_runs.everywhere if runs.pending()]
        if self.readonly or not busy:
            leave()
            return

        def answered(yes: bool | None) -> None:
            if yes:
                leave()

        def describe() -> list[str]:
            words = [
                warning
                for runs in busy
                if runs.pending()
                for warning in format_quit_warning(runs, stored=self.stores_results)
            ]
            return [*(words or [ALL_ENDED]), *([left] if left else [])]

        self.push_screen(QuitScreen("Quit and cancel the runs?", describe), answered)

    def action_save_screen(self) -> None:
        """Save the screen as a picture and as a web page, and say where they are."""
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime())
        path = reports.folder() / "screens" / f"gpu-workbench-{stamp}.svg"
        try:
            picture = make_portable(self.export_screenshot())
            reports.write_private(path, picture.encode("utf-8"))
            page = PAGE.format(title=path.stem, picture=picture)
            reports.write_private(path.with_suffix(".html"), page.encode("utf-8"))
        except OSError as error:
            words = f"the screen cannot be saved: {path}: {error.strerror or error}"
            self.notify(words, severity="error", markup=False)
        else:
            words = f"screen saved: {clipboard.shorten_path(path)} and .html"
            self.notify(words, markup=False)

    def action_refresh_faster(self) -> None:
        self._refresh(max((step for step in REFRESH_STEPS if step < self.refresh_s), default=0))

    def action_refresh_slower(self) -> None:
        self._refresh(min((step for step in REFRESH_STEPS if step > self.refresh_s), default=0))

    def _refresh(self, seconds: float) -> None:
        if seconds:
            self.refresh_s = seconds
            self.actions.set_refresh(seconds)
        self.notify(f"a sample every {self.refresh_s:g} s", markup=False)

    def action_restart_runner(self) -> None:
        self.actions.restart_runner()

    def action_interrupt(self) -> None:
        """End as Ctrl-C ends a program; if text is selected, copy it.

        If something runs or waits, ask first, as :meth:`action_quit` does; also if the open run is
        still running, for which Ctrl-C may be meant. A second Ctrl-C in place of an answer ends the
        program, and leaves the open run alone.
        """
        if selected := _selected(self.screen):
            clipboard.copy(self, "selection", selected)
            return
        leave = partial(self.exit, return_code=INTERRUPTED)
        if self.readonly or isinstance(self.screen, QuitScreen):
            leave()
        elif self.watched is None or not self.watched.confirm_leaving(leave):
            self._leave(return_code=INTERRUPTED)


def _reading_time(message: str) -> float:
    """Return the seconds that a message stays."""
    return max(LEAST_S, len(message) / LETTERS_A_SECOND)


ALL_ENDED = "All runs have ended. Quitting cancels nothing."


class QuitScreen(ConfirmScreen):
    """Asks before the program ends while something runs, and follows what runs.

    Args:
        question: the title.
        describe: returns what quitting cancels now.
    """

    EVERY_S: ClassVar[float] = 1.0

    def __init__(self, question: str, describe: Callable[[], Sequence[str]]) -> None:
        super().__init__(question, describe())
        self._describe = describe

    def on_mount(self) -> None:
        """Start the timer of the updates."""
        self.set_interval(self.EVERY_S, self.rebuild)

    def rebuild(self) -> None:
        """Describe anew what quitting cancels."""
        self.sentences = tuple(self._describe())
        self.query_one(LinesView).rebuild()


class ProcessHooks:
    """Process-wide settings and the orderly end. Created before the terminal is changed."""

    def __init__(self) -> None:
        self._hangup_watch: HangupWatch | None = None
        self._forced_exit = ending.create_forced_exit()

    def loaded(self, app: App[Any]) -> None:
        """Handle signals and the terminal's hang-up, now that the app's loop runs."""
        terminal = sys.__stdin__.fileno() if sys.__stdin__ and sys.__stdin__.isatty() else None
        self._hangup_watch = HangupWatch(
            lambda code: app.exit(return_code=code), terminal, self._forced_exit
        )
        self._hangup_watch.install()

    def mounted(self, app: App[Any]) -> None:
        """Install the signal handlers again: Textual's driver for a browser has replaced them."""
        if self._hangup_watch is not None and app.is_web:
            self._hangup_watch.install()
        app.set_interval(FORGET_S, forget_caches)

    def painted(self) -> None:
        """Freeze the objects that outlive the first paint, so that later collections skip them."""
        gc.freeze()
        gc.enable()

    def end(self) -> None:
        """Restore the original settings of the process."""
        if self._hangup_watch is not None:
            self._hangup_watch.remove()
