"""Requests of the device screens, which the session carries out and a test can record."""

from __future__ import annotations

from typing import Protocol


class DeviceActions(Protocol):
    """Requests of the front ends. None of them waits; results arrive as events."""

    def select_device(self, key: str) -> None:
        """Select the device with this key for the gauge and the timing column."""

    def empty_cache(self, key: str) -> None:
        """Release the unused reserved memory of the device's allocator."""

    def reset_peaks(self, key: str) -> None:
        """Reset the device's peaks, both torch's and the sampled ones."""

    def set_refresh(self, seconds: float) -> None:
        """Set the interval between samples of the devices, in seconds."""

    def sample_hosts(self, *, often: bool) -> None:
        """Sample the hosts that are not selected as often as the selected one, or seldom."""

    def watch_host(self, enabled: bool) -> None:
        """Start or stop listing the host's processes with each sample."""

    def watch_device(self, *, detail: bool) -> None:
        """Read the costly figures of the selected GPU with each sample from now on.

        Args:
            detail: not only the traffic of its PCIe link, but all that its details show.
        """

    def watch_torch(self, enabled: bool) -> None:
        """Read the allocators of other torch processes often, or seldom.

        The first call with ``enabled`` starts the watch.
        """
