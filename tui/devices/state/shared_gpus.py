"""Recognize the GPUs that two hosts share. Pure.

A GPU's UUID is the same under every name of its machine, and in every container there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tui.core.text import numbers as text
from tui.devices.state.free import whole_devices
from tui.monitor.messages import Device

_NUMBERED = "nvml:"
"""Begins the id of a GPU whose UUID the driver does not give."""


@dataclass(frozen=True, slots=True)
class SharedGpus:
    """The GPUs of a host that an earlier one has too."""

    other: str
    """Name of the earlier host."""
    count: int
    is_all: bool
    """The host has no other GPUs."""

    def describe(self) -> str:
        """Return a few words for the line of the host."""
        if self.is_all:
            return f"same {'GPU' if self.count == 1 else 'GPUs'} as {self.other}"
        return f"{text.count(self.count, 'GPU')} also on {self.other}"


def find_shared(hosts: Sequence[tuple[str, Sequence[Device]]]) -> Mapping[str, SharedGpus]:
    """Return, by the names of hosts, the GPUs that an earlier host has too.

    Args:
        hosts: names and devices, in order.
    """
    owner: dict[str, str] = {}
    shared: dict[str, SharedGpus] = {}
    for name, devices in hosts:
        ids = [device.id for device in whole_devices(devices)]
        owners = [owner[uuid] for uuid in ids if uuid in owner]
        if owners:
            first = max(dict.fromkeys(owners), key=owners.count)
            count = owners.count(first)
            shared[name] = SharedGpus(first, count, count == len(ids))
        for uuid in ids:
            if not uuid.startswith(_NUMBERED):
                owner.setdefault(uuid, name)
    return shared


def distinct_devices(
    hosts: Iterable[tuple[str, Sequence[Device]]],
) -> Iterator[tuple[str, Device]]:
    """Yield the devices that a program can use, each once, with the name of the first host.

    Args:
        hosts: names and devices, in order.
    """
    seen: set[str] = set()
    for name, devices in hosts:
        for device in whole_devices(devices):
            if device.id not in seen:
                yield name, device
            if not device.id.startswith(_NUMBERED):
                seen.add(device.id)
