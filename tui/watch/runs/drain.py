"""Continuous reading of a command's output, into the log and on to a reader."""

from __future__ import annotations

import array
import fcntl
import os
import select
import termios
from collections.abc import Sequence

from tui.watch.runs.bounded_log import BoundedLog
from tui.watch.runs.forwarding import CHUNK, Forward


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
        self._last: dict[int, int] | None = None
        """Bytes in each pipe when the command ended that are still to be read."""
        if ended:
            self._note_end()

    def run(self) -> None:
        """Read to the end, and until the readers have got everything or are gone."""
        while self._sources or any(forward.waiting for forward in self._forwards.values()):
            ready = self._wait()
            if self._control in ready:
                if os.read(self._control, 1):  # empty if the parent was killed
                    self._note_end()
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
        if self._last is not None:
            self._last[file] -= len(data)

    def _note_end(self) -> None:
        self._last = {file: _size_in(file) for file in self._sources}

    def _close_finished(self) -> None:
        """Close each stream that has received everything that the command wrote.

        Processes left by the command may hold the pipe for long; their output goes to the log only.
        """
        if self._last is None:
            return
        for file, forward in self._forwards.items():
            if self._last.get(file, 0) <= 0 and not forward.waiting:
                forward.close()
                if file in self._sources:
                    self._sources[file] = None


def _size_in(pipe: int) -> int:
    """Return the number of bytes in a pipe."""
    size = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, size)
    return size[0]
