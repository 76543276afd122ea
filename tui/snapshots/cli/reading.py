"""Sequential client of a snapshot reader, for commands."""

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
from tui.snapshots.model.calls import Arguments, Method, Need, Value
from tui.snapshots.reader.messages import (
    VERSION,
    Answer,
    Call,
    Estimated,
    Load,
    Loaded,
    Progress,
    ReaderEvent,
    ReaderHello,
)
from tui.snapshots.session.reader_child import create_reader, describe_death, format_paths
from workloads.protocol.wire import WireError


class Reader:
    """Client of a reader process that makes one call at a time."""

    def __init__(self, child: ChildProcess[ReaderEvent], paths: tuple[str, ...]) -> None:
        self._child = child
        self._paths = paths
        self._events = child.events()
        self._number = 0
        self._loaded = False
        self._words: Callable[[Progress], str] = str
        self._line = ProgressLine()

    def load(self, request: Load) -> None:
        """Start to load the files."""
        self._child.send(request)

    async def loaded(self, words: Callable[[Progress], str]) -> Loaded:
        """Wait until the files are loaded, showing progress.

        Args:
            words: formats progress.

        Raises:
            Failure: the files cannot be read, or the reader died.
        """
        self._words = words
        loaded = await self._read_event()
        if not isinstance(loaded, Loaded):
            raise Failure(loaded.error or "the reader answered before it had read the file")
        self._loaded = True
        return loaded

    async def call(self, method: Method[Arguments, Value], arguments: Arguments) -> Value:
        """Return the value of a method.

        Raises:
            Failure: the call has no value.
        """
        self._number += 1
        slot = Need(method, arguments).slot
        self._child.send(Call(self._number, method.name, arguments, slot))
        texts: list[str] = []
        while True:
            answer = await self._read_event()
            if not isinstance(answer, Answer):
                raise Failure("the reader sent a malformed answer: the file was read twice")
            if answer.error is not None:
                raise Failure(answer.error)
            if answer.more or texts:
                texts.append(str(answer.value))
            if not answer.more:
                break
        try:
            return method.parse_value("".join(texts) if texts else answer.value)
        except WireError as error:
            raise Failure(f"the reader sent a malformed answer: {error}") from error

    async def _read_event(self) -> Loaded | Answer:
        async for event in self._events:
            if isinstance(event, MalformedMessage):
                raise Failure(f"the reader sent a malformed answer: {event.reason}")
            if isinstance(event, (Loaded, Answer)):
                self._line.clear()
                return event
            self._show_progress(event)
        self._line.clear()
        how = await self._child.ended()
        last = next(iter(self._child.stderr.last(1)), "")
        raise Failure(describe_death(self._paths, how, last, loaded=self._loaded))

    def _show_progress(self, event: ReaderEvent) -> None:
        if isinstance(event, ReaderHello) and event.version != VERSION:
            raise Failure("the reader is of another version: install gpu-workbench again")
        if isinstance(event, Estimated):
            self._line.show(f"{format_paths(self._paths)}: {event.words}")
        elif isinstance(event, Progress):
            self._line.show(self._words(event))


@asynccontextmanager
async def reading(paths: Sequence[str]) -> AsyncIterator[Reader]:
    """Start a reader for some files; end it with the block.

    Raises:
        Failure: the reader cannot be started.
    """
    # A copy with its own number: the child's standard input is the pipe for requests.
    source = os.dup(sys.stdin.fileno()) if STANDARD_INPUT in paths else None
    child = create_reader(source)
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
