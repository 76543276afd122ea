"""NVML's figures of a device, read by ctypes: memory in use, temperature, clock."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass, field

NVML_LIBRARY = "libnvidia-ml.so.1"
_SENSOR_GPU = 0
"""``NVML_TEMPERATURE_GPU``: the sensor on the die."""
_CLOCK_SM = 1
"""``NVML_CLOCK_SM``: the multiprocessors' clock."""


class _MemoryV2(ctypes.Structure):
    """``nvmlMemory_v2_t`` of nvml.h; bytes."""

    _fields_ = [
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    ]


_MEMORY_V2 = ctypes.sizeof(_MemoryV2) | 2 << 24
"""``nvmlMemory_v2``: the size of the structure, and its version in the highest byte."""


class NvmlError(Exception):
    """NVML has no answer; the text contains the reason."""


@dataclass(frozen=True, slots=True)
class NvmlMemory:
    """A device's memory, bytes."""

    total: int
    """Includes the driver's own memory."""
    used: int
    """Used by all processes, without the driver's own memory."""
    free: int


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device's temperature and clock; ``None`` with the reason in ``unavailable``."""

    temperature_c: int | None = None
    sm_mhz: int | None = None
    unavailable: dict[str, str] = field(default_factory=dict)
    """Reasons by the field's name."""


def read_memory(uuid: str | None) -> NvmlMemory:
    """Read a device's current memory from NVML.

    Args:
        uuid: NVML's identifier of the device, ``GPU-…`` or ``MIG-…``; ``None`` where torch
            does not report it.

    Raises:
        NvmlError: NVML is missing, does not know the device, or does not answer.
    """
    handle, memory = _handle(uuid), _MemoryV2(version=_MEMORY_V2)
    _query(_library(), "nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(memory))
    return NvmlMemory(int(memory.total), int(memory.used), int(memory.free))


def read_state(uuid: str | None) -> DeviceState:
    """Read a device's temperature and SM clock, if NVML knows them.

    Args:
        uuid: as in :func:`read_memory`.
    """
    values: dict[str, int] = {}
    absent: dict[str, str] = {}
    for name, function, kind in (
        ("temperature_c", "nvmlDeviceGetTemperature", _SENSOR_GPU),
        ("sm_mhz", "nvmlDeviceGetClockInfo", _CLOCK_SM),
    ):
        value = ctypes.c_uint()
        try:
            _query(_library(), function, _handle(uuid), ctypes.c_uint(kind), ctypes.byref(value))
            values[name] = int(value.value)
        except NvmlError as error:
            absent[name] = f"NVML: {error}"
    return DeviceState(values.get("temperature_c"), values.get("sm_mhz"), absent)


def _handle(uuid: str | None) -> ctypes.c_void_p:
    if uuid is None:
        raise NvmlError("this torch does not report the UUID of its devices")
    handle = ctypes.c_void_p()
    _query(_library(), "nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(handle))
    return handle


@functools.cache
def _library() -> ctypes.CDLL:
    """Return NVML, initialized once per process: each initialization takes milliseconds."""
    try:
        library = ctypes.CDLL(NVML_LIBRARY)
    except OSError as error:
        raise NvmlError(f"{NVML_LIBRARY} cannot be loaded: {error}") from error
    _query(library, "nvmlInit_v2")
    return library


def _query(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    function = getattr(library, name, None)
    if function is None:
        raise NvmlError(f"the driver is too old for {name}")
    code = function(*arguments)
    if code:
        library.nvmlErrorString.restype = ctypes.c_char_p
        text = (library.nvmlErrorString(code) or b"").decode(errors="replace")
        raise NvmlError(f"{name}: {text or code}")
