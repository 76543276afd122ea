"""The workbench: devices, memory, workloads, backends, detail or log."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widget import Widget

from tui.session.actions import Actions
from tui.state.store import Store
from tui.ui.commands.command import Situation
from tui.ui.views import arrangement
from tui.ui.widgets.backend_pane import BackendPane
from tui.ui.widgets.detail_pane import DetailPane
from tui.ui.widgets.devices_pane import DevicesPane
from tui.ui.widgets.footer_bar import FooterBar
from tui.ui.widgets.header_bar import HeaderBar
from tui.ui.widgets.line_bar import LineBar
from tui.ui.widgets.log_pane import LogPane
from tui.ui.widgets.memory_pane import MemoryPane
from tui.ui.widgets.pane import Pane
from tui.ui.widgets.workload_list import WorkloadList
from tui.ui.widgets.workloads_pane import WorkloadsPane


class WorkbenchScreen(Screen[None]):
    """Lays the panes out for its size and for the pane that has the focus."""

    AUTO_FOCUS = "WorkloadList"
    # The framework's own bindings of these would pass over panes that are away.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.next_pane", show=False),
        Binding("shift+tab", "app.previous_pane", show=False),
    ]
    MODES = ("grid", "stack", "fold")

    def __init__(
        self,
        store: Store,
        actions: Actions,
        situation: Callable[[], Situation],
        clock: Callable[[], float],
    ) -> None:
        super().__init__()
        self._store = store
        self._situation = situation
        self.devices = DevicesPane(store, actions, clock)
        self.memory = MemoryPane(store, clock)
        self.workloads = WorkloadsPane(store)
        self.backend = BackendPane(store)
        self.detail = DetailPane(store, lambda: self.workloads.table.workload)
        self.log_pane = LogPane(store)
        self.panes: dict[str, Pane] = {
            pane.id or "": pane
            for pane in (
                self.devices,
                self.memory,
                self.workloads,
                self.backend,
                self.detail,
                self.log_pane,
            )
        }
        """The panes by id."""
        self.rows = {
            "top": (self.devices, self.memory),
            "bottom": (self.backend, self.detail, self.log_pane),
        }
        self.lower = "detail"
        self.zoomed = False
        self._was_away = False

    def compose(self) -> ComposeResult:
        """Two rows of two panes with the table between them."""
        # Before there is anything whose styles would have to be worked out twice.
        self.place_panes("workloads")
        yield HeaderBar(self._store, "workbench")
        yield self._row("top")
        yield self.workloads
        yield self._row("bottom")
        yield FooterBar(self._situation)
        self.call_after_refresh(self._add_panes)

    def _row(self, name: str) -> Container:
        panes = self.rows[name]
        row = Container(*(pane for pane in panes if pane.display), id=name, classes="row")
        row.set_class(any(pane.has_class("-open") for pane in panes), "-open")
        return row

    def _add_panes(self) -> None:
        """Add those that the first frame had no place for, and so did not wait for."""
        if not self.is_attached:
            return  # a key has ended the program meanwhile
        for name, panes in self.rows.items():
            row = self.query_one(f"#{name}", Container)
            for place, pane in enumerate(panes):
                if not pane.is_attached:
                    row.mount(pane, before=place if place < len(row.children) else None)

    # ---- which pane ----

    @property
    def focused_pane(self) -> str | None:
        """The pane that keys go to."""
        return pane_of(self.focused)

    def focus_pane(self, name: str) -> None:
        """Send keys to a pane, wherever it is now."""
        if name in arrangement.LOWER:
            self.lower = name
        self._add_panes()
        self.place_panes(name)
        body = first_focusable(self.panes[name])
        if body is not None:
            # At once: the widget's own focus() comes later, and a key typed meanwhile goes astray.
            self.set_focus(body)

    def step_focus(self, by: int) -> None:
        """Go to the next pane or to the one before."""
        names = arrangement.order(self.lower)
        current = self.focused_pane
        place = names.index(current) if current in names else 0
        self.focus_pane(names[(place + by) % len(names)])

    def toggle_zoom(self) -> None:
        """Give the focused pane all of the screen, or take it back."""
        self.zoomed = not self.zoomed
        self.place_panes()

    @property
    def can_go_back(self) -> bool:
        """A pane has the screen, or the table shows only what its filter lets through."""
        return self.zoomed or self.focused_pane != "workloads" or bool(self.workloads.table.pattern)

    # ---- the arrangement ----

    def place_panes(self, focused: str | None = None) -> None:
        """Place the panes for the present size and focus."""
        focused = focused or self.focused_pane
        size = self.app.size
        placed = arrangement.arrange(
            size.width, size.height, focused, self.lower, zoomed=self.zoomed
        )
        changed: list[Widget] = []
        modes = {f"-{mode}": placed.mode == mode for mode in self.MODES}
        all_of_it = _switch_classes(self, modes)
        for name, pane in self.panes.items():
            place = placed.places[name]
            shown = place != "away"
            if shown and not pane.display:
                pane.display = True
                pane.call_after_refresh(pane.store_changed)
            elif not shown:
                pane.display = False
            changes = _switch_classes(
                pane, {"-open": place == "open", "-folded": place == "folded"}
            )
            if changes and pane.is_attached:
                changed.append(pane)
        for row in self.query(".row"):
            is_open = any(pane.has_class("-open") for pane in row.query(Pane))
            if _switch_classes(row, {"-open": is_open}):
                changed.append(row)
        # The styles of everything below a node are worked out anew: once, and not for each class.
        for node in [self] if all_of_it else changed:
            node.update_node_styles()
        self.fit_devices()

    def fit_devices(self) -> None:
        """In a stack the devices get the rows that they need, as far as there are any."""
        needed = 1 + len(self._store.devices) + self.devices.notice.display
        fits = needed if self.has_class("-stack") else None
        if fits is not None:
            self.devices.styles.height = max(2, min(fits, self.app.size.height // 4))
        else:
            self.devices.styles.clear_rule("height")

    def on_resize(self, _event: events.Resize) -> None:
        """Another size may want another arrangement."""
        self.place_panes()

    def on_click(self, event: events.Click) -> None:
        """A click on the title of a folded pane opens it."""
        widget, _region = self.get_widget_at(event.screen_x, event.screen_y)
        name = pane_of(widget)
        if name is not None and self.panes[name].has_class("-folded"):
            self.focus_pane(name)

    @on(events.ScreenSuspend)
    def _suspended(self) -> None:
        self._was_away = True

    @on(events.ScreenResume)
    def _resumed(self, event: events.ScreenResume) -> None:
        """Catch up with what changed while the other tab was open."""
        if not self._was_away:
            # It has just been made: all its styles would be worked out a second time.
            event.refresh_styles = False
            return
        for pane in self.query(Pane):
            pane.store_changed()
        for bar in self.query(LineBar):
            bar.rebuild()

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        self.place_panes()
        self.query_one(FooterBar).rebuild()

    @on(WorkloadList.Moved)
    def _workload_moved(self) -> None:
        if self.detail.is_attached:
            self.detail.store_changed()
        self.query_one(FooterBar).rebuild()


def _switch_classes(node: Widget, classes: dict[str, bool]) -> bool:
    """Set classes without working out the styles anew; whether any has changed."""
    before = set(node.classes)
    node.update_classes(classes, update=False)
    return before != set(node.classes)


def pane_of(widget: Widget | None) -> str | None:
    """Id of the pane that a widget is or lies in."""
    if widget is None:
        return None
    return next((node.id for node in widget.ancestors_with_self if isinstance(node, Pane)), None)


def first_focusable(pane: Pane) -> Widget | None:
    """Where keys go when a pane gets them."""
    candidates: list[Widget] = [pane, *pane.query(Widget)]
    for widget in candidates:
        if widget.can_focus and widget.display:
            return widget
    return None
