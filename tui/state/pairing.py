"""Pair NVML's devices with torch's by UUID, or by PCI bus id: never by index.

The two number devices differently: CUDA orders by speed unless told otherwise, and
CUDA_VISIBLE_DEVICES hides and reorders them.
"""

from __future__ import annotations

from tui.monitor.messages import Device
from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import TorchDevice

CPU = "cpu"
"""The key of the host's processor among the devices."""


@frozen
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


def _uuid(text: str) -> str:
    """Without the prefix: torch knows a MIG instance by the bare number too."""
    return text.lower().removeprefix("gpu-").removeprefix("mig-")


def _bus(text: str) -> str:
    """``00000000:17:00.0`` and ``0000:17:00.0`` are the same place."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"


def _matches(device: Device, torch_device: TorchDevice) -> bool:
    if torch_device.uuid is not None:
        return _uuid(device.id) == _uuid(torch_device.uuid)
    if torch_device.pci_bus_id and device.pci_bus_id:
        return _bus(device.pci_bus_id) == _bus(torch_device.pci_bus_id)
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
            unpaired = _why_no_torch(torch_devices, no_cuda) if torch_devices else no_torch
        views.append(DeviceView(device.id, device, match, unpaired))
    for device_only_torch in left:
        reason = no_nvml or "NVML does not list this device"
        views.append(DeviceView(device_only_torch.id, None, device_only_torch, reason))
    cpu = next((device for device in torch_devices if device.id == CPU), None)
    views.append(DeviceView(CPU, None, cpu))
    return tuple(views)


def _why_no_torch(torch_devices: tuple[TorchDevice, ...], no_cuda: str) -> str:
    if any(device.id.startswith("cuda") for device in torch_devices):
        return "not among the devices that torch sees: hidden by CUDA_VISIBLE_DEVICES?"
    return no_cuda or "the runner's torch sees no CUDA device"
