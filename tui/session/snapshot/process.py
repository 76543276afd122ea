"""Start the child that reads snapshots, and say how it died. No Textual."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tui.child.process import ChildProcess
from tui.snapshots import MEMORY_OPTION
from tui.snapshots.model.text import clean
from tui.snapshots.reader.messages import READER_EVENTS, ReaderEvent

STANDARD_INPUT = "-"


def reader(source: int | None = None) -> ChildProcess[ReaderEvent]:
    """A reader that is not started yet.

    Args:
        source: descriptor that it reads where it is asked for ``-``.
    """
    command = [sys.executable, "-m", "tui.snapshots"]
    if source is not None:
        command += ["--input", str(source)]
    inherit = () if source is None else (source,)
    # From the root folder: ``-m`` would otherwise find a folder named tui where we are.
    return ChildProcess(command, READER_EVENTS, folder="/", inherit=inherit)


def names(paths: Sequence[str]) -> str:
    """The files, for a message."""
    return " and ".join("standard input" if p == STANDARD_INPUT else clean(p) for p in paths)


def death_in_words(paths: Sequence[str], how: str, last_words: str, *, loaded: bool) -> str:
    """One line for a reader that died: what, why, what to do.

    Args:
        paths: what it was reading.
        how: as :meth:`tui.child.process.ChildProcess.ended` says.
        last_words: the last line of its standard error.
        loaded: it had read the file and died over a question.
    """
    doing = "over a question about" if loaded else "reading"
    if "SIGKILL" in how:
        why = "it was killed, most likely because memory ran out"
        remedy = "free memory, or read the file on a machine with more"
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
