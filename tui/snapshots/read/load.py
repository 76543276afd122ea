"""Read a snapshot file, a pickle or JSON, of whatever torch version; the one way in.

A file is data: nothing in it runs, and whatever is wrong with it is one line of
:class:`SnapshotError`.

The C unpickler does the work, and every door of it to code is shut: a global (``GLOBAL``,
``STACK_GLOBAL``, ``INST``, extension codes) and a persistent id end in :class:`SnapshotError`.
Without a global nothing that can be called ever stands on its stack, so ``REDUCE``, ``OBJ``,
``NEWOBJ`` and ``BUILD`` find plain data and fail. No file that torch writes has any of these.

A hostile file can still take memory and time: an item or a memo index that claims gigabytes, or a
tuple nested a hundred thousand deep, used as a key, which overruns the C stack. So read files of
unknown origin in a process of their own, held by
:func:`tui.snapshots.read.memory_limit.restrict`, and take its death for a damaged or hostile file.
"""

from __future__ import annotations

import copyreg
import gc
import json
import os
import pickle
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias

from tui.core.text import numbers as fmt
from tui.snapshots.model.snapshot import Snapshot, SnapshotError
from tui.snapshots.read import memory_limit, naming
from tui.snapshots.read.memory_limit import Estimate, Guard
from tui.snapshots.read.normalise import EVERYTHING, TraceFilter, normalise
from tui.snapshots.read.source import Bytes, Progress, Source, format_error

ERRORS = (
    pickle.UnpicklingError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    ImportError,
    LookupError,
    RecursionError,
    SystemError,
    TypeError,
    ValueError,
)
"""What the C unpickler raises over a damaged file, besides running out of bytes or of memory."""
TRUNCATED = "ends too early: cut off while it was written or copied; take or copy it again"
"""The line for a file without its end."""
_TORCH_SAVE = 0x1950A86A20F9469CFC6C
_LONGEST_NAME = 80


