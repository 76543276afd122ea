"""Read a snapshot file, of whatever kind and torch version; the one way in.

A file is data: nothing in it runs, and whatever is wrong with it is one line of
:class:`SnapshotError`. A hostile file can still take memory and time, or overrun the C stack of
the unpickler: read files of unknown origin in a process of their own, held by
:func:`tui.snapshots.read.memory_limit.restrict`, and take its death for a damaged or hostile file.
"""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from tui.snapshots.model import text
from tui.snapshots.model.snapshot import Snapshot, SnapshotError
from tui.snapshots.read import jsonfile, memory_limit, unpickle
from tui.snapshots.read.filters import EVERYTHING, Keep
from tui.snapshots.read.guard import Guard
from tui.snapshots.read.memory_limit import Estimate
from tui.snapshots.read.normalise import normalise
from tui.snapshots.read.source import Progress, Source, reason

Where: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
"""A path, ``-`` for standard input, or an open binary stream."""

_ITEMS_BASE, _SMALLEST_ITEM = 1000, 16
"""An entry, a block or an annotation of its own takes more bytes of a file than these; only a file
that names one again and again has more of them."""


class _GivenUp(BaseException):
    """Carries what ``progress`` raised past everything that handles a damaged file."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def load(
    where: Where,
    *,
    progress: Progress | None = None,
    keep: Keep | None = None,
    available: int | None = None,
    memory: int | None = None,
    spent: list[object] | None = None,
) -> Snapshot:
    """Read a file.

    Args:
        where: a path, ``-`` for standard input, or an open binary stream, which stays open.
        progress: told what is done, the whole and the phase, ``reading`` (bytes on the disk) or
            ``indexing`` (entries), some 200 times for a file of 200 MB; what it raises ends the
            reading and comes out of here.
        keep: what to keep of the file; ``None`` keeps everything.
        available: bytes that the machine has left, of which reading may be expected to take a
            quarter; ``None`` asks the machine.
        memory: bytes that reading may be expected to take in place of the quarter.
        spent: takes the file's own objects for the trace in pieces, for those who want the answer
            first and free them afterwards: that takes a tenth of the time.

    Raises:
        SnapshotError: the file cannot be read; one line that names it.
    """
    told = None if progress is None else _carried(progress)
    available = memory_limit.available() if available is None else available
    try:
        with collector_off():
            return _load(where, told, keep or EVERYTHING, available, memory, spent)
    except _GivenUp as stopped:
        raise stopped.error from None
    except SnapshotError as error:
        raise SnapshotError(f"{_name(where)}: {error}") from error
    except MemoryError:
        # Without the cause: its frames hold all that was read so far.
        remedy = memory_limit.Estimate(0, 0, None, None, available, memory).remedy
        raise SnapshotError(
            f"{_name(where)}: needs more memory than is allowed: damaged or hostile, or large: "
            f"{remedy}"
        ) from None


def estimate(where: Where, memory: int | None = None) -> Estimate:
    """What reading a file would take, from its size and first bytes.

    Args:
        where: as of :func:`load`.
        memory: as of :func:`load`.

    Raises:
        SnapshotError: there is nothing to be read, or it is known to be something else.
    """
    try:
        if _is_pipe(where):
            # Looking at its first bytes would take them from whoever reads it.
            available = memory_limit.available()
            return memory_limit.estimated(0, 0, json=False, available=available, memory=memory)
        with _failures(), Source(where, most_unpacked=memory_limit.most_unpacked) as source:
            return _estimate(source, memory_limit.available(), memory)
    except SnapshotError as error:
        raise SnapshotError(f"{_name(where)}: {error}") from error


def _is_pipe(where: Where) -> bool:
    if where == "-":
        return True
    return isinstance(where, (str, os.PathLike)) and Path(where).is_fifo()


def _estimate(source: Source, available: int | None, memory: int | None) -> Estimate:
    json = jsonfile.looks_like(source.head)
    return memory_limit.estimated(
        source.size, source.expected, json=json, available=available, memory=memory
    )


def _load(
    where: Where,
    progress: Progress | None,
    keep: Keep,
    available: int | None,
    memory: int | None,
    spent: list[object] | None,
) -> Snapshot:
    with (
        _failures(),
        Source(where, progress=progress, most_unpacked=memory_limit.most_unpacked) as source,
    ):
        needed = _estimate(source, available, memory)
        if not needed.enough:
            raise SnapshotError(
                f"{needed}; range and size filters do not lower this, since a file is unpacked "
                f'whole: {needed.remedy}, or record less (max_entries=, stacks="python")'
            )
        raw, container, notes = _objects(source, progress)
        name, byte, unpacked = source.name, source.size or source.read, source.unpacked

    def tick(done: int, total: int) -> None:
        if progress is not None:
            progress(done, total, "indexing")

    return normalise(
        raw,
        file=name,
        container=container,
        byte=byte,
        keep=keep,
        consume=True,
        spent=spent,
        most_items=_ITEMS_BASE + unpacked // _SMALLEST_ITEM,
        notes=notes,
        tick=tick,
    )


def _objects(source: Source, progress: Progress | None) -> tuple[object, str, tuple[str, ...]]:
    def tick() -> None:
        if progress is not None:
            progress(source.read, source.size or source.read, "reading")

    packed = ", gzip" if source.packed else ""
    if jsonfile.looks_like(source.head):
        return jsonfile.load(source.bytes, tick), f"JSON{packed}", ()
    if not unpickle.looks_like(source.head):
        shown = text.clean(source.head[:16].decode("ascii", "replace"))
        raise SnapshotError(f"begins with {shown!r}: neither a pickle nor JSON")
    source.watch = Guard()
    raw = unpickle.load(source.bytes)
    source.watch = None
    notes = ("bytes after the end of the pickle were not read",) if source.bytes.read(1) else ()
    return raw, f"{unpickle.protocol(source.head)}{packed}", notes


@contextmanager
def _failures() -> Iterator[None]:
    """Turn what goes wrong with the bytes themselves into the line for it."""
    try:
        yield
    except EOFError as error:
        raise SnapshotError(unpickle.TRUNCATED) from error
    except zlib.error as error:
        raise SnapshotError(f"is a damaged gzip: {reason(error)}") from error
    except OSError as error:
        raise SnapshotError(f"cannot be read: {reason(error)}") from error


@contextmanager
def collector_off() -> Iterator[None]:
    """Collect no garbage within the block."""
    # Millions of new objects and no garbage among them: each pass of the collector over them
    # would be in vain, and together they take longer than the reading.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _carried(progress: Progress) -> Progress:
    def told(done: int, whole: int, phase: str) -> None:
        try:
            progress(done, whole, phase)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is only carried
            raise _GivenUp(error) from None

    return told


def _name(where: Where) -> str:
    if isinstance(where, (str, os.PathLike)):
        return "standard input" if where == "-" else text.clean(os.fspath(where))
    return text.of(getattr(where, "name", "the stream"))
