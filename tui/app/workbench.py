"""The wiring: a session's store on screens, keys to actions, signals to an orderly end."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rich.text import Text
from textual import on
from textual._compositor import ChopsUpdate
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, Provider
from textual.filter import Monochrome, NoColor
from textual.reactive import Reactive
from textual.screen import Screen
from textual.scrollbar import ScrollBar
from textual.theme import BUILTIN_THEMES, Theme
from textual.timer import Timer
from textual.worker import Worker

from tui.app.actions import AppActions, command_bindings
from tui.app.collector import Collector
from tui.screens.workbench import WorkbenchScreen
from tui.session.actions import Actions
from tui.session.coalesce import Coalescer
from tui.settings import THEME
from tui.store.reading import STALE_AFTER_S
from tui.store.store import Part, Parts, Store
from tui.terminal import framework_caches, glyphs, last_resort, looks
from tui.terminal.frame_bytes import FrugalUpdate
from tui.terminal.lifeline import Lifeline
from tui.widgets import tones
from tui.widgets.ascii_scrollbar import AsciiScrollBar
from tui.widgets.backend_switches import BackendSwitches
from tui.widgets.header_bar import HeaderBar
from tui.widgets.line_bar import LineBar
from tui.widgets.pane import Pane
from tui.widgets.workload_list import WorkloadList

if TYPE_CHECKING:
    from tui.session.preferences import Preferences

INTERRUPTED = 130
STOP_S = 4.0
"""A session that takes longer to stop is left to the death of its parent."""


HERE = Path(__file__).parents[1]
FRAMEWORK = HERE / "widgets" / "framework.tcss"
"""Styles of what is on no screen before the first paint."""
DEFAULT_THEME = replace(BUILTIN_THEMES[THEME], primary="ansi_cyan")
"""The framework's, but for rules and bars: blue is hardly to be seen on black."""
LOOK_S = 1.0
"""How often it is looked at whether figures have grown old and garbage is due."""
GROWS_OLD = frozenset({Part.DEVICES, Part.MEMORY})


class SessionLike(Actions, Protocol):
    """What the app needs of a session."""

    @property
    def store(self) -> Store:
        """What is known now."""

    async def start(self) -> None:
        """Start the children."""

    async def stop(self) -> None:
        """End the children."""

    def subscribe(self, listener: Callable[[Parts], None]) -> None:
        """Have a function called with the parts that changed."""

    def on_error(self, handler: Callable[[BaseException], None]) -> None:
        """Have a function called with an error of the session's own."""


def _palette() -> type[Provider]:
    """Imported when the palette is opened."""
    from tui.palette import WorkbenchCommands

    return WorkbenchCommands


