"""Pairs of NVML's and torch's devices, with memory figures of the same moment; free devices.

UUIDs or PCI bus ids pair the devices, never indices. NVML and CUDA number devices differently: CUDA
orders them by speed by default, and CUDA_VISIBLE_DEVICES hides and reorders them.

The monitor reads NVML, the worker reads torch, and the context is a difference of both: NVML's
memory of the worker minus torch's reserved memory. A difference of figures from two moments is
wrong by all allocations in between. Torch's counters of all memory it ever reserved and returned
prove that ``reserved`` did not change between two of its reports; an NVML reading between these
reports is consistent with both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tui.monitor.messages import Device, Driver, Sample
from workloads.protocol.messages import TorchMemory
from workloads.protocol.results import Environment, TorchDevice

CPU = "cpu"
"""The key of the host's CPU among the devices."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device with its names in NVML and torch."""

    key: str
    """A stable key: the NVML UUID, or torch's name if NVML has no such device."""
    nvml: Device | None = None
    torch_device: TorchDevice | None = None
    unpaired: str | None = None
    """The reason that one of the two names is missing."""
    before_loss: Device | None = None
    """A lost device's last reading; ``None`` without one."""
    expected: str = ""
    """The name that torch is expected to give it, while torch lists no GPU."""
    host_label: str = ""
    """Name of host and device: ``gpu1:0``, or ``gpu1:cuda0`` if only torch reports it; empty for
    this machine."""

    @property
    def torch(self) -> str | None:
        return self.torch_device.id if self.torch_device else None

    @property
    def label(self) -> str:
        """The device's name on the screen, such as ``cuda:0``, or ``gpu1:0`` on another host."""
        if self.host_label:
            return self.host_label
        if self.key == CPU:
            return CPU
        own = f"nvml:{self.nvml.nvml_index}" if self.nvml else self.key
        return self.torch or self.expected or own

    @property
    def name(self) -> str:
        if self.nvml:
            return self.nvml.name
        return self.torch_device.name if self.torch_device else self.key


def _normalize_uuid(text: str) -> str:
    """Remove the prefix: torch also names MIG instances by the bare number."""
    return text.lower().removeprefix("gpu-").removeprefix("mig-")


def _normalize_bus_id(text: str) -> str:
    """Drop the domain's extra zeros: ``00000000:17:00.0`` and ``0000:17:00.0`` are equal."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"


def _matches(device: Device, torch_device: TorchDevice) -> bool:
    if torch_device.uuid is not None:
        return _normalize_uuid(device.id) == _normalize_uuid(torch_device.uuid)
    if torch_device.pci_bus_id and device.pci_bus_id:
        return _normalize_bus_id(device.pci_bus_id) == _normalize_bus_id(torch_device.pci_bus_id)
    return False


def find_last_reading(view: DeviceView) -> Device | None:
    """Return NVML's last reading of a device; for a lost device, the reading before the loss."""
    device = view.nvml
    return view.before_loss if device is not None and device.lost else device


def pair(
    nvml: tuple[Device, ...],
    torch_devices: tuple[TorchDevice, ...],
    no_cuda: str = "",
    no_nvml: str = "",
    no_torch: str | None = None,
    host: str = "",
) -> tuple[DeviceView, ...]:
    """Return all devices: GPUs in NVML's order, then GPUs that only torch reports, then the CPU.

    Args:
        nvml: the monitor's devices.
        torch_devices: the devices of the runner's torch; empty while unknown.
        no_cuda: torch's own reason for seeing no CUDA device.
        no_nvml: the reason that NVML is unavailable.
        no_torch: the reason that torch is unavailable; ``None`` while its report may still come.
        host: name of another host, whose devices are labelled with it; empty for this machine.
    """
    left = [device for device in torch_devices if device.id != CPU]
    views = []
    for device, label in zip(nvml, _label_on_host(nvml, host), strict=True):
        match = next((candidate for candidate in left if _matches(device, candidate)), None)
        if match:
            left.remove(match)
        unpaired = None
        if not match:
            unpaired = _explain_no_torch(torch_devices, no_cuda) if torch_devices else no_torch
        views.append(DeviceView(device.id, device, match, unpaired, host_label=label))
    for only in left:
        reason = no_nvml or "NVML does not list this device"
        label = f"{host}:{only.id.replace(':', '')}" if host else ""
        views.append(DeviceView(only.id, None, only, reason, host_label=label))
    cpu = next((device for device in torch_devices if device.id == CPU), None)
    views.append(DeviceView(CPU, None, cpu, host_label=f"{host}:{CPU}" if host else ""))
    return tuple(views)


