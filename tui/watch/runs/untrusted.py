"""Reading of untrusted files: regular files only, and within bounds.

The watched programs write into a run's folder. A file there may have any length and any depth
of nesting, contain numbers that no clock or device ever gave, and may be a link, a pipe or a
device instead of a regular file.
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
"""Bytes of a line; longer lines are skipped."""
LONGEST_TEXT = 1 << 16
"""Characters of one text in a line."""
MOST = (1 << 63) - 1
"""The largest count or size: the kernel and torch count with 63 bits."""
LATEST = 4_102_444_800.0
"""The year 2100 in Unix time."""
_NAME = re.compile(r"[^/\0]{1,255}")


class UntrustedError(ValueError):
    """An error in untrusted data, in a few words."""


# ---- files ----


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading, without ever blocking.

    Raises:
        OSError: the file is missing, may not be read, or is a link, a pipe, a folder or a device.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link, opened with ``O_NOFOLLOW``
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
        most: most bytes to read.

    Raises:
        OSError: as for :func:`open_regular`.
    """
    with open_regular(path) as file:
        return file.read(most)


def lines_of(file: io.BufferedReader) -> Iterator[bytes]:
    """Yield each line; one longer than :data:`LONGEST_LINE` is cut and has no line end.

    The last line has no line end either if the file ends within it.
    """
    while line := file.readline(LONGEST_LINE):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE)


def plain_name(name: str) -> str:
    """Return a file name after checking that it stays inside its folder.

    Raises:
        UntrustedError: the name leads elsewhere.
    """
    if _NAME.fullmatch(name) is None or name in (".", ".."):
        raise UntrustedError("a name that is none of a file in this folder")
    return name


def regular_size(path: Path) -> int | None:
    """Return the size of a regular file in bytes; ``None`` if there is none."""
    try:
        facts = os.lstat(path)
    except (OSError, ValueError):
        return None
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None


# ---- their contents ----


def _parse_whole(text: str) -> int:
    # With more digits, even the conversion takes long.
    if len(text) > 20 or abs(int(text)) > MOST:
        raise UntrustedError(f"the number {text[:24]} is out of range")
    return int(text)


def _parse_real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or abs(value) > MOST:
        raise UntrustedError(f"the number {text[:24]} is out of range")
    return value


def _constant(text: str) -> float:
    raise UntrustedError(f"{text} is no number")


_DECODER = json.JSONDecoder(
    parse_int=_parse_whole, parse_float=_parse_real, parse_constant=_constant
)


def parse_object(line: bytes, most: int = LONGEST_LINE) -> dict[str, Any]:
    """Parse one JSON object whose numbers are finite and of at most 63 bits.

    Args:
        line: the text; of a line that is too long, its beginning.
        most: most bytes that the line may have.

    Raises:
        UntrustedError: the line is no object, too long or nested too deeply.
    """
    if len(line) > most or (len(line) == most and not line.endswith(b"\n")):
        raise UntrustedError(f"longer than {most >> 10} KiB")
    try:
        content = _DECODER.decode(line.decode("utf-8"))
    except UntrustedError:
        raise
    except ValueError as error:
        raise UntrustedError("no JSON") from error
    except RecursionError as error:
        raise UntrustedError("nested too deeply") from error
    if not isinstance(content, dict):
        raise UntrustedError("no JSON object")
    return content


def parse_as(kind: type[T], data: dict[str, Any], path: str) -> T:
    """Build a frozen dataclass from parsed data, with a bound on the length of each text.

    Args:
        kind: the dataclass.
        data: values of its fields.
        path: name of the object in error messages.

    Raises:
        UntrustedError: a field is missing, has another type, is too long or is below 0.
    """
    try:
        parsed: T = wire.from_plain(kind, data, path)
    except wire.WireError as error:
        raise UntrustedError(str(error)[:200]) from error
    for name, value in wire.field_values(parsed).items():
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise UntrustedError(f"{name}: longer than {LONGEST_TEXT} characters")
        if isinstance(value, int) and value < 0:
            raise UntrustedError(f"{name}: {value} is out of range")
    return parsed


def check_time(at: float) -> float:
    """Return a Unix time after checking that it lies between 1970 and 2100.

    Raises:
        UntrustedError: it is outside.
    """
    if not 0 <= at <= LATEST:
        raise UntrustedError(f"{at:g} is no time between 1970 and 2100")
    return at
