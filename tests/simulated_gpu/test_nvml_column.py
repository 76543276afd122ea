"""The nvml column of a staircase says what the monitor says, and what the driver tells torch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pynvml
import pytest
import torch

from tests.catalog.runs import numbers, ran
from tests.simulated_gpu import libraries as simulated
from workloads.measure import environment, nvml
from workloads.measure.clocks import clock_for
from workloads.measure.timing import Control
from workloads.runner.bench import Bench

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(120)]

DEVICE = torch.device("cuda:0")
MIB = 2**20
ELSEWHERE = 64 * MIB
"""What else may come and go on the device between two readings."""


@pytest.fixture(scope="module", autouse=True)
def _nvml_of_the_simulator() -> None:
    """Preload the simulator's NVML: this process began without its folder in the search path."""
    folder = simulated.libraries()
    if folder is not None:
        ctypes.CDLL(str(folder / nvml.NVML_LIBRARY))


def uuid_of(device: torch.device) -> str:
    uuid = environment.device(device).uuid
    assert uuid is not None
    return uuid


@contextmanager
def nvml_handle(uuid: str) -> Iterator[object]:
    """Yield NVML's handle of a device."""
    pynvml.nvmlInit()
    try:
        yield pynvml.nvmlDeviceGetHandleByUUID(uuid)
    finally:
        pynvml.nvmlShutdown()


def monitors(uuid: str) -> tuple[int, int]:
    """Return the used bytes and the driver's part, as the monitor reads them."""
    with nvml_handle(uuid) as handle:
        found = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        return int(found.used), int(found.reserved)


@pytest.mark.parametrize("index", range(torch.cuda.device_count()))
def test_it_is_the_monitors_figure_of_each_device(index: int) -> None:
    device = torch.device("cuda", index)
    torch.zeros(1, device=device)
    used, _ = monitors(uuid_of(device))
    assert nvml.read_memory(uuid_of(device)).used == pytest.approx(used, abs=ELSEWHERE)


def test_what_the_driver_keeps_for_itself_is_not_in_it() -> None:
    _, reserved = monitors(uuid_of(DEVICE))
    if reserved <= 2 * ELSEWHERE:
        pytest.skip("this driver keeps next to nothing for itself")
    with_the_drivers_part = torch.cuda.device_memory_used(DEVICE)
    told = nvml.read_memory(uuid_of(DEVICE)).used
    assert with_the_drivers_part - told == pytest.approx(reserved, abs=ELSEWHERE)


def test_it_agrees_with_what_cuda_tells_of_the_same_device() -> None:
    held = Bench(DEVICE, clock_for(DEVICE), Control()).memory_in_use()
    assert held.used is not None
    assert held.nvml == pytest.approx(held.used, abs=ELSEWHERE)
    assert "nvml" not in held.unavailable


def test_a_staircase_goes_up_in_both_columns_alike() -> None:
    result = ran("staircase", str(DEVICE), mib=256)
    assert result.status == "ok", result.reason
    used, nvml = (numbers(result, "stairs", name) for name in ("used", "nvml"))
    for ours, theirs in zip(used, nvml, strict=True):
        assert theirs == pytest.approx(ours, abs=ELSEWHERE)
    assert max(nvml) - min(nvml) == pytest.approx(256 * MIB, abs=ELSEWHERE)


def test_a_device_that_nvml_does_not_know_is_told_as_that() -> None:
    with pytest.raises(nvml.NvmlError, match="nvmlDeviceGetHandleByUUID: "):
        nvml.read_memory("GPU-00000000-0000-0000-0000-000000000000")


def test_the_structure_is_that_of_the_header() -> None:
    # Two 32-bit words, as the next field is aligned, and four of 64 bits.
    assert ctypes.sizeof(nvml._MemoryV2) == pynvml.nvmlMemory_v2 & 0xFFFFFF == 40
    assert pynvml.nvmlMemory_v2 == nvml._MEMORY_V2


def test_a_device_has_a_temperature_and_a_clock() -> None:
    state = nvml.read_state(uuid_of(DEVICE))
    assert state.unavailable == {}
    assert state.temperature_c is not None
    assert 0 < state.temperature_c < 120
    assert state.sm_mhz is not None
    assert state.sm_mhz > 0


def test_power_temperature_and_traffic_follow_the_load() -> None:
    matrix = torch.ones(2048, 2048, device=DEVICE)
    page = torch.ones(2**20)
    with nvml_handle(uuid_of(DEVICE)) as handle:

        def read() -> tuple[int, int]:
            celsius = pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
            return pynvml.nvmlDeviceGetPowerUsage(handle), celsius

        milliwatts, celsius = before = read()
        # The limit of the file's tests ends the loops.
        while not (milliwatts > before[0] and celsius > before[1]):
            matrix @ matrix
            torch.cuda.synchronize()
            milliwatts, celsius = read()
        cap = pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)
        assert milliwatts <= 1.1 * cap
        received = pynvml.NVML_PCIE_UTIL_RX_BYTES
        while not pynvml.nvmlDeviceGetPcieThroughput(handle, received):
            page.to(DEVICE)
        loaded = milliwatts
        while pynvml.nvmlDeviceGetPowerUsage(handle) >= loaded:
            pass
