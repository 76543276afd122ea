"""The ceilings that runners have measured, kept for later ones in the platform's state folder."""

from __future__ import annotations

from pathlib import Path

from tui import reports
from workloads.limits.ceilings import newest
from workloads.protocol import wire
from workloads.protocol.frozen import frozen
from workloads.protocol.results import Ceiling

KEPT = 64
"""The newest so many: of older machines, drivers and versions of torch none is needed again."""


@frozen
class Kept:
    """What the file holds."""

    ceilings: tuple[Ceiling, ...]


def path() -> Path:
    """The file that ceilings are kept in."""
    return reports.folder() / "ceilings.json"


def load() -> tuple[Ceiling, ...]:
    """The ceilings that are kept; none where there is no file.

    Raises:
        ValueError: the file is not what was written; the text says what is wrong with it.
        OSError: it cannot be read.
    """
    try:
        content = path().read_bytes()
    except FileNotFoundError:
        return ()
    try:
        kept = wire.decode(content, (Kept,))
    except wire.WireError as error:
        raise ValueError(f"{path()}: {error}; it is replaced when a ceiling is measured") from error
    assert isinstance(kept, Kept)
    return kept.ceilings


def keep(ceiling: Ceiling) -> None:
    """Add a ceiling to those that are kept; what another program kept meanwhile stays.

    One that was measured while others kept the CPU busy is left out: it can be far too low, and
    the next runner measures its own.

    Raises:
        OSError: the file cannot be written.
    """
    if ceiling.disturbed:
        return
    try:
        earlier = load()
    except ValueError:
        earlier = ()
    kept = Kept(newest((*earlier, ceiling))[-KEPT:])
    # Whole or not at all, also where two write at once.
    reports.write_private(path(), wire.encode(kept))