def expect_names(devices: Sequence[Device], visible: str | None, *, by_bus: bool) -> dict[str, str]:
    """Return the certain ones of the names that torch will give to devices, by device id.

    CUDA numbers the devices that ``CUDA_VISIBLE_DEVICES`` leaves. It sorts them by speed, or by bus
    if a variable says so; among GPUs of one model both orders are the same.

    Args:
        devices: NVML's, in the order of their buses.
        visible: ``CUDA_VISIBLE_DEVICES``; ``None`` if unset.
        by_bus: ``CUDA_DEVICE_ORDER`` is ``PCI_BUS_ID``.
    """
    if any(device.mig for device in devices):
        return {}  # only one instance of one GPU is visible
    if not by_bus and len({device.name for device in devices}) > 1:
        return {}
    ordered = list(devices)
    if visible is not None:
        ordered = []
        for word in visible.split(","):
            named = _find_visible(devices, word.strip())
            if named is None or named in ordered:
                break  # CUDA ignores the rest
            ordered.append(named)
    return {device.id: f"cuda:{index}" for index, device in enumerate(ordered)}


def _find_visible(devices: Sequence[Device], word: str) -> Device | None:
    """Return the device that a word of ``CUDA_VISIBLE_DEVICES`` names: its number or its UUID."""
    if word.isdecimal():
        return next((device for device in devices if device.nvml_index == int(word)), None)
    matching = [device for device in devices if word and device.id.lower().startswith(word.lower())]
    return matching[0] if len(matching) == 1 else None


def _label_on_host(devices: Sequence[Device], host: str) -> Iterator[str]:
    """Yield the labels of NVML's devices: ``gpu1:0``, or ``gpu1:0.2`` for a MIG instance.

    Args:
        devices: in NVML's order.
        host: the name; empty for this machine, whose devices have no such label.
    """
    instances: dict[int, int] = {}
    for device in devices:
        number = f"{device.nvml_index}"
        if device.parent is not None:
            instance = instances.get(device.nvml_index, 0)
            instances[device.nvml_index] = instance + 1
            number += f".{instance}"
        yield f"{host}:{number}" if host else ""


def _explain_no_torch(torch_devices: tuple[TorchDevice, ...], no_cuda: str) -> str:
    if any(device.id.startswith("cuda") for device in torch_devices):
        return "not among the devices that torch sees: hidden by CUDA_VISIBLE_DEVICES?"
    return no_cuda or "torch sees no GPU"


WITHOUT_NVML = (
    "no NVML: libnvidia-ml.so.1 is not found, though CUDA works; in a container set "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility, otherwise LD_LIBRARY_PATH"
)
NVML_UNAVAILABLE = "NVML is not available on this machine"
"""The reason for absent NVML figures; the line above the devices gives the cause."""


def uses_cuda(environment: Environment | None) -> bool:
    """Return whether torch has an NVIDIA CUDA device."""
    if environment is None or environment.cuda is None:
        return False
    return any(device.id.startswith("cuda") for device in environment.devices)


def reconcile_driver(driver: Driver, environment: Environment | None) -> Driver:
    """Return the monitor's driver facts, but never a missing driver if torch works with it.

    Args:
        driver: the monitor's report.
        environment: of the runner; ``None`` before its report.
    """
    if driver.missing and uses_cuda(environment):
        return replace(driver, missing=False, error=WITHOUT_NVML)
    return driver


SILENT_S = 1.5
"""Seconds without a worker's report after an NVML reading until the worker counts as busy: it
reports its memory between two blocks."""
ENDED_S = 10.0
"""Seconds for which an ended worker's figures stand in for those of the next worker, whose start
and CUDA context take seconds on a busy machine."""
STORED_S = 4.0
"""Seconds of stored samples, which torch's next report may still match."""

Basis = Literal["one moment", "torch", "NVML"]
"""The source whose moment an account describes: ``torch`` or ``NVML`` if their moments differ."""


class ConsistentReading(NamedTuple):
    """The figures that make up the account of a GPU."""

    sample: Sample | None
    device: Device | None
    """NVML's reading; not always the newest."""
    torch: TorchMemory | None
    basis: Basis = "one moment"
    ended: bool = False
    """The process of torch's figures has ended, and its successor has not used the device yet."""


class _StablePeriod(NamedTuple):
    """Torch's newest report on a device, and the first report with the same ``reserved``."""

    since: float
    newest: TorchMemory


