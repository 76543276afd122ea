"""``gpu-workbench snapshot``: what an allocator snapshot tells, as text, JSON or Markdown."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tui.child.process import ChildProcess, Garbage
from tui.cli.arguments import UsageError
from tui.headless.output import Failure, ProgressLine, run_to_exit
from tui.snapshot_desk.child import STANDARD_INPUT, death_in_words, names, reader
from tui.snapshot_desk.session import LONGEST_TEXT
from tui.snapshots.messages import (
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

if TYPE_CHECKING:
    from tui.cli.arguments import Arguments
    from tui.views.lines import Line

A = TypeVar("A", bound=Answer)
NARROWEST, WIDEST = 60, 120


class Reader:
    """A reader child that is asked one thing after the other."""

    def __init__(self, child: ChildProcess[ReaderEvent], paths: tuple[str, ...]) -> None:
        self._child = child
        self._paths = paths
        self._events = child.events()
        self._number = 0
        self._loaded = False
        self.progress = ProgressLine()

    async def load(self, request: Load) -> Loaded:
        """Read the files.

        Raises:
            Failure: they cannot be read, or the reader died of them.
        """
        self._send(request)
        # It reads meanwhile.
        import tui.headless.snapshot_text

        assert tui.headless.snapshot_text
        loaded = await self._answer(Loaded)
        self._loaded = True
        self.progress.clear()
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
            if isinstance(event, Garbage):
                raise Failure(f"the reader said what is no answer: {event.reason}")
            if isinstance(event, Refused):
                self.progress.clear()
                raise Failure(event.reason)
            if isinstance(event, kind):
                return event
            self._tell(event)
        self.progress.clear()
        how = await self._child.ended()
        last = next(iter(self._child.stderr.last(1)), "")
        raise Failure(death_in_words(self._paths, how, last, loaded=self._loaded))

    async def export(self, request: Export) -> str:
        """A whole report.

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
            raise Failure("the reader is of another version: install gpu-workbench anew")
        if isinstance(event, Estimated):
            self.progress.show(f"{names(self._paths)}: {event.words}")
        elif isinstance(event, Progress):
            from tui.views.snapshot.start import progress_words

            self.progress.show(progress_words(event))


@asynccontextmanager
async def reading(paths: Sequence[str]) -> AsyncIterator[Reader]:
    """A reader of some files; it ends with the block.

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
        raise Failure(f"the reader cannot be started: {error}") from error
    finally:
        child.kill()
        await child.stop()


def snapshot(arguments: Arguments) -> int:
    """Print what was asked for; returns the exit code.

    Raises:
        UsageError: arguments that do not go together.
    """
    found = arguments.names
    compares = len(found) == 3 and found[0] == "diff"
    if not compares and len(found) != 1:
        raise UsageError("snapshot: give one FILE, or diff A B (a file named diff is ./diff)")
    paths = tuple(found[1:] if compares else found)
    text = oom_text(arguments.oom_text, paths)
    if STANDARD_INPUT in paths:
        if compares:
            raise UsageError("snapshot diff: both files must be named, - is for one file alone")
        if sys.stdin.isatty():
            raise UsageError("snapshot -: nothing is piped in; give a file or pipe one in")

    async def work() -> int:
        load = _load(arguments, paths, text)
        async with reading(paths) as child:
            loaded = await child.load(load)
            sys.stdout.write(await _output(child, loaded, arguments, compares=compares))
            # Before the reader is ended: giving back its memory takes a while.
            sys.stdout.flush()
        return 0

    return run_to_exit(work())


def _load(arguments: Arguments, paths: tuple[str, ...], text: str) -> Load:
    absolute = tuple(
        path if path == STANDARD_INPUT else str(Path(path).expanduser().absolute())
        for path in paths
    )
    first, last = arguments.event_range
    return Load(
        0,
        absolute,
        device=_device(arguments),
        first=first,
        last=last,
        minimal_size=arguments.minimal_size,
        oom_text=text[-LONGEST_TEXT:],
        top=arguments.top,
        redact=arguments.redact,
    )


def _device(arguments: Arguments) -> int | None:
    if not arguments.devices:
        return None
    if len(arguments.devices) > 1 or not arguments.devices[0].isdigit():
        raise UsageError(f"--device {' '.join(arguments.devices)}: give one number, such as 0")
    return int(arguments.devices[0])


async def _output(child: Reader, loaded: Loaded, arguments: Arguments, *, compares: bool) -> str:
    if arguments.json or arguments.markdown:
        request = Export(
            0,
            "json" if arguments.json else "markdown",
            event=arguments.at,
            top=arguments.top,
            at_peak=arguments.at_peak,
        )
        return await child.export(request)
    from tui.headless.snapshot_text import at_event, difference, overview
    from tui.views.lines import plain

    cells = max(NARROWEST, min(WIDEST, shutil.get_terminal_size((80, 24)).columns))
    rows: list[Line] = []
    if compares:
        rows = await difference(child, loaded, cells, arguments.top, at_peak=arguments.at_peak)
    elif arguments.at is not None:
        rows = await at_event(child, loaded, arguments.at, cells, arguments.top)
    else:
        rows = await overview(child, loaded, cells, arguments.top)
    return "".join(f"{plain(row).rstrip()}\n" for row in rows)


def oom_text(where: str, paths: Sequence[str]) -> str:
    """The text of exceptions from a file or standard input; empty where none was named.

    Raises:
        UsageError: it cannot be read.
    """
    if not where:
        return ""
    if where == STANDARD_INPUT:
        if STANDARD_INPUT in paths:
            raise UsageError("--oom-text -: standard input is the snapshot already; name a file")
        return sys.stdin.read()
    try:
        return Path(where).expanduser().read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"--oom-text {where}: {error.strerror or error}") from error
