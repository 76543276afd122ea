"""Files to choose from while a path is typed. Pure but for looking into one folder."""

from __future__ import annotations

import os
from pathlib import Path

from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, Tone, clean, fit_line, line
from workloads.protocol.frozen import frozen

MOST = 1000
"""Entries of a folder that are looked at, at most."""


@frozen
class Found:
    """An entry of a folder."""

    name: str
    folder: bool
    byte: int | None


def split(typed: str) -> tuple[str, str]:
    """The folder that is typed, with its slash, and the beginning of a name in it."""
    folder, slash, name = typed.rpartition("/")
    return folder + slash, name


def matching(typed: str) -> tuple[tuple[Found, ...], str]:
    """What the typed path may go on with, folders last, and why there is nothing.

    Hidden entries only where the name that is typed begins with a dot.
    """
    folder, beginning = split(typed)
    where = Path(folder or ".").expanduser()
    found: list[Found] = []
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


def _look(entry: os.DirEntry[str]) -> Found:
    try:
        folder = entry.is_dir()
        return Found(entry.name, folder, None if folder else entry.stat().st_size)
    except OSError:
        return Found(entry.name, False, None)


def completed(typed: str, found: tuple[Found, ...]) -> str:
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


def found_line(item: Found, cells: int) -> Line:
    """Size and name."""
    size = "folder" if item.folder else text.size(item.byte)
    name = f"{item.name}/" if item.folder else item.name
    return fit_line(line(Span(f"{size:>9}  ", Tone.QUIET), Span(name)), cells)
