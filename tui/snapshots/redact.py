"""Home directories and user names taken out of what is shown or handed on.

The same text always gives the same result. In a path the name of the user becomes ``user``;
``/root`` names nobody and stays. Names that stood in a home directory are also replaced wherever
else they stand as a whole part of a path, such as ``/data/jane/run``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import TypeVar, cast

from tui.snapshots.model import Frame, Snapshot

NAME = "user"
T = TypeVar("T")

_HOMES = re.compile(
    r"(?P<before>"
    r"(?:/mnt/[a-z])?[\\/]+(?:home|users|Users|Documents and Settings)[\\/]+"
    r"|/(?:var/home|usr/home|export/home|nfs/home|private/home|Volumes/home)/+"
    r"|(?<!\w)~(?=[A-Za-z_][\w.-]*[\\/])"
    r")(?P<name>[^\\/:;,\"'<>|\s()\[\]{}]+(?: [^\\/:;,\"'<>|\s()\[\]{}]+(?=[\\/]))?)",
    re.IGNORECASE,
)
_TEMPORARY = re.compile(r"(?P<before>torchinductor_|pytest-of-|hsperfdata_)(?P<name>[^\\/\s]+)")
_SHARED = frozenset(
    ("root", NAME, "public", "shared", "all users", "default", "runner", "ubuntu", "home", "users")
)
"""Names that stand for nobody in particular."""


class Redactor:
    """Replaces user names; made for one file, so that it knows every name in it."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Collect the names.

        Args:
            texts: paths, and any text that may hold paths.
        """
        names: set[str] = set()
        for text in texts:
            for pattern in (_HOMES, _TEMPORARY):
                names.update(found["name"] for found in pattern.finditer(text))
        # What is no more than a short common word would be replaced where it means something else.
        self.names = tuple(
            sorted(name for name in names if name.lower() not in _SHARED and len(name) > 2)
        )
        alternatives = "|".join(re.escape(name) for name in self.names)
        self._names = (
            re.compile(rf"(?<![\w.-])(?:{alternatives})(?![\w.-])", re.IGNORECASE)
            if alternatives
            else None
        )

    def __call__(self, text: str) -> str:
        """A text without user names."""
        text = _HOMES.sub(_replaced, text)
        text = _TEMPORARY.sub(_replaced, text)
        return text if self._names is None else self._names.sub(NAME, text)

    def all_of(self, value: T) -> T:
        """Every text within a value: dataclasses, dicts, lists and tuples."""
        return cast(T, self._of(value))

    def _of(self, value: object) -> object:
        if isinstance(value, str):
            return self(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                field.name: self._of(getattr(value, field.name))
                for field in dataclasses.fields(value)
            }
            return type(value)(**fields)
        if isinstance(value, dict):
            return {self._of(key): self._of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._of(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self._of(item) for item in value)
        return value


def _replaced(found: re.Match[str]) -> str:
    if found["name"].lower() in _SHARED:
        return found[0]
    return found["before"] + NAME


def redacted(snapshot: Snapshot, texts: Iterable[str] = ()) -> tuple[Snapshot, Redactor]:
    """A snapshot without user names in its paths, contexts and settings.

    Args:
        snapshot: as it was read.
        texts: other texts that go along, such as messages of exceptions, whose names count too.

    Returns:
        The snapshot, and what to redact those texts with.
    """
    redact = Redactor(
        (snapshot.file, *(frame.filename for frame in snapshot.frames), *snapshot.contexts, *texts)
    )
    frames = tuple(
        Frame(redact(frame.filename), frame.line, frame.name) for frame in snapshot.frames
    )
    return (
        dataclasses.replace(
            snapshot,
            file=redact(snapshot.file),
            frames=frames,
            contexts=tuple(map(redact, snapshot.contexts)),
            settings={name: redact(value) for name, value in snapshot.settings.items()},
            notes=tuple(map(redact, snapshot.notes)),
            annotations=redact.all_of(snapshot.annotations),
        ),
        redact,
    )
