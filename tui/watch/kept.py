"""What a run's folder keeps: what its agents have left, and ``samples.jsonl``, what was seen of it.

Each line is a message of :mod:`workloads.protocol.wire`. Of several programs that watch a run, the
one that holds the file's lock writes; where it ends, however that is, another takes over.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui.watch.inventory import Inventory, parse_inventory
from tui.watch.messages import SEEN, DevicesPlaced, ProcessFigures, Seen, TorchProcesses
from tui.watch.runs import Run
from workloads.protocol import wire
from workloads.protocol.frozen import frozen

MOST_LEFT_BYTES = 64 << 20
"""Of a process's file; what is beyond is not read."""
FROM_EXCEPTION = "the exception that ended the process"
REBUILT = "written anew from the numbers that torch gave the observer"
_NOT_SEEN = "it was killed, or left by os._exit: nothing tells whether it went on"


@frozen
class Oom:
    """One allocation that torch could not make."""

    number: int
    at: float
    """Unix time."""
    step: int
    """Steps of all optimizers until then."""
    device: int
    """As the process counts them."""
    asked: int
    free: int
    """Bytes of the device, as the driver said."""
    limit: int
    """Bytes of the device in all, or what torch was allowed of it."""
    allocated: int
    reserved: int
    thread: str | None
    """``main``, a name, or ``None`` for one of torch's own, such as autograd's."""
    where: str | None = None
    """File and line of the Python that asked."""
    handled: bool | None = None
    """Whether the program went on."""
    why_not_known: str = ""
    text: str = ""
    text_source: str = REBUILT
    snapshot: Path | None = None
    why_no_snapshot: str = ""
    inventory: Inventory | None = None
    """What the process held; ``None`` where the agent took none, which it says why."""


@frozen
class Taken:
    """A snapshot that was asked for."""

    at: float
    """Unix time at which it was written."""
    step: int
    path: Path


@frozen
class Left:
    """One process."""

    identity: str
    pid: int
    host: str
    rank: str | None
    torch: str
    began: float
    """When it first used CUDA."""
    steps: int | None = None
    """``None`` where it has not said: it goes on, or was killed."""
    ended: bool = False
    """Whether the interpreter came to its end."""
    text: str = ""
    """Of the exception that ended it."""
    kind: str = ""
    """Its class."""
    records: bool = False
    """Whether the agent has switched torch's memory history on at some time."""
    ooms: tuple[Oom, ...] = ()
    oom_count: int = 0
    """More than have a record each, where there were very many."""
    snapshots: tuple[Taken, ...] = ()
    """Those that were asked for and are there."""
    troubles: tuple[str, ...] = ()
    """What the agent could not do."""


