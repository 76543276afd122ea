"""The way from the runner to the front end: never waited for, never grown without end."""

from __future__ import annotations

import os
import select
import time
from collections import deque

from workloads.protocol import wire
from workloads.protocol.messages import Event, Heartbeat, HostHeap, Measured, Progress, TorchMemory
from workloads.protocol.wire import EncodedMessage

BACKLOG = 1000
"""Lines that wait for a front end that does not read; beyond it, samples are dropped."""

PATIENCE_S = 5.0
"""For a front end that does not read, at the runner's end."""

_DROPPABLE = (Progress, Measured, Heartbeat, HostHeap, TorchMemory)


class Output:
    """Lines to the front end, without ever waiting for it."""

    def __init__(self, writing: int) -> None:
        os.set_blocking(writing, False)
        self.fd = writing
        self._lines: deque[bytes] = deque()

    @property
    def waiting(self) -> bool:
        return bool(self._lines)

    def send(self, event: Event | EncodedMessage) -> None:
        """Queue an event and write what can be written; one that is encoded goes as it came."""
        kind = event.kind if isinstance(event, EncodedMessage) else type(event)
        if len(self._lines) > BACKLOG and kind in _DROPPABLE:
            # Those that wait are as good to someone who does not read; newer ones will come.
            return
        line = event.line if isinstance(event, EncodedMessage) else wire.encode(event)
        self._lines.append(line)
        self.flush()

    def flush(self) -> None:
        """Write until the pipe is full."""
        while self._lines:
            try:
                written = os.write(self.fd, self._lines[0])
            except BlockingIOError:
                return
            if written < len(self._lines[0]):
                self._lines[0] = self._lines[0][written:]
            else:
                self._lines.popleft()

    def finish(self) -> None:
        """Write what waits, as the last act of a runner; what nobody takes in time is left."""
        deadline = time.monotonic() + PATIENCE_S
        while self._lines:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [self.fd], [], left)[1]:
                return
            self.flush()
