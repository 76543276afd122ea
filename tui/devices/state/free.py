"""Which GPUs are free."""

from __future__ import annotations

from collections.abc import Sequence

from tui.monitor.messages import Device

FREE_BYTES = 20 * 2**30
"""Free memory from which a GPU counts as free, unless the user names another amount."""
FREE_BELOW_PERCENT = 5.0
"""Utilization below which a GPU counts as free."""


def is_free(device: Device, least_bytes: int = FREE_BYTES) -> bool:
    """Return whether a GPU is idle and has enough free memory; unknown figures mean no."""
    free, busy = device.memory.free, device.utilization.gpu
    if free is None or busy is None or device.lost is not None:
        return False
    return free >= least_bytes and busy < FREE_BELOW_PERCENT


def whole_devices(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices that a program can use, with MIG instances instead of their GPU."""
    split = {device.parent for device in devices if device.parent is not None}
    return tuple(device for device in devices if device.id not in split)