def left_in(folder: Path) -> list[Left]:
    """What each process has left, in the order in which they began."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        with contextlib.suppress(OSError):
            with path.open("rb") as file:
                first = _parsed(file.readline(MOST_LEFT_BYTES))
                if first.get("event") != "begin":
                    continue  # not an agent's
                lines = file.read(MOST_LEFT_BYTES).split(b"\n")
            with contextlib.suppress(KeyError):  # broken off, or not of ours
                found.append(_read(folder, first, lines))
    return sorted(found, key=lambda left: left.began)


def troubles_in(folder: Path) -> list[str]:
    """Why there is no agent in some process."""
    try:
        text = (folder / "agent-errors.log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.splitlines()[:8]


def _read(folder: Path, first: dict[str, Any], lines: Sequence[bytes]) -> Left:
    """One process.

    Raises:
        KeyError: its first line is not whole.
    """
    reading = _Reading(folder, first)
    for line in lines:
        event = _parsed(line)
        # A line may have been broken off where the process was killed.
        with contextlib.suppress(KeyError, TypeError):
            reading.take(event.get("event", ""), event)
    return reading.result()


def _parsed(line: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        event = json.loads(line)
        return event if isinstance(event, dict) else {}
    return {}


class _Reading:
    """The lines of one process, one after the other."""

    def __init__(self, folder: Path, first: dict[str, Any]) -> None:
        names = ("identity", "pid", "host", "rank", "torch")
        self._left = Left(began=first["at"], **{name: first[name] for name in names})
        self._folder = folder
        self._ooms: dict[int, Oom] = {}
        self._ran_out = False
        """The process was ended by an OOM."""

    def take(self, kind: str, event: dict[str, Any]) -> None:
        """One line; what is not known is of a later version.

        Raises:
            KeyError, TypeError: it is not whole.
        """
        oom = self._ooms.get(event.get("oom") or 0)
        left = self._left
        if kind == "oom":
            self._ooms[event["oom"]] = _oom(event)
        elif oom is not None:
            self._ooms[oom.number] = self._more_of(oom, kind, event)
        elif kind == "snapshot":
            taken = Taken(event["at"], event["step"], self._folder / event["name"])
            if taken.path.exists():
                self._left = replace(left, snapshots=(*left.snapshots, taken))
        elif kind == "trouble":
            trouble = f"{event['doing']}: {event['text']}"
            self._left = replace(left, troubles=(*left.troubles, trouble))
        elif kind == "history":
            self._left = replace(left, records=True)
        elif kind == "end":
            self._ran_out = event["out_of_memory"]
            names = {"steps": "steps", "text": "text", "kind": "type", "oom_count": "ooms"}
            facts = {name: event[key] for name, key in names.items()}
            self._left = replace(left, ended=True, **facts)

    def _more_of(self, oom: Oom, kind: str, event: dict[str, Any]) -> Oom:
        if kind == "handled":
            return replace(oom, handled=True, why_not_known="")
        if kind == "inventory":
            return self._with_inventory(oom, event)
        if kind == "no snapshot":
            return replace(oom, why_no_snapshot=event["text"])
        if kind != "snapshot":
            return oom
        path = self._folder / event["name"]
        if path.exists():
            return replace(oom, snapshot=path, why_no_snapshot="")
        return replace(oom, why_no_snapshot="a later OOM's has taken its place")

    def _with_inventory(self, oom: Oom, event: dict[str, Any]) -> Oom:
        try:
            return replace(oom, inventory=parse_inventory(event.get("inventory")))
        except wire.WireError as error:
            trouble = f"leave an inventory that can be read: {error}"
            self._left = replace(self._left, troubles=(*self._left.troubles, trouble))
            return oom

    def result(self) -> Left:
        """The process, once all lines were taken."""
        ooms = tuple(_judged(oom, self._left, self._ran_out) for oom in self._ooms.values())
        count = max(self._left.oom_count, max(self._ooms, default=0))
        return replace(self._left, ooms=ooms, oom_count=count)


def _oom(event: dict[str, Any]) -> Oom:
    names = ("step", "device", "asked", "free", "limit", "allocated", "reserved", "thread", "where")
    facts = {name: event[name] for name in names}
    oom = Oom(number=event["oom"], at=event["happened"], **facts)
    return replace(
        oom,
        text=rebuilt_text(oom),
        why_no_snapshot="OOMs came so fast that not each was given a snapshot",
        why_not_known=_NOT_SEEN,
    )


def _judged(oom: Oom, left: Left, of_last: bool) -> Oom:
    """Whether an OOM that no step or OOM of its thread followed has ended the process."""
    if oom.handled or not left.ended:
        return oom
    if of_last and _asked_words(oom) in left.text:
        return replace(
            oom, handled=False, why_not_known="", text=left.text, text_source=FROM_EXCEPTION
        )
    if oom.thread == "main":
        # The thread that was refused came to the program's end without this exception.
        return replace(oom, handled=True, why_not_known="")
    return replace(
        oom, why_not_known="a thread that was not the main one asked, and no step came after"
    )


def rebuilt_text(oom: Oom) -> str:
    """The exception's text as far as the observer's numbers tell it, in torch's words."""
    unallocated = max(0, oom.reserved - oom.allocated)
    return (
        f"CUDA out of memory. {_asked_words(oom)} GPU {oom.device} has a total capacity of "
        f"{_size(oom.limit)} of which {_size(oom.free)} is free. Of the allocated memory "
        f"{_size(oom.allocated)} is allocated by PyTorch, and {_size(unallocated)} is reserved by "
        "PyTorch but unallocated."
    )


