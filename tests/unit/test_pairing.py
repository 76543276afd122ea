"""NVML's devices and torch's, paired by UUID or bus, never by index."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.screens.helpers import gpu, torch_gpu
from tui.devices.state.devices import CPU, pair
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


def test_before_torch_is_known_nothing_is_called_unpaired() -> None:
    view, cpu = pair((gpu(0),), ())
    assert view.unpaired is None
    assert view.label == "nvml:0"
    assert cpu.key == CPU


def test_where_there_is_no_torch_that_is_why_it_does_not_know_the_device() -> None:
    why = "there is no torch in /opt/bare/bin/python"
    first, _ = pair((gpu(0),), (), no_torch=why)
    assert first.unpaired == why
