"""What an exception of a workload means: for its run, and for the process that it was raised in."""

from __future__ import annotations

import re
import traceback

import torch

from workloads.declare.workload import ParameterError, Skip
from workloads.measure import environment, nvml_memory
from workloads.measure.timing import Cancelled
from workloads.protocol.results import Status

DEEPEST = 20
"""Frames of a traceback that are told: the innermost."""


_REFUSED = re.compile(r"CUDA error: out of memory|CU(BLAS|DNN)_STATUS_ALLOC_FAILED")
"""How CUDA and its libraries say that they got no memory; torch's allocator says it otherwise."""


def outcome(error: BaseException, device: str) -> tuple[Status, str]:
    """What an exception of a workload means for its run, and the reason in one line.

    Args:
        error: that the workload raised.
        device: it ran on.
    """
    if isinstance(error, Skip):
        return "skipped", str(error)
    if isinstance(error, Cancelled):
        return "cancelled", "before the first block"
    if isinstance(error, ParameterError):
        return "failed", str(error)
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "failed", f"out of memory: {first_line(error)}"
    if isinstance(error, RuntimeError) and _REFUSED.search(first_line(error)):
        return "failed", f"out of memory: {first_line(error)}: {_refused(device)}"
    if isinstance(error, SystemExit):
        return "failed", f"it called sys.exit with {_exit_words(error)}"
    return "failed", f"{type(error).__name__}: {first_line(error)}"


def _exit_words(error: SystemExit) -> str:
    """What was given to ``sys.exit``: an exit status, nothing, or a message."""
    if error.code is None or isinstance(error.code, int):
        return f"exit status {int(error.code or 0)}"
    return f"the message {first_line(error)}"


def _refused(device: str) -> str:
    """Who was refused memory where torch's allocator was not, and what is free; for one line."""
    who = "CUDA, for itself or a library, or for pinned memory of the host, and not for a tensor"
    try:
        memory = nvml_memory.read(environment.device(torch.device(device)).uuid)
    except (RuntimeError, nvml_memory.NvmlError) as error:
        return f"it was {who}; what is free on {device} is not known: {first_line(error)}"
    free, total = f"{memory.free / 2**20:.0f} MiB", f"{memory.total / 2**30:.1f} GiB"
    return f"it was {who}; {free} of {total} are free on {device}"


_of_lost_devices: list[BaseException] = []


def keep_if_device_lost(error: BaseException, reason: str) -> None:
    """Keep an error of the device, and the tensors in its frames, until this process ends.

    To free a tensor may ask the device, whose refusal in a destructor ends the process at once:
    before the result is told, it would be lost with it.
    """
    if is_device_lost(reason):
        _of_lost_devices.append(error)


def first_line(error: BaseException) -> str:
    """What it says, in one line; its name where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def trace() -> str:
    """The traceback of the exception that is handled now."""
    return traceback.format_exc(limit=-DEEPEST)


def is_device_lost(reason: str | None) -> bool:
    """Whether a CUDA error has left the context unusable, as all but out of memory do."""
    text = reason or ""
    if _REFUSED.search(text):
        return False
    return "CUDA error" in text or "AcceleratorError" in text or "device-side assert" in text
