"""What each command does. The registry says when it is valid; nothing here waits.

What the first screen does not show is imported by the action that shows it: a start is measured
against an empty app, and each module costs half a millisecond of it.
"""

from __future__ import annotations

from textual.app import App
from textual.binding import Binding
from textual.command import CommandPalette
from textual.widgets import Input

from tui.actions import Actions
from tui.command import Situation
from tui.commands import BY_ACTION, COMMANDS
from tui.screens.workbench import WorkbenchScreen, pane_of
from tui.store import Store
from tui.views.backend import newest
from tui.widgets.pane import Pane
from workloads.inventory import Setting

CONVOLUTION = "convolution"
"""The group of workloads that the backends' switches act on."""


def command_bindings() -> list[Binding]:
    """The registry's keys."""
    return [
        Binding(",".join(command.keys), command.action, command.label, id=command.id)
        for command in COMMANDS
        if command.keys
    ]


class AppActions(App[None]):
    """The actions of the workbench; the wiring is :class:`tui.app.WorkbenchApp`'s."""

    def __init__(self, store: Store, actions: Actions, *, readonly: bool) -> None:
        super().__init__()
        self.store = store
        self.actions = actions
        self.readonly = readonly

    def draw_now(self) -> None:
        """Show at once what a key has changed."""
        raise NotImplementedError

    # ---- what is valid ----

    @property
    def workbench(self) -> WorkbenchScreen | None:
        """The workbench, while it is what the user looks at, if under a dialog."""
        base = self.screen_stack[0]
        return base if isinstance(base, WorkbenchScreen) else None

    def situation(self) -> Situation:
        """What decides which commands are valid."""
        screen, store = self.workbench, self.store
        selected = screen.workloads.table.workload if screen else None
        return Situation(
            tab="memory" if self.current_mode == "memory" else "workbench",
            pane=pane_of(self.screen_stack[0].focused),
            runner_usable=store.runner.status != "ended",
            has_workloads=bool(store.catalogue),
            has_selection=selected is not None,
            pending=bool(store.pending()),
            has_switches=screen is not None and screen.backend.body.flag is not None,
            has_worker=store.worker_pid is not None,
            readonly=self.readonly,
            typing=isinstance(self.screen_stack[0].focused, Input),
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands by the registry, the framework's own actions always."""
        command = BY_ACTION.get(action)
        if command is None:
            return super().check_action(action, parameters)
        now = self.situation()
        if not command.offered(now):
            return False
        return True if command.valid(now) else None

    # ---- runs ----

    def action_run_selected(self) -> None:
        """Run what is under the table's cursor."""
        if self.workbench and (names := self.workbench.workloads.table.under_cursor()):
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

        def done(chosen: dict[str, Setting] | None) -> None:
            if chosen is not None:
                self.actions.set_parameters(info.name, chosen)
                self.draw_now()

        present = self.store.parameters.get(info.name, {})
        self.push_screen(ParametersScreen(info, present), done)

    def action_filter(self) -> None:
        """Type into the table's filter."""
        if self.workbench:
            self.workbench.focus_pane("workloads")
            self.workbench.workloads.begin_filter()

    def action_copy_result(self) -> None:
        """Send the selected workload's detail to the terminal."""
        name = self.workbench.workloads.table.workload if self.workbench else None
        if name is not None:
            from tui.views.detail import copy_text

            self.copy_to_clipboard(copy_text(self.store, name))
            words = f"{name}: sent to the terminal (OSC 52), which may refuse it"
            self.notify(words, markup=False)

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
        names = names or [info.name for info in self.store.catalogue if info.group == CONVOLUTION]
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

    # ---- screen ----

    def action_show_detail(self) -> None:
        """Go to the detail."""
        if self.workbench:
            self.workbench.focus_pane("detail")

    def action_toggle_log(self) -> None:
        """Log in place of detail, or the other way round."""
        if self.workbench:
            self.workbench.focus_pane("log" if self.workbench.lower == "detail" else "detail")

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

    def show_tab(self, name: str) -> None:
        """Show a tab by its name in the registry."""
        self.switch_mode(self.DEFAULT_MODE if name == "workbench" else name)

    def action_tab_workbench(self) -> None:
        """Show the workbench."""
        self.show_tab("workbench")

    def action_tab_memory(self) -> None:
        """Show the memory."""
        self.show_tab("memory")

    # ---- program ----

    def action_command_palette(self) -> None:
        """Find a command by name."""
        self.push_screen(CommandPalette(placeholder="words of a command", id="--command-palette"))

    def action_restart_runner(self) -> None:
        """Replace the runner."""
        self.actions.restart_runner()

    def action_show_help(self) -> None:
        """Explain the focused pane and list the keys."""
        from tui.screens.help import HelpScreen

        base = self.screen_stack[0]
        panes = {pane.id: pane for pane in base.query(Pane)}
        self.push_screen(HelpScreen(panes.get(pane_of(base.focused)), self.readonly))
