"""The workbench tab: devices, memory, workloads, backends, and the detail or the log."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widget import Widget

from tui.core.events import Topic, Topics
from tui.devices.screens.account_panes import MemoryPane
from tui.devices.screens.device_list import DeviceList
from tui.devices.screens.panes import DevicesPane
from tui.kit.command_screen import CommandScreen, bindings_of_screen
from tui.kit.commands.command import Situation
from tui.kit.dialogs import ConfirmScreen
from tui.kit.frames import FRAME, inner_cells, is_framed
from tui.kit.lists import KeyedList
from tui.kit.pane import FooterBar, Pane, PaneRow, pane_of, set_height, switch_classes
from tui.kit.terminal.clipboard import copy
from tui.runs.commands import BACKEND, PANES, PRESENT_PAGES, RUNS
from tui.runs.screens.column_borders import PaneArea
from tui.runs.screens.detail_panes import (
    BackendPane,
    BackendSwitches,
    DetailPane,
    LogPane,
    import_detail_views,
)
from tui.runs.screens.parameters import ParametersScreen
from tui.runs.screens.program import RunProgram
from tui.runs.screens.workloads_pane import WorkloadsPane
from tui.runs.state.parameters import Sweep, Valid
from tui.runs.state.state import CEILINGS, RunsState
from tui.runs.views import arrangement
from tui.runs.views.queue import format_run_all_question
from tui.runs.views.runner_notes import choose_not_started
from tui.runs.views.workload_table import has_ended_run


class WorkbenchScreen(CommandScreen):
    """The first tab: arranges its panes for its size and the focused pane, and acts on keys."""

    TAB = "workbench"
    AUTO_FOCUS = "WorkloadList"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of_screen(
        TAB, *RUNS, *PRESENT_PAGES, *BACKEND, *PANES
    )
    MODES = ("columns", "grid", "stack", "fold")

    def __init__(self, program: RunProgram) -> None:
        super().__init__(program)
        self._program = program
        self.actions = program.actions
        state, machine, clock = program.all_runs, program.machine, program.clock
        self.devices = DevicesPane(machine, self.actions, clock)
        self.memory = MemoryPane(machine, clock)
        self.devices.beside = lambda: self.memory.drawn_figure
        first = program.first_start and not program.readonly
        not_started = choose_not_started(replay=program.replay, readonly=program.readonly)
        self.workloads = WorkloadsPane(
            state, first_start=first, offers_demo=program.offers_demo, not_started=not_started
        )
        self.backend = BackendPane(state, lambda: self.workload)
        self.detail = DetailPane(
            state,
            lambda: self.workload,
            lambda: self.workloads.table.group,
            readonly=program.readonly,
        )
        self.log_pane = LogPane(program.event_log)
        self.panes: dict[str, Pane] = {
            "devices": self.devices,
            "memory": self.memory,
            "workloads": self.workloads,
            "backend": self.backend,
            "detail": self.detail,
            "log": self.log_pane,
        }
        """The panes by id."""
        self.top: PaneRow | None = None
        """The row of devices and memory; ``None`` before it exists."""
        self.bottom: PaneRow | None = None
        """The row of backends, detail and log; ``None`` before it exists."""
        self.area: PaneArea | None = None
        """The area of all panes; ``None`` before it exists."""
        self.lower = "detail"
        self.zoomed = False
        self._fitted = (0, 0, False, False)
        """At the last layout: rows of devices and backends, and whether any comparison and run."""
        self._memory_rows = 0
        """Rows that the account of the memory pane filled at the last layout."""
        self._was_away = False

    @property
    def state(self) -> RunsState:
        """The runs on the machine of the selected row."""
        return self._program.runs

    def compose(self) -> ComposeResult:
        """Yield two rows of two panes, with the table between them."""
        # Before any widget exists whose styles would be computed twice.
        self.place_panes("workloads")
        self.top = PaneRow(self.devices, self.memory, id="top")
        self.fit_devices()
        yield self.header()
        self.bottom = PaneRow(self.backend, self.detail, self.log_pane, id="bottom")
        self.area = PaneArea(
            self._program,
            self.top,
            self.workloads,
            self.bottom,
            firsts=(self.devices, self.backend),
            moved=self.place_panes,
        )
        yield self.area
        self._fit_columns()
        yield FooterBar(self.program.commands, self.situation)
        self.call_after_refresh(self._add_panes)

    def _add_panes(self) -> None:
        if not self.is_attached:
            return  # a key ended the program meanwhile
        for row in self.query(PaneRow):
            row.add_rest()

    # ---- which pane ----

    def focus_pane(self, name: str) -> None:
        """Focus a pane in any layout."""
        if name in arrangement.LOWER:
            self.lower = name
        self._add_panes()
        self.place_panes(name)
        part = self.panes[name].keys_go_to
        if part is not None:
            # At once: the widget's focus() acts later, and a key typed meanwhile would be lost.
            self.set_focus(part)

    def _step_focus(self, by: int) -> None:
        """Focus the next or the previous pane."""
        names = arrangement.pane_order(self.lower, columns=self.has_class("-columns"))
        current = self.focused_pane
        place = names.index(current) if current in names else 0
        self.focus_pane(names[(place + by) % len(names)])

    # ---- the arrangement ----

    def place_panes(self, focused: str | None = None) -> None:
        """Arrange the panes for the present size and focus."""
        focused = focused or self.focused_pane
        size = self.app.size
        self.devices.list.room = arrangement.list_room(*size, focused, self.lower, self.zoomed)
        self._fitted = self._count_rows()
        placed = arrangement.arrange(
            size.width,
            size.height,
            focused,
            self.lower,
            zoomed=self.zoomed,
            devices=self._fitted[0],
            compared=bool(self.state.comparisons),
        )
        changed: list[Widget] = []
        modes = {f"-{mode}": placed.mode == mode for mode in self.MODES}
        modes["-framed"] = is_framed(*size)
        modes["-reads"] = focused == self.lower
        modes["-backend-folded"] = placed.places["backend"] == "folded"
        all_of_it = switch_classes(self, modes)
        for name, pane in self.panes.items():
            place = placed.places[name]
            shown = place != "away"
            if shown and not pane.display:
                pane.display = True
                pane.call_after_refresh(pane.state_changed)
            elif not shown:
                pane.display = False
            changes = switch_classes(pane, {"-open": place == "open", "-folded": place == "folded"})
            if changes and pane.is_attached:
                changed.append(pane)
        changed += [row for row in self.query(PaneRow) if row.mark_open()]
        # Recompute the styles of all nodes below once, not once for each class.
        for node in [self] if all_of_it else changed:
            node.update_node_styles()
        self.fit_devices()
        self._fit_columns()

    def _fit_columns(self) -> None:
        if self.area is not None:
            columns, grid = self.has_class("-columns"), self.has_class("-grid")
            self.area.fit_columns("columns" if columns else "grid" if grid else "stack")

    def _count_rows(self, parts: Topics | None = None) -> tuple[int, int, bool, bool]:
        """Return the facts that the arrangement depends on.

        Args:
            parts: the only topics that have changed since the panes were placed; ``None`` if
                anything may have.
        """
        backend = self._fitted[1]
        if parts is None or parts & self.backend.SHOWS:
            backend = self._count_backend_rows()
        compared = bool(self.state.comparisons)
        return self.devices.count_rows(0), backend, compared, self.state.started

    def fit_devices(self) -> None:
        """Give the devices the rows that they and their history need, as far as available.

        In a stack, the backends get only the rows that they fill while another pane has the focus.
        """
        stack, rows = self.has_class("-stack"), self.app.size.height
        if self.has_class("-columns"):
            self._fit_heights(rows)
            return
        self._memory_rows = self._count_memory_rows()
        has_room = not stack or self.focused_pane == "memory" or self.memory.has_class("-folded")
        set_height(self.memory, None if has_room else self._memory_rows)
        set_height(self.log_pane, None)
        backend = self._count_rows()[1]
        set_height(self.backend, backend if stack and self.focused_pane != "backend" else None)
        notice = arrangement.notice_rows(rows)
        bare = self.devices.count_rows(0, notice)
        least = self.devices.count_least_rows(notice)
        whole = self.devices.count_rows(arrangement.history_rows(rows), notice)
        memory, lower = not self.memory.has_class("-folded"), self.panes[self.lower].display
        spare = backend - 1 if self.backend.has_class("-folded") else 0
        height = arrangement.devices_height(
            rows, bare, least, whole, memory=memory, lower=lower, spare=spare
        )
        set_height(self.devices, height if stack else None)
        if self.top is not None:
            reads = self.has_class("-reads")
            height = arrangement.top_height(rows, bare, least, whole, reads=reads)
            set_height(self.top, height if self.has_class("-grid") else None)
        brief = self._is_brief()
        set_height(self.detail, arrangement.BRIEF_ROWS if brief and stack else None)
        if self.bottom is not None:
            low = self.has_class("-backend-folded") and self.has_class("-grid")
            low = low and self._shows_detail_beside()
            # The folded pane above it has a row, and so has the frame's last line.
            detail = arrangement.detail_rows(rows, brief=brief) + 1 + FRAME
            set_height(self.bottom, detail if low else None)

    def _is_brief(self) -> bool:
        """Return whether the lower pane only describes a workload, because none has run yet."""
        return not self.state.started and self._shows_detail_beside()

    def _shows_detail_beside(self) -> bool:
        """Return whether the lower pane is a workload's detail while another one has the focus."""
        shows = self.lower == "detail" and not self.detail.roofline
        return shows and self.focused_pane != "detail"

    def _count_memory_rows(self) -> int:
        """Return the rows that the memory pane fills in three columns or in a stack."""
        cells = self.app.size.width
        if self.has_class("-columns"):
            left = cells * self.program.borders.left // 100
            return self.memory.count_rows(inner_cells(left, framed=True))
        return min(arrangement.MEMORY_ROWS, self.memory.count_rows(cells))

    def _count_backend_rows(self) -> int:
        """Return the rows that the backends pane fills, also in three columns."""
        width, rows = self.app.size
        if not self.has_class("-columns"):
            return self.backend.count_rows(width, arrangement.BACKEND_ROWS)
        column = inner_cells(width * (100 - self.program.borders.right) // 100, framed=True)
        return self.backend.count_rows(column, arrangement.most_column_rows(rows))

    def _fit_heights(self, rows: int) -> None:
        """Give the panes of three columns the rows that they fill; the others have the rest."""
        memory = self._memory_rows = self._count_memory_rows()
        fitted = arrangement.column_rows(rows, memory, self._count_backend_rows())
        for pane, height in zip((self.memory, self.backend, self.log_pane), fitted, strict=True):
            set_height(pane, height)
        set_height(self.devices, None)
        set_height(self.detail, None)
        for row in (self.top, self.bottom):
            if row is not None:
                set_height(row, None)

    def action_move_border(self, direction: int) -> None:
        """Move the border beside the focused pane."""
        if self.area is not None:
            self.area.step_border(self.focused_pane, direction)

    def on_resize(self, _event: events.Resize) -> None:
        """Arrange the panes for the new size."""
        self.place_panes()

    def on_click(self, event: events.Click) -> None:
        """Open a folded pane when its title is clicked."""
        widget, _region = self.get_widget_at(event.screen_x, event.screen_y)
        pane = pane_of(widget)
        if pane is not None and pane.id and pane.has_class("-folded"):
            self.focus_pane(pane.id)

    @on(events.ScreenSuspend)
    def _suspended(self) -> None:
        self._was_away = True

    def resumed(self, event: events.ScreenResume) -> None:
        """Redraw the parts that changed while the tab was hidden; a new screen is drawn anyway."""
        if self._was_away:
            self.fit_devices()
            super().resumed(event)
        else:
            # All its styles would be computed a second time.
            event.refresh_styles = False

    def shows_allocators(self) -> bool:
        """Return whether the visible memory pane splits the memory of other processes."""
        return not self.memory.has_class("-folded") and self.state.machine.has_other_processes()

    def shows_hosts(self) -> bool:
        """Return true: the list of devices shows hosts."""
        return True

    def draw(self, parts: Topics) -> None:
        """Draw the changed parts; the number of devices may have changed."""
        if self._count_rows(parts) != self._fitted:
            self.place_panes()
        if self.workloads.have_aged():
            parts |= {Topic.WORKLOADS}
        super().draw(parts)
        self._refit_memory(parts)

    def _refit_memory(self, parts: Topics) -> None:
        """Give the memory pane of three columns or of a stack the rows of its redrawn account.

        For the same device it only grows: figures that come and go move no other pane.
        """
        fitted = self.has_class("-columns") or self.has_class("-stack")
        if not fitted or not parts & self.memory.SHOWS:
            return
        needed = self._count_memory_rows()
        if needed > self._memory_rows or (needed < self._memory_rows and Topic.SELECTION in parts):
            self.fit_devices()

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        self.place_panes()
        self.rebuild_footer()

    # ---- valid commands ----

    def situation(self) -> Situation:
        """Return the situation, including the entries under the two cursors."""
        now = super().situation()
        away = self.zoomed or now.pane != "workloads"
        return replace(
            now,
            has_selection=self.workload is not None,
            has_result=now.pane == "workloads" and has_ended_run(self.state, self.workload),
            has_switches=self.backend.body.flag is not None,
            has_columns=self.has_class("-grid") or self.has_class("-columns"),
            can_measure_roof=now.pane == "detail" and self.detail.can_measure_roof(),
            can_go_back=away or bool(self.workloads.table.pattern),
        )

    @property
    def workload(self) -> str | None:
        """The workload under the table's cursor."""
        return self.workloads.table.workload

    # ---- runs ----

    def action_run_selected(self) -> None:
        """Run the workloads under the table's cursor."""
        self._run(self.workloads.table.under_cursor())

    def action_run_all(self) -> None:
        """Run all listed workloads; ask first if there is more than one."""
        names = self.workloads.table.listed()
        if len(names) < 2:
            self._run(names)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._run(names)

        self.app.push_screen(ConfirmScreen(*format_run_all_question(self.state, names)), answered)

    def _run(self, names: list[str]) -> None:
        """Run workloads, except a sweep that has not ended: its points would be measured twice."""
        sweeping = [name for name in names if self.state.is_sweeping(name)]
        if sweeping:
            words = f"the sweep of {', '.join(sweeping)} has not ended; x cancels it"
            self.notify(words, severity="warning", markup=False)
        names = [name for name in names if name not in sweeping]
        if names:
            self.actions.run(names)
            self.program.draw_now()

    def action_cancel(self) -> None:
        """Cancel the focused run or comparison, or all of the shown machine if there is none."""
        run_ids = self._cancellable()
        for run_id in run_ids:
            self.actions.cancel(run_id)
        if not run_ids:
            self.actions.cancel_shown()
        self.program.draw_now()

    def _cancellable(self) -> list[str]:
        if self.focused_pane == "backend":
            return self.backend.body.comparing()
        names = self.workloads.table.under_cursor()
        runs = self.state.book.values()
        return [run.request.id for run in runs if not run.ended and run.request.workload in names]

    def action_edit_parameters(self) -> None:
        """Open the editor on the selected workload."""
        info = self.state.find_workload(self.workload)
        if info is None:
            return

        def done(chosen: Valid | Sweep | None) -> None:
            if chosen == sweep and self.state.is_sweeping(info.name):
                self._run([info.name])
            elif isinstance(chosen, Sweep):
                self.actions.set_sweep(info.name, chosen)
                # Measured to 2%, which a curve does not show; r measures at the normal budget.
                self.actions.run([info.name], None, "quick")
            elif chosen is not None:
                self.actions.set_parameters(info.name, chosen.parameters)
            self.program.draw_now()

        present = self.state.parameters.get(info.name, {})
        sweep = self.state.sweeps.get(info.name)
        self.app.push_screen(ParametersScreen(info, present, sweep), done)

    def action_copy(self) -> None:
        """Copy the workload's script from its detail, its figures from the table, else the pane."""
        info = self.state.find_workload(self.workload)
        reads_code = self.focused_pane == "detail" and not self.detail.roofline
        if reads_code and info is not None and info.script:
            copy(self.app, f"{info.name}.py", info.script)
        elif self.focused_pane in ("workloads", "detail") and self.workload is not None:
            text = import_detail_views().format_for_clipboard(self.state, self.workload)
            copy(self.app, self.workload, text)
        else:
            super().action_copy()

    async def action_present(self) -> None:
        """Step through the group of the selected workload."""
        names = self.workloads.table.under_cursor()
        info = self.state.find_workload(names[0] if names else None)
        if info is not None:
            await self._program.open_pages(info.group, self.workload)

    # ---- the table ----

    def action_filter(self) -> None:
        """Focus the table's filter."""
        self.focus_pane("workloads")
        self.workloads.filter_line.begin()

    def action_sort_rows(self) -> None:
        """Sort the devices if they have the focus, else the table."""
        if self.focused_pane == "devices":
            self.devices.next_order()
        else:
            self.workloads.next_order()

    @on(DeviceList.Folded)
    def _devices_folded(self) -> None:
        self.place_panes()

    @on(KeyedList.Moved, "WorkloadList")
    def _workload_moved(self) -> None:
        for pane in (self.detail, self.backend):
            if pane.is_attached:
                pane.state_changed()
        self.rebuild_footer()

    @on(KeyedList.Chosen, "WorkloadList")
    def _workload_chosen(self) -> None:
        if self.workload is None:
            self.workloads.table.action_toggle_group()
        else:
            self.call_later(self.run_action, "edit_parameters")

    # ---- switches ----

    def action_go_to_flags(self) -> None:
        self.focus_pane("backend")

    def action_switch_flag(self) -> None:
        """Switch the flag under the cursor."""
        name = self.backend.body.flag
        if name is not None:
            self.actions.set_flag(name, not self.state.flags.get(name, False))
            self.program.draw_now()

    @on(BackendSwitches.SwitchChosen)
    def _switch_chosen(self) -> None:
        self.call_later(self.run_action, "switch_flag")

    def action_compare_again(self) -> None:
        """Compare the flag under the cursor again, on the workloads it was compared on."""
        flag = self.backend.body.flag
        if flag is None:
            return
        names = self.backend.body.compared_on(flag)
        if self.focused_pane == "workloads" and self.workload in names:
            names = [self.workload]
        for name in names:
            self.actions.compare(name, flag)
        self.program.draw_now()

    # ---- panes ----

    def action_open_row(self) -> None:
        """Open the row under the cursor; explain the memory; switch a flag; measure the roof."""
        if self.focused_pane == "memory":
            self.app.push_screen(self.memory.explanation())
        elif self.focused_pane == "backend":
            self.action_switch_flag()
        elif self.focused_pane == "detail":
            self._run([CEILINGS])
        else:
            super().action_open_row()

    def action_go_to_devices(self) -> None:
        self.focus_pane("devices")

    def action_next_figure(self) -> None:
        """Draw the next figure of the selected device's history."""
        self.devices.next_figure()
        self.fit_devices()

    def action_go_to_memory(self) -> None:
        self.focus_pane("memory")

    def action_go_to_workloads(self) -> None:
        self.focus_pane("workloads")

    def action_show_detail(self) -> None:
        """Explain the memory or a flag in their panes; elsewhere go to the detail."""
        if self.focused_pane == "backend":
            self.app.push_screen(self.backend.explanation())
            return
        if self.focused_pane == "memory":
            self.app.push_screen(self.memory.explanation())
            return
        self.focus_pane("detail")
        self.detail.turn_to(roofline=False)

    def action_show_roofline(self) -> None:
        """Switch the detail to the roofline of the selected device, or back."""
        shown = self.detail.roofline and self.focused_pane == "detail"
        self.focus_pane("detail")
        self.detail.turn_to(roofline=not shown)

    def action_toggle_log(self) -> None:
        """Replace the detail by the log, or the log by the detail."""
        shown = self.focused_pane if self.has_class("-columns") else self.lower
        self.focus_pane("detail" if shown == "log" else "log")

    def action_go_back(self) -> None:
        """Leave the zoom, else return to the table, else clear its filter."""
        if self.zoomed:
            self.action_zoom()
        elif self.focused_pane != "workloads":
            self.focus_pane("workloads")
        else:
            self.workloads.filter_line.end(filtered=False)

    def action_zoom(self) -> None:
        """Give the focused pane the whole screen, or restore the layout."""
        self.zoomed = not self.zoomed
        self.place_panes()

    @property
    def zoomed_pane(self) -> str:
        """Id of the pane that has the whole screen; empty if none has."""
        return (self.focused_pane or "") if self.zoomed else ""

    def zoom_pane(self, name: str) -> None:
        """Give a pane the whole screen; an empty name restores the layout, with the table focused.

        Args:
            name: id of the pane.
        """
        if name == self.zoomed_pane:
            return
        self.zoomed = bool(name)
        self.focus_pane(name or "workloads")

    def action_next_pane(self) -> None:
        self._step_focus(1)

    def action_previous_pane(self) -> None:
        self._step_focus(-1)
