"""Continuous reading of a command's output, into the log and on to the program that started it."""

from __future__ import annotations

import array
import fcntl
import os
import select
import termios
from collections import deque
from collections.abc import Sequence

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
            words = (
                f"\n[gpu-workbench: {size} of output is missing here: the reader was too slow]\n"
            )
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


class Drain:
    """Reads pipes until no process can write to them any more.

    Args:
        readers: non-blocking read ends of the command's output.
        forwards: forwards for each stream; none to write only to the log.
        log: stores all of the output.
        control: receives a byte when the command has ended, while others may hold the pipes.
        ended: whether the command has ended already.
    """

    def __init__(
        self,
        readers: Sequence[int],
        forwards: Sequence[Forward],
        log: BoundedLog,
        control: int,
        *,
        ended: bool,
    ) -> None:
        self._sources: dict[int, Forward | None] = dict.fromkeys(readers)
        self._sources.update(zip(readers, forwards, strict=False))
        self._forwards = dict(zip(readers, forwards, strict=False))
        self._log = log
        self._control: int | None = control
        self._unread: dict[int, int] | None = None
        """Bytes in each pipe when the command ended that are still to be read."""
        if ended:
            self._record_end()

    def run(self) -> None:
        """Read to the end, and until the readers have got everything or are gone."""
        while self._sources or any(forward.waiting for forward in self._forwards.values()):
            ready = self._wait()
            if self._control in ready:
                if os.read(self._control, 1):  # empty if the parent was killed
                    self._record_end()
                self._control = None
            for file in [source for source in self._sources if source in ready]:
                self._read(file)
            for forward in self._forwards.values():
                if forward.open and ready.get(forward.file, 0) & (select.POLLERR | select.POLLHUP):
                    forward.close()
                forward.flush()
            self._close_finished()

    def _wait(self) -> dict[int, int]:
        poll = select.poll()
        for file in self._sources:
            poll.register(file, select.POLLIN)
        if self._control is not None:
            poll.register(self._control, select.POLLIN)
        for forward in self._forwards.values():
            if forward.open:
                # Even with no event requested, poll reports a reader that is gone.
                poll.register(forward.file, select.POLLOUT if forward.waiting else 0)
        return dict(poll.poll())

    def _read(self, file: int) -> None:
        try:
            data = os.read(file, CHUNK)
        except BlockingIOError:
            return
        if not data:
            del self._sources[file]
            return
        place = self._log.append(data)
        forward = self._sources[file]
        if forward is not None:
            forward.send(data, place)
        if self._unread is not None:
            self._unread[file] -= len(data)

    def _record_end(self) -> None:
        self._unread = {file: _size_in(file) for file in self._sources}

    def _close_finished(self) -> None:
        """Close each stream that has received everything that the command wrote.

        Processes left by the command may hold the pipe for long; their output goes to the log only.
        """
        if self._unread is None:
            return
        for file, forward in self._forwards.items():
            if self._unread.get(file, 0) <= 0 and not forward.waiting:
                forward.close()
                if file in self._sources:
                    self._sources[file] = None


def _size_in(pipe: int) -> int:
    """Return the number of bytes in a pipe."""
    size = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, size)
    return size[0]
