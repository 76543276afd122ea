"""The samples of a run, stored as ``samples.jsonl`` in its folder and read again.

Each line is a message of :mod:`workloads.protocol.wire`. Of several programs that watch a run,
the program with the file's lock writes; when it ends, in whatever way, another takes over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tui.allocators.messages import (
    SEEN,
    DevicesPlaced,
    ProcessFigures,
    Seen,
    StepsCounted,
    TorchProcesses,
)
from tui.watch.runs import untrusted
from tui.watch.runs.runs import StartedRun
from tui.watch.runs.untrusted import (
    UntrustedError,
    check_time,
    lines_of,
    open_regular,
    parse_object,
)
from workloads.protocol import wire

SPARSER = 2000
"""A sample is stored if the last is older than the run's age divided by this: thousands a day."""
MOST_SAMPLE_BYTES = 64 << 20
"""Most bytes of the file that are read; of a longer one only the end is read."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of a file system, or of a mount, without locks."""


class SamplesFile:
    """Writes the samples of a run, unless another program does."""

    def __init__(self, run: StartedRun, *, starter: bool) -> None:
        """Store the arguments; opens no file yet.

        Args:
            run: the run that is sampled.
            starter: this program has started the run: it writes if files cannot be locked.
        """
        self.problem = ""
        """Why no samples are stored; empty if they are, or if another program stores them."""
        self._run = run
        self._starter = starter
        self._file: int | None = None
        self._writes = False
        self._torn = False
        """True if the file ends in the middle of a line."""
        self._written: dict[type[Seen], float] = {}
        self._newest: dict[type[Seen], Seen] = {}
        """The last event of each kind."""
        self._unwritten: set[type[Seen]] = set()
        """Kinds whose last event was not written."""

    def store(self, event: Seen) -> None:
        """Write an event, if it is this program's turn and the last one is old enough."""
        kind = type(event)
        if isinstance(event, ProcessFigures) and not (event.devices or event.host_rss):
            return
        self._newest[kind] = event
        spacing = (event.at - self._run.began) / SPARSER
        due = event.at - self._written.get(kind, 0.0) >= spacing
        if isinstance(event, TorchProcesses) or due:
            self._write(event)
        else:
            self._unwritten.add(kind)

    def close(self) -> None:
        """Write the last events that were left out, and let another program write."""
        for kind in SEEN:
            if kind in self._unwritten:
                self._write(self._newest[kind])
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._writes = False

    def _write(self, event: Seen) -> None:
        try:
            if not self._may_write():
                return
            line = wire.encode(event)
            self._append(b"\n" + line if self._torn else line)
        except OSError as error:
            self.problem = f"its samples are not stored: {error.strerror}"
            return
        self.problem = ""
        self._written[type(event)] = event.at
        self._unwritten.discard(type(event))

    def _append(self, line: bytes) -> None:
        assert self._file is not None
        written = os.write(self._file, line)
        self._torn = written < len(line)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _may_write(self) -> bool:
        """Return whether it is this program's turn to write.

        Raises:
            OSError: the file cannot be opened.
        """
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self._run.samples, flags, 0o600)
        if self._writes:
            return True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            if not self._starter:
                return False
        self._writes = True
        self._begin_writing()
        return True

    def _begin_writing(self) -> None:
        """Start with a whole line, and with the events of the time when another program wrote."""
        assert self._file is not None
        size = os.fstat(self._file).st_size
        self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        for kind in (TorchProcesses, DevicesPlaced):
            if size and kind in self._newest:
                self._append((b"\n" if self._torn else b"") + wire.encode(self._newest[kind]))


@dataclass(frozen=True, slots=True)
class OmittedSamples:
    """The parts of a run's samples that were not applied."""

    unreadable: int
    """Broken or unknown lines."""
    left_out: int
    """Bytes skipped at the beginning of a file that is too long."""


def read(
    run: StartedRun,
    apply: Callable[[Seen], object],
    should_continue: Callable[[], bool] = lambda: True,
) -> OmittedSamples:
    """Read a run's samples, oldest first.

    Args:
        run: the run to read.
        apply: called with each event.
        should_continue: returns whether to continue: a long file takes seconds.

    Raises:
        OSError: the file cannot be read or is not a regular file; a missing one counts as empty.
    """
    unreadable = 0
    try:
        file = open_regular(run.samples)
    except FileNotFoundError:
        return OmittedSamples(0, 0)
    with file:
        left_out = max(0, os.fstat(file.fileno()).st_size - MOST_SAMPLE_BYTES)
        if left_out:
            file.seek(left_out)
            left_out += len(next(lines_of(file), b""))
        for line in lines_of(file):
            if not should_continue():
                break
            if not line.endswith(b"\n") and len(line) < untrusted.LONGEST_LINE:
                break  # the rest of the line is being written, or its writer was killed
            try:
                apply(parse_seen(line))
            except UntrustedError:
                unreadable += line != b"\n"
    return OmittedSamples(unreadable, left_out)


_DEVICE = re.compile(r"cuda:\d{1,4}")


def parse_seen(line: bytes) -> Seen:
    """Parse one line, which is untrusted.

    Raises:
        UntrustedError: the line is no sample, or contains impossible values.
    """
    try:
        event: Seen = wire.from_object(parse_object(line), SEEN)
    except wire.WireError as error:
        raise UntrustedError(str(error)[:200]) from error
    check_time(event.at)
    if isinstance(event, ProcessFigures):
        _check_counts(event.host_rss.values())
        for figures in event.devices:
            check_time(figures.at)
            _check_counts(
                value for value in wire.field_values(figures).values() if isinstance(value, int)
            )
            if _DEVICE.fullmatch(figures.device) is None:
                raise UntrustedError(f"{figures.device[:24]!r} is no device of CUDA's")
    if isinstance(event, StepsCounted):
        _check_counts(event.steps.values())
    return event


def _check_counts(values: Iterable[int]) -> None:
    """Check that counts and sizes are not negative.

    Raises:
        UntrustedError: one is negative.
    """
    if min(values, default=0) < 0:
        raise UntrustedError("a count or a size below 0")
