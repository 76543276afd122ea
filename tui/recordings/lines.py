"""The lines of a recording: a header, then what each child said and was asked; read from a file.

A recording is text, one JSON object a line. The first is a :class:`Recording`; every other one is

``{"t": seconds, "from": "monitor" | "runner" | "watch" | "workbench", "message": {…}}``

or, with ``"to"`` in place of ``"from"``, a request that a child was sent. The seconds are counted
from the first line. A message is what travels between the processes (see
``workloads.protocol.wire``); those of the workbench are the events of its features.

A file whose last line breaks off is what a crash leaves: it is played up to there. Anything else
that is not as it was written is refused as a whole.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args

from tui.core.events import CoreEvent
from tui.devices.allocators.messages import WATCH_EVENTS, WatchEvent
from tui.devices.monitor.messages import MONITOR_EVENTS, MonitorEvent
from tui.devices.state.machine import DeviceEvent
from tui.runs.state.events import RunEvent
from workloads.protocol import messages, wire

VERSION = 2
"""Raised when a line changes in a way that an older program would misread."""
OLDER = (1,)
"""Versions that can be played too: in 1 nothing was said by the watch."""
_INTEGERS = 1 << 64
_MOST_DIGITS = 20
_MANY_DIGITS = re.compile(rb"\d{19}")
LONGEST_S = 10 * 365 * 86400.0

LocalEvent = Union[CoreEvent, DeviceEvent, RunEvent]
AnyEvent = Union[LocalEvent, messages.Event, MonitorEvent, WatchEvent]
Speaker = Literal["monitor", "runner", "watch", "workbench"]
Child = Literal["monitor", "runner", "watch"]

_SPEAKERS: dict[type, Speaker] = {
    **dict.fromkeys(get_args(LocalEvent), "workbench"),
    **dict.fromkeys(messages.EVENTS, "runner"),
    **dict.fromkeys(MONITOR_EVENTS, "monitor"),
    **dict.fromkeys(WATCH_EVENTS, "watch"),
}
_KINDS: dict[str, tuple[type, ...]] = {
    speaker: tuple(kind for kind, its in _SPEAKERS.items() if its == speaker)
    for speaker in get_args(Speaker)
}


class RecordingError(ValueError):
    """A file that cannot be played: one line that says what, why and what to do."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The first line of a recording."""

    version: int
    program: str
    """Version of gpu-workbench that wrote it."""
    at: float
    """Unix time at which it begins."""
    date: str
    """The same for people: UTC, ISO 8601."""
    redacted: bool = False
    title: str = ""
    """What it is, where that must be said."""
    simulated: bool = False
    """Its GPUs were simulated: the screens say so as long as it plays."""


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """One line after the first, checked as far as its frame."""

    at: float
    """Seconds since the recording began."""
    speaker: Speaker | None
    """Who said it; ``None`` for a request."""
    message: dict[str, Any]


def event_line(at: float, event: AnyEvent) -> bytes:
    """Encode an event as one line.

    Args:
        at: seconds since the recording began.
        event: by its type it is the monitor's, the runner's or our own; what we say in the
            runner's place, such as the end of a run that died with it, counts as the runner's.
    """
    return _line(at, "from", _SPEAKERS[type(event)], event)


def request_line(at: float, child: Child, request: object) -> bytes:
    """Encode a request to a child as one line; ``at`` as in :func:`event_line`."""
    return _line(at, "to", child, request)


def _line(at: float, way: str, who: str, message: object) -> bytes:
    body = wire.encode(message).rstrip(b"\n")
    return b'{"t":%.6f,"%s":"%s","message":%s}\n' % (at, way.encode(), who.encode(), body)