def _asked_words(oom: Oom) -> str:
    return f"Tried to allocate {_size(oom.asked)}."


def _size(size: int) -> str:
    """As ``format_size`` of torch's ``CUDACachingAllocator.cpp`` words it."""
    if size <= 1024:
        return f"{size} bytes"
    for power, unit in ((1, "KiB"), (2, "MiB")):
        if size <= 1024 ** (power + 1):
            return f"{size / 1024**power:.2f} {unit}"
    return f"{size / 1024**3:.2f} GiB"


SPARSER = 2000
"""A sample is kept where the last is older than the run's age by this: thousands a day."""
MOST_SAMPLE_BYTES = 64 << 20
"""Of the file; of a longer one its end is read."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""A file system, or a mount of one, that has none."""


class SamplesFile:
    """Writes what is seen of a run, unless another program does."""

    def __init__(self, run: Run, *, starter: bool) -> None:
        """Open nothing yet.

        Args:
            run: whose samples they are.
            starter: this program has started it: it writes where files cannot be locked.
        """
        self.problem = ""
        """Why nothing is kept; empty where it is, or another program keeps it."""
        self._run = run
        self._starter = starter
        self._file: int | None = None
        self._writes = False
        self._torn = False
        """The file does not end with a whole line."""
        self._written: dict[type[Seen], float] = {}
        self._newest: dict[type[Seen], Seen] = {}
        """Of each kind the last that was seen."""
        self._left_out: set[type[Seen]] = set()
        """Kinds whose last was not written."""

    def keep(self, event: Seen) -> None:
        """Write it, where it is this program's turn and the last is old enough."""
        kind = type(event)
        if isinstance(event, ProcessFigures) and not event.devices:
            return
        self._newest[kind] = event
        spacing = (event.at - self._run.began) / SPARSER
        due = event.at - self._written.get(kind, 0.0) >= spacing
        if isinstance(event, TorchProcesses) or due:
            self._write(event)
        else:
            self._left_out.add(kind)

    def close(self) -> None:
        """Write what was left out last, and let another program write."""
        for kind in SEEN:
            if kind in self._left_out:
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
            self.problem = f"its samples are not kept: {error.strerror}"
            return
        self.problem = ""
        self._written[type(event)] = event.at
        self._left_out.discard(type(event))

    def _append(self, line: bytes) -> None:
        assert self._file is not None
        written = os.write(self._file, line)
        self._torn = written < len(line)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _may_write(self) -> bool:
        """Whether it is this program's turn.

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
        self._take_over()
        return True

    def _take_over(self) -> None:
        """Begin with a whole line, and with what was told while another program wrote."""
        assert self._file is not None
        size = os.fstat(self._file).st_size
        self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        for kind in (TorchProcesses, DevicesPlaced):
            if size and kind in self._newest:
                self._append((b"\n" if self._torn else b"") + wire.encode(self._newest[kind]))


@frozen
class Read:
    """What a run's samples were read to."""

    unreadable: int
    """Lines that are none of ours, or broken."""
    left_out: int
    """Bytes at the beginning of a file that is too long."""


def read(run: Run, take: Callable[[Seen], None], wanted: Callable[[], bool] = lambda: True) -> Read:
    """Read what was seen of a run, the oldest first.

    Args:
        run: which one.
        take: is called with each.
        wanted: whether to go on: a long file takes seconds.

    Raises:
        OSError: the file cannot be read; one that is not there is empty.
    """
    unreadable = 0
    try:
        file = run.samples.open("rb")
    except FileNotFoundError:
        return Read(0, 0)
    with file:
        left_out = max(0, os.fstat(file.fileno()).st_size - MOST_SAMPLE_BYTES)
        if left_out:
            file.seek(left_out)
            left_out += len(file.readline(MOST_SAMPLE_BYTES))
        for line in file:
            if not wanted():
                break
            if not line.endswith(b"\n"):
                break  # somebody is about to write the rest of it, or was killed at that
            try:
                take(wire.decode(line, SEEN))
            except wire.WireError:
                unreadable += line != b"\n"
    return Read(unreadable, left_out)
