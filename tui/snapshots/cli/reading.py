"""A reader of snapshots as commands use it: one question after the other."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from tui.core.child.launch import too_many_files
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.kit.command_line.output import Failure
from tui.kit.command_line.progress import ProgressLine
from tui.snapshots import STANDARD_INPUT
from tui.snapshots.reader.messages import (
    VERSION,
    Answer,
    Arguments,
    Estimated,
    Load,
    Loaded,
    Method,
    Need,
    Progress,
    ReaderEvent,
    ReaderHello,
    Value,
)
from tui.snapshots.session.reader_child import death_in_words, names, reader
from workloads.protocol.wire import WireError


class Reader:
    """A reader child whose methods are called one after the other."""

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
        self._child.send(request)

    async def loaded(self, words: Callable[[Progress], str]) -> Loaded:
        """Return the loaded snapshot.

        Args:
            words: tells how far it is.

        Raises:
            Failure: the files cannot be read, or the reader died of them.
        """
        self._words = words
        loaded = await self._next()
        if not isinstance(loaded, Loaded):
            raise Failure(loaded.error or "the reader answered before it had read the file")
        self._loaded = True
        return loaded

    async def call(self, method: Method[Arguments, Value], arguments: Arguments) -> Value:
        """Return the value of a method.

        Raises:
            Failure: there is none.
        """
        self._number += 1
        self._child.send(Need(method, arguments).call(self._number))
        texts: list[str] = []
        while True:
            answer = await self._next()
            if not isinstance(answer, Answer):
                raise Failure("the reader said what is no answer: the file was read twice")
            if answer.error is not None:
                raise Failure(answer.error)
            if answer.more or texts:
                texts.append(str(answer.value))
            if not answer.more:
                break
        try:
            return method.parse_value("".join(texts) if texts else answer.value)
        except WireError as error:
            raise Failure(f"the reader said what is no answer: {error}") from error

    async def _next(self) -> Loaded | Answer:
        async for event in self._events:
            if isinstance(event, MalformedMessage):
                raise Failure(f"the reader said what is no answer: {event.reason}")
            if isinstance(event, (Loaded, Answer)):
                self._line.clear()
                return event
            self._tell(event)
        self._line.clear()
        how = await self._child.ended()
        last = next(iter(self._child.stderr.last(1)), "")
        raise Failure(death_in_words(self._paths, how, last, loaded=self._loaded))

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