class ConsistentReadings:
    """The recent readings of NVML and torch with their times."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()
        self._stable: dict[str, deque[_StablePeriod]] = {}
        """The recent stable periods of one process, by torch's name of the device."""

    def copy(self) -> ConsistentReadings:
        """Return a copy that later readings do not change."""
        copied = ConsistentReadings()
        copied._samples = self._samples.copy()
        copied._stable = {name: periods.copy() for name, periods in self._stable.items()}
        return copied

    def apply_sample(self, sample: Sample) -> None:
        """Store a reading of NVML."""
        self._samples.append(sample)
        while len(self._samples) > 2 and self._samples[0].at < sample.at - STORED_S:
            self._samples.popleft()

    def apply_torch(self, memory: TorchMemory) -> None:
        """Store a report of torch."""
        periods = self._stable.setdefault(memory.device, deque())
        if periods and periods[-1].newest.pid != memory.pid:
            periods.clear()
        since = memory.at
        if periods and _is_unchanged(periods[-1].newest, memory):
            since = periods.pop().since
        periods.append(_StablePeriod(since, memory))
        while periods[0].newest.at < memory.at - STORED_S:
            periods.popleft()

    def forget_torch(self) -> None:
        """Drop torch's figures after the last worker has ended."""
        self._stable.clear()

    def find(self, view: DeviceView, worker_pid: int | None, now: float) -> ConsistentReading:
        """Return the newest figures of a device that may be subtracted from each other.

        Args:
            view: the present device.
            worker_pid: the present worker.
            now: Unix time.
        """
        return self.find_for_process(view, view.torch, worker_pid, now)

    def find_for_process(
        self, view: DeviceView, name: str | None, pid: int | None, now: float
    ) -> ConsistentReading:
        """Return the newest figures of any process's device that may be subtracted.

        Args:
            view: the present device.
            name: the process's own name of the device, such as ``cuda:0``.
            pid: the present process.
            now: Unix time.
        """
        sample, device = self._find_newest(view)
        periods = self._stable.get(name) if name else None
        if not periods:
            return ConsistentReading(sample, device, None)
        torch = periods[-1].newest
        ended = torch.pid != pid
        if ended and now - torch.at > ENDED_S:
            return ConsistentReading(sample, device, None)
        if device is None or device.lost or device.memory_read is None:
            return ConsistentReading(sample, device, torch, ended=ended)
        if ended or not self._is_silent(view.key, torch, now):
            match = self._find_within(view.key, (periods[-1],))
            if match is not None:
                return match._replace(ended=ended)
            # Torch also reports free memory, but not correctly if the device shares the host's.
            if torch.device_free is not None and not device.memory.unified:
                return ConsistentReading(sample, device, torch, "torch", ended)
            if not device.memory.unified:
                # What allocates all the time is stable only between two of its reservations.
                match = self._find_within(view.key, periods)
                if match is not None and match.torch is not None:
                    counted = replace(
                        match.torch, alloc_retries=torch.alloc_retries, ooms=torch.ooms
                    )
                    return match._replace(torch=counted, ended=ended)
        return ConsistentReading(sample, device, torch, "NVML", ended)

    def _find_within(self, key: str, periods: Sequence[_StablePeriod]) -> ConsistentReading | None:
        """Return the newest reading of NVML within a stable period, with that period's figures."""
        for period in reversed(periods):
            for sample in reversed(self._samples):
                read = _find_device(sample, key)
                if read is not None and _is_within(read, period):
                    return ConsistentReading(sample, read, period.newest)
        return None

    def _find_newest(self, view: DeviceView) -> tuple[Sample | None, Device | None]:
        """Return the newest sample whose memory and processes date from the same moment, if any."""
        if view.nvml is not None and view.nvml.memory_moved:
            for sample in reversed(self._samples):
                read = _find_device(sample, view.key)
                if read is not None and not read.memory_moved:
                    return sample, read
        return (self._samples[-1] if self._samples else None), view.nvml

    def _is_silent(self, key: str, torch: TorchMemory, now: float) -> bool:
        """Return whether torch has sent no report since an NVML reading some time ago."""
        for sample in self._samples:
            read = _find_device(sample, key)
            if read is not None and read.memory_read is not None:
                done = read.memory_read[1]
                if done > torch.at:
                    return now - done > SILENT_S
        return False


def _is_unchanged(before: TorchMemory, after: TorchMemory) -> bool:
    """Return whether ``reserved`` stayed the same between two reports of one process.

    The cudaMallocAsync backend counts neither taken nor returned memory: for it, equal values at
    both moments must suffice.
    """
    return (
        before.pid == after.pid
        and before.reserved == after.reserved
        and before.reserved_allocated == after.reserved_allocated
        and before.reserved_freed == after.reserved_freed
    )


def _find_device(sample: Sample, key: str) -> Device | None:
    return next((device for device in sample.devices if device.id == key), None)


def _is_within(device: Device, stable: _StablePeriod) -> bool:
    if device.memory_read is None or device.memory_moved or device.lost:
        return False
    began, done = device.memory_read
    return stable.since <= began and done <= stable.newest.at


FREE_BYTES = 20 * 2**30
"""Free memory from which a GPU counts as free, unless the user names another amount."""
FREE_SHARE = 0.9
"""Share of a smaller GPU's memory from which it counts as free: it never has :data:`FREE_BYTES`."""
FREE_BELOW_PERCENT = 5.0
"""Utilization below which a GPU counts as free."""


def is_free(device: Device, least_bytes: int | None = None) -> bool:
    """Return whether a GPU is idle and has enough free memory; unknown figures mean no.

    Args:
        device: the GPU.
        least_bytes: the least free bytes; ``None`` for :data:`FREE_BYTES`, or on a smaller GPU
            :data:`FREE_SHARE` of its memory.
    """
    free, busy = device.memory.free, device.utilization.gpu
    if free is None or busy is None or device.lost is not None:
        return False
    if least_bytes is None:
        total = device.memory.total
        least_bytes = FREE_BYTES if total is None else min(FREE_BYTES, int(FREE_SHARE * total))
    return free >= least_bytes and busy < FREE_BELOW_PERCENT


def whole_devices(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices that a program can use, with MIG instances instead of their GPU."""
    split = {device.parent for device in devices if device.parent is not None}
    return tuple(device for device in devices if device.id not in split)
