"""The logs of a run's processes: the agents' files in its folder, read and checked.

Each process appends JSON lines to a file of its own, ``HOST-PID-START.jsonl``; after it executes
another program, to a further one, ``HOST-PID-START.2.jsonl``. The folder is untrusted: each line is
checked, valid lines are returned, and skipped ones are reported.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tui.allocators.agents import find_running
from tui.core.text import numbers as fmt
from tui.snapshots.explain.inventory import Inventory, parse_inventory
from tui.watch.runs.agent_events import (
    BeginEvent,
    EndEvent,
    HandledEvent,
    HistoryEvent,
    InventoryEvent,
    NoSnapshotEvent,
    OomEvent,
    RehearsedEvent,
    SnapshotEvent,
    TroubleEvent,
    parse_event,
)
from tui.watch.runs.ooms import BY_DRIVER, FROM_EXCEPTION, Oom, format_request, rebuilt_text
from tui.watch.runs.untrusted import (
    LONGEST_LINE,
    UntrustedError,
    lines_of,
    open_regular,
    plain_name,
    read_start,
    regular_size,
)
from workloads.protocol import wire

MOST_LOG_BYTES = 64 << 20
"""Most bytes of a process's file that are read."""
MOST_FOLDER_BYTES = 256 << 20
"""Most bytes of all processes' files together."""
_MOST = f"{MOST_FOLDER_BYTES >> 20} MiB"
MOST_ENTRIES = 10_000
"""Most entries of a run's folder that are examined."""
MOST_OOMS = 5000
"""Most OOM records of a process; its agent writes a thousand, and those with snapshots."""
MOST_SNAPSHOTS = 1000
MOST_TROUBLES = 50
MOST_REASONS = 3
"""Most skipped lines of a file that are explained one by one."""
_LONGEST_TROUBLE = 500
_MOST_RANK_DIGITS = 9
SAMPLES = "samples.jsonl"
_SO_FAST = "OOMs came so fast that not each was given a snapshot"
_BEING_WRITTEN = "it is being written"
_UNFINISHED = "its process ended before it was written"
_NOT_YET_KNOWN = "the process is running: no step and no OOM has followed yet"
_NOT_SEEN = "it was killed, or left by os._exit: nothing tells whether it went on"
_REPLACED = "the process executed another program: nothing tells whether this one went on"


@dataclass(frozen=True, slots=True)
class RequestedSnapshot:
    """A snapshot that was requested."""

    at: float
    """Unix time at which it was written."""
    step: int
    path: Path


@dataclass(frozen=True, slots=True)
class ProcessLog:
    """One program of one process."""

    identity: str
    """``HOST-PID-START``, with ``.2`` and so on for the later programs of a process."""
    pid: int
    host: str
    rank: str | None
    torch: str
    began: float
    """Unix time at which it first used CUDA."""
    steps: int | None = None
    """Optimizer steps; ``None`` if it has not reported them: it is running, or was killed."""
    ended: bool = False
    """True if the interpreter reached its regular end."""
    ended_at: float | None = None
    """Unix time of that end."""
    text: str = ""
    """Text of the exception that ended it."""
    kind: str = ""
    """Class of that exception."""
    records: bool = False
    """True if the agent ever switched torch's memory history on."""
    ooms: tuple[Oom, ...] = ()
    oom_count: int = 0
    """OOMs in all; larger than the number of records if there were very many."""
    snapshots: tuple[RequestedSnapshot, ...] = ()
    """Requested snapshots that still exist."""
    troubles: tuple[str, ...] = ()
    """Operations that the agent could not carry out."""
    program: int = 1
    """Number of the program among all that the process has executed."""
    replaced: bool = False
    """True if the process has executed another program since."""
    running: bool = False
    """True if it was running when its file was read, to which it may add lines."""
    rehearsed: RehearsedEvent | None = None
    """The measurement of a rehearsal; ``None`` if this was none, or the process was killed."""

    @property
    def rank_number(self) -> int | None:
        """The rank; ``None`` without a launcher, or if it is no number."""
        text = self.rank or ""
        return int(text) if text.isdecimal() and len(text) <= _MOST_RANK_DIGITS else None


