"""What changes the state of the machine beside what its children say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True, slots=True)
class DeviceSelected:
    """The user selected a device, by its key."""

    key: str


@dataclass(frozen=True, slots=True)
class PeaksReset:
    """The sampled peaks of a device start anew."""

    key: str


DeviceEvent = Union[DeviceSelected, PeaksReset]
