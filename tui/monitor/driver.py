"""Finding the driver: pynvml, its library, and what to do where one of them is missing."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tui.monitor.nvml_call import Code, DeviceGoneError, NoAnswer, call
from workloads.protocol.frozen import frozen

_NEEDED = ("NVMLError", "nvmlInit", "nvmlDeviceGetHandleByIndex", "nvmlMemory_v2")
"""What nvidia-ml-py has; old versions of the abandoned package ``pynvml`` lack the last."""

_INSTALL = "pip install nvidia-ml-py"

LIBRARY = "libnvidia-ml.so.1"
"""What the binding loads."""

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
    """NVML cannot be asked; the text says what, why, and what to do, in one line.

    Args:
        text: that line.
        missing: no trace of a driver was found.
    """

    def __init__(self, text: str, *, missing: bool = False) -> None:
        super().__init__(text)
        self.missing = missing


def load_library(name: str) -> None:
    """Load a library where there is one, without keeping other threads from working meanwhile.

    One that hangs while it is loaded, as where its driver does, would take the whole process with
    it: Python holds its lock while ``ctypes.CDLL`` loads (as of 3.11). It does not while it calls a
    function, and ``dlopen`` is one. What is loaded then is there at once for whoever opens it by
    its name.
    """
    if sys.platform == "win32":
        return
    loader = ctypes.CDLL(None)
    loader.dlopen.restype = ctypes.c_void_p
    loader.dlopen.argtypes = (ctypes.c_char_p, ctypes.c_int)
    loader.dlopen(os.fsencode(name), os.RTLD_NOW)


def load_binding() -> Any:
    """Import pynvml, the module of nvidia-ml-py; late, because that takes 40 ms.

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


def explain(code: int, text: str, *, ran_before: bool = False) -> str:
    """One line on why NVML cannot be asked, ending with what to do.

    Args:
        code: NVML's return code.
        text: NVML's own words for it.
        ran_before: NVML has worked in this process, whose library stays the one it has loaded.
    """
    if code == Code.LIBRARY_NOT_FOUND:
        return _no_library()
    if code == Code.LIB_RM_VERSION_MISMATCH and ran_before:
        return "the NVIDIA driver was replaced by another version; start gpu-workbench again"
    return _NEXT_STEP.get(code) or (
        f"NVML does not start: {text} (code {code}); see whether `nvidia-smi` works"
    )


def _no_library() -> str:
    if sys.platform == "darwin":
        return "no NVIDIA driver: there is none for macOS; nothing to be done"
    if _kernel_side_is_there():
        return (
            "no NVML: libnvidia-ml.so.1 is not found, though the NVIDIA driver is loaded; in a "
            "container set NVIDIA_DRIVER_CAPABILITIES=compute,utility, otherwise LD_LIBRARY_PATH"
        )
    if _libcuda_is_there():
        return (
            "no NVML: libnvidia-ml.so.1 is not found, though the driver's libcuda.so.1 is; in a "
            "container set NVIDIA_DRIVER_CAPABILITIES=compute,utility, otherwise LD_LIBRARY_PATH"
        )
    return "no NVIDIA driver: libnvidia-ml.so.1 is not found; install it (docker: --gpus all)"


def is_missing(code: int) -> bool:
    """Whether an NVML that does not start is one of a machine without a driver.

    Args:
        code: NVML's return code.
    """
    if code == Code.DRIVER_NOT_LOADED:
        return True
    return code == Code.LIBRARY_NOT_FOUND and not (_kernel_side_is_there() or _libcuda_is_there())


def _kernel_side_is_there() -> bool:
    return any(Path(place).exists() for place in _KERNEL_SIDE)


def _libcuda_is_there() -> bool:
    # Loaded, it starts nothing: that takes cuInit, which is not called here.
    load_library("libcuda.so.1")
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@frozen
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
            text = explain(code, str(error), ran_before=ran_before)
            raise NoDriverError(text, missing=is_missing(code)) from error
        on_answer()
        return cls(nvml, _version(nvml), _cuda(nvml))

    def count(self) -> int:
        """How many devices there are, lost ones included.

        Raises:
            NoDriverError: NVML as a whole no longer answers.
        """
        try:
            answer = call(self.nvml, "nvmlDeviceGetCount")
        except DeviceGoneError as error:
            raise NoDriverError(f"NVML does not list the devices: {error}") from error
        if isinstance(answer, NoAnswer):
            text = explain(answer.code, answer.reason, ran_before=True)
            raise NoDriverError(text, missing=is_missing(answer.code))
        return int(answer)

    def end(self) -> None:
        """Give NVML back; that it is broken already is what ends most sessions."""
        with contextlib.suppress(DeviceGoneError):
            call(self.nvml, "nvmlShutdown")


def _version(nvml: Any) -> str | None:
    answer = call(nvml, "nvmlSystemGetDriverVersion")
    if isinstance(answer, NoAnswer):
        return None
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)


def _cuda(nvml: Any) -> str | None:
    answer = call(nvml, "nvmlSystemGetCudaDriverVersion_v2")
    if isinstance(answer, NoAnswer):
        return None
    return f"{int(answer) // 1000}.{int(answer) % 1000 // 10}"
