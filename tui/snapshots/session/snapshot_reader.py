"""A reader child: how it starts and dies, what it is asked, what it has said. No Textual.

Panes say what they want to show; the newest answer to each kind of question stays here, also while
a newer question of its kind waits, so that something is there to be drawn.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tui.core.child.launch import FOLDER, own_command
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.snapshots import MEMORY_OPTION, STANDARD_INPUT
from tui.snapshots.explain.evidence import KnownOfSnapshot
from tui.snapshots.model.results import Summary
from tui.snapshots.read import time_limit
from tui.snapshots.read.naming import clean
from tui.snapshots.reader.messages import (
    READER_EVENTS,
    VERSION,
    Answer,
    Estimated,
    Load,
    Loaded,
    Progress,
    ReaderEvent,
    ReaderHello,
    Refused,
    Request,
    SetOomText,
    Slot,
    numbered,
    same,
    slot,
)


def reader(source: int | None = None) -> ChildProcess[ReaderEvent]:
    """Return a reader that is not started yet.

    Args:
        source: descriptor that it reads where it is asked for ``-``.
    """
    named = () if source is None else ("--input", str(source))
    inherit = () if source is None else (source,)
    command = own_command("tui.snapshots", *named)
    return ChildProcess(command, READER_EVENTS, folder=FOLDER, inherit=inherit)


def names(paths: Sequence[str]) -> str:
    """Return the names of the files, for a message."""
    return " and ".join("standard input" if p == STANDARD_INPUT else clean(p) for p in paths)


def death_in_words(paths: Sequence[str], how: str, last_words: str, *, loaded: bool) -> str:
    """One line for a reader that died: what, why, what to do.

    Args:
        paths: what it was reading.
        how: as :meth:`tui.core.child.process.ChildProcess.ended` says.
        last_words: the last line of its standard error.
        loaded: it had read the file and died over a question.
    """
    doing = "over a question about" if loaded else "reading"
    if "SIGKILL" in how:
        why = "it was killed, most likely because memory ran out"
        remedy = "free memory, or read the file on a machine with more"
    elif time_limit.SIGNAL.name in how:
        why = (
            f"it took more than {time_limit.WORDS}, far more than a snapshot: the file is damaged"
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
    return f"the reader ended {doing} {names(paths)}: {why}; {remedy}"


Status = Literal["empty", "loading", "ready", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and what came of it."""

    request: Request
    answer: Answer | Refused


class SnapshotStore:
    """One reader's files and answers."""

    def __init__(self) -> None:
        self._set("empty", (), "")

    def begin(self, paths: tuple[str, ...], oom_text: str) -> None:
        """Forget everything: other files are being read."""
        self._set("loading", paths, oom_text)

    def _set(self, status: Status, paths: tuple[str, ...], oom_text: str) -> None:
        self.status: Status = status
        self.paths = paths
        self.oom_text = oom_text
        self.reason = ""
        """Why it failed or was cancelled, in one line."""
        self.estimate: Estimated | None = None
        self.progress: Progress | None = None
        self.loaded: Loaded | None = None
        self.answers: dict[Slot, Answered] = {}
        self._sent: dict[int, Request] = {}

    def end(self, status: Status, reason: str) -> None:
        """Nothing can be asked any more; what is known stays on the screen."""
        self.status, self.reason = status, reason
        self._sent.clear()

    # ---- questions ----

    def needs(self, request: Request) -> bool:
        """Return whether a question must be sent: it is neither answered nor waiting."""
        if self.status != "ready":
            return False
        waiting = self._waiting(slot(request))
        if waiting is not None:
            return not same(waiting, request)
        done = self.answers.get(slot(request))
        return done is None or not same(done.request, request)

    def sent(self, request: Request) -> None:
        """Store a request that was sent, under its id."""
        self._sent[request.id] = request

    @property
    def waiting(self) -> bool:
        """A question is not answered yet."""
        return bool(self._sent)

    def forget(self, kind: str) -> None:
        """Drop the answers to one kind of question: they no longer hold."""
        self.answers = {key: held for key, held in self.answers.items() if key[0] != kind}

    def exactly(self, request: Request) -> Answer | Refused | None:
        """Return the answer to this exact request, if it is there."""
        done = self.answers.get(slot(request))
        return done.answer if done is not None and same(done.request, request) else None

    def newest(self, request: Request) -> Answered | None:
        """Return the newest answer to any request of this kind."""
        return self.answers.get(slot(request))

    def _waiting(self, key: Slot) -> Request | None:
        found = None
        for request in self._sent.values():
            if slot(request) == key:
                found = request
        return found

    # ---- events ----

    def apply(self, event: ReaderEvent) -> None:
        """Take in one event of the reader."""
        if isinstance(event, ReaderHello):
            return
        if isinstance(event, Estimated):
            self.estimate = event
        elif isinstance(event, Progress):
            self.progress = event
        elif isinstance(event, Loaded):
            self.loaded, self.status, self.progress = event, "ready", None
        elif isinstance(event, Refused) and event.fatal:
            self.end("failed", event.reason)
        else:
            self._answer(event)

    def _answer(self, event: Answer | Refused) -> None:
        request = self._sent.pop(event.id, None)
        if request is None:
            return
        key = slot(request)
        # The reader drops a question that a newer one replaced: it will not be answered.
        for number, older in list(self._sent.items()):
            if number < event.id and slot(older) == key:
                del self._sent[number]
        held = self.answers.get(key)
        if held is None or held.request.id < event.id:
            self.answers[key] = Answered(request, event)

    # ---- look ----

    def summary(self, device: int | None) -> Summary | None:
        """Of one device of the first file."""
        if self.loaded is None:
            return None
        return next((item for item in self.loaded.devices if item.device == device), None)


