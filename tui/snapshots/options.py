"""Options of the command line that the reading of a snapshot has."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tui.kit.command_line.output import UsageError
from tui.kit.command_line.values import size_of
from tui.snapshots import MEMORY_OPTION, STANDARD_INPUT

LEAST_MEMORY = 64 << 20
"""Bytes that reading a snapshot takes at the least; Python itself takes most of them."""


def parse_memory(text: str) -> int | None:
    """Return the memory that reading a snapshot may take; an empty text is the same as none given.

    Raises:
        UsageError: it is no size, or none that anything could be read in.
    """
    if not text:
        return None
    size = size_of(text, MEMORY_OPTION)
    if size < LEAST_MEMORY:
        raise UsageError(f"{MEMORY_OPTION} {text}: give at least 64MiB; Python itself takes most")
    return size


def read_oom_text(where: str, paths: Sequence[str]) -> str:
    """Return the text of exceptions from a file or standard input; empty where none was named.

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
