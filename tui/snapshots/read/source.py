"""The bytes of a file, a pipe or standard input: identified, unpacked, counted and limited."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from tui.core.text import numbers as fmt
from tui.snapshots import STANDARD_INPUT
from tui.snapshots.model.snapshot import SnapshotError
from tui.snapshots.read import limits, naming

if TYPE_CHECKING:
    from typing_extensions import Buffer

ReportProgress = Callable[[int, int, str], None]
"""Called with the completed amount, the total (0 if unknown) and the phase: bytes on disk for
``reading``, entries for ``indexing``. May raise to cancel."""

PIECE = 1 << 20
"""Bytes per read, and therefore the interval of progress reports and cancellation."""

_HEAD = 512
_COMMON_PACKING, _MOST_PACKING = 16, 100
_MOST_AT_ONCE = 1 << 26


class _CountingReader(io.RawIOBase):
    """A stream that starts with already examined bytes, counts its bytes and limits them."""

    def __init__(
        self,
        stream: BinaryIO,
        head: bytes,
        on_progress: Callable[[int], None] | None,
        most: int | None,
    ) -> None:
        super().__init__()
        self.count = 0
        self._stream = stream
        self._head = head
        self._on_progress = on_progress
        self._most = most

    def readable(self) -> bool:
        return True

    def readinto(self, target: Buffer, /) -> int:
        view = memoryview(target).cast("B")
        piece = self._head[: len(view)]
        if piece:
            self._head = self._head[len(piece) :]
        else:
            piece = self._stream.read(len(view)) or b""
        view[: len(piece)] = piece
        self.count += len(piece)
        if self._most is not None and self.count > self._most:
            raise SnapshotError(
                f"unpacks to more than {fmt.size(self._most)}, far more than a snapshot packed so "
                "small can hold: damaged or hostile"
            )
        if self._on_progress is not None:
            self._on_progress(self.count)
        return len(piece)


class Bytes(io.BufferedReader):
    """Reads no more at once than available: a file may claim an item of any length."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and 0 <= size <= _MOST_AT_ONCE:
            return super().read(size)
        pieces, left = [], -1 if size is None else size
        while left:
            piece = super().read(PIECE if left < 0 else min(PIECE, left))
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece) if left > 0 else 0
        return b"".join(pieces)


class Source:
    """An open file whose first bytes have been examined."""

    def __init__(
        self,
        where: str | os.PathLike[str] | IO[bytes],
        *,
        progress: ReportProgress | None = None,
    ) -> None:
        """Open a file and identify its format.

        Args:
            where: a path, ``-`` for standard input, or an open binary stream (not closed).
            progress: called for every piece that is read.

        Raises:
            SnapshotError: there is no data, or the format is known to be different.
        """
        self._stream, self.name, self._ours = _open(where)
        self._progress = progress
        self.watch: Callable[[int], None] | None = None
        """Called with the number of unpacked bytes read; may raise to cancel."""
        self.size = _size(self._stream)
        """Size in bytes; 0 if unknown before the end."""
        try:
            self._recognise()
        except BaseException:
            self.close()
            raise

    def _recognise(self) -> None:
        head = _read_exactly(self._stream, _HEAD)
        if not head:
            raise SnapshotError("is empty")
        self.packed = head.startswith(b"\x1f\x8b")
        self.expected = self._estimate_unpacked()
        """Expected unpacked size in bytes; 0 if it cannot be estimated before reading."""
        self._raw = _CountingReader(self._stream, head, self._report_raw, None)
        if self.packed:
            unpacked = gzip.GzipFile(fileobj=io.BufferedReader(self._raw, PIECE), mode="rb")
            head = _read_exactly(cast(BinaryIO, unpacked), _HEAD)
            most = limits.most_unpacked(self.size) if self.size else None
            self._whole = _CountingReader(cast(BinaryIO, unpacked), head, self._open_counted, most)
        else:
            self._whole = self._raw
        self.head = head
        """The first unpacked bytes."""
        _refuse_other_formats(head, self.packed)
        self.bytes = Bytes(self._whole, PIECE)
        """The unpacked byte stream."""

    def _estimate_unpacked(self) -> int:
        if not self.packed or not self.size:
            return self.size
        # The last four bytes of a gzip state its unpacked size modulo 4 GiB, and only that of its
        # last member; in a truncated file they are other data. If they state less than the packed
        # size or more than snapshots compress to, use the usual ratio.
        try:
            position = self._stream.tell()
            self._stream.seek(-4, os.SEEK_END)
            stated = int.from_bytes(self._stream.read(4), "little")
            self._stream.seek(position)
        except OSError:
            stated = 0
        likely = self.size < stated <= self.size * _MOST_PACKING
        return stated if likely else self.size * _COMMON_PACKING

    def _report_raw(self, count: int) -> None:
        if self._progress is not None:
            self._progress(count, max(self.size, 0), "reading")
        if not self.packed:
            self._open_counted(count)

    def _open_counted(self, count: int) -> None:
        if self.watch is not None:
            self.watch(count)

    @property
    def read(self) -> int:
        """Bytes read from the disk."""
        return self._raw.count

    @property
    def unpacked(self) -> int:
        """Unpacked bytes read."""
        return self._whole.count

    def close(self) -> None:
        """Close the stream if this object opened it."""
        if self._ours:
            self._stream.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()


