"""A snapshot as JSON, which the web viewer also takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tui.snapshots.model.snapshot import SnapshotError
from tui.snapshots.read.source import Bytes, reason
from tui.snapshots.read.unpickle import TRUNCATED
from tui.text import numbers as fmt

_SPACE = b"\xef\xbb\xbf \t\r\n"
_TICK = 1 << 16
_TAIL = 16
_CONTAINERS_BASE, _LEAST_TEXT = 100_000, 8
"""Of a snapshot a list or an object has some 50 characters; fewer than these no text has."""


def looks_like(head: bytes) -> bool:
    """Whether a file begins as a JSON list or object."""
    return head.lstrip(_SPACE)[:1] in (b"{", b"[")


def _count(decoded: str) -> None:
    """Refuse what holds more lists and objects than a snapshot, before they are made.

    Each takes 56 bytes and more, and one byte or two of the text.
    """
    found = decoded.count("[") + decoded.count("{")
    if found > _CONTAINERS_BASE + len(decoded) // _LEAST_TEXT:
        raise SnapshotError(
            f"holds {fmt.grouped(found)} lists and objects in {fmt.size(len(decoded))}, far more"
            " than a snapshot: damaged or hostile"
        )


class _Frames:
    """Makes equal frames one object while parsing: JSON repeats them for every entry."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._known: dict[tuple[Any, Any, Any], dict[str, Any]] = {}
        self._tick = tick
        self._count = 0

    def __call__(self, made: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        if self._count % _TICK == 0:
            self._tick()
        if len(made) != 3 or "filename" not in made:
            return made
        value = (made["filename"], made.get("line"), made.get("name"))
        if isinstance(value[0], (list, dict)) or isinstance(value[1], (list, dict)):
            return made
        if isinstance(value[2], (list, dict)):
            return made
        return self._known.setdefault(value, made)


def load(data: Bytes, tick: Callable[[], None]) -> object:
    """Read one JSON text, in UTF-8.

    Args:
        data: the file.
        tick: called now and then while parsing; may raise to give up.

    Raises:
        SnapshotError: it is not JSON, or not all of it.
        MemoryError: as it says.
        OSError: the bytes cannot be read.
    """
    whole = data.read()
    try:
        decoded = whole.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise SnapshotError(f"begins as JSON, but is not UTF-8 at byte {error.start}") from error
    del whole
    _count(decoded)
    hook = _Frames(tick)
    try:
        return json.loads(decoded, object_hook=hook)
    except json.JSONDecodeError as error:
        if len(decoded.rstrip()) - error.pos < _TAIL or "Unterminated" in error.msg:
            raise SnapshotError(TRUNCATED) from error
        raise SnapshotError(
            f"begins as JSON, but is not from line {error.lineno}, column {error.colno} on: "
            f"{reason(error)}"
        ) from error
    except RecursionError as error:
        raise SnapshotError("is JSON nested too deeply for a snapshot: damaged") from error
    except ValueError as error:
        # The one thing that is valid JSON and that Python refuses.
        raise SnapshotError("is JSON with a number of thousands of digits: damaged") from error
