"""Requests that wait for their turn; of two for the same thing the newer one replaces the older."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tui.snapshots.reader.messages import Request, Slot, slot


class Waiting:
    """A queue between the thread that listens and the one that answers."""

    def __init__(self) -> None:
        self._requests: dict[Slot, Request] = {}
        self._filled = threading.Condition()

    def put(self, request: Request) -> None:
        """Add a request; one of the same slot that still waits is dropped.

        The newer one takes the end of the queue and not the older one's place: who asks quickly
        must not keep others from their turn.
        """
        with self._filled:
            self._requests.pop(slot(request), None)
            self._requests[slot(request)] = request
            self._filled.notify()

    def take(self, meanwhile: Callable[[], bool] = lambda: False) -> Request:
        """The request that has waited longest; waits for one.

        Args:
            meanwhile: done piece by piece while there is none; whether there is more of it.
        """
        more = True
        while more and not self._requests:
            more = meanwhile()
        with self._filled:
            while not self._requests:
                self._filled.wait()
            first = next(iter(self._requests))
            return self._requests.pop(first)
