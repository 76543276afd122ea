"""Recognize hosts that are one machine under two names, or containers of one machine. Pure.

A GPU's UUID is the same under every name of its machine, and in every container there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tui.allocators.messages import TorchProcess
from tui.core.text import numbers as text
from tui.devices.state.devices import whole_devices
from tui.monitor.messages import Device, Sample
from workloads.protocol.machine_identity import UNKNOWN, MachineIdentity

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


def distinct_devices(hosts: Iterable[tuple[str, Sequence[Device]]]) -> Iterator[tuple[str, Device]]:
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


SAME_START_S = 0.05
"""Seconds within which two starts are the same: the kernel counts them in hundredths."""


@dataclass(frozen=True, slots=True)
class SeenHost:
    """What a host's monitor reports of its machine."""

    name: str
    identity: MachineIdentity
    devices: Sequence[Device] = ()

    @classmethod
    def of_sample(cls, name: str, sample: Sample | None) -> SeenHost:
        """Return what a sample of a host shows; ``None`` before the first shows nothing."""
        if sample is None:
            return cls(name, UNKNOWN)
        return cls(name, sample.host.identity, sample.devices)


@dataclass(frozen=True, slots=True)
class Overlap:
    """What a host has in common with an earlier one."""

    other: str
    """Name of the earlier host."""
    is_same_machine: bool
    """Both names are of the same system, and not of containers."""
    gpus: SharedGpus | None = None
    """The GPUs that both have; ``None`` without any."""
    is_container: bool = False
    """One of the two is a container of the other's machine, or both are of one."""

    def describe(self) -> str:
        """Return a few words for the line of the host."""
        if self.is_same_machine:
            return f"same machine as {self.other}"
        return self.gpus.describe() if self.gpus is not None else f"same kernel as {self.other}"


def find_overlaps(hosts: Sequence[SeenHost]) -> Mapping[str, Overlap]:
    """Return, by the names of hosts, what each has in common with an earlier one.

    Args:
        hosts: in order.
    """
    shared = find_shared([(host.name, host.devices) for host in hosts])
    overlaps: dict[str, Overlap] = {}
    booted: dict[str | None, list[SeenHost]] = {}
    """The earlier hosts by their boot ids."""
    for host in hosts:
        gpus, identity = shared.get(host.name), host.identity
        earlier = booted.setdefault(identity.boot_id, [])
        same = next((other for other in earlier if identity.is_same_system(other.identity)), None)
        beside = next((other for other in earlier if identity.shares_kernel(other.identity)), None)
        earlier.append(host)
        if same is not None:
            overlaps[host.name] = Overlap(same.name, True, gpus)
        elif gpus is not None:
            is_container = beside is not None or not gpus.is_all
            overlaps[host.name] = Overlap(gpus.other, False, gpus, is_container)
        elif beside is not None:
            overlaps[host.name] = Overlap(beside.name, False, is_container=True)
    return overlaps


def count_hosts(hosts: Sequence[SeenHost]) -> int:
    """Return the number of hosts, where the names of one machine count once.

    A container is a host of its own. Hosts with the same GPUs are one machine unless their kernel
    says that they are containers.

    Args:
        hosts: the hosts that were reached.
    """
    return len(hosts) - sum(not overlap.is_container for overlap in find_overlaps(hosts).values())


def format_hosts(hosts: Sequence[SeenHost]) -> str:
    """Return the number of hosts in words, such as ``1 host under 2 names``."""
    distinct = count_hosts(hosts)
    names = "" if distinct == len(hosts) else f" under {len(hosts)} names"
    return f"{text.count(distinct, 'host')}{names}"


def find_repeated(
    hosts: Sequence[tuple[SeenHost, Sequence[TorchProcess]]],
) -> frozenset[tuple[str, int]]:
    """Return the processes that an earlier host lists too, as their hosts and pids.

    Only a name of the same machine, or a host that shares GPUs, can list a process again.

    Args:
        hosts: with their processes, in order.
    """
    overlaps = find_overlaps([host for host, _ in hosts])
    listed = {host.name: processes for host, processes in hosts}
    return frozenset(
        (name, process.pid)
        for name, overlap in overlaps.items()
        if overlap.is_same_machine or overlap.gpus is not None
        for process in listed[name]
        if any(_is_same(process, other, overlap) for other in listed[overlap.other])
    )


def _is_same(first: TorchProcess, other: TorchProcess, overlap: Overlap) -> bool:
    # In a container a process has another pid, but the same start.
    if overlap.is_same_machine and first.pid != other.pid:
        return False
    if first.start is None or other.start is None:
        return False
    described = (first.rank, first.command) == (other.rank, other.command)
    return described and abs(first.start - other.start) <= SAME_START_S
