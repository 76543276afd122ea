"""Reads a recording line by line, compressed or not, and says what is wrong with it.

A file whose last line breaks off is what a crash leaves: it is played up to there. Anything else
that is not as it was written is refused as a whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from tui.recordings import lines
from tui.recordings.lines import RecordedLine, Recording, RecordingError
from tui.recordings.recorder import GZIP
from workloads.protocol.frozen import frozen

CHUNK = 2**16
LONGEST_LINE = 2**24
"""Bytes; a child's line has at most a quarter of it."""
_GZIP_MAGIC = b"\x1f\x8b"


@frozen
class RecordingSummary:
    """A recording that can be played."""

    path: Path
    recording: Recording
    seconds: float
    """From its beginning to its last line."""
    events: int
    cut: bool
    """It breaks off in the middle of a line, or of its compressed data."""


def look_through(path: Path) -> RecordingSummary:
    """Read a recording once, all but the messages in it.

    Raises:
        RecordingError: it cannot be read, is no recording, is of another format, or is damaged.
    """
    reader = _Reader(path)
    first = next(reader, None)
    if first is None and reader.cut:
        raise RecordingError(f"{path} breaks off in its first line; there is nothing to play")
    recording = lines.header(first or b"", str(path))
    at, events = 0.0, 0
    for number, line in enumerate(reader, 2):
        try:
            found = lines.entry(line)
        except ValueError as error:
            raise RecordingError(f"{path} is damaged: line {number}: {error}") from error
        if found.at < at:
            raise RecordingError(f"{path} is damaged: line {number} is older than the one before")
        at = found.at
        events += found.speaker is not None
    return RecordingSummary(path, recording, at, events, reader.cut)


def events(path: Path) -> Iterator[RecordedLine]:
    """What was said, in order, of a recording that was looked through before.

    Raises:
        RecordingError: it is not what it was then.
    """
    reader = _Reader(path)
    next(reader, None)
    for number, line in enumerate(reader, 2):
        try:
            found = lines.entry(line)
        except ValueError as error:
            raise RecordingError(f"{path} is damaged: line {number}: {error}") from error
        if found.speaker is not None:
            yield found


class _Reader:
    """The whole lines of a file; afterwards ``cut`` says whether it breaks off."""

    def __init__(self, path: Path) -> None:
        self.cut = False
        self._path = path
        self._lines = self._read()

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def __next__(self) -> bytes:
        return next(self._lines)

    def _read(self) -> Iterator[bytes]:
        rest = b""
        for chunk in self._chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
            if len(rest) > LONGEST_LINE:
                raise RecordingError(
                    f"{self._path} is no recording: it has a line of more than {LONGEST_LINE} bytes"
                )
        self.cut = self.cut or bool(rest)

    def _chunks(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as file:
                chunk = file.read(CHUNK)
                if not chunk.startswith(_GZIP_MAGIC):
                    while chunk:
                        yield chunk
                        chunk = file.read(CHUNK)
                    return
                unpack = zlib.decompressobj(wbits=GZIP)
                while chunk and not unpack.eof:
                    # Piece by piece: a small file may unpack to more than there is memory.
                    yield unpack.decompress(chunk, CHUNK)
                    chunk = unpack.unconsumed_tail or file.read(CHUNK)
                yield unpack.flush()
                self.cut = not unpack.eof
                if unpack.unused_data or (chunk and file.read(1)):
                    raise RecordingError(f"{self._path} is damaged: something follows its end")
        except OSError as error:
            raise RecordingError(f"{self._path}: {error.strerror or error}") from error
        except zlib.error as error:
            raise RecordingError(
                f"{self._path} is damaged: it cannot be unpacked: {error}"
            ) from error
