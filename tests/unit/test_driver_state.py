"""CUDA without NVML, as in a container without "utility": nothing denies the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.screens.helpers import (
    GIB,
    NOW,
    WORKER,
    environment,
    feed,
    hello,
    sample,
    torch_gpu,
    torch_memory,
)
from tui.app.header import header_line
from tui.devices.cli.devices import as_text as devices_text
from tui.devices.memory import account
from tui.devices.state.devices import (
    CPU,
    NVML_UNAVAILABLE,
    WITHOUT_NVML,
    DeviceView,
    pair,
    reconcile_driver,
)
from tui.devices.views.device_detail import device_detail
from tui.devices.views.devices import notice
from tui.doctor.checks import as_text, driver_findings, pairing_findings
from tui.kit.lines import plain
from tui.monitor import nvml as monitor_driver
from tui.monitor.messages import Driver
from tui.monitor.nvml import Code
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages

MISSING = Driver(None, None, "no NVIDIA driver: libnvidia-ml.so.1 is not found", missing=True)
NO_NVML = Driver(None, None, "no NVML: libnvidia-ml.so.1 is not found, though …", missing=False)
CUDA = environment(torch_gpu(0), torch_gpu(1))


def store_of(driver: Driver, *, ready_first: bool = False) -> WorkbenchState:
    """Return the state of a machine where torch has two GPUs and NVML cannot be queried."""
    state = WorkbenchState()
    told = [sample(driver=driver), messages.Ready(CUDA, 1.0)]
    feed(state, hello(), *(reversed(told) if ready_first else told))
    feed(state, messages.WorkerStarted(WORKER), torch_memory(), sample(driver=driver))
    return state


def everything_said(state: WorkbenchState) -> str:
    """Return all text of header, pane, detail and account."""
    view = state.machine.selected_device
    gauge = account(state.machine, view, NOW)
    reasons = [getattr(term.bytes, "reason", "") for term in gauge.terms]
    details = [
        *device_detail(view, state.machine.sample, NOW),
        *device_detail(_cpu(), state.machine.sample, NOW),
    ]
    return " ".join(
        (
            plain(header_line(state.runs, "workbench", 200)),
            notice(state.machine.sample, state.machine.monitor, NOW),
            *gauge.explanation,
            *reasons,
            *(f"{name} {value}" for name, value in details),
        )
    )


def _cpu() -> DeviceView:
    return DeviceView(CPU)


@pytest.mark.parametrize("ready_first", [False, True])
@pytest.mark.parametrize("driver", [MISSING, NO_NVML])
def test_where_torch_has_cuda_nothing_says_that_there_is_no_driver(
    driver: Driver, ready_first: bool
) -> None:
    said = everything_said(store_of(driver, ready_first=ready_first))
    assert "no driver" not in said
    assert "no NVIDIA driver" not in said
    assert "no NVML" in said
    assert NVML_UNAVAILABLE in said
    assert "NVML does not list this device" not in said


def test_the_pane_says_what_is_missing_and_what_to_set() -> None:
    state = store_of(MISSING)
    said = notice(state.machine.sample, state.machine.monitor, NOW)
    assert said == WITHOUT_NVML
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in said


def test_torch_s_own_figures_are_shown_all_the_same() -> None:
    state = store_of(MISSING)
    gauge = account(state.machine, state.machine.selected_device, NOW)
    assert gauge.term("used").source == "torch mem_get_info"
    assert gauge.term("allocated").bytes
    points = state.machine.history.points(state.machine.selected)
    assert points[-1].used == int(139.8 * GIB) - int(118.5 * GIB)


def test_the_detail_of_the_gpu_has_the_whole_reason() -> None:
    state = store_of(MISSING)
    actual = dict(device_detail(state.machine.selected_device, state.machine.sample, NOW))
    assert actual["NVML"] == f"n/a: {WITHOUT_NVML}"
    on_cpu = dict(device_detail(_cpu(), state.machine.sample, NOW))
    assert on_cpu["NVML"] == f"n/a: {WITHOUT_NVML}"
    assert "GPU" not in on_cpu


def test_without_cuda_either_there_is_no_driver() -> None:
    state = WorkbenchState()
    feed(state, sample(driver=MISSING), messages.Ready(environment(), 1.0), sample(driver=MISSING))
    assert "no driver" in plain(header_line(state.runs, "workbench", 200))
    assert notice(state.machine.sample, state.machine.monitor, NOW) == MISSING.error
    assert "GPU" in dict(device_detail(_cpu(), state.machine.sample, NOW))


def test_torch_for_amd_s_gpus_says_nothing_of_nvidia_s_driver() -> None:
    amd = environment(torch_gpu(0), cuda=None)
    assert reconcile_driver(MISSING, amd) == MISSING


def test_before_torch_is_known_the_monitor_s_word_stands() -> None:
    assert reconcile_driver(MISSING, None) == MISSING


def test_a_driver_that_answers_stays_what_it_is() -> None:
    fine = Driver("580.65", "13.0", None)
    assert reconcile_driver(fine, CUDA) == fine


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (Driver("580.65", "13.0", None), "driver 580.65"),
        (Driver(None, "13.0", None), "driver n/a"),
        (Driver(None, None, "NVML is still starting"), "no NVML"),
        (MISSING, "no driver"),
    ],
)
def test_the_header_tells_a_missing_driver_from_one_that_does_not_answer(
    driver: Driver, said: str
) -> None:
    state = WorkbenchState()
    state.publish(sample(driver=driver))
    assert f"  {said}  " in plain(header_line(state.runs, "workbench", 200))


def test_the_doctor_does_not_send_to_the_cpu_who_has_a_gpu() -> None:
    text = as_text(driver_findings(sample(driver=MISSING), CUDA))
    assert "no NVIDIA driver" not in text
    assert "works on the CPU" not in text
    assert "workloads still run on the GPU" in text


def test_the_doctor_does_where_there_is_none() -> None:
    for torch in (None, environment(), messages.Unusable("no torch", "install it")):
        text = as_text(driver_findings(sample(driver=MISSING), torch))
        assert "workloads run on the CPU" in text


def test_the_doctor_says_of_each_gpu_that_it_runs_workloads() -> None:
    text = as_text(pairing_findings(sample(driver=NO_NVML), CUDA))
    assert f"cuda:0-1: NVIDIA H200: {NVML_UNAVAILABLE}" in text
    assert "workloads run on it" in text
    assert "its timings" not in text


def test_devices_lists_the_gpus_that_torch_alone_sees() -> None:
    views = pair((), CUDA.devices, no_nvml=NVML_UNAVAILABLE)
    text = devices_text(sample(driver=NO_NVML), views)
    assert (
        "cuda:0    NVIDIA H200  total 139.8 GiB  n/a: NVML is not available on this machine" in text
    )
    assert "cuda:1" in text


# ---- how the monitor tells ----


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Simulate a machine with or without the kernel's part of the driver and its libcuda."""

    def machine(*, kernel_side: bool, libcuda: bool) -> None:
        place = tmp_path / "nvidiactl"
        if kernel_side:
            place.touch()
        monkeypatch.setattr(monitor_driver, "_KERNEL_SIDE", (str(place),))

        def load(name: str) -> object:
            if libcuda and name == "libcuda.so.1":
                return object()
            raise OSError(name)

        monkeypatch.setattr(monitor_driver, "load_library", lambda _name: None)
        monkeypatch.setattr(ctypes, "CDLL", load)

    return machine


