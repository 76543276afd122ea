"""What the tabs and the demo share: their keys are commands of the registry, bound by Textual."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol

from textual import events, on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from tui.kit.commands.command import Command, Situation
from tui.kit.commands.registry import BY_ID, COMMANDS
from tui.kit.pane import HeaderBar, LineBar, Pane, pane_of
from tui.session.actions import Actions
from tui.state.events import Topics
from tui.state.store import Store


class Program(Protocol):
    """What a screen needs of the app that it belongs to."""

    store: Store
    actions: Actions
    clock: Callable[[], float]
    """Unix time now, to tell how old a figure is."""
    readonly: bool
    """Nothing is offered that asks the runner for something."""
    replay: bool
    """A recording is played."""
    keeps_results: bool
    """What is measured is put into the store of results."""
    header_note: Callable[[], str]
    """What the header says before all else."""

    def draw_now(self) -> None:
        """Show at once what a key has changed."""

    def watch_allocators(self, wanted: bool) -> None:
        """Return whether the screen that is looked at shows the allocators of other processes."""


class CommandScreen(Screen[None]):
    """A screen of panes under one of the names by which commands are offered.

    A subclass has the methods of the commands that it is offered alone; those of several are here.

    Args:
        program: the app, or what stands for it.
    """

    TAB: ClassVar[str]
    """Its name in :mod:`tui.kit.commands.command`."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.store = program.store
        self.actions = program.actions

    # ---- what is valid ----

    @property
    def focused_pane(self) -> str | None:
        """Id of the pane that keys go to."""
        pane = pane_of(self.focused)
        return pane.id if pane else None

    def situation(self) -> Situation:
        """Return the facts that decide which commands are valid; a subclass adds its own."""
        store = self.store
        return Situation(
            tab=self.TAB,
            pane=self.focused_pane,
            runner_usable=store.runner.status != "ended",
            has_workloads=bool(store.catalogue),
            has_selection=False,
            pending=bool(store.pending()),
            has_switches=False,
            has_worker=store.worker_pid is not None and store.selected_device.torch is not None,
            on_process=False,
            readonly=self.program.readonly,
            typing=_takes_letters(self.focused),
            replay=self.program.replay,
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands by the registry, the framework's own actions always."""
        command = BY_ID.get(action)
        if command is None or command.target != "screen":
            return super().check_action(action, parameters)
        return command.check(self.situation())

    # ---- drawing ----

    def looks_at_torch(self) -> bool:
        """Return whether it shows what torch holds in other processes now: it is read for that."""
        return False

    def header(self) -> HeaderBar:
        """Return the line above the panes."""
        program = self.program
        return HeaderBar(self.store, self.TAB, program.header_note, readonly=program.readonly)

    def draw(self, parts: Topics) -> None:
        """Draw what shows parts of the store that have changed."""
        self.program.watch_allocators(self.looks_at_torch())
        # By their types: a query of the framework's matches selectors, which takes longer than what
        # is drawn.
        for pane in self.walk_children(Pane):
            if parts & pane.SHOWS and pane.display:
                pane.store_changed()
        # Those of the panes are drawn with them.
        for bar in self.children:
            if isinstance(bar, LineBar):
                bar.rebuild()

    def catch_up(self) -> None:
        """Draw all that may have changed while another screen was open."""
        self.program.watch_allocators(self.looks_at_torch())
        for pane in self.query(Pane):
            pane.store_changed()
        for bar in self.query(LineBar):
            bar.rebuild()

    @on(events.ScreenResume)
    def _resumed(self, event: events.ScreenResume) -> None:
        self.resumed(event)

    def resumed(self, _event: events.ScreenResume) -> None:
        """Draw the screen that is shown, for the first time or again."""
        self.catch_up()

    # ---- the commands of several tabs ----

    def action_next_device(self) -> None:
        keys = [view.key for view in self.store.devices]
        if keys:
            place = keys.index(self.store.selected) if self.store.selected in keys else -1
            self.actions.select_device(keys[(place + 1) % len(keys)])
            self.program.draw_now()

    def action_empty_cache(self) -> None:
        """Empty the selected device's cache."""
        self.actions.empty_cache(self.store.selected)

    def action_reset_peaks(self) -> None:
        """Start the selected device's peaks anew."""
        self.actions.reset_peaks(self.store.selected)

    def action_cancel_all(self) -> None:
        """Cancel everything that runs or waits."""
        self.actions.cancel("")
        self.program.draw_now()

    def action_next_pane(self) -> None:
        """Go to the next part that takes keys."""
        self.focus_next()

    def action_previous_pane(self) -> None:
        """Go to the part before."""
        self.focus_previous()


def has_others(store: Store) -> bool:
    """Return whether processes that are not this program's hold memory of the selected GPU."""
    device = store.selected_device.nvml
    rows = device.processes if device else None
    return any(not row.ours and row.pid != store.worker_pid for row in rows or ())


def front_of(app: App[Any]) -> CommandScreen | None:
    """Return the front screen, if under a dialog; ``None`` once the screens are gone."""
    screens = reversed(app.screen_stack)
    return next((screen for screen in screens if isinstance(screen, CommandScreen)), None)


def _takes_letters(widget: Widget | None) -> bool:
    """Return whether one types into it, be it a line or an editor of many."""
    return widget is not None and widget.check_consume_key("a", "a")


def bindings_of_screen(tab: str) -> list[BindingType]:
    """Return the keys of the commands whose methods the screen of a tab has."""
    return _bindings(each for each in COMMANDS if each.target == "screen" and tab in each.tabs)


def bindings_of_app() -> list[BindingType]:
    """Return the keys of the commands whose methods the app has."""
    return _bindings(each for each in COMMANDS if each.target == "app")


def _bindings(commands: Iterable[Command]) -> list[BindingType]:
    return [
        Binding(
            ",".join(command.keys),
            command.action,
            command.label,
            id=command.id,
            priority=command.opens_field,
        )
        for command in commands
        if command.keys
    ]
