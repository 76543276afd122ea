"""No driver, a wrong one, one that comes late or goes away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.monitor.conftest import Start
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import Gpu, Scenario, uuid
from tui.monitor import nvml
from tui.monitor.nvml import Code


def test_the_first_line_is_hello_and_the_second_a_sample(monitor: Start) -> None:
    process = monitor(Scenario())

    assert process.hello().pid == process.pid
    sample = process.sample()

    assert (sample.driver.version, sample.driver.cuda) == ("580.159.04", "13.0")
    assert sample.driver.error is None
    assert sample.problems == ()
    (device,) = sample.devices
    assert (device.id, device.name) == (Gpu().uuid, "NVIDIA H200")
    assert device.pci_bus_id == "00000000:18:00.0"
    assert device.memory.total == 143_771 * 1024**2
    assert (device.power_w, device.power_limit_w) == (76.5, 700.0)
    assert device.clocks_mhz.sm == 345
    assert device.clocks_mhz.memory == 3201
    assert device.pcie.generation == 5
    assert device.pcie.width == 16
    assert device.throttle == ("idle",)
    assert device.processes == ()
    assert device.lost is None
    assert device.unavailable == {"fan_percent": "not supported by this device"}


def shadow(folder: Path, source: str) -> dict[str, str]:
    (folder / "pynvml.py").write_text(source)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("source", "word"),
    [
        pytest.param("raise ImportError('gone')", "cannot be imported", id="T1-not-importable"),
        pytest.param("def nvmlInit(): pass", "not NVIDIA's binding", id="T1-wrong-package"),
    ],
)
def test_a_missing_binding_names_the_package_to_install(
    monitor: Start, tmp_path: Path, source: str, word: str
) -> None:
    sample = monitor(env=shadow(tmp_path, source)).sample()

    assert sample.driver.error is not None
    assert word in sample.driver.error
    assert "pip install nvidia-ml-py" in sample.driver.error
    assert sample.devices == ()
    assert sample.host.memory.total > 0


@pytest.mark.parametrize(
    ("code", "cause", "advice"),
    [
        pytest.param(Code.DRIVER_NOT_LOADED, "not loaded", "modprobe", id="T2-not-loaded"),
        pytest.param(Code.LIB_RM_VERSION_MISMATCH, "differ in version", "reboot", id="T2-mismatch"),
        pytest.param(Code.NO_PERMISSION, "no permission", "/dev/nvidia*", id="T2-no-permission"),
        pytest.param(Code.UNKNOWN, "gives no reason", "dmesg", id="T2-unknown"),
        pytest.param(Code.IRQ_ISSUE, "Interrupt", "nvidia-smi", id="T2-another"),
    ],
)
def test_a_driver_that_does_not_start_is_explained_in_one_line(
    monitor: Start, code: Code, cause: str, advice: str
) -> None:
    sample = monitor(Scenario().returns("nvmlInitWithFlags", code=code)).sample()

    error = sample.driver.error
    assert error is not None
    assert cause in error
    assert advice in error
    assert "\n" not in error
    assert sample.devices == ()


def test_t2_without_the_library_it_says_how_to_get_one(monitor: Start, tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")  # found first, and no library
    sample = monitor(env={"LD_LIBRARY_PATH": str(tmp_path)}).sample()

    assert sample.driver.error is not None
    assert "libnvidia-ml.so.1 is not found" in sample.driver.error


def test_every_code_of_nvml_gets_a_line_that_says_what_to_do() -> None:
    for code in [*Code, 424242]:
        line = nvml.explain_start_failure(int(code), "text")
        assert line
        assert "\n" not in line
        assert ";" in line


def test_t3_no_devices_is_no_error(monitor: Start) -> None:
    sample = monitor(Scenario(devices=())).until(lambda s: s.driver.version)

    assert sample.devices == ()
    assert sample.driver.error is None


def test_a_driver_that_comes_later_is_seen(monitor: Start, scripted_nvml: ScriptedNvml) -> None:
    broken = Scenario().returns("nvmlInitWithFlags", code=Code.DRIVER_NOT_LOADED)
    process = monitor(broken)
    assert process.sample().driver.error

    scripted_nvml.change(broken.without_rules())

    sample = process.until(lambda s: s.devices)
    assert sample.driver.error is None


def test_t9_after_a_driver_reload_values_return_with_fresh_handles(
    monitor: Start, scripted_nvml: ScriptedNvml
) -> None:
    whole = Scenario().with_devices(Gpu(uuid=uuid(1)), Gpu(uuid=uuid(2), util=50))
    process = monitor(whole)
    process.until(lambda s: len(s.devices) == 2)

    down = whole.returns("*", code=Code.UNINITIALIZED)
    down = down.returns("nvmlInitWithFlags", code=Code.DRIVER_NOT_LOADED)
    scripted_nvml.change(down)
    sample = process.until(lambda s: "not loaded" in (s.driver.error or ""))
    assert [device.id for device in sample.devices] == [uuid(1), uuid(2)]
    assert all(device.lost and device.memory.total is None for device in sample.devices)

    # The driver may count the devices in another order when it comes back.
    scripted_nvml.change(whole.with_devices(*reversed(whole.devices)))
    sample = process.until(lambda s: s.driver.error is None and s.devices[0].lost is None)
    assert [device.id for device in sample.devices] == [uuid(2), uuid(1)]
    assert [device.utilization.gpu for device in sample.devices] == [50, 0]
    assert [device.nvml_index for device in sample.devices] == [0, 1]
    assert ("OUTDATED-HANDLE", 0) not in scripted_nvml.calls()


def test_a_driver_of_another_version_asks_for_a_new_start(
    monitor: Start, scripted_nvml: ScriptedNvml
) -> None:
    process = monitor(Scenario())
    process.until(lambda s: s.devices)

    broken = Scenario().returns("*", code=Code.UNKNOWN)
    mismatch = broken.returns("nvmlInitWithFlags", code=Code.LIB_RM_VERSION_MISMATCH)
    scripted_nvml.change(mismatch)

    assert process.until(lambda s: "start gpu-workbench again" in (s.driver.error or ""))


def test_t23_the_list_follows_the_number_of_devices(
    monitor: Start, scripted_nvml: ScriptedNvml
) -> None:
    one, two, three = (Gpu(uuid=uuid(number)) for number in (1, 2, 3))
    process = monitor(Scenario().with_devices(one, two, three))
    process.until(lambda s: len(s.devices) == 3)

    scripted_nvml.change(Scenario().with_devices(one, three))

    sample = process.until(lambda s: len(s.devices) == 2)
    assert [device.id for device in sample.devices] == [uuid(1), uuid(3)]
    assert [device.nvml_index for device in sample.devices] == [0, 1]

    scripted_nvml.change(Scenario().with_devices(one, two, three))
    sample = process.until(lambda s: len(s.devices) == 3)
    assert [device.id for device in sample.devices] == [uuid(1), uuid(2), uuid(3)]


def test_t22_each_row_tells_its_uuid_and_its_bus_whatever_the_order(monitor: Start) -> None:
    devices = [Gpu(uuid=uuid(number), bus=0x20 - number) for number in range(4)]
    sample = monitor(Scenario(devices=tuple(devices))).until(lambda s: len(s.devices) == 4)

    assert [(row.id, row.pci_bus_id) for row in sample.devices] == [
        (uuid(number), f"00000000:{0x20 - number:02X}:00.0") for number in range(4)
    ]
    assert all(row.torch is None for row in sample.devices)
