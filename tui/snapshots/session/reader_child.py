"""Start of a snapshot reader, and the message for its unexpected end. No Textual."""

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
"""Maximum characters of exception text sent to the reader; the end is kept."""


def create_reader(source: int | None = None) -> ChildProcess[ReaderEvent]:
    """Create a reader process without starting it.

    Args:
        source: descriptor to read for ``-``.
    """
    named = () if source is None else ("--input", str(source))
    inherit = () if source is None else (source,)
    command = own_command("tui.snapshots", *named)
    return ChildProcess(command, READER_EVENTS, folder=FOLDER, inherit=inherit)


def format_paths(paths: Sequence[str]) -> str:
    """Format the names of files for a message."""
    return " and ".join("standard input" if p == STANDARD_INPUT else clean(p) for p in paths)


def describe_death(paths: Sequence[str], how: str, last_words: str, *, loaded: bool) -> str:
    """Describe a reader's death in one line: what, why, what to do.

    Args:
        paths: the files of the reader.
        how: as :meth:`tui.core.child.process.ChildProcess.ended` says.
        last_words: the last line of its standard error.
        loaded: the reader had loaded the files and died during a call.
    """
    doing = "while analysing" if loaded else "while reading"
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
    return f"the reader ended {doing} {format_paths(paths)}: {why}; {remedy}"
