"""Finding, starting and calling NVML: an answer, or the reason for its absence."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any


class Code(IntEnum):
    """NVML's return codes (nvml.h): an ABI, so that pynvml need not be imported."""

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
    Code.INVALID_ARGUMENT: "the driver rejects this query for this device",
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
"""Refusals that will be the same at the next reading, so the query is not repeated."""

TRY_NEXT_CALL = frozenset(
    {
        Code.NOT_SUPPORTED,
        Code.FUNCTION_NOT_FOUND,
        Code.ARGUMENT_VERSION_MISMATCH,
        Code.DEPRECATED,
    }
)


@dataclass(frozen=True)
class NoAnswer:
    """The reason for a missing answer."""

    reason: str
    code: int = 0
    """NVML's return code; 0 where the reason is ours."""

    @property
    def permanent(self) -> bool:
        """True if it will be the same at the next reading."""
        return self.code in PERMANENT


class DeviceGoneError(Exception):
    """The device as a whole no longer answers; the text says why."""


def interpret_code(code: int, text: str = "") -> NoAnswer:
    """Return the meaning of an NVML return code other than success.

    Args:
        code: NVML's return code.
        text: NVML's own words, used where we have none.
    """
    return NoAnswer(REASONS.get(code) or f"NVML: {text or 'error'} (code {code})", code)


