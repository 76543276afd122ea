"""Which versions of torch can have written a file: told from keys that came with a version.

No file states its version. The versions stand in torch's release history: ``time_us`` came with
2.2, ``compile_context`` with 2.7, ``user_metadata`` and the setting
``graph_capture_record_stream_reuse`` with 2.9, ``pool_id`` with 2.12, ``host_segments`` with 2.14.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tui.snapshots.model.snapshot import TorchVersions

_OF_ENTRIES = {
    "time_us": (2, 2),
    "compile_context": (2, 7),
    "user_metadata": (2, 9),
    "pool_id": (2, 12),
}
_OF_SETTINGS = {"graph_capture_record_stream_reuse": (2, 9)}
_OF_FILES = {"allocator_settings": (2, 2), "external_annotations": (2, 5), "host_segments": (2, 14)}
_IN_EVERY_ENTRY = ("compile_context", (2, 9))
"""A key that each entry of this version and later ones has, whatever was recorded."""

Raw = Any
"""An object of the file: anything at all."""


def versions(top: dict[Raw, Raw], traces: Iterable[list[Raw]]) -> TorchVersions:
    """What the keys of a file tell.

    Args:
        top: the file's own dict.
        traces: its trace of each device; one entry of each is looked at.
    """
    settings = top.get("allocator_settings")
    entries = [trace[0] for trace in traces if trace and isinstance(trace[0], dict)]
    found = [version for key, version in _OF_FILES.items() if key in top]
    if isinstance(settings, dict):
        found += [version for key, version in _OF_SETTINGS.items() if key in settings]
    for entry in entries:
        found += [version for key, version in _OF_ENTRIES.items() if key in entry]
    key, since = _IN_EVERY_ENTRY
    older = bool(entries) and not any(key in entry for entry in entries)
    least = max(found, default=None)
    if older and least is not None and least >= since:
        return TorchVersions()  # it contradicts itself: whoever wrote it, it was not torch alone
    return TorchVersions(least, since if older else None)
