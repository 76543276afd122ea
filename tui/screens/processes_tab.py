"""The processes tab: who holds the memory of the selected device."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from tui.commands import bindings
from tui.commands.command import Situation
from tui.devices.messages import GpuProcess
from tui.screens.command_screen import CommandScreen, Program
from tui.screens.confirm import ConfirmScreen
from tui.terminate import refusal, terminate
from tui.widgets.footer_bar import FooterBar
from tui.widgets.processes_pane import ProcessesPane


class ProcessesTab(CommandScreen):
    """Header, processes, footer."""

    TAB = "processes"
    CSS_PATH = "processes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings.of_screen(TAB)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.pane = ProcessesPane(program.store, program.actions, program.clock)

    def compose(self) -> ComposeResult:
        """From the top down."""
        yield self.header()
        yield self.pane
        yield FooterBar(self.situation)

    def situation(self) -> Situation:
        """With whether the process under the cursor can be sent a signal."""
        return replace(super().situation(), on_process=self._process() is not None)

    def _process(self) -> GpuProcess | None:
        """The process under the cursor, where it can be sent a signal."""
        row = self.pane.selected
        return row if row is not None and refusal(row) is None else None

    def resumed(self, event: events.ScreenResume) -> None:
        """Catch up with what changed while another tab was open."""
        self.pane.opened(True)
        super().resumed(event)

    @on(events.ScreenSuspend)
    def _suspended(self) -> None:
        self.pane.opened(False)

    def action_sort_processes(self) -> None:
        """Sort by the next column."""
        self.pane.next_order()

    def action_end_process(self) -> None:
        """Ask, and send SIGTERM."""
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
        self.app.push_screen(ConfirmScreen(f"Terminate process {row.pid}?", words), answered)
