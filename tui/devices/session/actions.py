"""What a screen of devices can request; the session does it, a test can record it."""

from __future__ import annotations

from typing import Protocol


class DeviceActions(Protocol):
    """Requests of the front ends. None of them waits: what comes of it is an event."""

    def select_device(self, key: str) -> None:
        """Make a device, by its key, the one that gauge and timing column show."""

    def empty_cache(self, key: str) -> None:
        """Return what the device's allocator has reserved but does not use."""

    def reset_peaks(self, key: str) -> None:
        """Start the device's peaks anew, torch's and the sampled ones."""

    def set_refresh(self, seconds: float) -> None:
        """Have samples of the devices taken that far apart from now on."""

    def watch_host(self, wanted: bool) -> None:
        """Have the host's processes listed with each sample, or no longer."""

    def watch_torch(self, wanted: bool) -> None:
        """Have the allocators of other torch processes read often, or seldom.

        The first time that they are wanted starts what reads them.
        """
