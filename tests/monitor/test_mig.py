"""A GPU in MIG mode and its instances."""

from __future__ import annotations

from tests.monitor.conftest import Start
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import MIB, Gpu, Instance, Proc, Scenario, uuid
from tui.monitor.nvml import Code

PARTED = Gpu(
    uuid=uuid(1),
    mig=True,
    util=50,
    instances=(
        Instance("MIG-a", slot=0, used=5 * MIB, processes=(Proc(4_194_305, 3 * MIB),)),
        Instance("MIG-b", slot=3),
    ),
    processes=(Proc(4_194_305, None),),
)
BOX = Scenario(devices=(Gpu(uuid=uuid(0), util=10), PARTED))


def test_t20_instances_follow_their_gpu_and_utilisation_says_mig(monitor: Start) -> None:
    sample = monitor(BOX).until(lambda s: len(s.devices) == 4)

    assert [(row.id, row.parent, row.nvml_index) for row in sample.devices] == [
        (uuid(0), None, 0),
        (uuid(1), None, 1),
        ("MIG-a", uuid(1), 1),
        ("MIG-b", uuid(1), 1),
    ]
    whole, gpu, first, second = sample.devices
    assert (whole.mig, whole.utilization.gpu) == (False, 10)
    assert gpu.mig is True
    assert gpu.unavailable["utilization.gpu"] == "not offered under MIG"
    assert gpu.unavailable["fan_percent"] == "not supported by this device"
    assert gpu.power_w == 76.5
    assert gpu.processes is not None
    assert gpu.processes[0].unavailable["memory"] == "not offered under MIG"
    assert first.name == "NVIDIA H200 MIG 1g.18gb"
    assert (first.memory.total, first.memory.used) == (16_384 * MIB, 5 * MIB)
    assert first.processes is not None
    assert first.processes[0].memory == 3 * MIB
    assert first.unavailable["power_w"] == "not offered for a MIG instance"
    assert second.processes == ()


def test_t20_instances_come_and_go_with_the_mode(
    monitor: Start, scripted_nvml: ScriptedNvml
) -> None:
    process = monitor(BOX)
    process.until(lambda s: len(s.devices) == 4)

    scripted_nvml.change(BOX.with_devices(Gpu(uuid=uuid(0)), Gpu(uuid=uuid(1), util=50)))

    # What was refused under MIG is asked again.
    sample = process.until(lambda s: len(s.devices) == 2 and s.devices[1].utilization.gpu)
    assert sample.devices[1].mig is False
    assert sample.devices[1].utilization.gpu == 50

    scripted_nvml.change(BOX)
    process.until(lambda s: len(s.devices) == 4)


def test_t20_an_instance_that_is_lost_takes_no_other_along(
    monitor: Start, scripted_nvml: ScriptedNvml
) -> None:
    process = monitor(BOX)
    process.until(lambda s: len(s.devices) == 4)

    scripted_nvml.change(BOX.returns("*", device=1, code=Code.GPU_IS_LOST))

    sample = process.until(lambda s: s.devices[1].lost)
    assert [row.id for row in sample.devices] == [uuid(0), uuid(1)]
