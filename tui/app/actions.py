"""What each command does. The registry says when it is valid; nothing here waits.

What the first screen does not show is imported by the action that shows it: a start is measured
against an empty app, and each module costs half a millisecond of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.widget import Widget

from tui.app.program_actions import ProgramActions
from tui.commands.command import Situation
from tui.commands.registry import BY_ACTION, COMMANDS
from tui.commands.tabs import DEMO
from tui.devices.messages import GpuProcess
from tui.screens.workbench import WorkbenchScreen, pane_of
from tui.session.actions import Actions
from tui.store.parameters import Valid
from tui.store.store import Store
from tui.sweeps.sweep import Sweep
from tui.views.backend import newest
from tui.widgets.pane import Pane

if TYPE_CHECKING:
    from tui.screens.demo import DemoScreen


def command_bindings() -> list[Binding]:
    """The registry's keys."""
    return [
        Binding(
            ",".join(command.keys),
            command.action,
            command.label,
            id=command.id,
            priority=command.opens_field,
        )
        for command in COMMANDS
        if command.keys and command.tabs != DEMO
    ]


class AppActions(ProgramActions):
    """The actions of the workbench; the wiring is :class:`tui.app.workbench.WorkbenchApp`'s."""

    def __init__(self, store: Store, actions: Actions, *, readonly: bool) -> None:
        super().__init__()
        self.store = store
        self.actions = actions
        self.readonly = readonly
        self.demo: DemoScreen | None = None
        """The demo, while it is open."""

    def draw_now(self) -> None:
        """Show at once what a key has changed."""
        raise NotImplementedError

    def log_changed(self) -> None:
        """Draw the log, where it is on the screen."""
        if self.workbench and self.workbench.log_pane.display:
            self.workbench.log_pane.store_changed()

    # ---- what is valid ----

    @property
    def workbench(self) -> WorkbenchScreen | None:
        """The workbench, while it is what the user looks at, if under a dialog."""
        return self.base if isinstance(self.base, WorkbenchScreen) else None

    @property
    def tab(self) -> str:
        """The tab that is open, by its name in the registry."""
        return self.current_mode

    def situation(self) -> Situation:
        """What decides which commands are valid."""
        screen, store = self.workbench, self.store
        focused = self.base.focused if self.base else None
        selected = screen.workloads.table.workload if screen else None
        return Situation(
            tab="demo" if self.demo else self.tab,
            pane=pane_of(focused),
            runner_usable=store.runner.status != "ended",
            has_workloads=bool(store.catalogue),
            has_selection=selected is not None,
            pending=bool(store.pending()),
            has_switches=screen is not None and screen.backend.body.flag is not None,
            has_worker=store.worker_pid is not None and store.selected_device.torch is not None,
            on_process=self._process() is not None,
            can_go_back=screen is not None and screen.can_go_back,
            readonly=self.readonly,
            typing=_takes_letters(focused),
            snapshot=self.desk is not None and self.desk.ready,
            snapshot_loading=self.desk is not None and self.desk.loading,
            snapshot_ooms=self.desk is not None and self.desk.has_ooms,
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands by the registry, the framework's own actions always."""
        command = BY_ACTION.get(action)
        if command is None:
            return super().check_action(action, parameters)
        if self.base is None:
            return False
        now = self.situation()
        if not command.offered(now):
            return False
        return True if command.valid(now) else None

    # ---- runs ----

    def action_run_selected(self) -> None:
        """Run what is under the table's cursor; in the demo, its page again."""
        if self.demo is not None:
            self.demo.run_again()
        elif self.workbench and (names := self.workbench.workloads.table.under_cursor()):
            self.actions.run(names)
            self.draw_now()

    def action_run_all(self) -> None:
        """Run what the table lists."""
        if self.workbench and (names := self.workbench.workloads.table.listed()):
            self.actions.run(names)
            self.draw_now()

    def action_cancel(self) -> None:
        """Cancel what the focus is on, or all where that has nothing to cancel."""
        for run_id in self._cancellable() or [""]:
            self.actions.cancel(run_id)
        self.draw_now()

    def _cancellable(self) -> list[str]:
        if self.workbench is None:
            return []
        if self.workbench.focused_pane == "backend":
            states = self.store.comparisons.values()
            return [state.request.id for state in states if not state.done]
        names = self.workbench.workloads.table.under_cursor()
        runs = self.store.runs.values()
        return [run.request.id for run in runs if not run.ended and run.request.workload in names]

    def action_cancel_all(self) -> None:
        """Cancel everything."""
        self.actions.cancel("")
        self.draw_now()

    def action_edit_parameters(self) -> None:
        """Open the editor on the selected workload."""
        from tui.screens.parameters import ParametersScreen
        from tui.views.detail import find

        info = find(self.store, self.workbench.workloads.table.workload if self.workbench else None)
        if info is None:
            return

        def done(chosen: Valid | Sweep | None) -> None:
            if isinstance(chosen, Sweep):
                self.actions.set_sweep(info.name, chosen)
                # To 2 %, which a curve does not show; r measures it as anything else.
                self.actions.run([info.name], None, "quick")
            elif chosen is not None:
                self.actions.set_parameters(info.name, chosen.parameters)
            self.draw_now()

        present = self.store.parameters.get(info.name, {})
        self.push_screen(ParametersScreen(info, present, self.store.sweeps.get(info.name)), done)

    def action_filter(self) -> None:
        """Type into the table's filter."""
        if self.workbench:
            self.workbench.focus_pane("workloads")
            self.workbench.workloads.begin_filter()

    def action_sort_workloads(self) -> None:
        """Sort the table by the next column."""
        if self.workbench:
            self.workbench.workloads.next_order()

    def action_copy_result(self) -> None:
        """Send the selected workload's detail to the terminal."""
        name = self.workbench.workloads.table.workload if self.workbench else None
        if name is not None:
            from tui.views.detail import copy_text

            self.copy(name, copy_text(self.store, name))

    # ---- backend ----

    def action_go_to_flags(self) -> None:
        """Go to the switches."""
        if self.workbench:
            self.workbench.focus_pane("backend")

    def action_switch_flag(self) -> None:
        """Switch the flag under the cursor."""
        name = self.workbench.backend.body.flag if self.workbench else None
        if name is not None:
            self.actions.set_flag(name, not self.store.flags.get(name, False))
            self.draw_now()

    def action_compare_again(self) -> None:
        """Compare the flag under the cursor again, on the workloads it was compared on."""
        flag = self.workbench.backend.body.flag if self.workbench else None
        if self.workbench is None or flag is None:
            return
        compared = [state.request for state in newest(self.store) if state.request.flag == flag]
        names = list(dict.fromkeys(request.workload for request in reversed(compared)))
        names = names or [info.name for info in self.store.catalogue if info.compared]
        selected = self.workbench.workloads.table.workload
        if self.workbench.focused_pane == "workloads" and selected in names:
            names = [selected]
        for name in names:
            self.actions.compare(name, flag)
        self.draw_now()

    # ---- devices and memory ----

    def action_next_device(self) -> None:
        """Select the next device."""
        keys = [view.key for view in self.store.devices]
        if keys:
            place = keys.index(self.store.selected) if self.store.selected in keys else -1
            self.actions.select_device(keys[(place + 1) % len(keys)])
            self.draw_now()

    def action_empty_cache(self) -> None:
        """Empty the selected device's cache."""
        self.actions.empty_cache(self.store.selected)

    def action_reset_peaks(self) -> None:
        """Start the selected device's peaks anew."""
        self.actions.reset_peaks(self.store.selected)

    # ---- processes ----

    def _process(self) -> GpuProcess | None:
        """The process under the cursor, where it can be sent a signal."""
        if self.base is None or self.tab != "processes":
            return None
        from tui.terminate import refusal
        from tui.widgets.processes_pane import ProcessesPane

        panes = self.base.query(ProcessesPane)
        row = panes.first().selected if panes else None
        return row if row is not None and refusal(row) is None else None

    def action_sort_processes(self) -> None:
        """Sort by the next column."""
        from tui.widgets.processes_pane import ProcessesPane

        if self.base is not None:
            self.base.query_one(ProcessesPane).next_order()

    def action_end_process(self) -> None:
        """Ask, and send SIGTERM."""
        from tui.screens.confirm import ConfirmScreen
        from tui.terminate import terminate

        row = self._process()
        if row is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                problem = terminate(row)
                words = problem or f"SIGTERM sent to {row.pid}; it ends when it is ready to"
                self.notify(words, severity="warning" if problem else "information", markup=False)

        ours = row.pid == self.store.worker_pid
        words = [
            f"{row.pid}  {row.user or 'unknown user'}  {row.command or 'unknown command'}",
            *(["It is this workbench's own worker: a run that goes on ends."] if ours else []),
            "It gets SIGTERM: most programs end, and lose what they have not saved.",
        ]
        self.push_screen(ConfirmScreen(f"Terminate process {row.pid}?", words), answered)

    # ---- demo ----

    def action_demo(self) -> None:
        """Step through the group of the selected workload."""
        from tui.views.detail import find

        table = self.workbench.workloads.table if self.workbench else None
        names = table.under_cursor() if table else []
        info = find(self.store, names[0] if names else None)
        if info is not None and table is not None:
            self.open_demo(info.group, table.workload)

    def open_demo(self, group: str, workload: str | None = None) -> None:
        """Show the pages of a group, from a workload's on."""
        from tui.screens.demo import DemoScreen

        self.demo = DemoScreen(
            self.store, self.actions, self.situation, group, workload, readonly=self.readonly
        )
        self.push_screen(self.demo)

    def action_demo_next(self) -> None:
        """Turn to the next page."""
        if self.demo:
            self.demo.turn(1)

    def action_demo_previous(self) -> None:
        """Turn back a page."""
        if self.demo:
            self.demo.turn(-1)

    def action_demo_leave(self) -> None:
        """Go back to where the demo was started from."""
        if self.demo and self.screen is self.demo:
            cancelled = self.demo.leave_page()
            self.demo = None
            self.pop_screen()
            self.draw_now()
            if cancelled:
                self.notify(cancelled, markup=False)

    # ---- screen ----

    def _jump(self, pane: str) -> None:
        if self.workbench:
            self.workbench.focus_pane(pane)

    def action_go_to_devices(self) -> None:
        """Go to the devices."""
        self._jump("devices")

    def action_go_to_memory(self) -> None:
        """Go to the memory pane."""
        self._jump("memory")

    def action_go_to_workloads(self) -> None:
        """Go to the table."""
        self._jump("workloads")

    def action_show_detail(self) -> None:
        """Go to the detail."""
        if self.workbench:
            self.workbench.focus_pane("detail")

    def action_toggle_log(self) -> None:
        """Log in place of detail, or the other way round."""
        if self.workbench:
            self.workbench.focus_pane("log" if self.workbench.lower == "detail" else "detail")

    def action_go_back(self) -> None:
        """Take the zoom back, else go back to the table, else drop its filter."""
        if self.workbench and self.workbench.zoomed:
            self.workbench.toggle_zoom()
        elif self.workbench and self.workbench.focused_pane != "workloads":
            self.workbench.focus_pane("workloads")
        elif self.workbench:
            self.workbench.workloads.end_filter(keep=False)

    def action_zoom(self) -> None:
        """Zoom the focused pane."""
        if self.workbench:
            self.workbench.toggle_zoom()

    def action_next_pane(self) -> None:
        """Go to the next pane."""
        self._step(1)

    def action_previous_pane(self) -> None:
        """Go to the pane before."""
        self._step(-1)

    def _step(self, by: int) -> None:
        if self.workbench:
            self.workbench.step_focus(by)
        elif by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    def action_show_help(self) -> None:
        """Explain the focused pane and list the keys."""
        from tui.screens.help import HelpScreen

        base = self.demo or self.base
        if base is None:
            return
        panes = {pane.id: pane for pane in base.query(Pane)}
        self.push_screen(HelpScreen(panes.get(pane_of(base.focused)), self.situation()))


def _takes_letters(widget: Widget | None) -> bool:
    """Whether one types into it. Not asked by its class, whose import takes 10 ms of the start."""
    return widget is not None and widget.check_consume_key("a", "a")