LONGEST_TEXT = 1 << 18
"""Characters of exceptions' text that are sent on, the last ones."""


class SnapshotReader:
    """One file, or two to compare, in a child of its own.

    Args:
        changed: called after each event, in the event loop.
        memory: bytes that reading may take; ``None`` for a quarter of what is available.
        known: returns what the run that wrote a snapshot knows of it; ``None`` for no run.
    """

    def __init__(
        self,
        changed: Callable[[], None] = lambda: None,
        memory: int | None = None,
        known: Callable[[Path], KnownOfSnapshot | None] = lambda _path: None,
    ) -> None:
        self.store = SnapshotStore()
        self.child: ChildProcess[ReaderEvent] | None = None
        self._changed = changed
        self._memory = memory
        self._known = known
        self._numbers = itertools.count(1)
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[str]] = set()

    def listen(self, changed: Callable[[], None]) -> None:
        """Have another function called after each event."""
        self._changed = changed

    def open(self, paths: Sequence[str], oom_text: str = "") -> None:
        """Read other files; whatever was read or asked before is dropped.

        Args:
            paths: one file, or two to compare.
            oom_text: messages of exceptions.
        """
        self._end_child()
        absolute = tuple(str(Path(path).expanduser().absolute()) for path in paths)
        self.store.begin(absolute, oom_text)
        self.child = reader()
        self._task = asyncio.create_task(self._live(self.child, absolute))
        self._task.add_done_callback(self._ended)
        self._changed()

    def want(self, request: Request) -> None:
        """See to it that a question is or will be answered."""
        if self.store.needs(request):
            self._send(request)

    def set_text(self, text: str) -> None:
        """Give the reader the messages of exceptions; verdicts are judged anew."""
        text = text[-LONGEST_TEXT:]
        self.store.oom_text = text
        self.store.forget("AskVerdict")
        self._send(SetOomText(0, text))
        self._changed()

    def cancel(self) -> None:
        """End the reader, whatever it does."""
        if self.store.status == "loading":
            self._end_child()
            self.store.end("cancelled", f"reading {names(self.store.paths)} was cancelled")
            self._changed()

    async def stop(self) -> None:
        """End the reader for good."""
        self._end_child()
        if self._ending:
            await asyncio.gather(*self._ending)

    def _send(self, request: Request) -> None:
        if self.child is None:
            return
        asked = numbered(request, next(self._numbers))
        if self.child.send(asked):
            self.store.sent(asked)

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
        """Report an unexpected error, so that no screen waits for ever."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.store.end("failed", f"reading failed: {type(error).__name__}: {error}")
            self._changed()

    async def _live(self, child: ChildProcess[ReaderEvent], paths: tuple[str, ...]) -> None:
        try:
            await child.start()
        except OSError as error:
            self.store.end("failed", f"the reader cannot be started: {error}")
            self._changed()
            return
        known = self._known(Path(paths[0]))
        text = self.store.oom_text or (known.text if known is not None else "")
        load = Load(
            next(self._numbers),
            paths,
            oom_text=text[-LONGEST_TEXT:],
            memory=self._memory,
            circumstances=None if known is None else known.circumstances,
        )
        child.send(load)
        async for event in child.events():
            if isinstance(event, MalformedMessage):
                self.store.end("failed", f"the reader said what is no answer: {event.reason}")
                child.kill()
                break
            if isinstance(event, ReaderHello) and event.version != VERSION:
                self.store.end(
                    "failed", "the reader is of another version: install gpu-workbench again"
                )
                child.kill()
                break
            self.store.apply(event)
            self._changed()
        how = await child.ended()
        if self.store.status in ("loading", "ready"):
            last = next(iter(child.stderr.last(1)), "")
            loaded = self.store.status == "ready"
            self.store.end("failed", death_in_words(paths, how, last, loaded=loaded))
        self._changed()
