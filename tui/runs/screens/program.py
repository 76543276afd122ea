"""The interface of the app that the screens of runs use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tui.core.events import EventLog
from tui.devices.screens.device_list import DeviceActions, DeviceProgram
from tui.runs.state.parameters import Sweep
from tui.runs.state.state import RunsState
from workloads.protocol.messages import Budget
from workloads.protocol.results import Setting


class RunActions(DeviceActions, Protocol):
    """Requests of the front ends. None of them waits; each outcome is an event."""

    def set_parameters(self, workload: str, parameters: dict[str, Setting]) -> None:
        """Set all parameters of a workload, validated against its ``ParameterInfo``."""

    def set_sweep(self, workload: str, sweep: Sweep) -> None:
        """Set several settings for a workload's next runs."""

    def run(
        self,
        workloads: Sequence[str],
        devices: Sequence[str] | None = None,
        budget: Budget = "normal",
    ) -> None:
        """Queue runs with the present parameters or sweep, and the present flags.

        Args:
            workloads: names, in order.
            devices: torch device names; ``None`` for the CPU and the GPU column's device, or the
                one of them that the workload can run on.
            budget: time for each measurement.
        """

    def run_to_present(self, workload: str) -> None:
        """Queue quick runs with the catalogue's defaults, separate from the user's results."""

    def cancel(self, run_id: str = "") -> None:
        """Cancel one run or comparison, or all unfinished ones on every machine."""

    def cancel_shown(self) -> None:
        """Cancel all unfinished runs and comparisons on the machine of the selected row."""

    def set_flag(self, name: str, value: bool) -> None:
        """Switch a backend flag and rerun the convolutions, new setting against old."""

    def compare(self, workload: str, flag: str) -> None:
        """Compare off and on of one flag on one workload, with more pairs than before."""

    def restart_runner(self) -> None:
        """Kill the runner in any state, and start a new one."""


class RunProgram(DeviceProgram, Protocol):
    """The app as a screen of runs sees it."""

    @property
    def all_runs(self) -> RunsState:
        """The runs on this machine, which know those on other hosts."""

    @property
    def runs(self) -> RunsState:
        """The runs on the machine of the selected row."""

    @property
    def event_log(self) -> EventLog:
        """The lines of the log."""

    @property
    def actions(self) -> RunActions:
        """The requests that screens can make."""

    async def open_pages(self, group: str, workload: str | None = None) -> None:
        """Open the pages of a group, at a workload or at the first page."""
