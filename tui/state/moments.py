"""One moment for one account: which reading of NVML and which words of torch belong together.

NVML is read by the monitor, torch is asked in the worker, and what is made of both is a difference:
context is what NVML counts for the worker less what torch has reserved. A difference of figures of
two moments is wrong by all that was allocated in between. Torch's counters of what it ever reserved
and gave back prove that ``reserved`` stood still between two of its words; a reading of NVML that
lies between them is of one moment with both.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from tui.monitor.messages import Device, Sample
from tui.state.pairing import DeviceView
from workloads.protocol.frozen import frozen
from workloads.protocol.messages import TorchMemory

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


@frozen
class MemoryMoment:
    """The figures that an account of a GPU is made of."""

    sample: Sample | None
    device: Device | None
    """As NVML read it; not always the newest reading."""
    torch: TorchMemory | None
    basis: Basis = "one moment"
    ended: bool = False
    """The process that torch's figures are of has ended; the next has not used the device yet."""


@frozen
class _Standing:
    """Torch's newest words on a device, and since when ``reserved`` stands still."""

    since: float
    newest: TorchMemory


class MemoryMoments:
    """What NVML and torch said lately, each with its time."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()
        self._standing: dict[str, _Standing] = {}
        """By torch's name of the device."""

    def take_sample(self, sample: Sample) -> None:
        """Remember a reading of NVML."""
        self._samples.append(sample)
        while len(self._samples) > 2 and self._samples[0].at < sample.at - KEPT_S:
            self._samples.popleft()

    def take_torch(self, told: TorchMemory) -> None:
        """Remember what torch said."""
        before = self._standing.get(told.device)
        still = before is not None and _stands_still(before.newest, told)
        since = before.since if before is not None and still else told.at
        self._standing[told.device] = _Standing(since, told)

    def forget_torch(self) -> None:
        """The worker has ended, and none follows it."""
        self._standing.clear()

    def of(self, view: DeviceView, worker_pid: int | None, now: float) -> MemoryMoment:
        """The newest figures of a device that may be subtracted from each other.

        Args:
            view: the device as it is now.
            worker_pid: the worker that lives now.
            now: Unix time.
        """
        return self.of_process(view, view.torch, worker_pid, now)

    def of_process(
        self, view: DeviceView, name: str | None, pid: int | None, now: float
    ) -> MemoryMoment:
        """The same of any process, by its own name of the device.

        Args:
            view: the device as it is now.
            name: what the process calls it, such as ``cuda:0``.
            pid: the process that lives now.
            now: Unix time.
        """
        sample, device = self._newest(view)
        standing = self._standing.get(name) if name else None
        if standing is None:
            return MemoryMoment(sample, device, None)
        torch, ended = standing.newest, standing.newest.pid != pid
        if ended and now - torch.at > ENDED_S:
            return MemoryMoment(sample, device, None)
        if device is None or device.lost or device.memory_read is None:
            return MemoryMoment(sample, device, torch, ended=ended)
        if ended or not self._is_silent(view.key, torch, now):
            for earlier in reversed(self._samples):
                read = _device_of(earlier, view.key)
                if read is not None and _within(read, standing):
                    return MemoryMoment(earlier, read, torch, ended=ended)
            # Torch says what is free too; where the host's memory is the device's, that is not it.
            if torch.device_free is not None and not device.memory.unified:
                return MemoryMoment(sample, device, torch, "torch", ended)
        return MemoryMoment(sample, device, torch, "NVML", ended)

    def _newest(self, view: DeviceView) -> tuple[Sample | None, Device | None]:
        """The newest reading whose memory and processes are of one moment, if there is one."""
        if view.nvml is not None and view.nvml.memory_moved:
            for sample in reversed(self._samples):
                read = _device_of(sample, view.key)
                if read is not None and not read.memory_moved:
                    return sample, read
        return (self._samples[-1] if self._samples else None), view.nvml

    def _is_silent(self, key: str, torch: TorchMemory, now: float) -> bool:
        """Whether NVML was read a while ago and torch has not said a word since."""
        for sample in self._samples:
            read = _device_of(sample, key)
            if read is not None and read.memory_read is not None:
                done = read.memory_read[1]
                if done > torch.at:
                    return now - done > SILENT_S
        return False


def _stands_still(before: TorchMemory, after: TorchMemory) -> bool:
    """Whether ``reserved`` has not moved between two words of one process.

    The cudaMallocAsync backend counts neither what it takes nor what it gives back: that it has as
    much at both moments must do there.
    """
    return (
        before.pid == after.pid
        and before.reserved == after.reserved
        and before.reserved_taken == after.reserved_taken
        and before.reserved_given_back == after.reserved_given_back
    )


def _device_of(sample: Sample, key: str) -> Device | None:
    return next((device for device in sample.devices if device.id == key), None)


def _within(device: Device, standing: _Standing) -> bool:
    if device.memory_read is None or device.memory_moved or device.lost:
        return False
    began, done = device.memory_read
    return standing.since <= began and done <= standing.newest.at
