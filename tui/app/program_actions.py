"""What the commands do that open tabs or concern the program itself; mixed into the app's."""

from __future__ import annotations

from textual.command import CommandPalette

from tui.app.snapshot_actions import SnapshotActions
from tui.session.actions import Actions

DEFAULT_REFRESH_S = 1.0
REFRESH_STEPS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds between two samples that can be gone through."""


class ProgramActions(SnapshotActions):
    """Tabs, palette, refresh, runner."""

    actions: Actions
    refresh_s = DEFAULT_REFRESH_S
    """Seconds between two samples of the devices."""

    # ---- tabs ----

    def show_tab(self, name: str) -> None:
        """Show a tab by its name in the registry."""
        self.switch_mode(name)

    def action_tab_workbench(self) -> None:
        """Show the workbench."""
        self.show_tab("workbench")

    def action_tab_memory(self) -> None:
        """Show the memory."""
        self.show_tab("memory")

    def action_tab_snapshot(self) -> None:
        """Show the snapshot."""
        self.show_tab("snapshot")

    def action_tab_processes(self) -> None:
        """Show the processes."""
        self.show_tab("processes")

    # ---- program ----

    def action_command_palette(self) -> None:
        """Find a command by name."""
        self.push_screen(CommandPalette(placeholder="words of a command", id="--command-palette"))

    def action_refresh_faster(self) -> None:
        """Sample more often."""
        self._refresh(max((step for step in REFRESH_STEPS if step < self.refresh_s), default=0))

    def action_refresh_slower(self) -> None:
        """Sample less often."""
        self._refresh(min((step for step in REFRESH_STEPS if step > self.refresh_s), default=0))

    def _refresh(self, seconds: float) -> None:
        if seconds:
            self.refresh_s = seconds
            self.actions.set_refresh(seconds)
        self.notify(f"a sample every {self.refresh_s:g} s", markup=False)

    def action_restart_runner(self) -> None:
        """Replace the runner."""
        self.actions.restart_runner()
