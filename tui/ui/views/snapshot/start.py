"""What stands where no file is read yet: how to open one, how far it is, why it failed. Pure."""

from __future__ import annotations

import os
from pathlib import Path

from tui.session.snapshot.process import names
from tui.session.snapshot.store import SnapshotStore
from tui.snapshots.reader.messages import Progress
from tui.text import glyphs
from tui.text import numbers as text
from tui.text.clean import clean
from tui.ui.views.lines import Line, Span, TextStyle, fit_line, line, paragraph
from tui.watch.launch import EXAMPLE
from workloads.protocol.frozen import frozen

ABOUT = (
    "o opens a snapshot that torch.cuda.memory._dump_snapshot wrote: a pickle, gzip or JSON of any "
    "torch version. It is read as data, in a process of its own; nothing in it runs and nothing "
    "leaves this machine."
)
UNCHANGED = "To have one of where a program runs out of memory, without a change to the program:"
BEFORE = "To have one by lines in the program, before the work:"
AFTER = "and after it, or where it runs out of memory:"
RECORD = "torch.cuda.memory._record_memory_history(max_entries=100000, stacks='python')"
DUMP = "torch.cuda.memory._dump_snapshot('memory.pickle')"
"""Each on a line of its own, to be copied."""


def start_lines(store: SnapshotStore, cells: int) -> list[Line]:
    """Depending on what the reader does."""
    if store.status == "loading":
        return loading_lines(store, cells)
    rows: list[Line] = []
    if store.reason:
        style = TextStyle.BAD if store.status == "failed" else TextStyle.NOTE
        rows += [*paragraph(store.reason, cells, style), ()]
    rows += [*paragraph(ABOUT, cells), ()]
    for words, code in ((UNCHANGED, EXAMPLE), (BEFORE, RECORD), (AFTER, DUMP)):
        rows += paragraph(words, cells, TextStyle.QUIET)
        rows += [line(" ", *row) for row in paragraph(code, max(1, cells - 1), TextStyle.KEY)]
    return rows


def loading_lines(store: SnapshotStore, cells: int) -> list[Line]:
    """What the reading takes and how far it is."""
    rows = paragraph(names(store.paths), cells, label="reading ")
    if store.estimate is not None:
        rows += paragraph(store.estimate.words, cells, TextStyle.QUIET)
    rows.append(())
    progress = store.progress
    if progress is None:
        rows.append(line(f"starting the reader {glyphs.GLYPHS.ellipsis}"))
    else:
        rows += [line(progress_words(progress)), bar(progress, cells)]
    rows += [(), line(Span("x", TextStyle.KEY), " cancels")]
    return rows


def progress_words(progress: Progress) -> str:
    """``reading 54.2 MiB of 184 MiB, 12 s left``."""
    show = text.size if progress.phase == "reading" else text.count
    words = f"{progress.phase} {show(progress.done)}"
    if progress.total:
        words += f" of {show(progress.total)}"
    if progress.phase == "indexing":
        words += " events"
    elif progress.phase == "replaying":
        words += " devices"
    if progress.left_s is not None:
        words += f", {text.duration(progress.left_s)} left"
    return words


def bar(progress: Progress, cells: int) -> Line:
    """How much of the phase is done; nothing where the whole is not known."""
    if not progress.total:
        return ()
    full = min(cells, cells * progress.done // progress.total)
    filled, rest = glyphs.GLYPHS.slices["allocated"], glyphs.GLYPHS.slices["free"]
    return line(
        Span(filled * full, TextStyle.ALLOCATED), Span(rest * (cells - full), TextStyle.REST)
    )


MOST = 1000
"""Entries of a folder that are looked at, at most."""


@frozen
class FoundFile:
    """An entry of a folder."""

    name: str
    folder: bool
    byte: int | None


def split(typed: str) -> tuple[str, str]:
    """The folder that is typed, with its slash, and the beginning of a name in it."""
    folder, slash, name = typed.rpartition("/")
    return folder + slash, name


def matching(typed: str) -> tuple[tuple[FoundFile, ...], str]:
    """What the typed path may go on with, folders last, and why there is nothing.

    Hidden entries only where the name that is typed begins with a dot.
    """
    folder, beginning = split(typed)
    where = Path(folder or ".").expanduser()
    found: list[FoundFile] = []
    try:
        with os.scandir(where) as entries:
            for number, entry in enumerate(entries):
                if number >= MOST:
                    break
                if not entry.name.startswith(beginning):
                    continue
                if entry.name.startswith(".") and not beginning.startswith("."):
                    continue
                found.append(_look(entry))
    except OSError as error:
        return (), f"{clean(str(where))}: {error.strerror or error}"
    found.sort(key=lambda item: (item.folder, item.name))
    return tuple(found), "" if found else "no such file here"


def _look(entry: os.DirEntry[str]) -> FoundFile:
    try:
        folder = entry.is_dir()
        return FoundFile(entry.name, folder, None if folder else entry.stat().st_size)
    except OSError:
        return FoundFile(entry.name, False, None)


def completed(typed: str, found: tuple[FoundFile, ...]) -> str:
    """The path as far as all that is found agrees."""
    if not found:
        return typed
    folder, _ = split(typed)
    common = _common([item.name for item in found])
    only = found[0] if len(found) == 1 else None
    return folder + common + ("/" if only is not None and only.folder else "")


def _common(names: list[str]) -> str:
    """What all names begin with."""
    first, last = min(names), max(names)
    same = next(
        (at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), None
    )
    return first[: min(len(first), len(last)) if same is None else same]


def found_line(item: FoundFile, cells: int) -> Line:
    """A file to choose: its size and its name."""
    size = "folder" if item.folder else text.size(item.byte)
    name = f"{item.name}/" if item.folder else item.name
    return fit_line(line(Span(f"{size:>9}  ", TextStyle.QUIET), Span(name)), cells)
