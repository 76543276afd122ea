"""Client of one snapshot reader: start, calls, answers and death.

It keeps the newest answer of each slot while a newer call waits, so that panes can draw it.
No Textual.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal

from tui.core.child.launch import FOLDER, own_command, too_many_files
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.snapshots import MEMORY_OPTION, STANDARD_INPUT
from tui.snapshots.explain.evidence import OomContext
from tui.snapshots.model.calls import (
    SET_OOM_TEXT,
    VERDICT,
    Arguments,
    Method,
    Need,
    OomTextArguments,
    Slot,
    Value,
)
from tui.snapshots.model.results import Summary
from tui.snapshots.read import limits
from tui.snapshots.read.naming import clean
from tui.snapshots.reader.messages import (
    READER_EVENTS,
    VERSION,
    Call,
    CallAnswer,
    Estimated,
    Load,
    Loaded,
    LoadProgress,
    ReaderEvent,
    ReaderHello,
)
from workloads.protocol.wire import WireError

Status = Literal["empty", "loading", "ready", "failed", "cancelled"]

LONGEST_TEXT = 1 << 18
"""Maximum characters of exception text sent to the reader, which gets the end of a longer one."""


def create_reader(source: int | None = None) -> ChildProcess[ReaderEvent]:
    """Create a reader process without starting it.

    Args:
        source: descriptor to read for ``-``.
    """
    named = () if source is None else ("--input", str(source))
    inherit = () if source is None else (source,)
    command = own_command("tui.snapshots", *named)
    return ChildProcess(command, READER_EVENTS, folder=FOLDER, inherit=inherit)


def format_paths(paths: Sequence[str]) -> str:
    """Format the names of files for a message."""
    return " and ".join("standard input" if p == STANDARD_INPUT else clean(p) for p in paths)


def describe_death(paths: Sequence[str], how: str, last_words: str, *, loaded: bool) -> str:
    """Describe a reader's death in one line: what, why, what to do.

    Args:
        paths: the files of the reader.
        how: as :meth:`tui.core.child.process.ChildProcess.ended` says.
        last_words: the last line of its standard error.
        loaded: the reader had loaded the files and died during a call.
    """
    doing = "while analysing" if loaded else "while reading"
    if "SIGKILL" in how:
        why = "it was killed, most likely because memory ran out"
        remedy = "free memory, or read the file on a machine with more"
    elif limits.SIGNAL.name in how:
        why = (
            f"it took more than {limits.WORDS}, far more than a snapshot: the file is damaged"
            " or hostile"
        )
        remedy = "copy the file again, or take the snapshot again"
    elif "SIG" in how:
        why = f"it died of {how}: the file is damaged or hostile"
        remedy = "copy the file again, or take the snapshot again"
    elif "MemoryError" in last_words:
        why = "it needs more memory than is allowed"
        remedy = f"allow it more ({MEMORY_OPTION} SIZE), or read the file on a machine with more"
    else:
        why = f"{how}{': ' if last_words else ''}{clean(last_words)[:200]}"
        remedy = "open it again, and report this if it comes back"
    return f"the reader ended {doing} {format_paths(paths)}: {why}; {remedy}"


class CallError(Exception):
    """Loading or a call failed; the text is one line with the reason."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The reason why a call has no value, in one line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Answered(Generic[Arguments, Value]):
    """A call with its value or refusal."""

    need: Need[Arguments, Value]
    id: int
    value: Value | Refused


