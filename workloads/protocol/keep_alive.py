"""Messages by which a child and a parent on two machines notice that the other is gone."""

from __future__ import annotations

from dataclasses import dataclass

EVERY_S = 1.5
"""Seconds between two requests of the parent."""
MISSED_AFTER_S = 4.5
"""Seconds without any request after which a child ends itself: three were lost or late."""


@dataclass(frozen=True)
class KeepAlive:
    """Request: continue."""

    number: int
    answer: bool = True
    """Answer at once."""


@dataclass(frozen=True)
class Alive:
    """Event: the answer to the request of that number."""

    number: int
