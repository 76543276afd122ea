"""The only entry point for reading snapshot files: pickle or JSON, of any torch version.

A file is data: nothing in it is executed, and any problem becomes a one-line
:class:`SnapshotError`.

The C unpickler does the work, with all access to code blocked: a global (``GLOBAL``,
``STACK_GLOBAL``, ``INST``, extension codes) or a persistent id raises :class:`SnapshotError`.
Without a global, its stack never contains a callable, so ``REDUCE``, ``OBJ``, ``NEWOBJ`` and
``BUILD`` find plain data and fail. torch never writes any of these into a snapshot.

A hostile file can still use much memory and time: an item or a memo index that claims gigabytes, or
a key that is a tuple nested a hundred thousand deep, which overruns the C stack. Read files of
unknown origin in a separate process, limited by :func:`tui.snapshots.read.limits.restrict`,
and treat its death as a sign of a damaged or hostile file.
"""

from __future__ import annotations

import copyreg
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
from tui.snapshots.read import limits, naming
from tui.snapshots.read.limits import Estimate, Guard
from tui.snapshots.read.normalise import EVERYTHING, TraceFilter, normalise
from tui.snapshots.read.source import Bytes, ReportProgress, Source, format_error
from workloads.measure.collector import collector_off

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
"""Errors of the C unpickler on a damaged file, besides premature end and exhausted memory."""
TRUNCATED = "ends too early: cut off while it was written or copied; take or copy it again"
"""The message for a file without its end."""
_TORCH_SAVE = 0x1950A86A20F9469CFC6C
_LONGEST_NAME = 80