class SnapshotStore:
    """One reader's files and answers."""

    def __init__(
        self, status: Status = "empty", paths: tuple[str, ...] = (), oom_text: str = ""
    ) -> None:
        self.status = status
        self.paths = paths
        self.oom_text = oom_text
        self.reason = ""
        """Why loading failed or was cancelled, in one line."""
        self.estimate: Estimated | None = None
        self.progress: LoadProgress | None = None
        self.loaded: Loaded | None = None
        self.answers: dict[Slot, Answered[Any, Any]] = {}
        self._sent: dict[int, Need[Any, Any]] = {}
        self._texts: dict[int, str] = {}
        """Received parts of long texts, by the ids of their calls."""

    def end(self, status: Status, reason: str) -> None:
        """Mark the reader as ended; known answers stay."""
        self.status, self.reason = status, reason
        self._sent.clear()

    # ---- calls ----

    def must_send(self, need: Need[Any, Any]) -> bool:
        """Return whether a call must be sent, neither answered nor waiting yet."""
        if self.status != "ready":
            return False
        newest = self._waiting(need.slot)
        if newest is None:
            done = self.answers.get(need.slot)
            newest = None if done is None else done.need
        return newest != need

    def is_waiting_for(self, need: Need[Any, Any]) -> bool:
        """Return whether this exact call waits for its answer."""
        return self._waiting(need.slot) == need

    def record_call(self, number: int, need: Need[Any, Any]) -> None:
        """Record a sent call under its id."""
        self._sent[number] = need

    @property
    def waiting(self) -> bool:
        """True if a call waits for its answer."""
        return bool(self._sent)

    def drop_verdicts(self) -> None:
        """Drop the verdicts, which other facts may change."""
        self.answers = {
            slot: done for slot, done in self.answers.items() if done.need.method != VERDICT
        }

    def find_answer(self, need: Need[Arguments, Value]) -> Answered[Arguments, Value] | None:
        """Return the answer to this exact call, if any."""
        done = self.answers.get(need.slot)
        return done if done is not None and done.need == need else None

    def find_newest_answer(self, need: Need[Arguments, Value]) -> Answered[Arguments, Value] | None:
        """Return the exact answer, else the newest of its slot and device that has a value."""
        done = self.answers.get(need.slot)
        if done is None or done.need == need:
            return done
        # An older answer for another device would be wrong.
        alike = _device(done.need) == _device(need) and not isinstance(done.value, Refused)
        return done if alike else None

    def _waiting(self, slot: Slot) -> Need[Any, Any] | None:
        waiting = (need for need in reversed(self._sent.values()) if need.slot == slot)
        return next(waiting, None)

    # ---- events ----

    def apply(self, event: ReaderEvent) -> None:
        """Apply one event of the reader.

        Raises:
            WireError: the value of an answer is not of its method's type.
        """
        if isinstance(event, Estimated):
            self.estimate = event
        elif isinstance(event, LoadProgress):
            self.progress = event
        elif isinstance(event, Loaded):
            self.loaded, self.status, self.progress = event, "ready", None
        elif isinstance(event, CallAnswer) and self.status == "loading":
            # No call precedes the file, so this is the reason why it cannot be read.
            self.end("failed", event.error or "the reader answered before it had read the file")
        elif isinstance(event, CallAnswer):
            self._answer(event)

    def _answer(self, event: CallAnswer) -> None:
        if event.more:
            self._texts[event.id] = self._texts.get(event.id, "") + str(event.value)
            return
        need = self._sent.pop(event.id, None)
        begun = self._texts.pop(event.id, "")
        if need is None:
            return
        # The reader never answers a call that a newer one replaced.
        for number, older in list(self._sent.items()):
            if number < event.id and older.slot == need.slot:
                del self._sent[number]
        value: object
        if event.error is not None:
            value = Refused(event.error)
        else:
            value = need.method.parse_value(begun + str(event.value) if begun else event.value)
        done = self.answers.get(need.slot)
        if done is None or done.id < event.id:
            self.answers[need.slot] = Answered(need, event.id, value)

    def summary(self, device: int | None) -> Summary | None:
        """Return the summary of one device of the first file."""
        if self.loaded is None:
            return None
        return next((item for item in self.loaded.devices if item.device == device), None)


def _device(need: Need[Any, Any]) -> int | None:
    return getattr(need.arguments, "device", None)


