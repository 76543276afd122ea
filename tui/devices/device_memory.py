"""A device's memory from what NVML says: with a memory of its own, or sharing the host's."""

from __future__ import annotations

import re
from typing import Any

from tui.devices.messages import DeviceMemory
from tui.devices.nvml_call import Code, NoAnswer

UNIFIED = "unified memory: shared with the host"
_INTEGRATED = re.compile(r"\b(GB10|Orin|Xavier|Thor|Tegra|Jetson)\b", re.IGNORECASE)
"""Names of devices that have no memory of their own (DGX Spark is a GB10)."""


def device_memory(
    answer: Any, *, name: str, mig: bool, host_total: int
) -> tuple[DeviceMemory, dict[str, str]]:
    """Turn NVML's memory info into figures and reasons.

    Version 2 counts what the driver keeps for itself apart from ``used``; version 1 counts it
    within, so ``driver_reserved`` is absent then and nothing is counted twice.

    Args:
        answer: pynvml's memory info, of version 1 or 2, or an :class:`NoAnswer`.
        name: The device's name: an integrated GPU is told by it.
        mig: MIG mode is on: nothing is said about unified memory then.
        host_total: The machine's memory in bytes. A device with exactly that total has it in
            common with the host, and its ``used`` would be the host's.
    """
    if not mig and _shares_the_host(answer, name, host_total):
        return _nothing(UNIFIED, unified=True)
    if isinstance(answer, NoAnswer):
        return _nothing(answer.reason)
    reserved = getattr(answer, "reserved", None)
    figures = DeviceMemory(
        total=int(answer.total),
        used=int(answer.used),
        free=int(answer.free),
        driver_reserved=None if reserved is None else int(reserved),
    )
    if reserved is not None:
        return figures, {}
    return figures, {"memory.driver_reserved": "driver too old for this figure: part of used"}


def _shares_the_host(answer: Any, name: str, host_total: int) -> bool:
    integrated = _INTEGRATED.search(name) is not None
    if isinstance(answer, NoAnswer):
        return integrated and answer.code == Code.NOT_SUPPORTED
    total = int(answer.total)
    # Some drivers say success with the host's memory, rounded: only the name tells them apart.
    return total in (0, host_total) or (integrated and abs(total - host_total) < host_total / 20)


def _nothing(reason: str, unified: bool = False) -> tuple[DeviceMemory, dict[str, str]]:
    paths = ("memory.total", "memory.used", "memory.free", "memory.driver_reserved")
    return DeviceMemory(None, None, None, None, unified), dict.fromkeys(paths, reason)
