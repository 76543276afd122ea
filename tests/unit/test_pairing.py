"""NVML's devices and torch's, paired by UUID or bus, never by index."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.screens.helpers import environment, gpu, make_store, sample, torch_gpu, uuid
from tui.devices.state.devices import CPU, expect_names, pair
from tui.monitor.messages import Device
from workloads.protocol.messages import Ready
from workloads.protocol.results import TorchDevice

CPU_DEVICE = TorchDevice(CPU, "EPYC")


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_neither_side_matters(order: tuple[int, ...]) -> None:
    nvml = tuple(gpu(index) for index in order)
    torch = tuple(torch_gpu(index) for index in range(3))
    for view in pair(nvml, torch):
        if view.nvml is not None:
            assert view.torch_device is not None
            assert view.torch_device.uuid == view.nvml.id


def test_without_a_uuid_the_bus_decides_whatever_the_width_of_the_domain() -> None:
    nvml = gpu(0)
    bus = nvml.pci_bus_id
    assert bus is not None
    short = "0000:" + bus.partition(":")[2]
    view = pair((nvml,), (TorchDevice("cuda:0", "x", None, short.lower()),))[0]
    assert view.torch == "cuda:0"


def test_a_device_that_torch_does_not_see_keeps_its_row_with_the_reason() -> None:
    first, second, _ = pair((gpu(0), gpu(1)), (torch_gpu(1), CPU_DEVICE))
    assert first.torch is None
    assert first.unpaired is not None
    assert "CUDA_VISIBLE_DEVICES" in first.unpaired
    assert second.torch == "cuda:1"


def test_a_device_that_only_torch_sees_is_listed_under_its_name() -> None:
    views = pair((), (TorchDevice("mps", "Apple GPU"), CPU_DEVICE))
    assert [view.label for view in views] == ["mps", "cpu"]
    assert views[0].unpaired == "NVML does not list this device"


def test_the_devices_of_another_host_are_labelled_with_its_name() -> None:
    split = gpu(1, mig=True)
    parts = [gpu(1, id=f"MIG-{name}", parent=split.id) for name in "ab"]
    seen = (TorchDevice("cuda:1", "of torch alone"), CPU_DEVICE)
    views = pair((gpu(0), split, *parts), seen, host="gpu9")
    labels = [view.label for view in views]
    assert labels == ["gpu9:0", "gpu9:1", "gpu9:1.0", "gpu9:1.1", "gpu9:cuda1", "gpu9:cpu"]


def test_before_torch_is_known_nothing_is_called_unpaired() -> None:
    view, cpu = pair((gpu(0),), ())
    assert view.unpaired is None
    assert view.label == "nvml:0"
    assert cpu.key == CPU


def test_where_there_is_no_torch_that_is_why_it_does_not_know_the_device() -> None:
    why = "there is no torch in /opt/bare/bin/python"
    first, _ = pair((gpu(0),), (), no_torch=why)
    assert first.unpaired == why


def _named(visible: str | None, *devices: Device, by_bus: bool = False) -> dict[str, str]:
    return expect_names(devices, visible, by_bus=by_bus)


def test_a_device_has_torchs_name_before_torch_says_so() -> None:
    both = (gpu(0), gpu(1))
    assert _named(None, *both) == {uuid(0): "cuda:0", uuid(1): "cuda:1"}
    assert _named("1", *both) == {uuid(1): "cuda:0"}
    assert _named("1,0", *both) == {uuid(1): "cuda:0", uuid(0): "cuda:1"}
    assert _named(f"{uuid(1)}", *both) == {uuid(1): "cuda:0"}
    # CUDA stops at the first word that names no device.
    assert _named("1,7,0", *both) == {uuid(1): "cuda:0"}
    assert _named("", *both) == {}


def test_no_name_is_expected_where_the_order_is_uncertain() -> None:
    mixed = (gpu(0), gpu(1, name="NVIDIA L4"))
    assert _named(None, *mixed) == {}
    assert _named(None, *mixed, by_bus=True) == {uuid(0): "cuda:0", uuid(1): "cuda:1"}
    assert _named(None, gpu(0, mig=True)) == {}


def test_the_name_stays_when_torch_reports_its_devices() -> None:
    state = make_store("empty", sample(gpu(0), gpu(1)))
    before = [view.label for view in state.machine.devices]
    state.publish(Ready(environment(torch_gpu(0), torch_gpu(1)), 1.0))
    assert before == [view.label for view in state.machine.devices] == ["cuda:0", "cuda:1", "cpu"]