@dataclass(frozen=True, slots=True)
class Contents:
    """The logs that a run's agents left, and the parts that could not be read."""

    logs: tuple[ProcessLog, ...]
    """The logs, in the order in which the programs began."""
    skipped: tuple[str, ...]
    """One line each: the file, the part, and the reason."""


def process_logs_in(folder: Path) -> list[ProcessLog]:
    """Return the log of each process, in the order in which they began."""
    return list(read_folder(folder).logs)


def read_folder(folder: Path) -> Contents:
    """Read the logs of a run's agents, with reasons for unreadable logs."""
    logs: list[ProcessLog] = []
    skipped: list[str] = []
    budget = MOST_FOLDER_BYTES
    for path in agent_files(folder):
        size = regular_size(path) or 0
        if budget <= 0:
            skipped.append(f"{path.name}: not read, the files before it are {_MOST} already")
            continue
        budget -= min(size, MOST_LOG_BYTES)
        # In this order: a process that has ended before has written its last line.
        is_running = bool(find_running(process_of(path.stem)))
        try:
            reading = _FileReading(folder, path, is_running=is_running)
        except OSError as error:
            skipped.append(f"{path.name} cannot be read: {error.strerror or error}")
            continue
        logs += reading.logs
        skipped += reading.skipped
    newest: dict[str, int] = {}
    for log in logs:
        base = process_of(log.identity)
        newest[base] = max(newest.get(base, 0), log.program)
    marked = [
        log if log.ended or log.program == newest[process_of(log.identity)] else _as_replaced(log)
        for log in logs
    ]
    return Contents(tuple(sorted(marked, key=lambda log: log.began)), tuple(skipped))


def parse_log(identity: str, folder: Path, lines: Iterable[bytes]) -> Contents:
    """Parse the lines of one agent's file on another machine, where its snapshots stay.

    Args:
        identity: of the program that wrote them.
        folder: of the run, there.
        lines: each with its end.
    """
    reading = _FileReading(folder, Path(f"{identity}.jsonl"), lines, is_here=False)
    return Contents(tuple(reading.logs), tuple(reading.skipped))


def agent_files(folder: Path) -> list[Path]:
    """Return the paths of all processes' files, by name; a path may not be a regular file."""
    return [path for path in _entries(folder, ".jsonl") if path.name != SAMPLES]


