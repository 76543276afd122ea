"""Where NVML does not give a figure, its reason stands in its place."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from workloads.measure import nvml


@pytest.fixture(autouse=True)
def _library_anew() -> Iterator[None]:
    nvml._library.cache_clear()
    yield
    nvml._library.cache_clear()


def test_a_machine_without_the_library_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "NVML_LIBRARY", "libnvidia-of-nobody.so.1")
    with pytest.raises(nvml.NvmlError, match=r"libnvidia-of-nobody\.so\.1 cannot be loaded"):
        nvml.read_memory("GPU-0")


def test_a_torch_that_tells_no_uuid_leaves_nobody_to_ask() -> None:
    with pytest.raises(nvml.NvmlError, match="does not report the UUID"):
        nvml.read_memory(None)


class Nvml:
    """A library in which each function gives a code, and those not named are missing."""

    def __init__(self, **codes: int) -> None:
        for name, code in codes.items():
            setattr(self, name, self._function(code))

    @staticmethod
    def _function(code: int) -> object:
        return lambda *_arguments: code

    class nvmlErrorString:  # noqa: N801 (NVML's name)
        restype = None

        def __new__(cls, code: int) -> bytes:  # type: ignore[misc]
            return {9: b"Driver Not Loaded", 15: b"GPU is lost"}.get(code, b"")


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        ({"nvmlInit_v2": 9}, "nvmlInit_v2: Driver Not Loaded"),
        (
            {"nvmlInit_v2": 0, "nvmlDeviceGetHandleByUUID": 0},
            "the driver is too old for nvmlDeviceGetMemoryInfo_v2",
        ),
        (
            {"nvmlInit_v2": 0, "nvmlDeviceGetHandleByUUID": 15},
            "nvmlDeviceGetHandleByUUID: GPU is lost",
        ),
        ({"nvmlInit_v2": 0, "nvmlDeviceGetHandleByUUID": 42}, "nvmlDeviceGetHandleByUUID: 42"),
    ],
)
def test_what_nvml_answers_is_the_reason(
    codes: dict[str, int], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: Nvml(**codes))
    with pytest.raises(nvml.NvmlError) as caught:
        nvml.read_memory("GPU-0")
    assert str(caught.value) == says


def test_a_state_has_a_reason_for_each_figure_that_nvml_does_not_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = {"nvmlInit_v2": 0, "nvmlDeviceGetHandleByUUID": 0, "nvmlDeviceGetTemperature": 0}
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: Nvml(**codes))
    state = nvml.read_state("GPU-0")
    assert (state.temperature_c, state.sm_mhz) == (0, None)
    assert state.unavailable == {"sm_mhz": "NVML: the driver is too old for nvmlDeviceGetClockInfo"}
    assert set(nvml.read_state(None).unavailable) == {"temperature_c", "sm_mhz"}