def _open(where: str | os.PathLike[str] | IO[bytes]) -> tuple[BinaryIO, str, bool]:
    if not isinstance(where, (str, os.PathLike)):
        return cast(BinaryIO, where), naming.format_value(getattr(where, "name", "-")), False
    if where == STANDARD_INPUT:
        return sys.stdin.buffer, STANDARD_INPUT, False
    path = Path(where)
    name = naming.clean(str(path))
    try:
        # A pipe without a writer would block forever; a device never ends.
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise SnapshotError("is a directory: name a snapshot file in it")
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise SnapshotError("is neither a file nor a pipe")
        return path.open("rb"), name, True
    except FileNotFoundError as error:
        raise SnapshotError("does not exist") from error
    except PermissionError as error:
        raise SnapshotError("may not be read by this user") from error
    except (OSError, ValueError) as error:
        raise SnapshotError(f"cannot be opened: {format_error(error)}") from error


def _size(stream: BinaryIO) -> int:
    try:
        status = os.fstat(stream.fileno())
    except (OSError, AttributeError):
        status = None
    if status is not None:
        return status.st_size if stat.S_ISREG(status.st_mode) else 0
    try:
        position = stream.tell()
        end = stream.seek(0, os.SEEK_END)
        stream.seek(position)
    except (OSError, AttributeError):
        return 0
    return end - position


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    """Read the next bytes, fewer only at the end, as a single read of a pipe may be short."""
    pieces = b""
    while len(pieces) < size:
        piece = stream.read(size - len(pieces))
        if not piece:
            break
        pieces += piece
    return pieces


_ELSE: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "is a zip archive, as torch.save writes it: weights, not a snapshot"),
    (b"SQLite format 3\0", "is an SQLite database, which this program does not read"),
    (b"version https://git-lfs", "is a git-lfs pointer: fetch the file itself with git lfs pull"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: unpack it first"),
    (b"\xfd7zXZ\0", "is compressed with xz: unpack it first"),
    (b"BZh", "is compressed with bzip2: unpack it first"),
    (b"\x1f\x8b", "is compressed with gzip twice: unpack it once"),
    (b"\x93NUMPY", "is a NumPy array, not a snapshot"),
    (b"\x7fELF", "is a program, not a snapshot"),
)


def _refuse_other_formats(head: bytes, packed: bool) -> None:
    for magic, line in _ELSE:
        if head.startswith(magic):
            raise SnapshotError(f"inside the gzip there is what {line}" if packed else line)
    if not head:
        raise SnapshotError("is a gzip of nothing")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise SnapshotError("is an HTML or XML page: download the file itself")


def format_error(error: BaseException) -> str:
    """Return an error's own message as one short line."""
    if isinstance(error, OSError) and error.strerror:
        return naming.clean(error.strerror)
    return naming.clean(str(error))[:160] or type(error).__name__