class _Data(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> NoReturn:
        names = (naming.format_value(part)[:_LONGEST_NAME] for part in (module, name))
        asked = ".".join(names)
        raise SnapshotError(
            f"asks for {asked}, which would run code: refused; a snapshot holds data only"
        )

    def persistent_load(self, pid: Any, /) -> NoReturn:
        asked = (
            naming.clean(pid)[:_LONGEST_NAME] if isinstance(pid, str) else naming.describe_type(pid)
        )
        raise SnapshotError(
            f"asks for a persistent object, {asked}: refused; a snapshot holds data only"
        )


def is_pickle(head: bytes) -> bool:
    """Return whether a file begins as a pickle: protocol 2 or later, or a list or dict."""
    return head[:1] in (b"\x80", b"(", b"}", b"]")


def protocol(head: bytes) -> str:
    """Return the protocol that a pickle states, such as ``pickle protocol 4``."""
    stated = head[:1] == b"\x80" and len(head) > 1
    return f"pickle protocol {head[1] if stated else '0 or 1'}"


def from_pickle(data: Bytes) -> object:
    """Read one pickle.

    Raises:
        SnapshotError: damaged, truncated, or it asked for something that is not data.
        MemoryError: as it says.
        OSError: the bytes cannot be read.
    """
    # A class that something else once unpickled by an extension code is handed out from there
    # without asking. It is a cache: emptied, it fills again.
    copyreg.clear_extension_cache()
    try:
        found = _Data(data).load()
    except EOFError as error:
        raise SnapshotError(TRUNCATED) from error
    except ERRORS as error:
        why = format_error(error)
        if "truncated" in why:
            raise SnapshotError(TRUNCATED) from error
        raise SnapshotError(f"is damaged, or holds more than data: {why}") from error
    if found == _TORCH_SAVE and isinstance(found, int):
        raise SnapshotError("is a file of an old torch.save: weights, not a snapshot")
    return found


_SPACE = b"\xef\xbb\xbf \t\r\n"
_TICK = 1 << 16
_TAIL = 16
_CONTAINERS_BASE, _LEAST_TEXT = 100_000, 8
"""Of a snapshot a list or an object has some 50 characters; fewer than these no text has."""


def is_json(head: bytes) -> bool:
    """Return whether a file begins as a JSON list or object."""
    return head.lstrip(_SPACE)[:1] in (b"{", b"[")


def _count_values(decoded: str) -> None:
    """Refuse what holds more lists and objects than a snapshot, before they are made.

    Each takes 56 bytes and more, and one byte or two of the text.
    """
    found = decoded.count("[") + decoded.count("{")
    if found > _CONTAINERS_BASE + len(decoded) // _LEAST_TEXT:
        raise SnapshotError(
            f"holds {fmt.grouped(found)} lists and objects in {fmt.size(len(decoded))}, far more"
            " than a snapshot: damaged or hostile"
        )


class _Frames:
    """Makes equal frames one object while parsing: JSON repeats them for every entry."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._known: dict[tuple[Any, Any, Any], dict[str, Any]] = {}
        self._tick = tick
        self._count = 0

    def __call__(self, made: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        if self._count % _TICK == 0:
            self._tick()
        if len(made) != 3 or "filename" not in made:
            return made
        value = (made["filename"], made.get("line"), made.get("name"))
        if isinstance(value[0], (list, dict)) or isinstance(value[1], (list, dict)):
            return made
        if isinstance(value[2], (list, dict)):
            return made
        return self._known.setdefault(value, made)


def from_json(data: Bytes, tick: Callable[[], None]) -> object:
    """Read one JSON text, in UTF-8.

    Args:
        data: the file.
        tick: called now and then while parsing; may raise to give up.

    Raises:
        SnapshotError: it is not JSON, or not all of it.
        MemoryError: as it says.
        OSError: the bytes cannot be read.
    """
    whole = data.read()
    try:
        decoded = whole.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise SnapshotError(f"begins as JSON, but is not UTF-8 at byte {error.start}") from error
    del whole
    _count_values(decoded)
    hook = _Frames(tick)
    try:
        return json.loads(decoded, object_hook=hook)
    except json.JSONDecodeError as error:
        if len(decoded.rstrip()) - error.pos < _TAIL or "Unterminated" in error.msg:
            raise SnapshotError(TRUNCATED) from error
        raise SnapshotError(
            f"begins as JSON, but is not from line {error.lineno}, column {error.colno} on: "
            f"{format_error(error)}"
        ) from error
    except RecursionError as error:
        raise SnapshotError("is JSON nested too deeply for a snapshot: damaged") from error
    except ValueError as error:
        # The one thing that is valid JSON and that Python refuses.
        raise SnapshotError("is JSON with a number of thousands of digits: damaged") from error


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
    trace_filter: TraceFilter | None = None,
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
        trace_filter: what to keep of the file; ``None`` keeps everything.
        available: bytes that the machine has left, of which reading may be expected to take a
            quarter; ``None`` asks the machine.
        memory: bytes that reading may be expected to take in place of the quarter.
        spent: takes the file's own objects for the trace in pieces, for those who want the answer
            first and free them afterwards: that takes a tenth of the time.

    Raises:
        SnapshotError: the file cannot be read; one line that names it.
    """
    told = None if progress is None else _carry_errors(progress)
    available = memory_limit.available() if available is None else available
    try:
        with collector_off():
            return _load(where, told, trace_filter or EVERYTHING, available, memory, spent)
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
    """Estimate what reading a file would take from its size and first bytes.

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
            return memory_limit.estimate_memory(
                0, 0, json=False, available=available, memory=memory
            )
        with _translate_errors(), Source(where, most_unpacked=memory_limit.most_unpacked) as source:
            return _estimate(source, memory_limit.available(), memory)
    except SnapshotError as error:
        raise SnapshotError(f"{_name(where)}: {error}") from error


def _is_pipe(where: Where) -> bool:
    if where == "-":
        return True
    return isinstance(where, (str, os.PathLike)) and Path(where).is_fifo()


def _estimate(source: Source, available: int | None, memory: int | None) -> Estimate:
    json = is_json(source.head)
    return memory_limit.estimate_memory(
        source.size, source.expected, json=json, available=available, memory=memory
    )


def _load(
    where: Where,
    progress: Progress | None,
    trace_filter: TraceFilter,
    available: int | None,
    memory: int | None,
    spent: list[object] | None,
) -> Snapshot:
    with (
        _translate_errors(),
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
        trace_filter=trace_filter,
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
    if is_json(source.head):
        return from_json(source.bytes, tick), f"JSON{packed}", ()
    if not is_pickle(source.head):
        shown = naming.clean(source.head[:16].decode("ascii", "replace"))
        raise SnapshotError(f"begins with {shown!r}: neither a pickle nor JSON")
    source.watch = Guard()
    raw = from_pickle(source.bytes)
    source.watch = None
    notes = ("bytes after the end of the pickle were not read",) if source.bytes.read(1) else ()
    return raw, f"{protocol(source.head)}{packed}", notes


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn what goes wrong with the bytes themselves into the line for it."""
    try:
        yield
    except EOFError as error:
        raise SnapshotError(TRUNCATED) from error
    except zlib.error as error:
        raise SnapshotError(f"is a damaged gzip: {format_error(error)}") from error
    except OSError as error:
        raise SnapshotError(f"cannot be read: {format_error(error)}") from error


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


def _carry_errors(progress: Progress) -> Progress:
    def report(done: int, whole: int, phase: str) -> None:
        try:
            progress(done, whole, phase)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is only carried
            raise _GivenUp(error) from None

    return report


def _name(where: Where) -> str:
    if isinstance(where, (str, os.PathLike)):
        return "standard input" if where == "-" else naming.clean(os.fspath(where))
    return naming.format_value(getattr(where, "name", "the stream"))
