"""Device memory: versions, what the driver keeps, devices that have none of their own."""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.monitor.conftest import Start
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import MIB, Gpu, Proc, Scenario
from tui.monitor.device_reader import UNIFIED, DeviceReader, parse_device_memory
from tui.monitor.field_reader import FieldReader
from tui.monitor.messages import DeviceMemory, Sample
from tui.monitor.nvml import Code, interpret_code
from tui.monitor.processes import ProcessOwners

NOBODY = 4_194_305
"""Above the highest PID that Linux gives."""
HOST = 128 * 1024 * MIB
H200 = Gpu(total=1000 * MIB, reserved=100 * MIB, used=300 * MIB)
V2 = "nvmlDeviceGetMemoryInfo_v2"


def test_t15_version_2_counts_the_drivers_part_apart(monitor: Start) -> None:
    (device,) = monitor(Scenario(devices=(H200,))).until(lambda s: s.devices).devices

    assert device.memory == DeviceMemory(1000 * MIB, 300 * MIB, 600 * MIB, 100 * MIB)


@pytest.mark.parametrize("code", [Code.FUNCTION_NOT_FOUND, Code.ARGUMENT_VERSION_MISMATCH])
def test_t15_version_1_counts_it_within_used_and_says_so(monitor: Start, code: Code) -> None:
    scenario = Scenario(devices=(H200,)).returns(V2, code=code)
    (device,) = monitor(scenario).until(lambda s: s.devices).devices

    assert device.memory == DeviceMemory(1000 * MIB, 400 * MIB, 600 * MIB, None)
    assert "part of used" in device.unavailable["memory.driver_reserved"]


def test_t13_a_gb10_shares_the_hosts_memory(monitor: Start) -> None:
    gpu = Gpu(name="NVIDIA GB10", processes=(Proc(pid=4_194_305, memory=3 * MIB),))
    scenario = Scenario(devices=(gpu,))
    for name in (V2, "nvmlDeviceGetMemoryInfo"):
        scenario = scenario.returns(name, code=Code.NOT_SUPPORTED)
    (device,) = monitor(scenario).until(lambda s: s.devices).devices

    assert device.memory == DeviceMemory(None, None, None, None, unified=True)
    assert device.unavailable["memory.total"] == UNIFIED
    # Its processes' values are all that there is to sum.
    assert device.processes is not None
    assert device.processes[0].memory == 3 * MIB


def test_t14_a_total_that_is_the_hosts_is_no_memory_of_the_device(monitor: Start) -> None:
    gpu = Gpu(total=psutil.virtual_memory().total, reserved=0)
    (device,) = monitor(Scenario(devices=(gpu,))).until(lambda s: s.devices).devices

    assert device.memory.unified
    assert device.memory.total is None


def info(total: int, used: int = 0) -> Any:
    return SimpleNamespace(total=total, used=used, free=total - used, reserved=0)