def snapshots_in(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return change time (ns) and size in bytes of the snapshots, which are regular files."""
    snapshots = {}
    for path in _entries(folder, ".pickle"):
        if regular_size(path) is not None:
            facts = path.lstat()
            snapshots[path] = facts.st_mtime_ns, facts.st_size
    return snapshots


def _entries(folder: Path, ending: str) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, MOST_ENTRIES)]
    except OSError:
        return []
    return [folder / name for name in sorted(names) if name.endswith(ending)]


def process_of(identity: str) -> str:
    """Return the process's part of a program's identity: ``box-7-100`` of ``box-7-100.2``."""
    return identity.partition(".")[0]


def troubles_in(folder: Path) -> list[str]:
    """Return why processes have no agent, one line each."""
    path = folder / "agent-errors.log"
    try:
        text = read_start(path, 8 * _LONGEST_TROUBLE).decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"not known: {path.name} cannot be read: {error.strerror or error}"]
    return [line[:_LONGEST_TROUBLE] for line in text.splitlines()[:8]]


class _FileReading:
    """Reading of one process's file: its programs, and the skipped lines.

    Args:
        folder: of the run.
        path: of the file, which names the process.
        lines: of the file; ``None`` to read it.
        is_here: the folder is on this machine.
        is_running: the process runs.

    Raises:
        OSError: the file is not regular, or may not be read.
    """

    def __init__(
        self,
        folder: Path,
        path: Path,
        lines: Iterable[bytes] | None = None,
        *,
        is_here: bool = True,
        is_running: bool = False,
    ) -> None:
        self.logs: list[ProcessLog] = []
        self.skipped: list[str] = []
        self._folder = folder
        self._path = path
        self._is_here = is_here
        self._is_running = is_running
        self._program: _ProgramReading | None = None
        self._count = 0
        for number, line in enumerate(self._lines() if lines is None else lines, 1):
            try:
                self._apply(line)
            except UntrustedError as error:
                self._skip(number, str(error))
        self._finish()
        if self._count > MOST_REASONS:
            more = fmt.count(self._count - MOST_REASONS, "more line")
            self.skipped.append(f"{path.name}: {more} skipped")

    def _lines(self) -> Iterator[bytes]:
        total = 0
        with open_regular(self._path) as file:
            for line in lines_of(file):
                total += len(line)
                if total > MOST_LOG_BYTES:
                    most = fmt.size(MOST_LOG_BYTES)
                    self.skipped.append(f"{self._path.name}: what is beyond {most} is not read")
                    return
                if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                    return  # the line is being written, or its process was killed while writing
                if line != b"\n":
                    yield line

    def _apply(self, line: bytes) -> None:
        event = parse_event(line)
        if isinstance(event, BeginEvent):
            if process_of(event.identity) != process_of(self._path.stem):
                raise UntrustedError("it is of another process than the file")
            self._finish()
            self._program = _ProgramReading(
                self._folder, self._begin_program(event), is_here=self._is_here
            )
        elif self._program is None:
            raise UntrustedError("it comes before the process's first line")
        elif event is not None:
            self._program.apply(event)

    def _begin_program(self, event: BeginEvent) -> ProcessLog:
        """Return a program at its first line.

        Older agents wrote all programs of a process to one file.
        """
        before = self.logs[-1].program if self.logs else 0
        program = max(event.program, before + 1)
        own = process_of(event.identity)
        identity = own if program == 1 else f"{own}.{program}"
        return ProcessLog(
            identity,
            event.pid,
            event.host,
            event.rank,
            event.torch,
            event.at,
            program=program,
            running=self._is_running,
        )

    def _finish(self) -> None:
        if self._program is not None:
            self.logs.append(self._program.result())
            if self._program.beyond:
                self.skipped.append(f"{self._path.name}: {self._program.beyond}")
            self._program = None

    def _skip(self, number: int, why: str) -> None:
        self._count += 1
        if self._count <= MOST_REASONS:
            self.skipped.append(f"{self._path.name}, line {number} is skipped: {why}")


class _ProgramReading:
    """The events of one program, applied one after another."""

    def __init__(self, folder: Path, log: ProcessLog, *, is_here: bool) -> None:
        self.beyond = ""
        """The part of the log beyond a limit, which is skipped; empty if all was applied."""
        self._log = log
        self._folder = folder
        self._is_here = is_here
        self._ooms: dict[int, Oom] = {}
        self._awaited: set[int] = set()
        """OOMs whose snapshots have begun."""
        self._snapshots: list[RequestedSnapshot] = []
        self._troubles: list[str] = []
        self._ran_out = False
        """True if an OOM ended the process."""

    def apply(self, event: Any) -> None:
        """Apply one event.

        Raises:
            UntrustedError: the event contains impossible values.
        """
        if isinstance(event, OomEvent):
            self._apply_oom(event)
        elif isinstance(event, SnapshotEvent):
            self._apply_snapshot(event)
        elif isinstance(event, HandledEvent):
            self._change(event.oom, handled=True, why_not_known="")
        elif isinstance(event, InventoryEvent):
            self._change(event.oom, inventory=_inventory(event))
        elif isinstance(event, NoSnapshotEvent):
            self._awaited.discard(event.oom)
            self._change(event.oom, why_no_snapshot=event.text)
        elif isinstance(event, TroubleEvent):
            self._troubles.append(f"{event.doing}: {event.text}"[:_LONGEST_TROUBLE])
            del self._troubles[MOST_TROUBLES:]
        elif isinstance(event, HistoryEvent):
            self._log = replace(self._log, records=True)
        elif isinstance(event, RehearsedEvent):
            self._apply_rehearsed(event)
        elif isinstance(event, EndEvent):
            self._ran_out = event.out_of_memory
            self._log = replace(
                self._log,
                ended=True,
                ended_at=event.at,
                steps=event.steps,
                oom_count=event.ooms,
                text=event.text,
                kind=event.type,
            )

    def _apply_rehearsed(self, event: RehearsedEvent) -> None:
        if event.snapshot is not None:
            path = self._folder / plain_name(event.snapshot)
            if regular_size(path) is None:
                event = replace(event, snapshot=None, no_snapshot="the file is gone")
            else:
                self._snapshots.append(RequestedSnapshot(event.at, event.steps, path))
        self._log = replace(self._log, rehearsed=event)

    def _apply_snapshot(self, event: SnapshotEvent) -> None:
        path = self._folder / plain_name(event.name)
        if not self._is_here:
            if event.oom is not None:
                self._awaited.discard(event.oom)
                self._change(event.oom, why_no_snapshot=f"it is on {self._log.host}: {path}")
            return
        exists = regular_size(path) is not None
        if event.oom is None:
            if exists and len(self._snapshots) < MOST_SNAPSHOTS:
                self._snapshots.append(RequestedSnapshot(event.at, event.step, path))
            return
        self._awaited.discard(event.oom)
        if exists:
            self._change(event.oom, snapshot=path, why_no_snapshot="")
        elif path.is_symlink() or path.exists():
            self._change(event.oom, why_no_snapshot=f"{event.name} is no regular file")
        else:
            self._change(event.oom, why_no_snapshot="a later OOM's has taken its place")

    def _change(self, number: int, **facts: Any) -> None:
        if number in self._ooms:
            self._ooms[number] = replace(self._ooms[number], **facts)

    def _apply_oom(self, event: OomEvent) -> None:
        if event.oom in self._ooms or len(self._ooms) < MOST_OOMS:
            self._ooms[event.oom] = _oom(event)
            if event.snapshot_follows:
                self._awaited.add(event.oom)
        else:
            self.beyond = f"OOMs beyond the first {fmt.count(MOST_OOMS)} are skipped"

    def result(self) -> ProcessLog:
        """Return the program's log, once all events were applied."""
        ooms = [
            _judge(self._note_awaited(oom), self._log, self._ran_out) for oom in self._ooms.values()
        ]
        return replace(
            self._log,
            ooms=_reuse_inventories(ooms),
            oom_count=max(self._log.oom_count, max(self._ooms, default=0)),
            snapshots=tuple(self._snapshots),
            troubles=tuple(self._troubles),
        )

    def _note_awaited(self, oom: Oom) -> Oom:
        """Return an OOM with why its snapshot is absent if the snapshot was begun."""
        if oom.number not in self._awaited:
            return oom
        if not self._log.running or self._log.ended or oom.handled:
            return replace(oom, why_no_snapshot=_UNFINISHED)
        return replace(oom, why_no_snapshot=_BEING_WRITTEN, is_examined=True)


REUSED_WITHIN = 0.1
"""Largest difference in allocated bytes, as a share, between two OOMs with the same tensors."""


def _reuse_inventories(ooms: Iterable[Oom]) -> tuple[Oom, ...]:
    """Give an OOM without an inventory the newest earlier one of the same step and memory.

    A program that retries runs out of memory so often within a second that the agent takes no
    inventory of the last OOM, which ends it.
    """
    reused: list[Oom] = []
    earlier: dict[tuple[int, int], Oom] = {}
    for oom in ooms:
        key = oom.device, oom.step
        before = earlier.get(key)
        if oom.inventory is not None:
            earlier[key] = oom
        elif oom.snapshot is None and before is not None and before.inventory is not None:
            apart = abs(oom.allocated - before.allocated)
            if apart <= REUSED_WITHIN * oom.allocated:
                oom = replace(
                    oom,
                    # Its threads were elsewhere.
                    inventory=replace(before.inventory, threads=()),
                    why_no_snapshot=f"{oom.why_no_snapshot}; names are those of OOM "
                    f"{before.number}",
                )
        reused.append(oom)
    return tuple(reused)


def _inventory(event: InventoryEvent) -> Inventory:
    """Return the inventory of an event.

    Raises:
        UntrustedError: the event is inconsistent.
    """
    try:
        return parse_inventory(event.inventory)
    except wire.WireError as error:
        raise UntrustedError(str(error)[:200]) from error


def _oom(event: OomEvent) -> Oom:
    names = ("step", "device", "request", "free", "limit", "allocated", "reserved")
    facts = {name: getattr(event, name) for name in (*names, "thread", "where", "requested")}
    oom = Oom(number=event.oom, at=event.happened, stack=event.frames, **facts)
    if oom.request is None or oom.free is None or oom.limit is None:
        why = "torch's allocator passed the driver's error on"
        return replace(oom, why_no_snapshot=why, why_not_known=_NOT_SEEN, text_source=BY_DRIVER)
    return replace(
        oom,
        text=rebuilt_text(oom),
        why_no_snapshot=_SO_FAST,
        why_not_known=_NOT_SEEN,
    )


# ---- whether the program continued ----


def _judge(oom: Oom, log: ProcessLog, ran_out: bool) -> Oom:
    """Judge an OOM that no step or OOM followed: it ended the process, or why that is unknown.

    A program that catches the OOM and leaves by ``sys.exit(1)`` leaves no exception; the
    evidence of its exit code is added by :mod:`tui.watch.runs.failures`.
    """
    if oom.handled:
        return oom
    if not log.ended:
        return replace(oom, why_not_known=_NOT_YET_KNOWN) if log.running else oom
    if ran_out and (oom.request is None or format_request(oom.request) in log.text):
        return replace(
            oom, handled=False, why_not_known="", text=log.text, text_source=FROM_EXCEPTION
        )
    who = "" if oom.thread == "main" else "a thread that was not the main one asked, and "
    end = f"the process was ended by {log.kind}" if log.kind else "the process ended"
    return replace(oom, why_not_known=f"{who}{end} with no optimizer step and no OOM after it")


def _as_replaced(log: ProcessLog) -> ProcessLog:
    """Return a program's log with the mark that its process then executed another program."""
    ooms = tuple(
        oom if oom.handled is not None else replace(oom, why_not_known=_REPLACED)
        for oom in log.ooms
    )
    return replace(log, replaced=True, running=False, ooms=ooms)


def joined(programs: Sequence[ProcessLog]) -> ProcessLog:
    """Return the programs of one process as a single log; OOMs are numbered consecutively.

    Args:
        programs: at least one, in their order.
    """
    if len(programs) == 1:
        return programs[0]
    steps = [program.steps for program in programs]
    ooms, before = [], 0
    for program in programs:
        ooms += [replace(oom, number=before + oom.number) for oom in program.ooms]
        before += program.oom_count
    return replace(
        programs[-1],
        began=programs[0].began,
        steps=None if None in steps else sum(step for step in steps if step is not None),
        ooms=tuple(ooms),
        oom_count=before,
        snapshots=tuple(snapshot for program in programs for snapshot in program.snapshots),
        troubles=tuple(trouble for program in programs for trouble in program.troubles),
        records=any(program.records for program in programs),
    )
