"""The panes below the table: switches of the backends, the detail of a workload, the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.core.events import EventLog, Topic
from tui.kit.dialogs import TextScreen
from tui.kit.lines import TITLE_GAP, Line
from tui.kit.pane import ROOM, LinesView, Pane, text_cells
from tui.kit.plot import LEAST_HEIGHT
from tui.runs.state.state import RunsState
from tui.runs.views.backend import (
    build_view,
    flag_lines,
    format_backend_name,
    format_folded_title,
    list_newest,
    list_switches,
)
from tui.runs.views.brief import brief_lines
from tui.runs.views.runner_notes import log_lines
from tui.runs.views.verdict_sentence import format_verdicts

if TYPE_CHECKING:
    from tui.runs.views.detail_plots import DetailViews


FIRST = "cudnn.benchmark"
"""The switch that the cursor is on at first: the first of the list turns cuDNN off."""


class BackendSwitches(LinesView):
    """The list of switches; arrows move the cursor, and beyond the ends up and down scroll."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", show=False),
        Binding("right", "move(1)", show=False),
        Binding("up,k", "move_or_scroll(-1)", show=False),
        Binding("down,j", "move_or_scroll(1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class SwitchChosen(Message):
        """Enter was pressed on the switch under the cursor."""

    def __init__(self, state: RunsState, workload: Callable[[], str | None]) -> None:
        super().__init__(self._view)
        self._runs = state
        self._workload = workload
        self._flag: str | None = None

    @property
    def _state(self) -> RunsState:
        """The runs on the machine of the selected row."""
        return self._runs.shown

    @property
    def flag(self) -> str | None:
        """The switch under the cursor; at first one that is safe to try, if there is one."""
        names = [flag.name for flag in list_switches(self._state)]
        first = FIRST if FIRST in names else next(iter(names), None)
        return self._flag if self._flag in names else first

    def comparing(self) -> list[str]:
        """Ids of the comparisons that have not ended."""
        states = self._state.comparisons.values()
        return [state.request.id for state in states if not state.done]

    def compared_on(self, flag: str) -> list[str]:
        """Return the workloads that a flag was compared on, else all that it can be compared on."""
        compared = [
            state.request for state in list_newest(self._state) if state.request.flag == flag
        ]
        names = list(dict.fromkeys(request.workload for request in reversed(compared)))
        return names or self._state.compared_workloads(flag)

    def _view(self, cells: int) -> list[Line]:
        return build_view(
            self._state,
            self.flag,
            cells,
            focused=self.has_focus,
            rows=self.size.height,
            workload=self._workload(),
        ).lines

    def action_move(self, by: int) -> None:
        """Move the cursor to another switch, and scroll to it."""
        names = [flag.name for flag in list_switches(self._state)]
        if self.flag is None:
            return
        index = max(0, min(len(names) - 1, names.index(self.flag) + by))
        self._flag = names[index]
        self.rebuild()
        line = build_view(self._state, self._flag, max(1, self.cells)).cursor_line
        top, height = self.scroll_offset.y, self.size.height
        if not top <= line < top + height:
            self.scroll_to(y=line, animate=False)

    def action_move_or_scroll(self, by: int) -> None:
        """Move the cursor, or scroll where there is no further switch."""
        before = self.flag
        self.action_move(by)
        if self.flag == before:
            self.scroll_relative(y=by, animate=False)

    def action_choose(self) -> None:
        """Choose the switch under the cursor."""
        self.post_message(self.SwitchChosen())

    def watch_has_focus(self, value: bool) -> None:
        """Mark the list that has the focus."""
        super().watch_has_focus(value)
        self.rebuild()


class RunsPane(Pane):
    """A pane about the runs on the machine of the selected row.

    Args:
        state: the runs on this machine, which know those on other hosts.
        id: id of the widget.
    """

    def __init__(self, state: RunsState, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._runs = state

    @property
    def state(self) -> RunsState:
        """The runs on the machine of the selected row."""
        return self._runs.shown

    def on_mount(self) -> None:
        self.state_changed()


class BackendPane(RunsPane):
    """Switches of torch's backends, with the verdict on each."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset({Topic.BACKEND, Topic.SELECTION, Topic.RUNNER})
    HELP = (
        "Flags of torch.backends: cudnn and cuda (cuBLAS) for GPUs, mkldnn (oneDNN) for the CPU. "
        "A switch compares convolutions, or for cuda matmul, with the old and the new setting in "
        "alternating pairs. faster or slower: the 95% interval of the ratio excludes 1, and the "
        "change is at least 1%. same: the interval lies within 2% of 1. unclear, or pairs that "
        "disagree: c runs more pairs. Below: both medians, their first calls, and after how many "
        "calls a longer first call pays. Flags that a process cannot change later are compared in "
        "fresh processes."
    )

    def __init__(self, state: RunsState, workload: Callable[[], str | None]) -> None:
        """Set up the pane.

        Args:
            state: the runs.
            workload: returns the workload under the cursor of the table.
        """
        super().__init__(state, id="backend")
        self.body = BackendSwitches(state, workload)

    def compose(self) -> ComposeResult:
        yield self.body

    def count_rows(self, width: int, most: int) -> int:
        """Return the rows of the pane with its title while another pane has the focus.

        Args:
            width: of the pane, in cells.
            most: rows available for it.
        """
        cells = text_cells(width)
        shown = build_view(self.state, self.body.flag, cells, focused=False, rows=most - 1)
        return 1 + max(1, min(most - 1, len(shown.lines)))

    def state_changed(self) -> None:
        self.body.rebuild()
        names = dict.fromkeys(format_backend_name(flag.name) for flag in list_switches(self.state))
        comparisons = self.state.comparisons.values()
        waiting = sum(not state.done and state.progress is None for state in comparisons)
        host = self.state.machine.host
        title = f"Backends of {host}" if host else "Backends"
        title += f"{TITLE_GAP}{', '.join(names)}" if names else ""
        title += f"   {waiting} queued" if waiting else ""
        if self.has_class("-folded"):
            title = format_folded_title(self.state, self.size.width - ROOM)
        self.retitle(title)

    def explanation(self) -> TextScreen:
        """Return a dialog with what the flag under the cursor does, and with its warnings."""
        flag = self.body.flag
        return TextScreen(flag or "Flags", lambda cells: flag_lines(self.state, flag, cells))

    def clipboard_text(self) -> str:
        """Return the verdict on the flag under the cursor in sentences; else the switches."""
        verdicts = format_verdicts(self.state, self.body.flag)
        return f"{verdicts}\n" if verdicts else super().clipboard_text()

    def on_resize(self, _event: events.Resize) -> None:
        """Show the switches in the title where the pane is folded."""
        self.call_after_refresh(self.state_changed)


MOST_PLOT_HEIGHT = 28
"""Most rows of a plot between its edges."""
AROUND_PLOT = 6
BRIEF_BELOW = 16
"""Rows below which the pane shows only a workload's description or outcome, until it has the
focus."""


def import_detail_views() -> DetailViews:
    """Return the views of a workload's figures and plots."""
    # Deferred: a start on a small screen shows a description alone (20 modules, 15 ms).
    from tui.runs.views.detail_plots import DETAIL_VIEWS

    return DETAIL_VIEWS


class DetailView(LinesView):
    """The lines of the detail pane."""

    blanks_before_bar = 1


class DetailPane(RunsPane):
    """The workload's description, code and parameters, and its full result on each device."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset({Topic.WORKLOADS, Topic.SELECTION, Topic.BACKEND})
    HELP = (
        "The selected workload in full. median: of blocks of calls, with its 95% interval. "
        "quartiles, min: of the blocks. p95: of single calls. first call: loads, searches and "
        "allocates. wall, device, enqueue: the host's clock, the device's events, the host's "
        "time to launch a call; with a cold cache wall and enqueue include the flushes. page "
        "faults: can take most of the time on the CPU."
    )

    def __init__(
        self,
        state: RunsState,
        selected: Callable[[], str | None],
        group: Callable[[], tuple[str, list[str]] | None],
        *,
        readonly: bool = False,
    ) -> None:
        """Show a workload.

        Args:
            state: the state of the runs.
            selected: the name of the workload under the table's cursor.
            group: name and workloads of the group, if its heading is under the cursor.
            readonly: no key runs a workload.
        """
        super().__init__(state, id="detail")
        self._readonly = readonly
        self._selected = selected
        self._group = group
        self._workload: str | None = None
        self.roofline = False
        """True if the pane shows the device's roofline instead of the workload."""
        self.body: LinesView = DetailView(self._detail)

    def on_descendant_focus(self) -> None:
        """Show everything about a workload."""
        self.body.rebuild()

    def on_descendant_blur(self) -> None:
        """Show a workload in brief."""
        self.body.rebuild()

    def compose(self) -> ComposeResult:
        yield self.body

    def state_changed(self) -> None:
        """Redraw the changed parts; scroll to the top for another workload."""
        workload = self._selected()
        if workload != self._workload:
            self._workload = workload
            self.body.scroll_to(y=0, animate=False)
        self.retitle(self._title(workload))
        self.body.rebuild()

    def turn_to(self, *, roofline: bool) -> None:
        """Show the roofline of the selected device, or the workload, from the top."""
        self.roofline = roofline
        self.body.scroll_to(y=0, animate=False)
        self.state_changed()

    def can_measure_roof(self) -> bool:
        """Return whether the pane shows a roofline that lacks what a run would measure."""
        if not self.roofline or self._readonly:
            return False
        views = import_detail_views()
        return views.can_measure_roof(self.state, views.choose_roofline_device(self.state))

    def _title(self, workload: str | None) -> str:
        if self.roofline:
            return "Roofline   O workload"
        group = self._group() if workload is None else None
        name = workload or (group[0] if group else "")
        if not name:
            return "Detail"
        return f"Detail   {name}   O roofline" if self.state.started else f"Detail   {name}"

    def _detail(self, cells: int) -> list[Line]:
        # A plot and its surroundings fill the pane, if it has enough rows.
        height = max(LEAST_HEIGHT, min(MOST_PLOT_HEIGHT, self.body.size.height - AROUND_PLOT))
        group = self._group()
        if group is None and not self.roofline:
            room = self.body.size.height
            in_brief = room < BRIEF_BELOW and not self.body.has_focus
            lines = brief_lines(self.state, self._workload, cells, room) if in_brief else []
            return lines or import_detail_views().detail(
                self.state, self._workload, cells, height, max(1, room) if in_brief else 0
            )
        views = import_detail_views()
        if self.roofline:
            device = views.choose_roofline_device(self.state)
            room = self.body.size.height
            offered = self.can_measure_roof()
            return views.roofline(
                self.state, device, self._workload, cells, height, room, offered=offered
            )
        return views.group(self.state, *group, cells) if group else []


class LogPane(Pane):
    """The log; the newest lines stay in view unless the user scrolls up."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset({Topic.LOG})
    HELP = (
        "Standard error of the runner and the monitor, and the workbench's own actions, oldest "
        "first. The log follows the newest line until you scroll up; end follows again."
    )

    def __init__(self, event_log: EventLog) -> None:
        super().__init__(id="log")
        self._event_log = event_log
        self.body = LinesView(self._log, stick_to_end=True)

    def compose(self) -> ComposeResult:
        yield self.body

    def on_mount(self) -> None:
        self.retitle("Log")
        self.state_changed()

    def state_changed(self) -> None:
        self.body.rebuild()

    def _log(self, cells: int) -> list[Line]:
        return log_lines(self._event_log.entries, cells)
