"""The catalogue as the screen needs it, without importing it again at every start.

Importing some thirty modules and evaluating their annotations takes a third as long as an empty
Textual app takes to start. What comes of it depends on their files alone, so it is kept beside the
reports, with a stamp of those files.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import workloads
from tui import reports
from workloads.protocol import wire
from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import WorkloadInfo


@frozen
class KeptCatalogue:
    """What the file holds: the workloads, with a stamp of the modules that they come from."""

    stamp: str
    workloads: tuple[WorkloadInfo, ...]


def path() -> Path:
    """The file that the catalogue is kept in."""
    return reports.folder() / "catalogue.json"


def read(*, keep: bool = True) -> tuple[WorkloadInfo, ...]:
    """The catalogue: all that can be said of each workload without its code.

    Args:
        keep: write it down for the next start where that has not been done.
    """
    stamp = _stamp()
    kept = _kept()
    if kept is not None and kept.stamp == stamp:
        return kept.workloads
    found = imported()
    if not keep:
        return found
    # Without a place to keep it, the next start takes the longer way too.
    with contextlib.suppress(OSError):
        reports.write_private(path(), wire.encode(KeptCatalogue(stamp, found)))
    return found


def imported() -> tuple[WorkloadInfo, ...]:
    """The catalogue from the modules themselves."""
    from workloads import catalog
    from workloads.declare.workload import infos

    assert catalog  # importing it declares the workloads
    return infos()


def _kept() -> KeptCatalogue | None:
    try:
        return wire.decode(path().read_bytes(), (KeptCatalogue,))
    except (OSError, wire.WireError):
        return None  # never kept, or by a version that kept something else


def _stamp() -> str:
    """Changes when a file changes that the catalogue can come from."""
    return ", ".join(sorted(_states(workloads.__path__[0])))


def _states(folder: str) -> list[str]:
    """Path, size and time of each module; ``pathlib`` takes three times as long, at every start."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                state = entry.stat()
                found.append(f"{entry.path} {state.st_size} {state.st_mtime_ns}")
            elif entry.is_dir() and entry.name != "__pycache__":
                found += _states(entry.path)
    return found
