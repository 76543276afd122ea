"""Values of options that several commands share, read from their texts or refused in one line.

For argparse's ``type=``. No argparse here: a plain start reads its settings by these too.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui.cli.errors import UsageError
from tui.settings import BY_NAME
from tui.snapshots import MEMORY_OPTION

if TYPE_CHECKING:
    from workloads.protocol.inventory import Setting

LEAST_MEMORY = 64 << 20
STANDARD_INPUT = "-"
"""Stands for standard input where a file may be named."""


def file_at(text: str) -> str:
    """The absolute path of a file of workloads.

    Raises:
        UsageError: there is no such file.
    """
    path = Path(text).expanduser()
    if not path.is_file():
        raise UsageError(f"--workloads {text}: no such file")
    return str(path.absolute())


def setting_named(name: str) -> Callable[[str], Setting]:
    """What reads the value of a setting that is given as an option.

    Args:
        name: of the setting, see ``tui.settings``.

    Returns:
        A function that raises ``UsageError`` where the setting may not be that.
    """
    known = BY_NAME[name]

    def read(text: str) -> Setting:
        try:
            value = known.parse(text)
        except ValueError:
            value = None
        if value is None:
            raise UsageError(f"{known.flag} {text}: not {known.about}")
        return value

    return read


def python_at(text: str, source: str = "--python") -> str:
    """The Python that is named: a program, a command, or the folder of an environment.

    Args:
        text: the name.
        source: what names it, for the message.

    Raises:
        UsageError: there is no program there.
    """
    path = Path(text).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    if path.is_file() and os.access(path, os.X_OK):
        # Not resolved: a virtual environment's Python is a link, and its place says which one.
        return str(path.absolute())
    found = shutil.which(text)
    if found is None or os.sep in text:
        raise UsageError(f"{source} {text}: no program there; give the path of a Python with torch")
    return found


def size_of(text: str, flag: str) -> int:
    """``4096``, ``512K`` or ``1.5 MiB`` in bytes.

    Args:
        text: as typed.
        flag: whose value it is, for the message.

    Raises:
        UsageError: it is no size.
    """
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*(?:([KMGT])i?)?B?\s*", text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"{flag} {text}: give bytes, such as 4096 or 1MiB")
    return int(float(found[1]) * 1024 ** " KMGT".index((found[2] or " ").upper()))


def memory_of(text: str) -> int | None:
    """The memory that reading a snapshot may take; an empty text is the same as none given.

    Raises:
        UsageError: it is no size, or none that anything could be read in.
    """
    if not text:
        return None
    size = size_of(text, MEMORY_OPTION)
    if size < LEAST_MEMORY:
        raise UsageError(f"{MEMORY_OPTION} {text}: give at least 64MiB; Python itself takes most")
    return size


def oom_text(where: str, paths: Sequence[str]) -> str:
    """The text of exceptions from a file or standard input; empty where none was named.

    Args:
        where: the file, or ``-``.
        paths: of the snapshots, one of which may be standard input already.

    Raises:
        UsageError: it cannot be read.
    """
    if not where:
        return ""
    if where == STANDARD_INPUT:
        if STANDARD_INPUT in paths:
            raise UsageError("--oom-text -: standard input is the snapshot already; name a file")
        return sys.stdin.buffer.read().decode("utf-8", errors="replace")
    try:
        return Path(where).expanduser().read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"--oom-text {where}: {error.strerror or error}") from error
