"""Tools of torch for several workloads: its profiler and its compiler."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workloads.declare.place import Place

MICROSECOND = 1e-6
"""The profiler's unit of time."""
NO_DEVICE_ROWS = (
    "the profiler saw no kernel: CUPTI is missing, did not start, or serves another tool such as "
    "Nsight Systems; the times of kernels need no special rights"
)


@dataclass(frozen=True, slots=True)
class ProfilerRow:
    """An operator or a kernel, over all its calls; seconds and bytes."""

    name: str
    calls: int
    self_s: float
    """Seconds without the functions that it called."""
    total_s: float
    memory: int
    """Bytes allocated minus freed, by itself."""


def operators(averages: Any, *, device_time: bool, device_memory: bool) -> list[ProfilerRow]:
    """Return the operators of a profile, sorted by their own time, the longest first.

    Args:
        averages: ``profile.key_averages()``.
        device_time: sort by time on the device, and omit operators without any; otherwise sort by
            processor time.
        device_memory: report the device's memory, which its allocator reports to the profiler with
            or without visible kernels; otherwise the host's.
    """
    time = "device" if device_time else "cpu"
    memory = "device" if device_memory else "cpu"
    return _longest_first(
        ProfilerRow(
            event.key,
            event.count,
            _read(event, f"self_{time}_time_total") * MICROSECOND,
            _read(event, f"{time}_time_total") * MICROSECOND,
            int(_read(event, f"self_{memory}_memory_usage")),
        )
        for event in averages
        if event.device_type.name == "CPU"
    )


def _read(event: Any, name: str) -> float:
    """Return a figure of an event; older torch has ``cuda`` where newer has ``device``."""
    old = name.replace("device", "cuda")
    return float(getattr(event, name) if hasattr(event, name) else getattr(event, old))


def kernels(averages: Any) -> list[ProfilerRow]:
    """Return the kernels and copies of a profile, the longest first.

    The operators' device time already includes theirs: never add up the two.
    """
    return _longest_first(
        ProfilerRow(
            event.key,
            event.count,
            _read(event, "self_device_time_total") * MICROSECOND,
            _read(event, "device_time_total") * MICROSECOND,
            0,
        )
        for event in averages
        if event.device_type.name != "CPU" and not event.is_user_annotation
    )


def kernels_of(call: Callable[[], object], on: Place) -> list[ProfilerRow]:
    """Return the kernels and copies that a call launches; none if the profiler cannot see them."""
    from torch.profiler import ProfilerActivity, profile, supported_activities

    if ProfilerActivity.CUDA not in supported_activities():
        return []
    on.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        call()
        on.synchronize()
    return kernels(recorded.key_averages())


def _longest_first(rows: Iterable[ProfilerRow]) -> list[ProfilerRow]:
    return sorted((row for row in rows if row.self_s > 0), key=lambda row: -row.self_s)


CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def compiling_cold() -> Callable[[], None]:
    """Make torch.compile start from nothing, and compile in this process.

    Its disk cache would hide the compilation time in a second run, and its helper processes would
    outlive a cancelled run.

    Returns:
        A function that restores all settings.
    """
    import torch
    import torch._inductor.config as inductor
    from torch._inductor.utils import clear_caches

    folder = tempfile.TemporaryDirectory(prefix="compiled-", ignore_cleanup_errors=True)
    variables = {name: os.environ.get(name) for name in CACHES}
    threads = inductor.compile_threads
    os.environ |= dict.fromkeys(CACHES, folder.name)
    inductor.compile_threads = 1
    torch.compiler.reset()
    clear_caches()

    def back() -> None:
        torch.compiler.reset()
        inductor.compile_threads = threads
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        folder.cleanup()

    return back
