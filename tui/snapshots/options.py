"""Command-line options for reading a snapshot."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tui.kit.command_line.output import UsageError, describe_os_error
from tui.kit.command_line.values import size_of
from tui.snapshots import MEMORY_OPTION, STANDARD_INPUT

LEAST_MEMORY = 64 << 20
"""Minimum bytes for reading a snapshot; Python itself takes most of them."""


def parse_memory(text: str) -> int | None:
    """Parse the memory limit for reading a snapshot, in bytes; empty text means no limit.

    Raises:
        UsageError: the text is not a size, or the size is too small.
    """
    if not text:
        return None
    size = size_of(text, MEMORY_OPTION)
    if size < LEAST_MEMORY:
        raise UsageError(f"{MEMORY_OPTION} {text}: give at least 64MiB; Python itself takes most")
    return size


def read_oom_text(where: str, paths: Sequence[str]) -> str:
    """Read exception messages from a file or standard input; return "" without a file.

    Args:
        where: the file, or ``-``.
        paths: the snapshots; one of them may already be standard input.

    Raises:
        UsageError: the file cannot be read.
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
        raise UsageError(f"--oom-text {where}: {describe_os_error(error)}") from error
