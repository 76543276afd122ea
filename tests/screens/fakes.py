"""A session that starts nothing: it feeds a store by hand and remembers what it was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.screens.helpers import Recorder
from tui.devices.state.machine import DeviceSelected
from tui.recordings.lines import AnyEvent
from tui.runs.state.events import FlagSet, ParametersSet, RunQueued, SweepSet
from tui.runs.state.parameters import Sweep, defaults
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages
from workloads.protocol.messages import Budget
from workloads.protocol.results import Setting


class FakeSession(Recorder):
    """Remembers every request, and takes into its store what the real one would at once."""

    def __init__(self, state: WorkbenchState) -> None:
        super().__init__()
        self.state = state
        self.started = False
        self.stopped = False

    def watch(self) -> None:
        """There is no monitor."""

    async def looked(self, patience: float = 0.0) -> None:
        """Nothing is waited for."""

    async def start(self) -> None:
        self.started = True

    async def stop(self) -> None:
        self.stopped = True

    def on_error(self, handler: Callable[[BaseException], None]) -> None:
        """Nothing of it can fail."""

    def tell(self, *events: AnyEvent) -> None:
        for event in events:
            self.state.publish(event)

    # ---- what changes the store without a child ----

    def select_device(self, key: str) -> None:
        super().select_device(key)
        self.tell(DeviceSelected(key))

    def set_parameters(self, workload: str, parameters: dict[str, Setting]) -> None:
        super().set_parameters(workload, parameters)
        self.tell(ParametersSet(workload, parameters))

    def set_sweep(self, workload: str, sweep: Sweep) -> None:
        super().set_sweep(workload, sweep)
        self.tell(SweepSet(workload, sweep))

    def set_flag(self, name: str, value: bool) -> None:
        super().set_flag(name, value)
        self.tell(FlagSet(name, value))

    def run(
        self,
        workloads: Sequence[str],
        devices: Sequence[str] | None = None,
        budget: Budget = "normal",
    ) -> None:
        super().run(workloads, devices, budget)
        for name in workloads:
            for parameters in self.state.runs.points(name):
                number = f"run-{len(self.state.runs.book)}-{len(self.asked)}-{name}"
                self.tell(RunQueued(messages.Run(number, name, "cpu", parameters, {})))

    def run_for_demo(self, workload: str) -> None:
        super().run_for_demo(workload)
        for info in self.state.runs.catalogue:
            if info.name == workload:
                number = f"demo-{len(self.state.runs.book)}-{workload}"
                self.tell(
                    RunQueued(messages.Run(number, workload, "cpu", defaults(info), {}), True)
                )
