"""The one place where NVML is called: an answer, or the reason for which there is none."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from workloads.fact import fact


class Code(IntEnum):
    """NVML's return codes (nvml.h); an ABI, so spelled out: pynvml need not be imported."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    MEMORY = 20
    NO_DATA = 21
    VGPU_ECC_NOT_SUPPORTED = 22
    FREQ_NOT_SUPPORTED = 24
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    UNKNOWN = 999


REASONS: dict[int, str] = {
    Code.UNINITIALIZED: "NVML is not initialised",
    Code.INVALID_ARGUMENT: "the driver does not take this question for this device",
    Code.NOT_SUPPORTED: "not supported by this device",
    Code.NO_PERMISSION: "needs root: the driver refuses it to this user",
    Code.NOT_FOUND: "the driver has no such figure now",
    Code.INSUFFICIENT_SIZE: "it changed while it was read",
    Code.DRIVER_NOT_LOADED: "driver not loaded",
    Code.TIMEOUT: "the driver did not answer in time",
    Code.FUNCTION_NOT_FOUND: "driver too old for this figure",
    Code.OPERATING_SYSTEM: "the operating system blocked the request",
    Code.IN_USE: "in use by another program",
    Code.MEMORY: "the driver is out of memory",
    Code.NO_DATA: "the driver has no data now",
    Code.VGPU_ECC_NOT_SUPPORTED: "not supported on a virtual GPU",
    Code.FREQ_NOT_SUPPORTED: "not supported by this device",
    Code.ARGUMENT_VERSION_MISMATCH: "driver too old for this figure",
    Code.DEPRECATED: "this driver no longer offers it",
    Code.NOT_READY: "the driver is not ready",
    Code.UNKNOWN: "the driver reports an unknown error",
}

GONE: dict[int, str] = {
    Code.GPU_IS_LOST: "GPU is lost: it no longer answers on the bus; it needs a reset or a reboot",
    Code.RESET_REQUIRED: "GPU needs a reset before it can be used: nvidia-smi --gpu-reset",
    Code.GPU_NOT_FOUND: "GPU not found: the driver no longer lists it",
}

PERMANENT = frozenset(
    {
        Code.NOT_SUPPORTED,
        Code.NO_PERMISSION,
        Code.FUNCTION_NOT_FOUND,
        Code.VGPU_ECC_NOT_SUPPORTED,
        Code.FREQ_NOT_SUPPORTED,
        Code.ARGUMENT_VERSION_MISMATCH,
        Code.DEPRECATED,
    }
)
"""Will be the same at the next reading, so asked once."""

TRY_THE_NEXT_WAY = frozenset(
    {
        Code.NOT_SUPPORTED,
        Code.FUNCTION_NOT_FOUND,
        Code.ARGUMENT_VERSION_MISMATCH,
        Code.DEPRECATED,
    }
)


@fact
class NoAnswer:
    """There is no answer, and this is why."""

    reason: str
    code: int = 0
    """NVML's return code; 0 where the reason is ours."""

    @property
    def permanent(self) -> bool:
        """Whether it will be the same at the next reading."""
        return self.code in PERMANENT


class DeviceGoneError(Exception):
    """The device as a whole no longer answers; the text says why."""


def no_answer(code: int, text: str = "") -> NoAnswer:
    """What an NVML return code other than success stands for.

    Args:
        code: NVML's return code.
        text: NVML's own words, used where we have none.
    """
    return NoAnswer(REASONS.get(code) or f"NVML: {text or 'error'} (code {code})", code)


def call(nvml: Any, name: str, *args: Any) -> Any:
    """Call one pynvml function; an :class:`NoAnswer` where NVML refuses.

    Raises:
        DeviceGoneError: the whole device is lost.
    """
    function = getattr(nvml, name, None)
    if function is None:
        return NoAnswer("the installed nvidia-ml-py is too old for this figure", 13)
    try:
        # Names and UUIDs: the undecorated function returns bytes, so that junk can be decoded.
        return getattr(function, "__wrapped__", function)(*args)
    except nvml.NVMLError as error:
        code = int(error.value)
        if code in GONE:
            raise DeviceGoneError(GONE[code]) from error
        return no_answer(code, str(error))
    except UnicodeDecodeError:
        return NoAnswer("the driver returned text that cannot be read")