class SnapshotReader:
    """Client of a reader process with one file, or two to compare.

    Args:
        changed: called after each event, in the event loop.
        memory: limit for reading in bytes; ``None`` for a quarter of the available memory.
        known: returns a watched run's facts about a snapshot; ``None`` for no run.
    """

    def __init__(
        self,
        changed: Callable[[], None] = lambda: None,
        memory: int | None = None,
        known: Callable[[Path], OomContext | None] = lambda _path: None,
    ) -> None:
        self.store = SnapshotStore()
        self.child: ChildProcess[ReaderEvent] | None = None
        self._changed = changed
        self._memory = memory
        self._known = known
        self._numbers = itertools.count(1)
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[str]] = set()
        self._news = asyncio.Event()
        """Set, and replaced, at each change."""

    def listen(self, changed: Callable[[], None]) -> None:
        """Set the function to call after each event."""
        self._changed = changed

    def open(self, paths: Sequence[str], oom_text: str = "") -> None:
        """Read other files in a new process and drop all answers.

        Args:
            paths: one file, or two to compare.
            oom_text: messages of exceptions.
        """
        self.load(Load(0, tuple(paths), oom_text=oom_text, memory=self._memory))

    def load(self, request: Load) -> None:
        """Read other files in a new process, with all options of a request.

        Args:
            request: paths may be relative or ``-``; its id is replaced.

        Raises:
            OSError: standard input cannot be passed to the reader.
        """
        self._end_child()
        request = replace(request, paths=tuple(map(_make_absolute, request.paths)))
        self.store = SnapshotStore("loading", request.paths, request.oom_text)
        # A copy with its own number: the child's standard input is the pipe for requests.
        source = os.dup(sys.stdin.fileno()) if STANDARD_INPUT in request.paths else None
        self.child = create_reader(source)
        self._task = asyncio.create_task(self._live(self.child, request))
        self._task.add_done_callback(self._ended)
        if source is not None:
            self._task.add_done_callback(lambda _task: os.close(source))
        self._report_change()

    async def loaded(self) -> Loaded:
        """Wait until the files are loaded.

        Raises:
            CallError: the files cannot be read, or the reader died.
        """
        while self.store.status == "loading":
            await self._news.wait()
        if self.store.loaded is None:
            raise CallError(self.store.reason)
        return self.store.loaded

    def request(self, need: Need[Any, Any]) -> None:
        """Send a call unless it is answered or waiting."""
        if self.store.must_send(need):
            self._send(need)

    async def call(self, method: Method[Arguments, Value], arguments: Arguments) -> Value:
        """Return the value of a method.

        Raises:
            CallError: the call was refused or replaced, or the reader has ended.
        """
        need = Need(method, arguments)
        self.request(need)
        while (done := self.store.find_answer(need)) is None:
            if not self.store.is_waiting_for(need):
                raise CallError(self.store.reason or f"replaced by a newer call of {method.name}")
            await self._news.wait()
        if isinstance(done.value, Refused):
            raise CallError(done.value.reason)
        return done.value

    def set_text(self, text: str) -> None:
        """Send exception messages to the reader and drop its verdicts."""
        text = text[-LONGEST_TEXT:]
        self.store.oom_text = text
        self.store.drop_verdicts()
        self._send(Need(SET_OOM_TEXT, OomTextArguments(text)))
        self._report_change()

    def cancel(self) -> None:
        """Kill the reader while it loads."""
        if self.store.status == "loading":
            self._end_child()
            self.store.end("cancelled", f"reading {format_paths(self.store.paths)} was cancelled")
            self._report_change()

    async def stop(self) -> None:
        """Kill the reader and wait for its end."""
        self._end_child()
        if self._ending:
            await asyncio.gather(*self._ending)

    def _send(self, need: Need[Any, Any]) -> None:
        number = next(self._numbers)
        call = Call(number, need.method.name, need.arguments, need.slot)
        if self.child is not None and self.child.send(call):
            self.store.record_call(number, need)

    def _report_change(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
        self._changed()

    def _end_child(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self.child is not None:
            if self.child.running:
                self.child.kill()
            ending = asyncio.create_task(self.child.stop())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            self.child = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Report an unexpected error, so that no screen waits forever."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.store.end("failed", f"reading failed: {type(error).__name__}: {error}")
            self._report_change()

    async def _live(self, child: ChildProcess[ReaderEvent], request: Load) -> None:
        try:
            await child.start()
        except OSError as error:
            why = too_many_files(error) or error
            self.store.end("failed", f"the reader cannot be started: {why}")
            self._report_change()
            return
        # A thread, because the samples of a long run take a while to read.
        complete = await asyncio.to_thread(self._complete_load, request)
        child.send(complete)
        async for event in child.events():
            fault = self._apply(event)
            if fault:
                self.store.end("failed", fault)
                child.kill()
                break
            self._report_change()
        how = await child.ended()
        if self.store.status in ("loading", "ready"):
            last = next(iter(child.stderr.last(1)), "")
            loaded = self.store.status == "ready"
            self.store.end("failed", describe_death(request.paths, how, last, loaded=loaded))
        self._report_change()

    def _apply(self, event: ReaderEvent | MalformedMessage) -> str:
        """Apply an event of the reader; return why the reader cannot go on, empty if it can."""
        if isinstance(event, MalformedMessage):
            return f"the reader sent a malformed answer: {event.reason}"
        if isinstance(event, ReaderHello) and event.version != VERSION:
            return "the reader is of another version: install gpu-workbench again"
        try:
            self.store.apply(event)
        except WireError as error:
            return f"the reader sent a malformed answer: {error}"
        return ""

    def _complete_load(self, request: Load) -> Load:
        """Add a watched run's facts about the snapshot, unless the request has them."""
        known = self._known(Path(request.paths[0])) if request.circumstances is None else None
        text = request.oom_text or (known.text if known is not None else "")
        return replace(
            request,
            id=next(self._numbers),
            oom_text=text[-LONGEST_TEXT:],
            circumstances=request.circumstances if known is None else known.circumstances,
        )


def _make_absolute(path: str) -> str:
    return path if path == STANDARD_INPUT else str(Path(path).expanduser().absolute())
