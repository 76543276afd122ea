"""Read what all hosts send in rounds.

Hosts are read at full seconds, so what they send arrives one after the other within a tenth of a
second. If each message woke the program, it would run with cold caches twenty times a second, and
ten hosts would cost twice as much.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

ROUND_S = 0.14
"""Seconds of a round: a little less than what passes from a sample to its drawing, which then shows
what all hosts have sent meanwhile."""


class Reader(Protocol):
    """What reads the messages of one child."""

    def pause_reading(self) -> None:
        """Leave the next messages in the pipe, unless one of them must not wait."""

    def resume_reading(self) -> None:
        """Read on."""


class ReadingRounds:
    """Lets messages that arrive shortly after another wait for the end of a round.

    Args:
        seconds: how long a round takes.
    """

    def __init__(self, seconds: float = ROUND_S) -> None:
        self._seconds = seconds
        self._readers: list[Reader] = []
        self._running = False

    def join(self, reader: Reader) -> None:
        """Let a reader take part in the rounds."""
        self._readers.append(reader)

    def begin(self) -> None:
        """Begin a round, because a message has arrived; during a round this does nothing."""
        if self._running:
            return
        self._running = True
        for reader in self._readers:
            reader.pause_reading()
        asyncio.get_running_loop().call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._running = False
        for reader in self._readers:
            reader.resume_reading()
