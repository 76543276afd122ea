"""A run's output on disk: two files of bounded size, and a note of bytes lost to a full disk."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

NAME = "output.log"
OLDER = "output.1.log"
RETRY_S = 1.0
"""Seconds between two attempts to write after a failure."""


def format_size(size: int) -> str:
    """Return a size in a fitting unit, for a line in the log."""
    if size < 1 << 20:
        return f"{size / 1024:.1f} KiB" if size >= 1024 else f"{size} B"
    return f"{size / (1 << 20):.1f} MiB"


class BoundedLog:
    """Appends to ``output.log``, and stores the newest part of the output.

    At half of the limit the file becomes ``output.1.log`` and replaces the older one. A write
    that fails raises no error: the missing bytes are counted, and a line in the log reports them
    as soon as it can be written again.

    A place in the log is the number of bytes that were written before it.

    Args:
        folder: folder of the run.
        limit: most bytes of both files.
        report: called once with the first reason why the log could not be written.
        clock: returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        folder: Path,
        limit: int,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._older = folder / NAME, folder / OLDER
        self._half = max(1, limit // 2)
        self._report = report
        self._clock = clock
        self._file: int | None = None
        self._older_file: int | None = None
        self._start = 0
        self._size = 0
        self._older_size = 0
        self._lost_bytes = 0
        self._why = ""
        self._reported = False
        self._next_try = 0.0
        self._dropped = 0
        with contextlib.suppress(OSError):
            self._older_file = os.open(self._older, os.O_RDONLY)
            self._older_size = self._start = os.fstat(self._older_file).st_size
        try:
            self._open()
        except OSError as error:
            self._fail(error)

    def append(self, data: bytes) -> int | None:
        """Write some output.

        Returns:
            The place where it begins; ``None`` if it could not be written completely.
        """
        if self._why and self._clock() < self._next_try:
            self._lost_bytes += len(data)
            return None
        written = 0
        try:
            if self._file is None:
                self._open()
            if self._size and self._size + len(data) > self._half:
                self._rotate()
            if self._lost_bytes:
                size = format_size(self._lost_bytes)
                lost = f"\n[gpu-workbench: {size} of output is missing here: {self._why}]\n"
                self._write(lost.encode())
                self._lost_bytes = 0
            self._why = ""
            place = self._start + self._size
            while written < len(data):
                written += self._write_some(data[written:])
        except OSError as error:
            self._lost_bytes += len(data) - written
            self._fail(error)
            return None
        return place

    def read(self, place: int, most: int) -> bytes:
        """Read from a place in the log; empty if that part was dropped or cannot be read."""
        if place >= self._start:
            file, at = self._file, place - self._start
        else:
            file, at = self._older_file, place - (self._start - self._older_size)
            most = min(most, self._start - place)
        if file is None or at < 0:
            return b""
        try:
            return os.pread(file, most, at)
        except OSError:
            return b""

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        """Begin a new file; the current one replaces the older one."""
        file, size = self._file, self._size
        dropped = self._older_size
        self._path.replace(self._older)
        if self._older_file is not None:
            os.close(self._older_file)
        self._older_file, self._older_size = file, size
        self._dropped += dropped
        self._start += size
        self._file, self._size = None, 0
        self._open()
        before = f"; {format_size(self._dropped)} before that are dropped" if self._dropped else ""
        self._write(f"[gpu-workbench: earlier output is in {OLDER}{before}]\n".encode())

    def _write(self, data: bytes) -> None:
        while data:
            data = data[self._write_some(data) :]

    def _write_some(self, data: bytes) -> int:
        assert self._file is not None
        written = os.write(self._file, data)
        self._size += written
        return written

    def _fail(self, error: OSError) -> None:
        self._why = error.strerror or str(error)
        self._next_try = self._clock() + RETRY_S
        if not self._reported:
            self._reported = True
            self._report(self._why)
