"""The selected row of another host is that of the device that the panes show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.screens.helpers import NOW, environment, gpu, sample
from tui.core.events import EventBus
from tui.devices.state.hosts import HostState
from tui.devices.state.machine import DeviceSelected, MachineState
from tui.devices.views.host_rows import host_groups
from tui.hosts.events import HostLost, HostSample, HostsNamed
from tui.monitor.messages import Device
from tui.runs.state.events import HostRunEvent
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages
from workloads.protocol.results import TorchDevice

FOUR = tuple(replace(gpu(number), id=f"GPU-{number}") for number in range(4))


class _Screen:
    """A machine that shows one other host, and no device of its own."""

    def __init__(self, *devices: Device) -> None:
        self.bus = EventBus()
        self.machine = MachineState(self.bus)
        self.bus.publish(HostsNamed(("gpu1",), here=False))
        self.apply(*devices)

    @property
    def host(self) -> HostState:
        return self.machine.hosts.all[0]

    def apply(self, *devices: Device) -> None:
        self.bus.publish(HostSample("gpu1", sample(*devices), 0.01, NOW))

    def select(self, key: str) -> None:
        self.bus.publish(DeviceSelected(key))

    @property
    def selected(self) -> tuple[str, str]:
        """Return the marked row, and the id of the device in the panes."""
        return self.machine.selected_key, self.machine.shown.selected_device.key


def _renumber(devices: Sequence[Device]) -> tuple[Device, ...]:
    return tuple(replace(item, nvml_index=number) for number, item in enumerate(devices))


def test_the_first_device_of_the_first_host_is_selected_at_the_start() -> None:
    assert _Screen(*FOUR).selected == ("gpu1:0", "GPU-0")


def test_the_row_follows_a_device_whose_number_changes() -> None:
    at = _Screen(*FOUR)
    at.select("gpu1:2")
    at.apply(*_renumber((FOUR[0], FOUR[2], FOUR[3])))
    assert at.selected == ("gpu1:1", "GPU-2")


def test_a_host_with_other_devices_marks_the_device_that_is_shown() -> None:
    at = _Screen(*FOUR)
    at.select("gpu1:1")
    at.apply(*(replace(item, id=f"{item.id}-new") for item in FOUR))
    assert at.selected == ("gpu1:0", "GPU-0-new")


def test_a_device_is_selected_again_after_the_driver_has_started() -> None:
    at = _Screen(*FOUR)
    at.select("gpu1:3")
    at.bus.publish(HostLost("gpu1", "not answering", 1.0, NOW))
    assert at.selected == ("gpu1:3", "GPU-3")
    at.apply()
    assert at.selected == ("gpu1:cpu", "cpu")
    at.apply(*FOUR)
    assert at.selected == ("gpu1:3", "GPU-3")


def test_a_choice_made_while_a_device_is_away_stands() -> None:
    at = _Screen(*FOUR)
    at.select("gpu1:3")
    at.apply(*FOUR[:2])
    at.select("gpu1:1")
    at.apply(*FOUR)
    assert at.selected == ("gpu1:1", "GPU-1")


def test_gpus_that_only_torch_reports_have_rows_of_their_own() -> None:
    cuda = TorchDevice("cuda:0", "NVIDIA H200", total_memory=1 << 37)
    state = WorkbenchState()
    state.publish(HostsNamed(("gpu1",), here=False))
    state.publish(HostSample("gpu1", sample(), 0.01, NOW))
    state.publish(HostRunEvent("gpu1", messages.Ready(environment(cuda), 1.0)))
    (group,) = host_groups(state.machine)
    keys = [group.key, *(key for key, _ in group.gpus)]
    assert keys == ["gpu1:cpu", "gpu1:cuda0"]
    state.publish(DeviceSelected("gpu1:cuda0"))
    assert state.machine.shown.selected_device.torch == "cuda:0"
    state.publish(DeviceSelected("gpu1:cpu"))
    assert state.machine.shown.selected_device.key == "cpu"