class WorkbenchApp(AppActions, App[None]):
    """The workbench on a terminal.

    Args:
        session: the children, the store and the actions; the app starts and stops it.
        readonly: offer nothing that asks the runner for something.
        demo: a group of workloads to step through from the start.
        preferences: the settings to go by, which it writes back at its end; ``None`` for the
            defaults, and nothing written.
        clock: Unix time now, to tell how old a figure is.
    """

    TITLE = "gpu-workbench"
    # What the first screen needs; the others bring their own when they are opened.
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        *sorted(set((HERE / "widgets").glob("*.tcss")) - {FRAMEWORK}),
        HERE / "screens" / "workbench.tcss",
    ]
    ansi_theme_dark = Reactive(looks.ON_DARK, init=False)
    ansi_theme_light = Reactive(looks.ON_LIGHT, init=False)
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "colon"
    COMMANDS: ClassVar = {_palette}
    BINDINGS: ClassVar[list[BindingType]] = [
        *command_bindings(),
        Binding("ctrl+c", "interrupt", show=False, priority=True, system=True),
    ]

    def __init__(
        self,
        session: SessionLike,
        *,
        readonly: bool = False,
        demo: str = "",
        preferences: Preferences | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(session.store, session, readonly=readonly)
        self._session = session
        self._first_demo = demo
        self._clock = clock
        self._coalescer = Coalescer()
        self._drawing: Timer | None = None
        self._collector = Collector()
        self._lifeline: Lifeline | None = None
        # Now, while the terminal is as it was found.
        self._last_resort = last_resort.of_screen()
        self.add_mode("memory", self._memory_tab)
        self.add_mode("processes", self._processes_tab)
        self.add_mode("snapshot", self._snapshot_screen)
        self._preferences = preferences
        self.theme = preferences.theme if preferences else THEME
        if preferences is not None:
            self.refresh_s = preferences.refresh
        if self.no_color:
            # Whatever theme is chosen later: the framework's other filter turns colours into greys.
            self._filters = [
                NoColor() if isinstance(each, Monochrome) else each for each in self._filters
            ]
        self.animation_level = "none"
        if glyphs.GLYPHS.ascii:
            self.add_class("-ascii")
            ScrollBar.renderer = AsciiScrollBar

    def get_theme(self, theme_name: str) -> Theme | None:
        """As the framework has it, but for the default one."""
        return DEFAULT_THEME if theme_name == THEME else super().get_theme(theme_name)

    def watch_theme(self, _name: str) -> None:
        """Draw with the tones that can be read in it."""
        tones.use(native=self.native_ansi_color, dark=self.current_theme.dark)

    def refresh_css(self, animate: bool = True) -> None:
        """Take over another theme; before the first screen there is nothing to be styled anew."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def get_default_screen(self) -> Screen[None]:
        """The workbench: as a mode of its own it would be painted 30 ms later."""
        return WorkbenchScreen(self.store, self.actions, self.situation, self._clock)

    def _memory_tab(self) -> Screen[None]:
        """Imported when the tab is opened."""
        from tui.screens.memory_tab import MemoryTab

        return MemoryTab(self.store, self.situation, self._clock)

    def _processes_tab(self) -> Screen[None]:
        """Imported when the tab is opened."""
        from tui.screens.processes_tab import ProcessesTab

        return ProcessesTab(self.store, self.actions, self.situation, self._clock)

    def _display(self, screen: Screen[object], renderable: Any) -> None:
        """Every frame passes here on its way to the terminal."""
        if isinstance(renderable, ChopsUpdate):
            renderable = FrugalUpdate(renderable)
        super()._display(screen, renderable)

    # ---- life ----

    def on_mount(self) -> None:
        """Start the session and keep drawing what it says."""
        if not self.is_headless:
            terminal = sys.__stdin__.fileno() if sys.__stdin__ and sys.__stdin__.isatty() else None
            self._lifeline = Lifeline(
                lambda code: self.exit(return_code=code), terminal, self._last_resort
            )
            self._lifeline.install()
        self._session.subscribe(self._changed)
        self._session.on_error(self._session_failed)
        self.set_interval(framework_caches.FORGET_S, framework_caches.forget)
        self.call_after_refresh(self._start_session)

    def _start_session(self) -> None:
        """Start the children once the screen is painted: they would fight with it for the cores."""
        gc.freeze()
        gc.enable()
        self.stylesheet.read(FRAMEWORK)
        self._collector.install()
        self.set_interval(LOOK_S, self._look)
        # The framework's default mode cannot be gone back to unless it is among the named ones.
        self._modes.setdefault(self.DEFAULT_MODE, self.get_default_screen)
        # The function and not its coroutine: where the end comes first, nothing is left unawaited.
        _: Worker[None] = self.run_worker(self._session.start, name="session", group="session")
        if self._first_demo:
            self.open_demo(self._first_demo)
        self.open_first_snapshot()

    async def on_unmount(self) -> None:
        """End the session; what does not end in time ends with this process."""
        self._collector.remove()
        if self._lifeline is not None:
            self._lifeline.remove()
        if self._preferences is not None:
            self._preferences.remember(self.store, self.theme, self.refresh_s)
        if self.desk is not None:
            await self.desk.stop()
        try:
            await asyncio.wait_for(self._session.stop(), STOP_S)
        except asyncio.TimeoutError:
            self.log.warning("the session did not stop in time")

    # ---- drawing ----

    def _changed(self, parts: Parts) -> None:
        """Draw parts of the store when their time has come: a timer that looks costs the box."""
        self._coalescer.add(parts)
        self._draw_in_time()

    def _draw_in_time(self) -> None:
        if self._drawing is None:
            seconds = self._coalescer.due_in(time.monotonic())
            if seconds is not None:
                self._drawing = self.set_timer(seconds, self._draw_due)

    def _draw_due(self) -> None:
        self._drawing = None
        self._draw(self._coalescer.due(time.monotonic()))
        self._draw_in_time()

    def _look(self) -> None:
        """Figures grow old where nothing new comes, and only then are drawn for it."""
        sample = self.store.sample
        if sample and self._clock() - sample.at > STALE_AFTER_S:
            self._changed(GROWS_OLD)
        self._collector.look()

    def draw_now(self) -> None:
        """Show at once what a key has changed."""
        self._draw(self._coalescer.all(time.monotonic()))

    def _draw(self, parts: Parts) -> None:
        if not parts:
            return
        screen = self.demo or self.screen_stack[0]
        if self.workbench:
            self.workbench.fit_devices()
        with self.batch_update():
            # By their types: a query of the framework's matches selectors, which takes longer than
            # what is drawn.
            for pane in screen.walk_children(Pane):
                if parts & pane.SHOWS and pane.display:
                    pane.store_changed()
            # Those of the panes are drawn with them.
            for bar in screen.children:
                if isinstance(bar, LineBar):
                    bar.rebuild()

    @on(BackendSwitches.Chosen)
    def _switch_chosen(self) -> None:
        self.call_later(self.run_action, "switch_flag")

    @on(WorkloadList.Chosen)
    def _workload_chosen(self) -> None:
        on_group = self.workbench is not None and self.workbench.workloads.table.workload is None
        if on_group and self.workbench is not None:
            self.workbench.workloads.table.action_toggle_group()
        else:
            self.call_later(self.run_action, "edit_parameters")

    @on(HeaderBar.TabPicked)
    def _tab_picked(self, event: HeaderBar.TabPicked) -> None:
        self.show_tab(event.tab)

    @on(CommandPalette.Opened)
    def _palette_opened(self) -> None:
        from textual.widgets import Input

        self.screen.query_one(Input).cursor_blink = False

    # ---- the end ----

    def action_interrupt(self) -> None:
        """End as Ctrl-C ends a program; where text is selected, copy it."""
        from textual.widgets import Input

        field = self.focused
        selected = field.selected_text if isinstance(field, Input) else ""
        selected = selected or self.screen.get_selected_text() or ""
        if selected:
            self.copy("selection", selected)
        else:
            self.exit(return_code=INTERRUPTED)

    def _session_failed(self, error: BaseException) -> None:
        # A screen that goes on over a session that has stopped would show old figures as new ones.
        self._handle_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def _fatal_error(self) -> None:
        """An error of our own: one line and a report, without the values of local variables."""
        if self._exit_renderables:
            return  # what follows from the first one is not told
        import traceback

        from tui import reports

        error = self._exception or sys.exc_info()[1]
        trace = traceback.format_exception(error) if error else ["no exception"]
        try:
            where = (
                f"report: {reports.save('the workbench failed', (), ''.join(trace).splitlines())}"
            )
        except OSError as refusal:
            where = f"the report was not saved: {refusal}"
        self.panic(Text(f"gpu-workbench failed: {type(error).__name__}: {error}; {where}"))
