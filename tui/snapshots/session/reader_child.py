"""A reader child before it is started, and the words for how it ended. No Textual."""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.child.launch import FOLDER, own_command
from tui.core.child.process import ChildProcess
from tui.snapshots import MEMORY_OPTION, STANDARD_INPUT
from tui.snapshots.read import time_limit
from tui.snapshots.read.naming import clean
from tui.snapshots.reader.messages import (
    READER_EVENTS,
    ReaderEvent,
)

LONGEST_TEXT = 1 << 18
"""Characters of exceptions' text that are sent on, the last ones."""


def reader(source: int | None = None) -> ChildProcess[ReaderEvent]:
    """Return a reader that is not started yet.

    Args:
        source: descriptor that it reads where it is asked for ``-``.
    """
    named = () if source is None else ("--input", str(source))
    inherit = () if source is None else (source,)
    command = own_command("tui.snapshots", *named)
    return ChildProcess(command, READER_EVENTS, folder=FOLDER, inherit=inherit)


def names(paths: Sequence[str]) -> str:
    """Return the names of the files, for a message."""
    return " and ".join("standard input" if p == STANDARD_INPUT else clean(p) for p in paths)


def death_in_words(paths: Sequence[str], how: str, last_words: str, *, loaded: bool) -> str:
    """One line for a reader that died: what, why, what to do.

    Args:
        paths: what it was reading.
        how: as :meth:`tui.core.child.process.ChildProcess.ended` says.
        last_words: the last line of its standard error.
        loaded: it had read the file and died over a question.
    """
    doing = "over a question about" if loaded else "reading"
    if "SIGKILL" in how:
        why = "it was killed, most likely because memory ran out"
        remedy = "free memory, or read the file on a machine with more"
    elif time_limit.SIGNAL.name in how:
        why = (
            f"it took more than {time_limit.WORDS}, far more than a snapshot: the file is damaged"
            " or hostile"
        )
        remedy = "copy the file again, or take the snapshot again"
    elif "SIG" in how:
        why = f"it died of {how}: the file is damaged or hostile"
        remedy = "copy the file again, or take the snapshot again"
    elif "MemoryError" in last_words:
        why = "it needs more memory than is allowed"
        remedy = f"allow it more ({MEMORY_OPTION} SIZE), or read the file on a machine with more"
    else:
        why = f"{how}{': ' if last_words else ''}{clean(last_words)[:200]}"
        remedy = "open it again, and report this if it comes back"
    return f"the reader ended {doing} {names(paths)}: {why}; {remedy}"
