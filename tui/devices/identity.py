"""Which device a row is about, and the row of a device that gives no figures."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from tui.devices.messages import Clocks, Device, DeviceMemory, Pcie, Utilization
from workloads.fact import fact


@fact
class Identity:
    """What stays the same of a device for as long as the driver is up."""

    id: str
    """The UUID, ``GPU-…`` or ``MIG-…``; ``nvml:<index>`` where it is not known."""
    index: int
    name: str
    pci_bus_id: str | None
    parent: str | None = None
    """For a MIG instance the id of its GPU."""


def unknown_identity(index: int) -> Identity:
    """The identity of a device that has never told it."""
    return Identity(f"nvml:{index}", index, f"GPU {index}", None)


def identity_of(device: Device) -> Identity:
    """Which device a row is about."""
    return Identity(
        device.id, device.nvml_index, device.name, device.pci_bus_id, parent=device.parent
    )


def lost_device(identity: Identity, reason: str, *, read_at: float, lost_at: float) -> Device:
    """A row without figures, each of them absent for one reason.

    Args:
        identity: Which device.
        reason: Why it no longer answers, in one line.
        read_at: Unix time of the reading that found it still lost.
        lost_at: Unix time of the reading that first found it lost.
    """
    device = Device(
        id=identity.id,
        nvml_index=identity.index,
        torch=None,
        name=identity.name,
        pci_bus_id=identity.pci_bus_id,
        memory=DeviceMemory(None, None, None, None),
        utilization=Utilization(None, None),
        temperature_c=None,
        power_w=None,
        power_limit_w=None,
        fan_percent=None,
        clocks_mhz=Clocks(None, None),
        pstate=None,
        throttle=None,
        pcie=Pcie(None, None),
        ecc_uncorrected=None,
        mig=None,
        processes=None,
        lost=reason,
        lost_at=lost_at,
        read_at=read_at,
        parent=identity.parent,
    )
    return replace(device, unavailable=dict.fromkeys(absent_paths(device), reason))


_NOT_FIGURES = frozenset({"torch", "lost", "lost_at", "parent"})


def absent_paths(value: Any, prefix: str = "") -> list[str]:
    """The dotted paths of all figures of a device that are absent."""
    found = []
    for item in fields(value):
        part = getattr(value, item.name)
        if is_dataclass(part):
            found += absent_paths(part, f"{prefix}{item.name}.")
        elif part is None and item.name not in _NOT_FIGURES:
            found.append(prefix + item.name)
    return found