def call(nvml: Any, name: str, *args: Any) -> Any:
    """Call one pynvml function; return a :class:`NoAnswer` if NVML refuses.

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
        return interpret_code(code, str(error))
    except UnicodeDecodeError:
        return NoAnswer("the driver returned text that cannot be read")


def decode_text(answer: bytes | str) -> str:
    """Return a text of NVML, with invalid bytes replaced."""
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)


_NEEDED = ("NVMLError", "nvmlInit", "nvmlDeviceGetHandleByIndex", "nvmlMemory_v2")
"""Names that nvidia-ml-py defines; old versions of the abandoned package ``pynvml`` lack the
last."""

_INSTALL = "pip install nvidia-ml-py"

LIBRARY = "libnvidia-ml.so.1"
"""The library that the binding loads."""

_NEXT_STEP: dict[int, str] = {
    Code.DRIVER_NOT_LOADED: (
        "the NVIDIA driver is not loaded; load it with `sudo modprobe nvidia`, "
        "and look in `dmesg` for why it was not"
    ),
    Code.NO_PERMISSION: (
        "no permission to talk to the NVIDIA driver; check the rights of /dev/nvidia* "
        "and, in a container, that it was started with its GPUs"
    ),
    Code.LIB_RM_VERSION_MISMATCH: (
        "the NVIDIA kernel module and libnvidia-ml differ in version, as after an update; "
        "reboot, or unload and load the nvidia modules"
    ),
    Code.UNKNOWN: (
        "NVML does not start and gives no reason; in a container restart the container, "
        "otherwise look in `dmesg` for lines with NVRM"
    ),
    Code.TIMEOUT: "the NVIDIA driver does not answer; look in `dmesg` for lines with NVRM",
    Code.UNINITIALIZED: "NVML is not initialised; the monitor starts it again",
}


_KERNEL_SIDE = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")
"""One of these is there where the driver's kernel module is, or Windows' driver under WSL."""


class NoDriverError(Exception):
    """NVML cannot be queried; the text says what failed, why, and what to do, in one line.

    Args:
        text: that line.
        missing: no trace of a driver was found.
    """

    def __init__(self, text: str, *, missing: bool = False) -> None:
        super().__init__(text)
        self.missing = missing


def load_library(name: str) -> None:
    """Load a library, if it exists, without blocking other threads.

    Python holds its lock while ``ctypes.CDLL`` loads a library (as of 3.11), so a library that
    hangs with its driver would stop the whole process. Python releases the lock while it calls a
    function such as ``dlopen``; ``ctypes.CDLL`` then finds the library loaded.
    """
    if sys.platform == "win32":
        return
    loader = ctypes.CDLL(None)
    loader.dlopen.restype = ctypes.c_void_p
    loader.dlopen.argtypes = (ctypes.c_char_p, ctypes.c_int)
    loader.dlopen(os.fsencode(name), os.RTLD_NOW)


def load_binding() -> Any:
    """Import pynvml, the module of nvidia-ml-py, which takes 40 ms.

    Raises:
        NoDriverError: it is not installed, or another package took its name.
    """
    importlib.invalidate_caches()
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise NoDriverError(
            f"the Python package nvidia-ml-py cannot be imported ({error}); {_INSTALL}"
        ) from error
    if all(hasattr(nvml, name) for name in _NEEDED):
        return nvml
    where = getattr(nvml, "__file__", None) or "an unknown place"
    raise NoDriverError(
        f"`pynvml` from {where} is not NVIDIA's binding, or too old; "
        f"pip uninstall pynvml, then {_INSTALL}, then start gpu-workbench again"
    )


def explain_start_failure(code: int, text: str, *, ran_before: bool = False) -> str:
    """Explain in one line why NVML cannot be queried and what to do.

    Args:
        code: NVML's return code.
        text: NVML's own words for it.
        ran_before: NVML has worked in this process, whose library stays the one it has loaded.
    """
    if code == Code.LIBRARY_NOT_FOUND:
        return _explain_missing_library()
    if code == Code.LIB_RM_VERSION_MISMATCH and ran_before:
        return "the NVIDIA driver was replaced by another version; start gpu-workbench again"
    return _NEXT_STEP.get(code) or (
        f"NVML does not start: {text} (code {code}); see whether `nvidia-smi` works"
    )


def _explain_missing_library() -> str:
    if sys.platform == "darwin":
        return "no NVIDIA driver: there is none for macOS; nothing to be done"
    if _has_kernel_module():
        trace = "the NVIDIA driver is loaded"
    elif _has_libcuda():
        trace = "the driver's libcuda.so.1 is"
    else:
        return "no NVIDIA driver: libnvidia-ml.so.1 is not found; install it (docker: --gpus all)"
    return (
        f"no NVML: libnvidia-ml.so.1 is not found, though {trace}; in a container set "
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility, otherwise LD_LIBRARY_PATH"
    )


def is_driver_missing(code: int) -> bool:
    """Return whether NVML does not start because the machine has no driver.

    Args:
        code: NVML's return code.
    """
    if code == Code.DRIVER_NOT_LOADED:
        return True
    return code == Code.LIBRARY_NOT_FOUND and not (_has_kernel_module() or _has_libcuda())


def _has_kernel_module() -> bool:
    return any(Path(place).exists() for place in _KERNEL_SIDE)


def _has_libcuda() -> bool:
    # Loading it does not start CUDA: only cuInit does.
    load_library("libcuda.so.1")
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class NvmlSession:
    """NVML as it answers between one initialisation and the moment when it breaks."""

    nvml: Any
    version: str | None
    cuda: str | None

    @classmethod
    def start(cls, on_answer: Callable[[], None], *, ran_before: bool = False) -> NvmlSession:
        """Initialise NVML.

        Args:
            on_answer: Called after each call that came back.
            ran_before: NVML has worked in this process before.

        Raises:
            NoDriverError: there is no driver to ask.
        """
        nvml = load_binding()
        on_answer()
        load_library(LIBRARY)
        on_answer()
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            code = int(error.value)
            text = explain_start_failure(code, str(error), ran_before=ran_before)
            raise NoDriverError(text, missing=is_driver_missing(code)) from error
        on_answer()
        return cls(nvml, _query_driver_version(nvml), _query_cuda_version(nvml))

    def count_devices(self) -> int:
        """Count the devices, lost ones included.

        Raises:
            NoDriverError: NVML as a whole no longer answers.
        """
        try:
            answer = call(self.nvml, "nvmlDeviceGetCount")
        except DeviceGoneError as error:
            raise NoDriverError(f"NVML does not list the devices: {error}") from error
        if isinstance(answer, NoAnswer):
            text = explain_start_failure(answer.code, answer.reason, ran_before=True)
            raise NoDriverError(text, missing=is_driver_missing(answer.code))
        return int(answer)

    def shut_down(self) -> None:
        """Shut NVML down, even if it no longer answers, as after most sessions."""
        with contextlib.suppress(DeviceGoneError):
            call(self.nvml, "nvmlShutdown")


def _query_driver_version(nvml: Any) -> str | None:
    answer = call(nvml, "nvmlSystemGetDriverVersion")
    return None if isinstance(answer, NoAnswer) else decode_text(answer)


def _query_cuda_version(nvml: Any) -> str | None:
    answer = call(nvml, "nvmlSystemGetCudaDriverVersion_v2")
    if isinstance(answer, NoAnswer):
        return None
    return f"{int(answer) // 1000}.{int(answer) % 1000 // 10}"


def is_windows_driver() -> bool:
    """Return whether the driver is Windows' (WDDM), as in WSL: it hides memory per process."""
    return sys.platform == "win32" or "microsoft" in platform.release().lower()
