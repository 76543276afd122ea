"""What a start keeps for the next in the state folder: the catalogue, measured ceilings.

Importing some thirty modules of the catalogue and evaluating their annotations takes a third as
long as an empty Textual app takes to start. What comes of it depends on their files alone, so it is
kept beside the reports, with a stamp of those files.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import workloads
from tui.core import reports
from workloads.limits.ceilings import newest
from workloads.protocol import wire
from workloads.protocol.results import Ceiling, WorkloadInfo


@dataclass(frozen=True, slots=True)
class KeptCatalogue:
    """What its file holds: the workloads, with a stamp of the modules that they come from."""

    stamp: str
    workloads: tuple[WorkloadInfo, ...]


def catalogue_path() -> Path:
    """Return the file that the catalogue is kept in."""
    return reports.folder() / "catalogue.json"


def catalogue(*, keep: bool = True) -> tuple[WorkloadInfo, ...]:
    """Return the catalogue: all that can be said of each workload without its code.

    Args:
        keep: write it down for the next start where that has not been done.
    """
    stamp = _stamp()
    kept = _read_catalogue()
    if kept is not None and kept.stamp == stamp:
        return kept.workloads
    found = imported_catalogue()
    if not keep:
        return found
    # Without a place to keep it, the next start takes the longer way too.
    with contextlib.suppress(OSError):
        reports.write_private(catalogue_path(), wire.encode(KeptCatalogue(stamp, found)))
    return found


def imported_catalogue() -> tuple[WorkloadInfo, ...]:
    """Return the catalogue from the modules themselves."""
    # Deferred: a start reads the kept catalogue instead (47 modules, 28 ms).
    from workloads import catalog
    from workloads.declare.workload import infos

    assert catalog  # importing it declares the workloads
    return infos()


def _read_catalogue() -> KeptCatalogue | None:
    try:
        return wire.decode(catalogue_path().read_bytes(), (KeptCatalogue,))
    except (OSError, wire.WireError):
        return None  # never kept, or by a version that kept something else


def _stamp() -> str:
    """Return a text that changes when a file of the catalogue changes."""
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


MOST_CEILINGS = 64
"""The newest so many: of older machines, drivers and versions of torch none is needed again."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the file of ceilings holds; the name of the class stands in it."""

    ceilings: tuple[Ceiling, ...]


def ceilings_path() -> Path:
    """Return the file that ceilings are kept in."""
    return reports.folder() / "ceilings.json"


def ceilings() -> tuple[Ceiling, ...]:
    """Return the ceilings that are kept; none where there is no file.

    Raises:
        ValueError: the file is not what was written; the text says what is wrong with it.
        OSError: it cannot be read.
    """
    try:
        content = ceilings_path().read_bytes()
    except FileNotFoundError:
        return ()
    try:
        kept = wire.decode(content, (Kept,))
    except wire.WireError as error:
        raise ValueError(
            f"{ceilings_path()}: {error}; it is replaced when a ceiling is measured"
        ) from error
    assert isinstance(kept, Kept)
    return kept.ceilings


def store_ceiling(ceiling: Ceiling) -> None:
    """Add a ceiling to those that are kept; what another program kept meanwhile stays.

    One that was measured while others kept the CPU busy is left out: it can be far too low, and
    the next runner measures its own.

    Raises:
        OSError: the file cannot be written.
    """
    if ceiling.disturbed:
        return
    try:
        earlier = ceilings()
    except ValueError:
        earlier = ()
    kept = Kept(newest((*earlier, ceiling))[-MOST_CEILINGS:])
    # Whole or not at all, also where two write at once.
    reports.write_private(ceilings_path(), wire.encode(kept))
