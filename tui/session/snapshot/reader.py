"""A reader child and what it has said: open, ask, cancel. No Textual."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from tui.child.process import ChildProcess, Garbage
from tui.session.snapshot.process import death_in_words, names, reader
from tui.session.snapshot.store import SnapshotStore
from tui.snapshots.reader.messages import (
    VERSION,
    Load,
    ReaderEvent,
    ReaderHello,
    Request,
    SetOomText,
    numbered,
)

LONGEST_TEXT = 1 << 18
"""Characters of exceptions' text that are sent on, the last ones."""


class SnapshotReader:
    """One file, or two to compare, in a child of its own.

    Args:
        changed: called after each event, in the event loop.
        memory: bytes that reading may take; ``None`` for a quarter of what is available.
    """

    def __init__(
        self, changed: Callable[[], None] = lambda: None, memory: int | None = None
    ) -> None:
        self.store = SnapshotStore()
        self.child: ChildProcess[ReaderEvent] | None = None
        self._changed = changed
        self._memory = memory
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
        """An error of our own must not leave a screen that waits for ever."""
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
        text = self.store.oom_text[-LONGEST_TEXT:]
        child.send(Load(next(self._numbers), paths, oom_text=text, memory=self._memory))
        async for event in child.events():
            if isinstance(event, Garbage):
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