def header(line: bytes, name: str) -> Recording:
    """Read the first line.

    Args:
        line: as it stands in the file.
        name: of the file, for what is said of it.

    Raises:
        RecordingError: it is not the first line of a recording that this program can play.
    """
    try:
        found = wire.decode(line, (Recording,))
    except wire.WireError as error:
        raise RecordingError(
            f"{name} is no recording: its first line is not that of one; make one with"
            " gpu-workbench --record FILE"
        ) from error
    if found.version not in (VERSION, *OLDER):
        raise RecordingError(
            f"{name} is a recording of format {found.version}, this program plays {VERSION}:"
            f" play it with gpu-workbench {found.program}"
        )
    if not 0 <= found.at < LONGEST_S * 1000:
        raise RecordingError(f"{name} is damaged: it begins at {found.at}, which is no Unix time")
    return found


def _whole(digits: str) -> int:
    """Return an integer of a line.

    Raises:
        ValueError: no message of a child holds one so large.
    """
    value = int(digits) if len(digits) <= _MOST_DIGITS else _INTEGERS
    if not -_INTEGERS < value < _INTEGERS:
        raise ValueError(f"it holds an integer of {len(digits.lstrip('-'))} digits")
    return value


def entry(line: bytes) -> RecordedLine:
    """Read another line, all but its message.

    Raises:
        ValueError: the frame is not that of a line of a recording, or it holds an integer of more
            than 64 bits; the text says why.
    """
    # Python's own reading of integers is faster, so the other one is kept for lines that need it.
    parse_int = _whole if _MANY_DIGITS.search(line) else None
    try:
        data = json.loads(line, parse_int=parse_int)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a JSON line: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("message"), dict):
        raise ValueError("it holds no message")
    at = data.get("t")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not 0 <= at <= LONGEST_S:
        raise ValueError(f"its time is {at!r}")
    if "to" in data:
        return RecordedLine(float(at), None, data["message"])
    if str(data.get("from")) not in _KINDS:
        raise ValueError(f"it is from {data.get('from')!r}, whom nobody knows")
    return RecordedLine(float(at), cast(Speaker, data["from"]), data["message"])


def event_of(found: RecordedLine) -> AnyEvent:
    """Return the event of a line that is no request.

    Raises:
        WireError: an event that this program does not know, or not in this form.
    """
    assert found.speaker is not None
    return cast(AnyEvent, wire.from_object(found.message, _KINDS[found.speaker]))


def time_text(seconds: float) -> str:
    """``0:07``, ``12:34`` or ``1:02:03``."""
    whole = math.floor(max(0.0, seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


GZIP = 16 + zlib.MAX_WBITS
"""What zlib calls the format of .gz files."""

CHUNK = 2**16
LONGEST_LINE = 2**24
"""Bytes; a child's line has at most a quarter of it."""
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class RecordingSummary:
    """A recording that can be played."""

    path: Path
    recording: Recording
    seconds: float
    """From its beginning to its last line."""
    events: int
    cut: bool
    """It breaks off in the middle of a line, or of its compressed data."""


def scan_recording(path: Path) -> RecordingSummary:
    """Read a recording once, all but the messages in it.

    Raises:
        RecordingError: it cannot be read, is no recording, is of another format, or is damaged.
    """
    reader = _Reader(path)
    first = next(reader, None)
    if first is None and reader.cut:
        raise RecordingError(f"{path} breaks off in its first line; there is nothing to play")
    recording = header(first or b"", str(path))
    at, events = 0.0, 0
    for number, line in enumerate(reader, 2):
        try:
            found = entry(line)
        except ValueError as error:
            raise RecordingError(f"{path} is damaged: line {number}: {error}") from error
        if found.at < at:
            raise RecordingError(f"{path} is damaged: line {number} is older than the one before")
        at = found.at
        events += found.speaker is not None
    return RecordingSummary(path, recording, at, events, reader.cut)


def events(path: Path) -> Iterator[RecordedLine]:
    """Yield the events of a recording, in order, after it was scanned.

    Raises:
        RecordingError: it is not what it was then.
    """
    reader = _Reader(path)
    next(reader, None)
    for number, line in enumerate(reader, 2):
        try:
            found = entry(line)
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
