"""The devices as NVML and torch know them together: paired, with their memory of one moment.

They are paired by UUID, or by PCI bus id: never by index. The two number devices differently: CUDA
orders by speed unless told otherwise, and CUDA_VISIBLE_DEVICES hides and reorders them.

NVML is read by the monitor, torch is asked in the worker, and what is made of both is a difference:
context is what NVML counts for the worker less what torch has reserved. A difference of figures of
two moments is wrong by all that was allocated in between. Torch's counters of what it ever reserved
and gave back prove that ``reserved`` stood still between two of its words; a reading of NVML that
lies between them is of one moment with both.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Literal

from tui.devices.monitor.messages import Device, Driver, Sample
from workloads.protocol.messages import TorchMemory
from workloads.protocol.results import Environment, TorchDevice

CPU = "cpu"
"""The key of the host's processor among the devices."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device under both of its names."""

    key: str
    """Stable over its life: the NVML UUID, or torch's name where NVML knows no such device."""
    nvml: Device | None = None
    torch_device: TorchDevice | None = None
    unpaired: str | None = None
    """Why one of the two names is missing."""
    before_loss: Device | None = None
    """Of a lost device: as it was read last; ``None`` where it never was."""

    @property
    def torch(self) -> str | None:
        return self.torch_device.id if self.torch_device else None

    @property
    def label(self) -> str:
        """What it is called on screen."""
        if self.key == CPU:
            return CPU
        return self.torch or (f"nvml:{self.nvml.nvml_index}" if self.nvml else self.key)

    @property
    def name(self) -> str:
        if self.nvml:
            return self.nvml.name
        return self.torch_device.name if self.torch_device else self.key


def _normalize_uuid(text: str) -> str:
    """Without the prefix: torch knows a MIG instance by the bare number too."""
    return text.lower().removeprefix("gpu-").removeprefix("mig-")


def _normalize_bus_id(text: str) -> str:
    """``00000000:17:00.0`` and ``0000:17:00.0`` are the same place."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"


def _matches(device: Device, torch_device: TorchDevice) -> bool:
    if torch_device.uuid is not None:
        return _normalize_uuid(device.id) == _normalize_uuid(torch_device.uuid)
    if torch_device.pci_bus_id and device.pci_bus_id:
        return _normalize_bus_id(device.pci_bus_id) == _normalize_bus_id(torch_device.pci_bus_id)
    return False


def pair(
    nvml: tuple[Device, ...],
    torch_devices: tuple[TorchDevice, ...],
    no_cuda: str = "",
    no_nvml: str = "",
    no_torch: str | None = None,
) -> tuple[DeviceView, ...]:
    """All devices, GPUs first in NVML's order, then those only torch knows, the CPU last.

    Args:
        nvml: what the monitor saw.
        torch_devices: what the runner's torch saw; empty while it is not known.
        no_cuda: why it saw no CUDA device, in its own words.
        no_nvml: why NVML could not be asked.
        no_torch: why there is no torch to ask; ``None`` while it may still say what it sees.
    """
    left = [device for device in torch_devices if device.id != CPU]
    views = []
    for device in nvml:
        match = next((candidate for candidate in left if _matches(device, candidate)), None)
        if match:
            left.remove(match)
        unpaired = None
        if not match:
            unpaired = _explain_no_torch(torch_devices, no_cuda) if torch_devices else no_torch
        views.append(DeviceView(device.id, device, match, unpaired))
    for device_only_torch in left:
        reason = no_nvml or "NVML does not list this device"
        views.append(DeviceView(device_only_torch.id, None, device_only_torch, reason))
    cpu = next((device for device in torch_devices if device.id == CPU), None)
    views.append(DeviceView(CPU, None, cpu))
    return tuple(views)


def _explain_no_torch(torch_devices: tuple[TorchDevice, ...], no_cuda: str) -> str:
    if any(device.id.startswith("cuda") for device in torch_devices):
        return "not among the devices that torch sees: hidden by CUDA_VISIBLE_DEVICES?"
    return no_cuda or "the runner's torch sees no CUDA device"


WITHOUT_NVML = (
    "no NVML: libnvidia-ml.so.1 is not found, though CUDA works; in a container set "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility, otherwise LD_LIBRARY_PATH"
)
NOT_ASKED = "NVML is not available on this machine"
"""Why a figure of NVML is absent; the line above the devices says why that is."""


def uses_cuda(environment: Environment | None) -> bool:
    """Return whether torch has a CUDA device of NVIDIA's."""
    if environment is None or environment.cuda is None:
        return False
    return any(device.id.startswith("cuda") for device in environment.devices)


def reconcile_driver(driver: Driver, environment: Environment | None) -> Driver:
    """Return the driver as the monitor found it, but never as missing where torch works with it.

    Args:
        driver: as the monitor tells it.
        environment: of the runner; ``None`` before it is known.
    """
    if driver.missing and uses_cuda(environment):
        return replace(driver, missing=False, error=WITHOUT_NVML)
    return driver