@pytest.mark.parametrize(
    ("answer", "name", "mig", "unified"),
    [
        pytest.param(info(0), "NVIDIA Thor", False, True, id="T13-total-is-zero"),
        pytest.param(info(HOST), "NVIDIA A100", False, True, id="T14-exactly-the-hosts"),
        pytest.param(info(HOST - 99), "NVIDIA GB10", False, True, id="T14-nearly-and-by-name"),
        pytest.param(info(HOST - 99), "NVIDIA A100", False, False, id="nearly-by-chance"),
        pytest.param(info(HOST // 2), "NVIDIA GB10", False, False, id="half-of-the-hosts"),
        pytest.param(
            interpret_code(Code.NOT_SUPPORTED), "Orin (nvgpu)", False, True, id="T13-by-name"
        ),
        pytest.param(
            interpret_code(Code.NOT_SUPPORTED), "NVIDIA H200", False, False, id="cannot-be-told"
        ),
        pytest.param(
            interpret_code(Code.NOT_SUPPORTED), "NVIDIA GB10", True, False, id="under-MIG"
        ),
        pytest.param(
            interpret_code(Code.TIMEOUT), "NVIDIA GB10", False, False, id="another-failure"
        ),
        pytest.param(info(5), "NVIDIA GB1000", False, False, id="a-name-that-begins-alike"),
    ],
)
def test_unified_memory_is_recognized_by_name_and_size(
    answer: Any, name: str, mig: bool, unified: bool
) -> None:
    figures, reasons = parse_device_memory(answer, name=name, mig=mig, host_total=HOST)

    assert figures.unified is unified
    assert (UNIFIED in reasons.values()) is unified


@given(st.integers(1, 2**40), st.integers(0, 2**40), st.integers(0, 2**40))
def test_slices_never_count_a_byte_twice(total: int, used: int, reserved: int) -> None:
    used %= total
    reserved %= total - used
    answer = SimpleNamespace(
        total=total, used=used, reserved=reserved, free=total - used - reserved
    )

    # A device with exactly the host's total shares its memory, and has no figures.
    figures, reasons = parse_device_memory(
        answer, name="NVIDIA H200", mig=False, host_total=total + 1
    )

    assert reasons == {}
    assert figures.used is not None
    assert figures.free is not None
    assert figures.driver_reserved is not None
    assert figures.used + figures.free + figures.driver_reserved == figures.total


def test_the_list_of_processes_is_of_the_same_moment_as_the_memory(
    monitor: Start, scripted_nvml: ScriptedNvml
) -> None:
    def holding(mib: int) -> Scenario:
        listed = (Proc(pid=NOBODY, memory=mib * MIB),)
        return Scenario(devices=(Gpu(used=mib * MIB, processes=listed),))

    process = monitor(holding(1))
    for mib in range(2, 8):
        scripted_nvml.change(holding(mib))
        (device,) = process.until(partial(_uses, mib * MIB)).devices
        assert [row.memory for row in device.processes or ()] == [device.memory.used]


def _uses(used: int, sample: Sample) -> bool:
    return bool(sample.devices) and sample.devices[0].memory.used == used


def test_a_device_says_between_which_two_moments_its_memory_was_read(monitor: Start) -> None:
    process = monitor(Scenario(devices=(Gpu(), Gpu(uuid="GPU-other"))))
    before = time.time()
    sample = process.until(lambda s: s.devices and s.devices[0].read_at > before)
    ended = before
    for device in sample.devices:
        assert device.memory_read is not None
        began, done = device.memory_read
        # The devices are read one after the other, each at its own time.
        assert ended <= began <= done <= time.time()
        ended = done


class MovingBinding:
    """NVML of a device whose memory is taken by a process while it is being read.

    Args:
        used: what it says at each time that it is asked; the last one from then on.
    """

    class NVMLError(Exception):
        value = int(Code.NOT_SUPPORTED)

    nvmlMemory_v2 = None  # noqa: N815 (NVML's name)

    def __init__(self, *used: int) -> None:
        self._used = list(used)
        self._now = used[0]

    def nvmlDeviceGetMemoryInfo(self, _handle: object, _version: int = 0) -> object:  # noqa: N802
        self._now = self._used.pop(0) if len(self._used) > 1 else self._used[0]
        return SimpleNamespace(total=1000, used=self._now, free=900 - self._now, reserved=100)

    def nvmlDeviceGetComputeRunningProcesses(self, _handle: object) -> list[object]:  # noqa: N802
        return [SimpleNamespace(pid=NOBODY, usedGpuMemory=self._now)]

    def __getattr__(self, _name: str) -> Any:
        def refuse(*_arguments: object) -> None:
            raise self.NVMLError

        return refuse


@pytest.mark.parametrize(
    ("used", "taken", "moved"),
    [
        ((5,), 5, False),
        ((5, 7), 7, False),
        ((5, 7, 8, 8), 8, False),
        ((1, 2, 3, 4, 5, 5), 5, False),
        ((1, 2, 3, 4, 5, 6, 7), 5, True),
    ],
)
def test_what_moves_while_it_is_read_is_read_again_and_reported_to_have_moved(
    used: tuple[int, ...], taken: int, moved: bool
) -> None:
    fields = FieldReader(MovingBinding(*used), "handle", lambda: None, False)
    reader = DeviceReader(fields, 0, ProcessOwners(own_pids=False), HOST)
    device = reader.read(time.time(), slow=True)
    assert device.memory.used == taken
    assert device.memory_moved is moved
    if not moved:
        assert [row.memory for row in device.processes or ()] == [taken]