class _Data(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> NoReturn:
        names = (naming.format_value(part)[:_LONGEST_NAME] for part in (module, name))
        raise SnapshotError(
            f"asks for {'.'.join(names)}, which would run code: refused; a snapshot holds data only"
        )

    def persistent_load(self, pid: Any, /) -> NoReturn:
        name = (
            naming.clean(pid)[:_LONGEST_NAME] if isinstance(pid, str) else naming.describe_type(pid)
        )
        raise SnapshotError(
            f"asks for a persistent object, {name}: refused; a snapshot holds data only"
        )


def is_pickle(head: bytes) -> bool:
    """Return whether a file starts as a pickle: protocol 2 or later, or a list or dict."""
    return head[:1] in (b"\x80", b"(", b"}", b"]")


def protocol(head: bytes) -> str:
    """Return the protocol that a pickle declares, such as ``pickle protocol 4``."""
    stated = head[:1] == b"\x80" and len(head) > 1
    return f"pickle protocol {head[1] if stated else '0 or 1'}"


def from_pickle(data: Bytes) -> object:
    """Read one pickle.

    Raises:
        SnapshotError: the pickle is damaged or truncated, or contains more than data.
        MemoryError: memory is exhausted.
        OSError: the bytes cannot be read.
    """
    # The extension registry returns classes that other code has already unpickled without calling
    # find_class. It is only a cache: after clearing, it fills again.
    copyreg.clear_extension_cache()
    try:
        snapshot = _Data(data).load()
    except EOFError as error:
        raise SnapshotError(TRUNCATED) from error
    except ERRORS as error:
        why = format_error(error)
        if "truncated" in why:
            raise SnapshotError(TRUNCATED) from error
        raise SnapshotError(f"is damaged, or holds more than data: {why}") from error
    if snapshot == _TORCH_SAVE and isinstance(snapshot, int):
        raise SnapshotError("is a file of an old torch.save: weights, not a snapshot")
    return snapshot


_SPACE = b"\xef\xbb\xbf \t\r\n"
_TICK = 1 << 16
_TAIL = 16
_CONTAINERS_BASE, _LEAST_TEXT = 100_000, 8
"""Limit on lists and objects in a text: a base, plus one for each so many characters. A snapshot
has some 50 characters for each."""


def is_json(head: bytes) -> bool:
    """Return whether a file starts as a JSON list or object."""
    return head.lstrip(_SPACE)[:1] in (b"{", b"[")


def _count_values(decoded: str) -> None:
    """Reject a text with more lists and objects than a snapshot has, before creating them.

    Each takes at least 56 bytes of memory, but only one or two bytes of the text.
    """
    count = decoded.count("[") + decoded.count("{")
    if count > _CONTAINERS_BASE + len(decoded) // _LEAST_TEXT:
        raise SnapshotError(
            f"holds {fmt.grouped(count)} lists and objects in {fmt.size(len(decoded))}, far more"
            " than a snapshot: damaged or hostile"
        )


class _Frames:
    """Shares equal frames during parsing: JSON repeats them for every entry."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._known: dict[tuple[Any, Any, Any], dict[str, Any]] = {}
        self._tick = tick
        self._count = 0

    def __call__(self, frame: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        if self._count % _TICK == 0:
            self._tick()
        if len(frame) != 3 or "filename" not in frame:
            return frame
        value = (frame["filename"], frame.get("line"), frame.get("name"))
        if isinstance(value[0], (list, dict)) or isinstance(value[1], (list, dict)):
            return frame
        if isinstance(value[2], (list, dict)):
            return frame
        return self._known.setdefault(value, frame)


def from_json(data: Bytes, tick: Callable[[], None]) -> object:
    """Read one JSON text, in UTF-8.

    Args:
        data: the file.
        tick: called repeatedly during parsing; may raise to cancel.

    Raises:
        SnapshotError: the text is not JSON or is incomplete.
        MemoryError: memory is exhausted.
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
        # This is the only valid JSON that Python rejects.
        raise SnapshotError("is JSON with a number of thousands of digits: damaged") from error


Where: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
"""A path, ``-`` for standard input, or an open binary stream."""

_ITEMS_BASE, _SMALLEST_ITEM = 1000, 16
"""Limit on items in a file: a base, plus one for each so many bytes. A distinct entry, block or
annotation takes more bytes; only repeated references to one item exceed the limit."""


class _GivenUp(BaseException):
    """Carries an exception from ``progress`` past all handlers for damaged files."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def load(
    where: Where,
    *,
    progress: ReportProgress | None = None,
    trace_filter: TraceFilter | None = None,
    available: int | None = None,
    memory: int | None = None,
    spent: list[object] | None = None,
) -> Snapshot:
    """Read a snapshot file.

    Args:
        where: a path, ``-`` for standard input, or an open binary stream, which stays open.
        progress: called with the completed amount, the total and the phase, ``reading`` (bytes on
            disk) or ``indexing`` (entries), some 200 times for a file of 200 MB; an exception from
            it ends the reading and propagates to the caller.
        trace_filter: selects the data to keep; ``None`` keeps everything.
        available: bytes of free memory on the machine, of which reading may be expected to take a
            quarter; ``None`` queries the machine.
        memory: bytes that reading may be expected to take, instead of the quarter.
        spent: receives the file's own objects of the trace in pieces, for callers that want the
            result first and free the objects afterwards: freeing takes a tenth of the time.

    Raises:
        SnapshotError: the file cannot be read; one line that names it.
    """
    report = None if progress is None else _carry_errors(progress)
    available = limits.available() if available is None else available
    try:
        # Reading creates millions of objects and no garbage: the collector would find nothing in
        # any pass, and its passes would together take longer than the reading.
        with collector_off():
            return _load(where, report, trace_filter or EVERYTHING, available, memory, spent)
    except _GivenUp as stopped:
        raise stopped.error from None
    except SnapshotError as error:
        raise SnapshotError(f"{_format_name(where)}: {error}") from error
    except MemoryError:
        # Without the cause: its frames keep all data that was read.
        remedy = limits.Estimate(0, 0, None, None, available, memory).remedy
        raise SnapshotError(
            f"{_format_name(where)}: needs more memory than is allowed: damaged or hostile, or "
            f"large: {remedy}"
        ) from None


def estimate(where: Where, memory: int | None = None) -> Estimate:
    """Estimate the cost of reading a file from its size and first bytes.

    Args:
        where: as in :func:`load`.
        memory: as in :func:`load`.

    Raises:
        SnapshotError: there is no data, or the format is known to be different.
    """
    try:
        if _is_pipe(where):
            # Reading a pipe's first bytes would remove them for its reader.
            available = limits.available()
            return limits.estimate_memory(0, 0, json=False, available=available, memory=memory)
        with _translate_errors(), Source(where) as source:
            return _estimate(source, limits.available(), memory)
    except SnapshotError as error:
        raise SnapshotError(f"{_format_name(where)}: {error}") from error


def _is_pipe(where: Where) -> bool:
    if where == "-":
        return True
    return isinstance(where, (str, os.PathLike)) and Path(where).is_fifo()


def _estimate(source: Source, available: int | None, memory: int | None) -> Estimate:
    json = is_json(source.head)
    return limits.estimate_memory(
        source.size, source.expected, json=json, available=available, memory=memory
    )


def _load(
    where: Where,
    progress: ReportProgress | None,
    trace_filter: TraceFilter,
    available: int | None,
    memory: int | None,
    spent: list[object] | None,
) -> Snapshot:
    with _translate_errors(), Source(where, progress=progress) as source:
        needed = _estimate(source, available, memory)
        if not needed.enough:
            raise SnapshotError(
                f"{needed}; range and size filters do not lower this, since a file is unpacked "
                f'whole: {needed.remedy}, or record less (max_entries=, stacks="python")'
            )
        raw, container, notes = _read_objects(source, progress)
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


def _read_objects(
    source: Source, progress: ReportProgress | None
) -> tuple[object, str, tuple[str, ...]]:
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
    """Translate errors of the underlying bytes to the matching one-line message."""
    try:
        yield
    except EOFError as error:
        raise SnapshotError(TRUNCATED) from error
    except zlib.error as error:
        raise SnapshotError(f"is a damaged gzip: {format_error(error)}") from error
    except OSError as error:
        raise SnapshotError(f"cannot be read: {format_error(error)}") from error


def _carry_errors(progress: ReportProgress) -> ReportProgress:
    def report(done: int, whole: int, phase: str) -> None:
        try:
            progress(done, whole, phase)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is only carried
            raise _GivenUp(error) from None

    return report


def _format_name(where: Where) -> str:
    if isinstance(where, (str, os.PathLike)):
        return "standard input" if where == "-" else naming.clean(os.fspath(where))
    return naming.format_value(getattr(where, "name", "the stream"))