SILENT_S = 1.5
"""A worker that has not answered for so long after NVML was read is busy: it tells its memory
between two blocks."""
ENDED_S = 10.0
"""The figures of a worker that has ended stand in for those of the next for so long: it starts,
and makes a CUDA context, which takes seconds on a busy box."""
KEPT_S = 4.0
"""Samples of so long are kept, for torch's word on them is still to come."""

Basis = Literal["one moment", "torch", "NVML"]
"""Whose moment an account is of; of ``torch`` or of ``NVML`` where the other's is another."""


@dataclass(frozen=True, slots=True)
class ConsistentReading:
    """The figures that an account of a GPU is made of."""

    sample: Sample | None
    device: Device | None
    """As NVML read it; not always the newest reading."""
    torch: TorchMemory | None
    basis: Basis = "one moment"
    ended: bool = False
    """The process that torch's figures are of has ended; the next has not used the device yet."""


@dataclass(frozen=True, slots=True)
class _StablePeriod:
    """Torch's newest words on a device, and since when ``reserved`` stands still."""

    since: float
    newest: TorchMemory


class ConsistentReadings:
    """What NVML and torch said lately, each with its time."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()
        self._standing: dict[str, _StablePeriod] = {}
        """By torch's name of the device."""

    def copy(self) -> ConsistentReadings:
        """Return a copy that later readings do not change."""
        copied = ConsistentReadings()
        copied._samples, copied._standing = self._samples.copy(), self._standing.copy()
        return copied

    def apply_sample(self, sample: Sample) -> None:
        """Remember a reading of NVML."""
        self._samples.append(sample)
        while len(self._samples) > 2 and self._samples[0].at < sample.at - KEPT_S:
            self._samples.popleft()

    def apply_torch(self, told: TorchMemory) -> None:
        """Remember what torch said."""
        before = self._standing.get(told.device)
        still = before is not None and _is_unchanged(before.newest, told)
        since = before.since if before is not None and still else told.at
        self._standing[told.device] = _StablePeriod(since, told)

    def forget_torch(self) -> None:
        """Forget torch's figures after the worker has ended and none follows it."""
        self._standing.clear()

    def find(self, view: DeviceView, worker_pid: int | None, now: float) -> ConsistentReading:
        """Return the newest figures of a device that may be subtracted from each other.

        Args:
            view: the device as it is now.
            worker_pid: the worker that lives now.
            now: Unix time.
        """
        return self.find_for_process(view, view.torch, worker_pid, now)

    def find_for_process(
        self, view: DeviceView, name: str | None, pid: int | None, now: float
    ) -> ConsistentReading:
        """Return the same of any process, by its own name of the device.

        Args:
            view: the device as it is now.
            name: what the process calls it, such as ``cuda:0``.
            pid: the process that lives now.
            now: Unix time.
        """
        sample, device = self._find_newest(view)
        standing = self._standing.get(name) if name else None
        if standing is None:
            return ConsistentReading(sample, device, None)
        torch, ended = standing.newest, standing.newest.pid != pid
        if ended and now - torch.at > ENDED_S:
            return ConsistentReading(sample, device, None)
        if device is None or device.lost or device.memory_read is None:
            return ConsistentReading(sample, device, torch, ended=ended)
        if ended or not self._is_silent(view.key, torch, now):
            for earlier in reversed(self._samples):
                read = _find_device(earlier, view.key)
                if read is not None and _is_within(read, standing):
                    return ConsistentReading(earlier, read, torch, ended=ended)
            # Torch says what is free too; where the host's memory is the device's, that is not it.
            if torch.device_free is not None and not device.memory.unified:
                return ConsistentReading(sample, device, torch, "torch", ended)
        return ConsistentReading(sample, device, torch, "NVML", ended)

    def _find_newest(self, view: DeviceView) -> tuple[Sample | None, Device | None]:
        """Return the newest sample whose memory and processes are of one moment, if any."""
        if view.nvml is not None and view.nvml.memory_moved:
            for sample in reversed(self._samples):
                read = _find_device(sample, view.key)
                if read is not None and not read.memory_moved:
                    return sample, read
        return (self._samples[-1] if self._samples else None), view.nvml

    def _is_silent(self, key: str, torch: TorchMemory, now: float) -> bool:
        """Return whether NVML was read a while ago and torch has not said a word since."""
        for sample in self._samples:
            read = _find_device(sample, key)
            if read is not None and read.memory_read is not None:
                done = read.memory_read[1]
                if done > torch.at:
                    return now - done > SILENT_S
        return False


def _is_unchanged(before: TorchMemory, after: TorchMemory) -> bool:
    """Return whether ``reserved`` has not moved between two words of one process.

    The cudaMallocAsync backend counts neither what it takes nor what it gives back: that it has as
    much at both moments must do there.
    """
    return (
        before.pid == after.pid
        and before.reserved == after.reserved
        and before.reserved_taken == after.reserved_taken
        and before.reserved_given_back == after.reserved_given_back
    )


def _find_device(sample: Sample, key: str) -> Device | None:
    return next((device for device in sample.devices if device.id == key), None)


def _is_within(device: Device, standing: _StablePeriod) -> bool:
    if device.memory_read is None or device.memory_moved or device.lost:
        return False
    began, done = device.memory_read
    return standing.since <= began and done <= standing.newest.at
