"""The lines of a recording: a header, then the messages and requests of each child.

A recording is text, one JSON object a line. The first is a :class:`Recording`; every other one is

``{"t": seconds, "from": "monitor" | "runner" | "watch" | "workbench", "message": {…}}``

or, with ``"to"`` in place of ``"from"``, a request to a child. The seconds count from the first
line. Around an event of the runs on another host there is a message of the workbench:
``{"type": "host_run", "host": name, "event": {…}}``.

A message has the form used between the processes (see ``workloads.protocol.wire``); messages of the
workbench are the events of its features.

A crash leaves a file with an incomplete last line, which can be played up to that line. Any other
defect makes the program reject the whole file.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Union, cast, get_args

from tui.allocators.messages import WATCH_EVENTS, WatchEvent
from tui.core.events import CoreEvent
from tui.devices.state.machine import DeviceEvent
from tui.hosts.events import AnyHostEvent
from tui.kit.command_line.output import describe_os_error
from tui.monitor.messages import MONITOR_EVENTS, MonitorEvent
from tui.runs.state.events import HostRunEvent, RunEvent, RunsOfHostEvent
from workloads.protocol import messages, wire

VERSION = 2
"""The format version; incremented when an older program would misread a line."""
OLDER = (1,)
"""Older playable versions; version 1 has no messages of the watch."""
_INTEGERS = 1 << 64
_MOST_DIGITS = 20
_MANY_DIGITS = re.compile(rb"\d{19}")
LONGEST_S = 10 * 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A caption, and the place of the screen that it is about."""

    WIRE_KEYS: ClassVar[Mapping[str, str]] = {"caption": "words"}

    caption: str
    """One line of 80 cells at most."""
    tab: str = "workbench"
    """Id of the tab to show."""
    workload: str = ""
    """The workload to select there; empty for the present one."""
    view: str = ""
    """The part of the tab to show: a view of the snapshot, or a pane of the workbench to zoom.

    Empty for the present view, and for all panes.
    """
    moment: float | None = None
    """The moment of the snapshot, as a share of its trace from 0 to 1; ``None`` for the present."""


LocalEvent = Union[CoreEvent, DeviceEvent, RunEvent, AnyHostEvent, Scene]
AnyEvent = Union[LocalEvent, messages.Event, MonitorEvent, WatchEvent, HostRunEvent]
Speaker = Literal["monitor", "runner", "watch", "workbench"]
Child = Literal["monitor", "runner", "watch"]

_SPEAKERS: dict[type, Speaker] = {
    **dict.fromkeys(get_args(LocalEvent), "workbench"),
    **dict.fromkeys(messages.EVENTS, "runner"),
    **dict.fromkeys(MONITOR_EVENTS, "monitor"),
    **dict.fromkeys(WATCH_EVENTS, "watch"),
}
_KINDS: dict[str, tuple[type, ...]] = {
    speaker: tuple(kind for kind, sender in _SPEAKERS.items() if sender == speaker)
    for speaker in get_args(Speaker)
}
_HOST_RUN = "host_run"
"""Type of the message around an event of the runs on another host."""


class RecordingError(ValueError):
    """A file cannot be played; the message is one line with the file, the reason and advice."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The first line of a recording."""

    version: int
    program: str
    """Version of gpu-workbench that wrote it."""
    at: float
    """Unix time of its beginning."""
    date: str
    """The same time as text: UTC, ISO 8601."""
    redacted: bool = False
    title: str = ""
    """Title to show during the replay; may be empty."""
    simulated: bool = False
    """True if its GPUs were simulated; the screens show that during the replay."""


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """One line after the first, with its frame checked."""

    at: float
    """Seconds since the recording began."""
    speaker: Speaker | None
    """The sender; ``None`` for a request."""
    message: dict[str, Any]


def encode_event(at: float, event: AnyEvent) -> bytes:
    """Encode an event as one line.

    Args:
        at: seconds since the recording began.
        event: its type gives the sender: the monitor, the runner or the workbench. Events sent on
            behalf of the runner, such as the end of a run that died with it, count as the runner's.
    """
    if isinstance(event, HostRunEvent):
        inner = wire.encode(event.event).rstrip(b"\n")
        host = json.dumps(event.host).encode()
        body = b'{"type":"%s","host":%s,"event":%s}' % (_HOST_RUN.encode(), host, inner)
        return _frame_line(at, "from", "workbench", body)
    return _encode_line(at, "from", _SPEAKERS[type(event)], event)


def encode_request(at: float, child: Child, request: object) -> bytes:
    """Encode a request to a child as one line; ``at`` as in :func:`encode_event`."""
    return _encode_line(at, "to", child, request)


def _encode_line(at: float, way: str, child: str, message: object) -> bytes:
    return _frame_line(at, way, child, wire.encode(message).rstrip(b"\n"))


def _frame_line(at: float, way: str, child: str, body: bytes) -> bytes:
    return b'{"t":%.6f,"%s":"%s","message":%s}\n' % (at, way.encode(), child.encode(), body)