@pytest.mark.parametrize(
    ("kernel_side", "libcuda", "says"),
    [
        (True, True, "no NVML: libnvidia-ml.so.1 is not found, though the NVIDIA driver is loaded"),
        (True, False, "no NVML: libnvidia-ml.so.1 is not found, though the NVIDIA driver"),
        (False, True, "no NVML: libnvidia-ml.so.1 is not found, though the driver's libcuda.so.1"),
        (False, False, "no NVIDIA driver: libnvidia-ml.so.1 is not found"),
    ],
)
def test_a_library_that_is_not_found_means_no_driver_only_without_a_trace_of_one(
    bare: Callable[..., None], kernel_side: bool, libcuda: bool, says: str
) -> None:
    bare(kernel_side=kernel_side, libcuda=libcuda)
    assert monitor_driver.explain_start_failure(Code.LIBRARY_NOT_FOUND, "").startswith(says)
    missing = not kernel_side and not libcuda
    assert monitor_driver.is_driver_missing(Code.LIBRARY_NOT_FOUND) is missing


def test_a_kernel_module_that_is_not_loaded_is_a_missing_driver() -> None:
    assert monitor_driver.is_driver_missing(Code.DRIVER_NOT_LOADED)
    assert not monitor_driver.is_driver_missing(Code.LIB_RM_VERSION_MISMATCH)
    assert not monitor_driver.is_driver_missing(Code.UNKNOWN)
