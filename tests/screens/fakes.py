"""A session without processes: it fills a store by hand and records its requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.screens.helpers import Recorder
from tui.devices.state.machine import DeviceSelected
from tui.recordings.lines import AnyEvent
from tui.runs.state.events import FlagSet, HostRunEvent, ParametersSet, RunQueued, SweepSet
from tui.runs.state.parameters import Sweep, get_defaults
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages
from workloads.protocol.messages import Budget
from workloads.protocol.results import Setting


class FakeSession(Recorder):
    """Records every request, and updates its store with the immediate effects of the real one."""

    def __init__(self, state: WorkbenchState) -> None:
        super().__init__()
        self.state = state
        self.started = False
        self.stopped = False

    def watch(self) -> None:
        """Do nothing: there is no monitor."""

    async def wait_for_sample(self, timeout_s: float = 0.0) -> None:
        """Return at once."""

    async def start(self) -> None:
        self.started = True

    async def stop(self) -> None:
        self.stopped = True

    def on_error(self, handler: Callable[[BaseException], None]) -> None:
        """Do nothing: it cannot fail."""

    def tell(self, *events: AnyEvent) -> None:
        for event in events:
            self.state.publish(event)

    # ---- changes of the store without a child ----

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
        runs = self.state.runs.shown
        for name in workloads:
            for parameters in runs.points(name):
                number = f"run-{len(runs.book)}-{len(self.asked)}-{name}"
                queued = RunQueued(messages.Run(number, name, "cpu", parameters, {}))
                host = runs.machine.host
                self.tell(HostRunEvent(host, queued) if host else queued)

    def run_to_present(self, workload: str) -> None:
        super().run_to_present(workload)
        for info in self.state.runs.catalogue:
            if info.name == workload:
                number = f"demo-{len(self.state.runs.book)}-{workload}"
                self.tell(
                    RunQueued(messages.Run(number, workload, "cpu", get_defaults(info), {}), True)
                )
