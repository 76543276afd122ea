"""Store the catalogue and the measured ceilings in the state folder for the next start.

Importing some thirty modules of the catalogue and evaluating their annotations takes a third as
long as an empty Textual app takes to start. The result depends only on their files, so it is stored
beside the reports, with a stamp of those files.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import workloads
from tui.core import reports
from workloads.limits.ceilings import newest
from workloads.protocol import wire
from workloads.protocol.results import Ceiling, WorkloadInfo


@dataclass(frozen=True, slots=True)
class StoredCatalogue:
    """The content of the catalogue's file: the workloads and a stamp of their modules."""

    WIRE_TAG: ClassVar[str] = "kept_catalogue"

    stamp: str
    workloads: tuple[WorkloadInfo, ...]


def catalogue_path() -> Path:
    """Return the path of the file of the catalogue."""
    return reports.folder() / "catalogue.json"


def catalogue(*, store: bool = True) -> tuple[WorkloadInfo, ...]:
    """Return the catalogue: the facts about each workload that need no torch.

    Args:
        store: store the catalogue for the next start if the stored one is outdated.
    """
    stamp = _stamp()
    stored = _read_catalogue()
    if stored is not None and stored.stamp == stamp:
        return stored.workloads
    catalogue_folder = imported_catalogue()
    if not store:
        return catalogue_folder
    # Without a stored catalogue, the next start imports the modules again.
    with contextlib.suppress(OSError):
        reports.write_private(
            catalogue_path(), wire.encode(StoredCatalogue(stamp, catalogue_folder))
        )
    return catalogue_folder


def imported_catalogue() -> tuple[WorkloadInfo, ...]:
    """Return the catalogue from the modules themselves."""
    # Deferred: a start reads the stored catalogue instead (47 modules, 28 ms).
    from workloads import catalog
    from workloads.declare.workload import infos

    assert catalog  # importing it declares the workloads
    return infos()


def _read_catalogue() -> StoredCatalogue | None:
    try:
        return wire.decode(catalogue_path().read_bytes(), (StoredCatalogue,))
    except (OSError, wire.WireError):
        return None  # never stored, or in another form by another version


def _stamp() -> str:
    """Return a text that changes when a file of the catalogue changes."""
    return ", ".join(sorted(_states(workloads.__path__[0])))


def _states(folder: str) -> list[str]:
    """Path, size and time of each module; ``pathlib`` takes three times as long, at every start."""
    states = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                state = entry.stat()
                states.append(f"{entry.path} {state.st_size} {state.st_mtime_ns}")
            elif entry.is_dir() and entry.name != "__pycache__":
                states += _states(entry.path)
    return states


MOST_CEILINGS = 64
"""Largest number of stored ceilings: the oldest belong to former drivers and versions of torch."""


@dataclass(frozen=True, slots=True)
class StoredCeilings:
    """The content of the file of ceilings."""

    WIRE_TAG: ClassVar[str] = "kept"

    ceilings: tuple[Ceiling, ...]


def ceilings_path() -> Path:
    """Return the path of the file of ceilings."""
    return reports.folder() / "ceilings.json"


def ceilings() -> tuple[Ceiling, ...]:
    """Return the stored ceilings; none if there is no file.

    Raises:
        ValueError: the file is invalid; the text names the error.
        OSError: it cannot be read.
    """
    try:
        content = ceilings_path().read_bytes()
    except FileNotFoundError:
        return ()
    try:
        stored = wire.decode(content, (StoredCeilings,))
    except wire.WireError as error:
        raise ValueError(
            f"{ceilings_path()}: {error}; it is replaced when a ceiling is measured"
        ) from error
    return stored.ceilings


def store_ceiling(ceiling: Ceiling) -> None:
    """Store a ceiling beside the others, including those of other programs.

    A ceiling measured while other processes used the CPU is not stored: it can be far too low, and
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
    stored = StoredCeilings(newest((*earlier, ceiling))[-MOST_CEILINGS:])
    # Atomically, because two programs may write at the same time.
    reports.write_private(ceilings_path(), wire.encode(stored))
