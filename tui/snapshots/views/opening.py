"""The first page of the snapshot tab without a file: how to get one, and choosing and reading one.

Pure functions, except that :func:`find_files` reads a folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.commands import EXAMPLE
from tui.core.text.glyphs import clean
from tui.kit.lines import Line, Span, TextStyle, fit_line, line, paragraph
from tui.snapshots.reader.messages import LoadProgress
from tui.snapshots.session.snapshot_reader import SnapshotStore, format_paths

ABOUT = (
    "o opens a snapshot written by torch.cuda.memory._dump_snapshot: pickle, gzip or JSON, of any "
    "torch. A separate process reads it as data: no code in it runs, and nothing leaves this "
    "machine."
)
UNCHANGED = "To get one at an OOM, with the program unchanged:"
BEFORE = "Or with lines in the program, before the work:"
AFTER = "and after it, or at the OOM:"
RECORD = "torch.cuda.memory._record_memory_history(max_entries=100000, stacks='python')"
DUMP = "torch.cuda.memory._dump_snapshot('memory.pickle')"
"""Commands for the user to copy, one per line."""
ENDINGS = (".pickle", ".pkl", ".json", ".gz", ".snapshot")
"""Endings of files that may be snapshots; a name without an ending may be one, too."""
DATED_FROM, DATE_CELLS = 70, 18
"""Cells of a line from which files have their time, and those of the time with its gap."""
MOST_ENTRIES = 1000
"""Maximum number of folder entries to examine."""


# ---- no open file --------------------------------------------------------------------------------


def start_lines(store: SnapshotStore, cells: int) -> list[Line]:
    """Draw the start page for the reader's current state."""
    if store.status == "loading":
        return loading_lines(store, cells)
    rows: list[Line] = []
    if store.reason:
        style = TextStyle.BAD if store.status == "failed" else TextStyle.NOTE
        rows += [*paragraph(store.reason, cells, style), ()]
    rows += [*paragraph(ABOUT, cells), ()]
    for words, code in ((UNCHANGED, EXAMPLE), (BEFORE, RECORD), (AFTER, DUMP)):
        rows += paragraph(words, cells, TextStyle.QUIET)
        indent = "" if len(code) == cells else " "  # copied whole where only the indent breaks it
        rows += [line(indent, *row) for row in _code_lines(code, max(1, cells - len(indent)))]
    return rows


def _code_lines(code: str, cells: int) -> list[Line]:
    """Wrap a command or a call; a long call continues behind its bracket, as Python allows."""
    name, bracket, arguments = code.partition("(")
    if len(code) <= cells or not bracket:
        return paragraph(code, cells, TextStyle.KEY)
    rest = paragraph(arguments, max(1, cells - 4), TextStyle.KEY)
    return [*paragraph(name + bracket, cells, TextStyle.KEY), *(line("    ", *row) for row in rest)]


def loading_lines(store: SnapshotStore, cells: int) -> list[Line]:
    """Draw the estimated cost of reading the file and the progress."""
    rows = paragraph(format_paths(store.paths), cells, label="reading ")
    if store.estimate is not None:
        rows += paragraph(store.estimate.words, cells, TextStyle.QUIET)
    rows.append(())
    progress = store.progress
    if progress is None:
        rows.append(line(f"starting the reader {glyphs.GLYPHS.ellipsis}"))
    else:
        rows += [line(format_progress(progress)), progress_bar(progress, cells)]
    rows += [(), line(Span("x", TextStyle.KEY), " cancels")]
    return rows


def format_progress(progress: LoadProgress) -> str:
    """Format progress, for example ``reading 54.2 MiB of 184 MiB, 12 s left``."""
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


def progress_bar(progress: LoadProgress, cells: int) -> Line:
    """Draw the completed part of the phase; return an empty line if the total is unknown."""
    if not progress.total:
        return ()
    full = min(cells, cells * progress.done // progress.total)
    filled, rest = glyphs.GLYPHS.slices["allocated"], glyphs.GLYPHS.slices["free"]
    return line(
        Span(filled * full, TextStyle.ALLOCATED), Span(rest * (cells - full), TextStyle.REST)
    )


# ---- choosing a file -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A folder entry."""

    name: str
    folder: bool
    byte: int | None
    changed: float = 0.0
    """Unix time of the last change."""


def split_path(typed: str) -> tuple[str, str]:
    """Split a typed path into its folder, with the slash, and the start of a name."""
    folder, slash, name = typed.rpartition("/")
    return folder + slash, name


def find_files(typed: str) -> tuple[tuple[FileEntry, ...], str]:
    """Return what completes the typed path, or the reason for having nothing.

    Folders come first, then files, the newest first.
    Only folders and files that may be snapshots are listed, or whatever else begins with the typed
    name if there are none. Hidden entries are listed only if the typed name begins with a dot.
    """
    folder, beginning = split_path(typed)
    where = Path(folder or ".").expanduser()
    files: list[FileEntry] = []
    try:
        with os.scandir(where) as entries:
            for number, entry in enumerate(entries):
                if number >= MOST_ENTRIES:
                    break
                if not entry.name.startswith(beginning):
                    continue
                if entry.name.startswith(".") and not beginning.startswith("."):
                    continue
                files.append(_file_entry(entry))
    except OSError as error:
        return (), f"{clean(str(where))}: {error.strerror or error}"
    fitting = [item for item in files if item.folder or _may_be_snapshot(item.name)]
    listed = fitting if fitting or not beginning else files
    listed.sort(key=lambda item: (not item.folder, -item.changed, item.name))
    if listed:
        return tuple(listed), ""
    if files:
        return (), f"no snapshot here: {', '.join(ENDINGS)}"
    return (), "no such file" if beginning else "nothing here: type a path"


def _may_be_snapshot(name: str) -> bool:
    return Path(name).suffix.lower() in ("", *ENDINGS)


def _file_entry(entry: os.DirEntry[str]) -> FileEntry:
    try:
        if entry.is_dir():
            return FileEntry(entry.name, True, None)
        about = entry.stat()
        return FileEntry(entry.name, False, about.st_size, about.st_mtime)
    except OSError:
        return FileEntry(entry.name, False, None)


def complete_path(typed: str, entries: tuple[FileEntry, ...]) -> str:
    """Extend a typed path by the common start of all files found."""
    if not entries:
        return typed
    folder, _ = split_path(typed)
    # It compares names by characters, as a completion has to.
    common = os.path.commonprefix([item.name for item in entries])  # noqa: RUF071
    only = entries[0] if len(entries) == 1 else None
    return folder + common + ("/" if only is not None and only.folder else "")


def file_line(item: FileEntry, cells: int) -> Line:
    """Draw a file in the list: its size, the time of its last change, and its name."""
    size = "folder" if item.folder else text.size(item.byte)
    name = f"{item.name}/" if item.folder else item.name
    when = ""
    if cells >= DATED_FROM:
        date = text.date(item.changed) if item.changed else ""
        when = f"{date:<{DATE_CELLS}}"
    return fit_line(line(Span(f"{size:>9}  {when}", TextStyle.QUIET), Span(name)), cells)


def first_file(entries: Sequence[FileEntry]) -> int:
    """Return the index of the newest file, or of the first folder if there are no files."""
    return next((at for at, item in enumerate(entries) if not item.folder), 0)
