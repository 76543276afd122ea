"""Writes a recording as things happen. A crash loses the line that was being written, at most."""

from __future__ import annotations

import datetime
import os
import time
import zlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tui.recordings import lines
from tui.state.events import AnyEvent
from workloads.protocol import wire
from workloads.protocol.process import write_whole

if TYPE_CHECKING:
    from tui.recordings.redaction import Redaction

GZIP = 16 + zlib.MAX_WBITS
"""What zlib calls the format of .gz files."""


class Recorder:
    """Takes what a session hears and asks, and writes it line by line.

    Args:
        path: the file, which must not exist; compressed where its name ends in ``.gz``.
        redaction: takes out of each message who is at work here; ``None`` to keep it.
        title: said on the screen where it is played.
        simulated: the GPUs are no hardware.
        now: Unix time.
        elapsed: seconds since any fixed moment.

    Raises:
        OSError: the file is there already, or cannot be made.
    """

    def __init__(
        self,
        path: Path,
        redaction: Redaction | None = None,
        title: str = "",
        now: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
        *,
        simulated: bool = False,
    ) -> None:
        self.on_end: Callable[[str], None] | None = None
        """Called once with the reason where the recording ends before it is closed."""
        self.problem = ""
        """In what way it is not whole; empty as long as it is."""
        self._path = path
        self._redact = redaction
        self._elapsed = elapsed
        # Of the user alone: it tells who runs what on this machine.
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._pack = zlib.compressobj(wbits=GZIP) if path.suffix == ".gz" else None
        at = now()
        self._began = elapsed()
        date = datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
        first = lines.Recording(
            version=lines.VERSION,
            program=version("gpu-workbench"),
            at=at,
            date=date.isoformat(timespec="seconds"),
            redacted=redaction is not None,
            title=title,
            simulated=simulated,
        )
        try:
            self._write(wire.encode(first))
        except OSError:
            self.close()
            raise

    def event(self, event: AnyEvent) -> None:
        """Write what was said."""
        if self._file is not None:
            event = event if self._redact is None else self._redact(event)
            self._take(lines.event_line(self._at, event))

    def to_monitor(self, request: object) -> None:
        """Write what the monitor was asked."""
        self._request("monitor", request)

    def to_runner(self, request: object) -> None:
        """Write what the runner was asked."""
        self._request("runner", request)

    def to_watch(self, request: object) -> None:
        """Write what the watch was asked."""
        self._request("watch", request)

    def _request(self, child: lines.Child, request: object) -> None:
        if self._file is not None:
            request = request if self._redact is None else self._redact(request)
            self._take(lines.request_line(self._at, child, request))

    def close(self) -> None:
        """End the recording."""
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            try:
                if self._pack is not None and not self.problem:
                    write_whole(file, self._pack.flush(zlib.Z_FINISH))
            finally:
                # A disk over a network may say only here that it is full.
                os.close(file)
        except OSError as error:
            why = error.strerror or error
            self.problem = self.problem or f"the end of the recording is lost: {self._path}: {why}"

    @property
    def _at(self) -> float:
        return self._elapsed() - self._began

    def _take(self, line: bytes) -> None:
        try:
            self._write(line)
        except OSError as error:
            why = error.strerror or error
            cut = f"the recording is cut after {lines.time_text(self._at)}"
            self.problem = f"{cut}: {self._path}: {why}"
            self.close()
            if self.on_end is not None:
                self.on_end(f"the recording ends here: {self._path}: {why}")

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        if self._pack is not None:
            # Flushed to a byte's end, so that what is in the file can be unpacked whenever we end.
            line = self._pack.compress(line) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        write_whole(self._file, line)
