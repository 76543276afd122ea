"""A reader of snapshots as commands use it: one question after the other."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from tui.core.child.launch import too_many_files
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.kit.command_line.output import Failure, ProgressLine
from tui.snapshots import STANDARD_INPUT
from tui.snapshots.reader.messages import (
    VERSION,
    Answer,
    Estimated,
    Export,
    Exported,
    Load,
    Loaded,
    Progress,
    ReaderEvent,
    ReaderHello,
    Refused,
    Request,
    numbered,
)
from tui.snapshots.session.snapshot_reader import death_in_words, names, reader

A = TypeVar("A", bound=Answer)


class Reader:
    """A reader child that is asked one thing after the other."""

    def __init__(self, child: ChildProcess[ReaderEvent], paths: tuple[str, ...]) -> None:
        self._child = child
        self._paths = paths
        self._events = child.events()
        self._number = 0
        self._loaded = False
        self._words: Callable[[Progress], str] = str
        self._line = ProgressLine()

    def load(self, request: Load) -> None:
        """Have it read the files, which takes a while."""
        self._send(request)

    async def loaded(self, words: Callable[[Progress], str]) -> Loaded:
        """Return the loaded snapshot.

        Args:
            words: tells how far it is.

        Raises:
            Failure: the files cannot be read, or the reader died of them.
        """
        self._words = words
        loaded = await self._answer(Loaded)
        self._loaded = True
        self._line.clear()
        return loaded

    async def ask(self, request: Request, kind: type[A]) -> A:
        """One answer.

        Raises:
            Failure: there is none.
        """
        self._send(request)
        return await self._answer(kind)

    def _send(self, request: Request) -> None:
        self._number += 1
        self._child.send(numbered(request, self._number))

    async def _answer(self, kind: type[A]) -> A:
        async for event in self._events:
            if isinstance(event, MalformedMessage):
                raise Failure(f"the reader said what is no answer: {event.reason}")
            if isinstance(event, Refused):
                self._line.clear()
                raise Failure(event.reason)
            if isinstance(event, kind):
                return event
            self._tell(event)
        self._line.clear()
        how = await self._child.ended()
        last = next(iter(self._child.stderr.last(1)), "")
        raise Failure(death_in_words(self._paths, how, last, loaded=self._loaded))

    async def export(self, request: Export) -> str:
        """Return a whole report.

        Raises:
            Failure: there is none.
        """
        part = await self.ask(request, Exported)
        parts = [part.text]
        while part.more:
            event = await self._events.__anext__()
            if not isinstance(event, Exported):
                raise Failure("the reader broke off in the middle of its report")
            part = event
            parts.append(part.text)
        return "".join(parts)

    def _tell(self, event: ReaderEvent) -> None:
        if isinstance(event, ReaderHello) and event.version != VERSION:
            raise Failure("the reader is of another version: install gpu-workbench again")
        if isinstance(event, Estimated):
            self._line.show(f"{names(self._paths)}: {event.words}")
        elif isinstance(event, Progress):
            self._line.show(self._words(event))


@asynccontextmanager
async def reading(paths: Sequence[str]) -> AsyncIterator[Reader]:
    """Yield a reader of some files; end it with the block.

    Raises:
        Failure: it cannot be started.
    """
    # Under a number of its own: the child's standard input is the pipe that it is asked through.
    source = os.dup(sys.stdin.fileno()) if STANDARD_INPUT in paths else None
    child = reader(source)
    try:
        try:
            await child.start()
        finally:
            if source is not None:
                os.close(source)
        yield Reader(child, tuple(paths))
    except OSError as error:
        if too_many_files(error):
            raise
        raise Failure(f"the reader cannot be started: {error}") from error
    finally:
        child.kill()
        await child.stop()