def parse_header(line: bytes, name: str) -> Recording:
    """Read the first line.

    Args:
        line: the line in the file.
        name: name of the file, for error messages.

    Raises:
        RecordingError: the line does not begin a recording that this program can play.
    """
    try:
        header = wire.decode(line, (Recording,))
    except wire.WireError as error:
        raise RecordingError(
            f"{name} is not a recording: its first line is unknown; make one with"
            " gpu-workbench --record FILE"
        ) from error
    if header.version not in (VERSION, *OLDER):
        raise RecordingError(
            f"{name} is a recording of format {header.version}, this program plays {VERSION}:"
            f" play it with gpu-workbench {header.program}"
        )
    if not 0 <= header.at < LONGEST_S * 1000:
        raise RecordingError(f"{name} is damaged: it begins at {header.at}, which is no Unix time")
    return header


def _parse_int(digits: str) -> int:
    """Return an integer of a line.

    Raises:
        ValueError: the integer is too large for a child's message.
    """
    value = int(digits) if len(digits) <= _MOST_DIGITS else _INTEGERS
    if not -_INTEGERS < value < _INTEGERS:
        raise ValueError(f"it holds an integer of {len(digits.lstrip('-'))} digits")
    return value


def parse_line(line: bytes) -> RecordedLine:
    """Parse a later line, except its message.

    Raises:
        ValueError: the frame is malformed, or an integer has more than 64 bits; the text gives
            the reason.
    """
    # Python's own parser of integers is faster, so the checked one parses only doubtful lines.
    parse_int = _parse_int if _MANY_DIGITS.search(line) else None
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
        raise ValueError(f"it is from {data.get('from')!r}, an unknown source")
    return RecordedLine(float(at), cast(Speaker, data["from"]), data["message"])


def decode_event(recorded: RecordedLine) -> AnyEvent:
    """Return the event of a line that is no request.

    Raises:
        WireError: the event is unknown to this program, or has another form.
    """
    assert recorded.speaker is not None
    message = recorded.message
    if message.get("type") == _HOST_RUN:
        event = wire.from_object(message.get("event"), get_args(RunsOfHostEvent))
        return HostRunEvent(str(message.get("host")), event)
    return cast(AnyEvent, wire.from_object(recorded.message, _KINDS[recorded.speaker]))


def format_time(seconds: float) -> str:
    """Format a duration: ``0:07``, ``12:34`` or ``1:02:03``."""
    whole = math.floor(max(0.0, seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


GZIP = 16 + zlib.MAX_WBITS
"""zlib's number for the format of .gz files."""

CHUNK = 2**16
LONGEST_LINE = 2**24
"""Most bytes of a line; a child's line has at most a quarter of that."""
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class RecordingSummary:
    """A recording that can be played."""

    path: Path
    recording: Recording
    seconds: float
    """Seconds from its beginning to its last line."""
    events: int
    cut: bool
    """True if it ends in the middle of a line, or of its compressed data."""


def scan_recording(path: Path) -> RecordingSummary:
    """Read a whole recording, except the messages in it.

    Raises:
        RecordingError: the file is unreadable, is no recording, has another format, or is damaged.
    """
    reader = _Reader(path)
    first = next(reader, None)
    if first is None and reader.cut:
        raise RecordingError(f"{path} breaks off in its first line; there is nothing to play")
    recording = parse_header(first or b"", str(path))
    at, events = 0.0, 0
    for number, parsed in _parse_lines(reader, path):
        if parsed.at < at:
            raise RecordingError(f"{path} is damaged: line {number} is older than the one before")
        at = parsed.at
        events += parsed.speaker is not None
    return RecordingSummary(path, recording, at, events, reader.cut)


def read_events(path: Path) -> Iterator[RecordedLine]:
    """Yield the events of a scanned recording in order.

    Raises:
        RecordingError: the file changed after the scan.
    """
    reader = _Reader(path)
    next(reader, None)
    for _, parsed in _parse_lines(reader, path):
        if parsed.speaker is not None:
            yield parsed


def _parse_lines(lines: Iterator[bytes], path: Path) -> Iterator[tuple[int, RecordedLine]]:
    """Yield the lines after the first, each with its number in the file."""
    for number, line in enumerate(lines, 2):
        try:
            yield number, parse_line(line)
        except ValueError as error:
            raise RecordingError(f"{path} is damaged: line {number}: {error}") from error


class _Reader:
    """Reads the complete lines of a file, and then sets ``cut`` if the file is incomplete."""

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
                    f"{self._path} is not a recording: a line has more than {LONGEST_LINE} bytes"
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
                    # Piece by piece: a small file may unpack to more than the memory.
                    yield unpack.decompress(chunk, CHUNK)
                    chunk = unpack.unconsumed_tail or file.read(CHUNK)
                yield unpack.flush()
                self.cut = not unpack.eof
                if unpack.unused_data or (chunk and file.read(1)):
                    raise RecordingError(f"{self._path} is damaged: something follows its end")
        except OSError as error:
            raise RecordingError(f"{self._path}: {describe_os_error(error)}") from error
        except zlib.error as error:
            raise RecordingError(
                f"{self._path} is damaged: it cannot be unpacked: {error}"
            ) from error
