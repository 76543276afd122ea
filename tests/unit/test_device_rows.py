"""Idle GPUs of one machine share a row where that saves some."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.screens.helpers import GIB, MIB, gpu, gpu_process, make_store, sample
from tui.devices.state.machine import DeviceSelected, MachineState
from tui.devices.views.host_rows import HostRow, machine_rows, more_row
from tui.kit.lines import plain, width
from tui.monitor.messages import Device, DeviceMemory, Utilization

TOTAL = int(139.8 * GIB)


def machine_of(*gpus: Device) -> MachineState:
    return make_store("one gpu", sample(*gpus)).machine


def rows_of(machine: MachineState, *, unfolded: bool = False, room: int = 0) -> Sequence[HostRow]:
    keys = [view.key for view in machine.devices]
    return machine_rows(machine, keys, unfolded=unfolded, room=room)


def words(rows: Sequence[HostRow]) -> list[str]:
    """Return the label of each device and the text of other rows."""
    return [row.view.label if row.view else plain(more_row(row, 60)) for row in rows]


def test_one_of_the_idle_gpus_stands_for_the_others() -> None:
    rows = rows_of(machine_of(*(gpu(n) for n in range(8))))
    assert [row.kind for row in rows] == ["device", "device", "more", "device"]
    assert words(rows)[2].startswith("  … 6 more like nvml:1 ")
    assert all(width(more_row(row, 40)) <= 40 for row in rows if row.view is None)


@pytest.mark.parametrize(
    "busy",
    [
        {"utilization": Utilization(50.0, 0.0)},
        {"memory": DeviceMemory(TOTAL, 20 * GIB, TOTAL - 20 * GIB, 0)},
        {"memory": DeviceMemory(TOTAL, None, None, 0)},
        {
            "memory": DeviceMemory(TOTAL, 3 * GIB, TOTAL - 3 * GIB, 0),
            "processes": (gpu_process(memory=3 * GIB),),
        },
        {"processes": None},
        {"ecc_uncorrected": 2},
        {"throttle": ("hw_thermal_slowdown",)},
    ],
    ids=["load", "memory", "unknown memory", "process", "unknown processes", "errors", "heat"],
)
def test_a_gpu_that_is_not_idle_keeps_its_row(busy: dict[str, object]) -> None:
    gpus = [gpu(n, **(busy if n == 5 else {})) for n in range(8)]
    actual = words(rows_of(machine_of(*gpus)))
    assert "nvml:5" in actual
    assert actual[2].startswith("  … 5 more like nvml:1 ")


def test_idle_gpus_keep_their_rows_where_there_is_room_for_all() -> None:
    machine = machine_of(*(gpu(n) for n in range(8)))
    assert [row.kind for row in rows_of(machine, room=9)] == ["device"] * 9
    # Nothing needs to be folded again.
    assert [row.kind for row in rows_of(machine, room=9, unfolded=True)] == ["device"] * 9
    assert len(rows_of(machine, room=8)) == 4


def test_few_idle_gpus_keep_their_rows() -> None:
    """Folding saves fewer rows than the reader's look for them costs."""
    assert [row.kind for row in rows_of(machine_of(*(gpu(n) for n in range(5))))] == ["device"] * 6


def test_gpus_of_two_models_are_not_said_to_be_alike() -> None:
    small = DeviceMemory(80 * GIB, 4 * MIB, 80 * GIB - 4 * MIB, 0)
    gpus = [
        gpu(n, **({"name": "NVIDIA A100-SXM4-80GB", "memory": small} if n > 4 else {}))
        for n in range(8)
    ]
    rows = rows_of(machine_of(*gpus))
    assert [row.like for row in rows if row.kind == "more"] == [""]
    shown = words(rows)
    assert {"nvml:1", "nvml:5"} <= set(shown)


def test_the_selected_gpu_keeps_its_row_and_their_number_stays() -> None:
    store = make_store("one gpu", sample(*(gpu(n) for n in range(8))))
    before = len(rows_of(store.machine))
    key = next(view.key for view in store.machine.devices if view.label == "nvml:6")
    store.publish(DeviceSelected(key))
    actual = words(rows_of(store.machine))
    assert "nvml:6" in actual
    assert len(actual) in (before, before + 1)


def test_unfolded_rows_can_be_folded_again() -> None:
    rows = rows_of(machine_of(*(gpu(n) for n in range(8))), unfolded=True)
    assert [row.kind for row in rows] == [*["device"] * 9, "fold"]
    assert words(rows)[-1].startswith("  6 alike ")
