"""How fast a GPU's PCI Express link is at this moment, as Linux tells. No torch.

Links slow down while nothing goes over them, so the moment to ask is right after something did.
"""

from __future__ import annotations

import re
from pathlib import Path

from workloads.protocol.frozen import frozen

_DEVICES = Path("/sys/bus/pci/devices")
_OLD_GT_S, _NEWEST_GT_S = 5.0, 64.0
_PAYLOADS = (8 / 10, 128 / 130, 242 / 256)
"""Of the bits sent: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, FLITs of 256 bytes from 64 GT/s
on (PCI-SIG, PCI Express base specifications 1 to 6)."""


@frozen
class LinkState:
    """Transfers per second of each lane, in 10^9, and how many lanes there are."""

    gt_s: float
    lanes: int

    @property
    def byte_per_s(self) -> float:
        """Bytes per second in one direction, the encoding taken off."""
        place = 0 if self.gt_s <= _OLD_GT_S else 1 if self.gt_s < _NEWEST_GT_S else 2
        return self.gt_s * 1e9 * self.lanes * _PAYLOADS[place] / 8

    @property
    def text(self) -> str:
        return f"{self.gt_s:g} GT/s x{self.lanes}"


@frozen
class PcieLink:
    """A link as it is, and the best that the device can have."""

    now: LinkState
    most: LinkState | None
    """``None`` where it is not told."""


def read(pci_bus_id: str | None) -> PcieLink | None:
    """The link of a device; ``None`` where the system does not tell.

    Args:
        pci_bus_id: as NVML writes it, ``00000000:65:00.0``.
    """
    if pci_bus_id is None:
        return None
    domain, _, rest = pci_bus_id.lower().partition(":")
    # The kernel writes the domain with four digits.
    folder = _DEVICES / f"{domain[-4:]}:{rest}"
    now = _state(folder, "current")
    return None if now is None else PcieLink(now, _state(folder, "max"))


def _state(folder: Path, which: str) -> LinkState | None:
    try:
        speed = (folder / f"{which}_link_speed").read_text(encoding="ascii")
        lanes = int((folder / f"{which}_link_width").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    found = re.match(r"([\d.]+) GT/s", speed)
    # A device behind a bridge that is none says "Unknown", or that it has no lanes.
    return LinkState(float(found[1]), lanes) if found and lanes > 0 else None
