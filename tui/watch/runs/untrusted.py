"""Reads files that anybody may have written: as regular files alone, and within bounds.

A run's folder is written by the programs that are watched. What lies in it may be of any length,
nested to any depth, hold numbers that no clock or device ever had, and may be a link, a pipe or a
device in the place of a file.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from workloads.protocol import wire

T = TypeVar("T")

LONGEST_LINE = 1 << 20
"""Bytes of a line; a longer one is skipped."""
LONGEST_TEXT = 1 << 16
"""Characters of one text in a line."""
MOST = (1 << 63) - 1
"""The largest count or size: what the kernel and torch count with."""
LATEST = 4_102_444_800.0
"""The year 2100 in Unix time."""
_NAME = re.compile(r"[^/\0]{1,255}")


class UntrustedError(ValueError):
    """What is wrong with a stranger's data, in a few words."""


# ---- files ----


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file to read it, and wait for nobody.

    Raises:
        OSError: it is not there, may not be read, or is a link, a pipe, a folder or a device.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:  # ``O_NOFOLLOW`` of a link
            raise OSError(errno.EINVAL, "a link, no regular file") from error
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(errno.EINVAL, "no regular file") from error
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "no regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_start(path: Path, most: int) -> bytes:
    """Read the beginning of a regular file.

    Args:
        path: the file.
        most: bytes that are read at most.

    Raises:
        OSError: as of :func:`open_regular`.
    """
    with open_regular(path) as file:
        return file.read(most)


def lines_of(file: io.BufferedReader) -> Iterator[bytes]:
    """Yield each line, of one that is longer than :data:`LONGEST_LINE` its beginning and no end.

    The last line has no end either where the file ends within it.
    """
    while line := file.readline(LONGEST_LINE):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE)


def plain_name(name: str) -> str:
    """Return the name of a file in a folder, which leads nowhere else.

    Raises:
        UntrustedError: it does.
    """
    if _NAME.fullmatch(name) is None or name in (".", ".."):
        raise UntrustedError("a name that is none of a file in this folder")
    return name


def regular_size(path: Path) -> int | None:
    """Return a regular file's bytes; ``None`` where there is none."""
    try:
        facts = os.lstat(path)
    except (OSError, ValueError):
        return None
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None


# ---- what stands in them ----


def _whole(text: str) -> int:
    # Of more digits even the conversion takes long.
    if len(text) > 20 or abs(int(text)) > MOST:
        raise UntrustedError(f"the number {text[:24]} is out of range")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or abs(value) > MOST:
        raise UntrustedError(f"the number {text[:24]} is out of range")
    return value


def _constant(text: str) -> float:
    raise UntrustedError(f"{text} is no number")


_DECODER = json.JSONDecoder(parse_int=_whole, parse_float=_real, parse_constant=_constant)


def parse_object(line: bytes, most: int = LONGEST_LINE) -> dict[str, Any]:
    """Parse one JSON object whose numbers are finite and of at most 63 bits.

    Args:
        line: the text, of a line that is too long its beginning.
        most: bytes that it may have.

    Raises:
        UntrustedError: it is none, too long or nested too deeply.
    """
    if len(line) > most or (len(line) == most and not line.endswith(b"\n")):
        raise UntrustedError(f"longer than {most >> 10} KiB")
    try:
        found = _DECODER.decode(line.decode("utf-8"))
    except UntrustedError:
        raise
    except ValueError as error:
        raise UntrustedError("no JSON") from error
    except RecursionError as error:
        raise UntrustedError("nested too deeply") from error
    if not isinstance(found, dict):
        raise UntrustedError("no JSON object")
    return found


def parse_as(kind: type[T], data: dict[str, Any], path: str) -> T:
    """Build a frozen dataclass of parsed data, each text of it bounded.

    Args:
        kind: the dataclass.
        data: its fields.
        path: what errors call it.

    Raises:
        UntrustedError: a field is missing, of another type, too long or below 0.
    """
    try:
        found: T = wire.from_plain(kind, data, path)
    except wire.WireError as error:
        raise UntrustedError(str(error)[:200]) from error
    for name, value in wire.field_values(found).items():
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise UntrustedError(f"{name}: longer than {LONGEST_TEXT} characters")
        if isinstance(value, int) and value < 0:
            raise UntrustedError(f"{name}: {value} is out of range")
    return found


def check_time(at: float) -> float:
    """Return a Unix time between 1970 and 2100.

    Raises:
        UntrustedError: it is another.
    """
    if not 0 <= at <= LATEST:
        raise UntrustedError(f"{at:g} is no time between 1970 and 2100")
    return at
