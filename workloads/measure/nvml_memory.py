"""What NVML says of a device's memory, for a runner that has torch and nothing else.

By NVML's second memory structure, whose ``used`` leaves out what the driver keeps for itself, as
``cudaMemGetInfo`` and the monitor do; the first one counts it as used
(``torch.cuda.device_memory_used`` reads that one).
"""

from __future__ import annotations

import ctypes
import functools

from workloads.protocol.frozen import frozen

LIBRARY = "libnvidia-ml.so.1"


class _MemoryV2(ctypes.Structure):
    """``nvmlMemory_v2_t`` of nvml.h; bytes."""

    _fields_ = [
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    ]


_VERSION = ctypes.sizeof(_MemoryV2) | 2 << 24
"""``nvmlMemory_v2``: the size of the structure, and its version in the highest byte."""


class NvmlError(Exception):
    """NVML does not tell; the text says why."""


@frozen
class NvmlMemory:
    """A device's memory, bytes."""

    total: int
    """What the driver keeps for itself is part of it."""
    used: int
    """By everybody, without what the driver keeps for itself."""
    free: int


def read(uuid: str | None) -> NvmlMemory:
    """A device's memory at this moment.

    Args:
        uuid: of the device, as NVML has it: ``GPU-…`` or ``MIG-…``; ``None`` where torch does not
            tell it.

    Raises:
        NvmlError: NVML is not there, does not know the device, or does not answer.
    """
    if uuid is None:
        raise NvmlError("this torch does not tell the UUID of its devices")
    library = _library()
    handle, memory = ctypes.c_void_p(), _MemoryV2(version=_VERSION)
    _ask(library, "nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(handle))
    _ask(library, "nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(memory))
    return NvmlMemory(int(memory.total), int(memory.used), int(memory.free))


@functools.cache
def _library() -> ctypes.CDLL:
    """NVML, started for as long as this process lives: to start it anew takes milliseconds."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NvmlError(f"{LIBRARY} cannot be loaded: {error}") from error
    _ask(library, "nvmlInit_v2")
    return library


def _ask(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    function = getattr(library, name, None)
    if function is None:
        raise NvmlError(f"the driver is too old for {name}")
    code = function(*arguments)
    if code:
        library.nvmlErrorString.restype = ctypes.c_char_p
        text = (library.nvmlErrorString(code) or b"").decode(errors="replace")
        raise NvmlError(f"{name}: {text or code}")
