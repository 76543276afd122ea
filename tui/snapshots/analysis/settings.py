"""What the allocator was set to, and how its settings are made."""

from __future__ import annotations

import re

from tui.snapshots.model.snapshot import TorchVersions

_RENAMED = (2, 9)
"""The first torch that reads ``PYTORCH_ALLOC_CONF``; it warns of the older name."""
_NEW, _OLD = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"
_DIVISIONS = re.compile(r":\s*[1-9]")


def is_on(settings: dict[str, str], name: str) -> bool | None:
    """Whether an allocator setting is on; ``None`` where the file does not say."""
    value = settings.get(name)
    return None if value is None else value.strip().lower() in ("true", "1", "yes", "on")


def rounds_sizes_up(settings: dict[str, str]) -> bool:
    """Whether requests are rounded to more than 512 bytes (``roundup_power2_divisions``)."""
    return _DIVISIONS.search(settings.get("roundup_power2_divisions", "")) is not None


def expandable_segments(torch: TorchVersions) -> str:
    """What to set for expandable segments, by the name that the file's torch knows."""
    value = "=expandable_segments:True"
    if torch.least is not None and torch.least >= _RENAMED:
        return _NEW + value
    if torch.below is not None and torch.below <= _RENAMED:
        return _OLD + value
    return f"{_NEW}{value} (before torch 2.9: {_OLD})"
