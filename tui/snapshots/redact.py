"""A snapshot without the names of users."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from tui.snapshots.model import Frame, Snapshot
from tui.text.redact import Redactor


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
