"""What one call that fails does to its figure, and to no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.monitor.conftest import Start
from tests.monitor.process import MonitorProcess
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import Gpu, Proc, Scenario, uuid
from tests.tiers import VARIANT
from tui.monitor.messages import Device, Sample
from tui.monitor.nvml import PERMANENT, REASONS, Code

COMPUTE = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
GRAPHICS = ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2")
MPS = ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2")

FIGURES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (
        ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"),
        ("memory.total", "memory.used", "memory.free", "memory.driver_reserved"),
    ),
    (("nvmlDeviceGetUtilizationRates",), ("utilization.gpu", "utilization.memory")),
    (("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"), ("temperature_c",)),
    (("nvmlDeviceGetPowerUsage",), ("power_w",)),
    (("nvmlDeviceGetTemperatureThreshold", "nvmlDeviceGetMarginTemperature"), ("slowdown_c",)),
    (
        ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"),
        ("power_limit_w",),
    ),
    (("nvmlDeviceGetFanSpeed",), ("fan_percent",)),
    (("nvmlDeviceGetClockInfo",), ("clocks_mhz.sm", "clocks_mhz.memory")),
    (("nvmlDeviceGetPerformanceState",), ("pstate",)),
    (
        (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        ),
        ("throttle",),
    ),
    (("nvmlDeviceGetCurrPcieLinkGeneration",), ("pcie.generation",)),
    (("nvmlDeviceGetCurrPcieLinkWidth",), ("pcie.width",)),
    (("nvmlDeviceGetTotalEccErrors",), ("ecc_uncorrected",)),
    (("nvmlDeviceGetMigMode",), ("mig",)),
    ((*COMPUTE, *GRAPHICS), ("processes",)),
    (MPS, ("processes.mps",)),
    (("nvmlDeviceGetVbiosVersion",), ("vbios",)),
    (("nvmlDeviceGetUUID",), ("id",)),
]
"""The calls behind a figure, all of which must fail for it to be absent, and its paths."""

ONE_EACH = Scenario(
    devices=tuple(
        Gpu(uuid=uuid(number), fan=40, processes=(Proc(pid=4_194_305),))
        for number in range(len(FIGURES))
    )
)
"""As many devices as figures, so that one process tries them all."""


def failing(code: Code) -> Scenario:
    scenario = ONE_EACH
    for device, (functions, _) in enumerate(FIGURES):
        for function in functions:
            scenario = scenario.returns(function, device=device, code=code)
    return scenario


def all_there(sample: Sample) -> bool:
    return len(sample.devices) == len(FIGURES)


def figures(device: Device) -> Device:
    """Return the device without the fields that distinguish it from the others."""
    rest: dict[str, object] = {
        "nvml_index": 0,
        "read_at": 0.0,
        "memory_read": None,
        "unavailable": {},
        "id": "",
        "processes": (),
    }
    return replace(device, **rest)  # type: ignore[arg-type]


CODES = [Code.NOT_SUPPORTED, Code.NO_PERMISSION, Code.FUNCTION_NOT_FOUND]
TRANSIENT = [Code.UNKNOWN, Code.TIMEOUT, Code.UNINITIALIZED]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            code,
            id=f"{'T4' if code == Code.NOT_SUPPORTED else 'T5'}-{code.name}",
            marks=[] if code in (CODES[0], TRANSIENT[0]) else VARIANT,
        )
        for code in [*CODES, *TRANSIENT]
    ],
)
def test_one_call_that_fails_takes_one_figure_away(
    monitor: Start, scripted_nvml: ScriptedNvml, code: Code
) -> None:
    process = monitor(failing(code))
    sample = process.until(all_there)

    for device, (_, paths) in zip(sample.devices, FIGURES, strict=True):
        assert device.unavailable == dict.fromkeys(paths, REASONS[code])
        assert device.lost is None
    assert sample.driver.error is None
    # The figure that failed for one device is as usual for all others.
    whole = figures(sample.devices[-1])
    assert whole.power_w == 76.5
    assert whole.memory.total
    assert [figures(device) == whole for device in sample.devices] == [
        paths in {("processes",), ("processes.mps",), ("id",)} for _, paths in FIGURES
    ]
    process.after(4)
    assert_what_is_permanent_was_asked_once_and_the_rest_at_each_tick(scripted_nvml, code)


def assert_what_is_permanent_was_asked_once_and_the_rest_at_each_tick(
    nvml: ScriptedNvml, code: Code
) -> None:
    calls = nvml.calls()
    for device, (functions, paths) in enumerate(FIGURES):
        if paths == ("processes",) or paths[0].startswith("clocks"):
            continue  # two figures, one function
        # The first way is asked first; what comes after it may not be needed.
        asked = calls[functions[0], device]
        if code in PERMANENT:
            assert asked == 1, functions
        elif paths != ("processes.mps",):
            assert asked >= 4, functions


def test_t5_a_transient_failure_passes(monitor: Start, scripted_nvml: ScriptedNvml) -> None:
    process = monitor(failing(Code.TIMEOUT))
    assert process.until(all_there).devices[3].power_w is None

    scripted_nvml.change(ONE_EACH)

    sample = process.until(lambda s: not any(device.unavailable for device in s.devices))
    assert sample.devices[-1].id == uuid(len(FIGURES) - 1)


ZERO = Gpu(
    used=0,
    reserved=0,
    util=0,
    memutil=0,
    temperature=0,
    power=0.0,
    power_limit=0.0,
    sm_clock=0,
    memory_clock=0,
    pstate=0,
    throttle=0,
    fan=0,
    pcie_generation=0,
    pcie_width=0,
    ecc=0,
)


def test_t6_zero_is_zero(monitor: Start) -> None:
    (device,) = monitor(Scenario(devices=(ZERO,))).until(lambda s: s.devices).devices

    assert device.unavailable == {}
    assert device.pstate == 0
    assert device.fan_percent == 0
    assert device.utilization.gpu == 0
    assert device.utilization.memory == 0
    assert device.throttle == ()
    assert device.power_w == 0
    assert device.memory.used == 0
    assert device.memory.driver_reserved == 0
    assert device.ecc_uncorrected == 0
    assert device.mig is False


@pytest.mark.parametrize(
    ("function", "value", "path", "word"),
    [
        ("nvmlDeviceGetUtilizationRates", 37100, "utilization.gpu", "which is impossible"),
        ("nvmlDeviceGetPowerUsage", 2**32 - 1, "power_w", "does not give"),
        ("nvmlDeviceGetPerformanceState", 32, "pstate", "unknown"),
    ],
)
def test_t17_garbage_is_no_value(
    monitor: Start, function: str, value: int, path: str, word: str
) -> None:
    scenario = Scenario().returns(function, value=value)
    (device,) = monitor(scenario).until(lambda s: s.devices).devices

    assert word in device.unavailable[path]


def test_the_slowdown_threshold_is_read_or_derived_from_its_distance(monitor: Start) -> None:
    gpus = (
        Gpu(uuid=uuid(0), slowdown=92, temperature=60),
        Gpu(uuid=uuid(1), slowdown=None, margin=27, temperature=60),
        Gpu(uuid=uuid(2), slowdown=0, margin=27, temperature=60),
        Gpu(uuid=uuid(3), slowdown=None, margin=None, temperature=60),
    )
    devices = monitor(Scenario(devices=gpus)).until(lambda s: len(s.devices) == 4).devices

    assert [device.slowdown_c for device in devices] == [92, 87, 87, None]
    assert devices[3].unavailable["slowdown_c"] == "not supported by this device"


def test_older_names_answer_where_newer_ones_are_missing(monitor: Start) -> None:
    scenario = Scenario()
    for newer in (
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetEnforcedPowerLimit",
        COMPUTE[0],
        GRAPHICS[0],
        MPS[0],
    ):
        scenario = scenario.returns(newer, code=Code.FUNCTION_NOT_FOUND)
    gpu = Gpu(fan=40, processes=(Proc(pid=4_194_305),))
    (device,) = monitor(scenario.with_devices(gpu)).until(lambda s: s.devices).devices

    assert device.unavailable == {}
    assert device.temperature_c == 31
    assert device.throttle == ("idle",)
    assert device.power_limit_w == 700
    assert device.processes is not None
    assert device.processes[0].memory == 512 * 1024**2


def test_t24_names_of_junk_bytes_are_shown_with_replacements(monitor: Start) -> None:
    gpu = Gpu(name=b"NVIDIA \xff\xfe H200")
    (device,) = monitor(Scenario(devices=(gpu,))).until(lambda s: s.devices).devices

    assert device.name == "NVIDIA \ufffd\ufffd H200"


def lost(process: MonitorProcess, index: int) -> Sample:
    return process.until(lambda s: len(s.devices) > index and s.devices[index].lost)


THREE = Scenario(devices=tuple(Gpu(uuid=uuid(number), util=number) for number in range(3)))


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"code": Code.GPU_IS_LOST}, id="T7-lost"),
        pytest.param({"code": Code.UNKNOWN}, id="T7-unknown"),
        pytest.param({"value": 0}, id="T7-null-handle"),
    ],
)
@VARIANT
def test_a_device_without_a_handle_is_a_row_and_is_never_asked(
    monitor: Start, scripted_nvml: ScriptedNvml, answer: dict[str, int]
) -> None:
    handle = "nvmlDeviceGetHandleByIndex_v2"
    process = monitor(THREE.returns(handle, device=1, **answer))  # type: ignore[arg-type]
    sample = process.until(lambda s: len(s.devices) == 3)

    assert [device.nvml_index for device in sample.devices] == [0, 1, 2]
    assert [device.id for device in sample.devices] == [uuid(0), "nvml:1", uuid(2)]
    assert [device.utilization.gpu for device in sample.devices] == [0, None, 2]
    assert sample.devices[1].lost
    assert sample.devices[1].lost_at is not None

    process.after(3)
    asked = {name for name, device in scripted_nvml.calls() if device == 1}
    assert asked == {handle}

    scripted_nvml.change(THREE)
    sample = process.until(lambda s: s.devices[1].lost is None)
    assert sample.devices[1].id == uuid(1)


def test_t8_a_device_that_is_lost_at_run_time_keeps_its_name_and_no_figure(
    monitor: Start, scripted_nvml: ScriptedNvml
) -> None:
    process = monitor(THREE)
    before = process.until(lambda s: len(s.devices) == 3)

    scripted_nvml.change(THREE.returns("*", device=1, code=Code.GPU_IS_LOST))

    sample = lost(process, 1)
    gone = sample.devices[1]
    assert gone.lost is not None
    assert "GPU is lost" in gone.lost
    assert (gone.id, gone.name) == (uuid(1), "NVIDIA H200")
    assert gone.pci_bus_id == before.devices[1].pci_bus_id
    assert gone.power_limit_w is None  # kept between looks, but not past the loss
    assert gone.processes is None
    assert set(gone.unavailable.values()) == {gone.lost}
    assert gone.lost_at is not None
    assert gone.lost_at >= before.at
    assert [device.utilization.gpu for device in sample.devices] == [0, None, 2]

    later = process.after(8).devices[1]
    assert later.lost_at == gone.lost_at
    assert later.id == uuid(1)

    scripted_nvml.change(THREE)
    back = process.until(lambda s: s.devices[1].lost is None)
    assert back.devices[1].power_limit_w == 700


def test_t8_a_device_that_needs_a_reset_says_so(monitor: Start) -> None:
    scenario = THREE.returns("nvmlDeviceGetMemoryInfo_v2", device=2, code=Code.RESET_REQUIRED)
    gone = lost(monitor(scenario), 2).devices[2]

    assert gone.lost is not None
    assert "reset" in gone.lost
    assert gone.id == uuid(2)
