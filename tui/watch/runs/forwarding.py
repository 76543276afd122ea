"""Forwarding of a run's output to the program that started it, without waiting for that program."""

from __future__ import annotations

import os
from collections import deque

from tui.watch.runs.bounded_log import BoundedLog, format_size

CHUNK = 64 << 10
MOST_BUFFERED = 4 << 20
"""Most bytes in memory for a slow reader, of output that the log could not take."""
MOST_PARTS = 20_000


class Forward:
    """Forwards one stream to a reader that may be slow or gone.

    Output that a slow reader has not read yet stays in the log and is read from there.

    Args:
        file: write end of a pipe; it is made non-blocking.
        log: the log that contains the output.
    """

    def __init__(self, file: int, log: BoundedLog) -> None:
        os.set_blocking(file, False)
        self.file = file
        self.open = True
        self._log = log
        self._parts: deque[bytes | tuple[int, int]] = deque()
        """Output still to be written: its bytes, or its place in the log and its length."""
        self._buffered = 0
        self._left_out = 0

    @property
    def waiting(self) -> bool:
        """True if some output is still to be written."""
        return self.open and bool(self._parts or self._left_out)

    def send(self, data: bytes, place: int | None) -> None:
        """Write as much as possible now, and queue the rest.

        Args:
            data: some output.
            place: its place in the log; ``None`` if it is not there.
        """
        if not self.open:
            return
        if not self.waiting:
            written = self._write(data)
            if written == len(data):
                return
            data = data[written:]
            place = None if place is None else place + written
        if place is not None:
            last = self._parts[-1] if self._parts else None
            if isinstance(last, tuple) and sum(last) == place:
                self._parts[-1] = last[0], last[1] + len(data)
            else:
                self._parts.append((place, len(data)))
        elif self._buffered + len(data) <= MOST_BUFFERED:
            self._parts.append(data)
            self._buffered += len(data)
        else:
            self._left_out += len(data)
        if len(self._parts) > MOST_PARTS:
            self._left_out += self._drop_first()

    def flush(self) -> None:
        """Continue writing as much as the reader accepts."""
        while self.open and self._parts:
            first = self._parts.popleft()
            if isinstance(first, bytes):
                self._buffered -= len(first)
                written = self._write(first)
                if written < len(first):
                    self._buffered += len(first) - written
                    self._parts.appendleft(first[written:])
                    return
                continue
            place, length = first
            data = self._log.read(place, min(length, CHUNK))
            if not data:
                self._left_out += length
                continue
            written = self._write(data)
            if written < length:
                self._parts.appendleft((place + written, length - written))
            if written < len(data):
                return
        if self.open and self._left_out:
            size = format_size(self._left_out)
            words = f"\n[gpu-workbench: {size} of output are left out: the reader was too slow]\n"
            if self._write(words.encode()):
                self._left_out = 0

    def close(self) -> None:
        """Stop writing."""
        if self.open:
            self.open = False
            self._parts.clear()
            os.close(self.file)

    def _drop_first(self) -> int:
        first = self._parts.popleft()
        if isinstance(first, bytes):
            self._buffered -= len(first)
            return len(first)
        return first[1]

    def _write(self, data: bytes) -> int:
        """Write as much as the pipe takes; returns the number of bytes."""
        try:
            return os.write(self.file, data)
        except BlockingIOError:
            return 0
        except OSError:  # the reader has ended
            self.close()
            return len(data)
