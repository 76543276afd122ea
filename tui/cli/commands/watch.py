"""``gpu-workbench watch``: what torch's allocator holds in processes, and commands run under it."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from tui.child.process import ChildProcess, Garbage
from tui.cli.errors import Failure, UsageError
from tui.cli.inject import put_agent_in
from tui.cli.kept_runs import kept_as_plain, kept_lines
from tui.cli.look import look
from tui.cli.options import Parser
from tui.cli.output import SCHEMA, print_json, run_to_exit
from tui.cli.streams import print_text, say
from tui.cli.subcommand import Subcommand
from tui.cli.watch_output import WHAT_IS_READ, Row, as_plain, reasons, rows_of, table
from tui.cli.watched_command import Launch, carry_out, entries_of, show
from tui.cli.workbench import add_screen
from tui.monitor import serving as monitor_serving
from tui.monitor.messages import MONITOR_EVENTS, Device, MonitorEvent, Sample
from tui.text.glyphs import rows_of_text
from tui.watch import FOLDER, serving
from tui.watch.agents import How
from tui.watch.findings import Track
from tui.watch.messages import (
    WATCH_EVENTS,
    ListedProcesses,
    ProcessFigures,
    TorchProcess,
    TorchProcesses,
    WatchEvent,
    pids_of,
)
from workloads.agent import ENTRIES
from workloads.protocol.frozen import frozen

if TYPE_CHECKING:
    from tui.settings import Value

SAMPLE_S = 0.1
"""Between two readings, while something is watched for a time."""
SETTLE_S = 1.0
"""That one look waits for a process whose figures change while they are read."""
UNTIL = ("exit",)
NOTHING = "no process of yours has loaded a CUDA build of torch"
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@frozen
class WatchOptions:
    """Which processes, how long, and how they are printed."""

    pid: int | None = None
    no_children: bool = False
    json: bool = False
    jsonl: bool = False
    seconds: float | None = None
    until: str | None = None
    every: float | None = None
    entries: int | None = None
    no_screen: bool = False
    here: bool = False
    env: bool = False
    markdown: bool = False
    inject: How | None = None
    """How the agent is put into the process; ``None`` for not at all."""
    command: Sequence[str] = ()
    """What is to be run, or the name of a kept run; without it, processes that run already are
    watched."""
    dashes: bool = False
    """Two dashes stand before it: it is a command."""
    given: Mapping[str, Value] = field(default_factory=dict)
    """Settings of the screen."""

    @property
    def prints(self) -> bool:
        """Whether something is asked for that the screen does not do."""
        asked = self.starts_otherwise or self.json or self.lasts or self.pid is not None
        return asked or self.no_children or self.every is not None

    @property
    def draws(self) -> bool:
        """Whether it is under the screen."""
        return bool(self.command) and not (self.no_screen or self.here or self.env)

    @property
    def starts_otherwise(self) -> bool:
        """Whether it is asked for that a command be run in some way."""
        how = self.no_screen or self.here or self.env or self.markdown
        return how or (self.entries is not None and self.inject is None)

    @property
    def lasts(self) -> bool:
        """Whether it goes on after the first look."""
        return self.jsonl or self.until is not None or self.seconds is not None


def watch(options: WatchOptions) -> int:
    """Print the processes; returns the exit code, 1 where what was asked for may not be read.

    Raises:
        UsageError: options that do not go together.
        Failure: the agent cannot be put into the process.
    """
    _check(options)
    if options.command and not options.dashes:
        return _show(options)
    if options.command or options.starts_otherwise:
        return _launch(options)
    if options.inject is not None and options.pid is not None:
        put_agent_in(options.pid, options.inject, options.entries or 0)
    return run_to_exit(_Watching(options).work())


def _check(options: WatchOptions) -> None:
    """Whether the options go together.

    Raises:
        UsageError: they do not.
    """
    if options.dashes and not options.command:
        raise UsageError("--: give a command after it, as in -- python train.py")
    if options.inject is not None and options.pid is None:
        raise UsageError("--inject: give the process with --pid")
    for name, flag in (("theme", "--theme"), ("mouse", "--no-mouse")):
        if name in options.given and not options.draws:
            raise UsageError(f"{flag}: for a run that is shown on the screen")
    if options.command or options.starts_otherwise:
        return
    if options.until is not None and options.pid is None:
        raise UsageError("--until exit: give the process with --pid")
    if options.json and options.jsonl:
        raise UsageError("--json and --jsonl: give one of them")
    if options.no_children and options.pid is None:
        raise UsageError("--no-children: give the process with --pid")
    if options.every is not None and not options.lasts:
        raise UsageError("--every: say for how long: --for S, --until exit or --jsonl")


def _show(options: WatchOptions) -> int:
    name, *more = options.command
    if more or options.prints:
        words = " ".join(options.command)
        raise UsageError(f"{words}: give a command after --, or the name of one kept run alone")
    return show(name, options.given)


def _launch(options: WatchOptions) -> int:
    if options.pid is not None or options.no_children or options.lasts or options.every:
        raise UsageError("--pid and what goes with it: for a process that runs already")
    return carry_out(
        Launch(
            tuple(options.command),
            options.entries,
            options.no_screen,
            options.here,
            options.env,
            options.json,
            options.markdown,
            options.given,
        )
    )


class _Watching:
    """What both children say, until it is enough."""

    def __init__(self, options: WatchOptions) -> None:
        self._options = options
        self._processes: tuple[TorchProcess, ...] = ()
        self._figures: ProcessFigures | None = None
        self._devices: tuple[Device, ...] = ()
        self._listed: tuple[int, ...] = ()
        self._tracks: dict[tuple[int, float | None, str], Track] = {}
        self._signalled: signal.Signals | None = None
        self._watch: ChildProcess[WatchEvent] | None = None

    async def work(self) -> int:
        self._take(await look())
        options = self._options
        monitor: ChildProcess[MonitorEvent] | None = None
        tasks: list[asyncio.Task[None]] = []
        self._watch = ChildProcess(self._command(), WATCH_EVENTS, folder=FOLDER)
        try:
            await self._watch.start()
            if options.lasts:
                interval = max(1.0, options.every or 1.0)
                command = monitor_serving(interval)
                monitor = ChildProcess(command, MONITOR_EVENTS, folder=FOLDER)
                await monitor.start()
                tasks.append(asyncio.create_task(self._follow(monitor)))
            return await self._until_enough(self._watch)
        finally:
            for task in tasks:
                task.cancel()
            await self._watch.stop()
            if monitor is not None:
                await monitor.stop()

    def _command(self) -> tuple[str, ...]:
        options = self._options
        interval = min(SAMPLE_S, options.every or SAMPLE_S)
        pids = () if options.pid is None else (options.pid,)
        return serving(interval, pids, self._listed, children=not options.no_children)

    def _take(self, sample: Sample) -> None:
        self._devices = sample.devices
        self._listed = pids_of(sample.devices)

    async def _follow(self, monitor: ChildProcess[MonitorEvent]) -> None:
        async for event in monitor.events():
            if isinstance(event, Sample):
                self._take(event)
                if self._watch is not None:
                    self._watch.send(ListedProcesses(self._listed))
        self._devices = ()  # what it said last would be taken for what is

    async def _until_enough(self, child: ChildProcess[WatchEvent]) -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in _ENDS:
            loop.add_signal_handler(number, self._take_signal, number, task)
        self._say_what_is_read()
        try:
            await self._read(child)
        except asyncio.CancelledError:
            if self._signalled is None:
                raise
        return self._end()

    def _say_what_is_read(self) -> None:
        if self._options.jsonl:
            say(WHAT_IS_READ)  # a stream of objects has no room for a sentence
        elif not self._options.json:
            print_text(rows_of_text(_wrapped([WHAT_IS_READ])))

    async def _read(self, child: ChildProcess[WatchEvent]) -> None:
        """Take what the watch says until it is enough.

        Raises:
            Failure: it has ended, or says something else.
        """
        began = due = time.monotonic()
        async for event in child.events():
            if isinstance(event, Garbage):
                raise Failure(f"the watch says {event.line!r}: {event.reason}")
            if isinstance(event, TorchProcesses):
                self._processes = event.processes
            if isinstance(event, ProcessFigures):
                self._remember(event)
                now = time.monotonic()
                if self._is_enough(now - began):
                    return
                if self._options.lasts and now >= due and not self._options.json:
                    self._print_rows()
                    due = max(due + (self._options.every or 1.0), now)
        last = " ".join(child.stderr.last(1))
        raise Failure(f"the watch ended: {await child.ended()} {last}")

    def _is_enough(self, lasted: float) -> bool:
        options = self._options
        if not options.lasts:
            # One whose figures change while they are read is read again.
            changing = self._figures is not None and self._figures.unavailable
            return not changing or lasted >= SETTLE_S
        if options.seconds is not None and lasted >= options.seconds:
            return True
        return options.pid is not None and all(each.refused for each in self._processes)

    def _take_signal(self, number: signal.Signals, task: asyncio.Task[int]) -> None:
        self._signalled = number
        task.cancel()

    def _remember(self, figures: ProcessFigures) -> None:
        self._figures = figures
        starts = {each.pid: each.start for each in self._processes}
        for each in figures.devices:
            key = each.pid, starts.get(each.pid), each.device
            self._tracks.setdefault(key, Track()).add(each)

    def _rows(self) -> list[Row]:
        figures = self._figures or ProcessFigures(time.time(), ())
        return rows_of(self._processes, figures, self._devices)

    def _gives_nothing(self) -> bool:
        """Whether there are no figures of what was asked for, or none may be read."""
        if self._tracks:
            return False
        refused = bool(self._processes) and all(each.refused for each in self._processes)
        return refused or self._options.pid is not None

    def _print_rows(self) -> None:
        rows = self._rows()
        if self._options.jsonl:
            at = self._figures.at if self._figures else time.time()
            plain = {"schema": SCHEMA, "at": at, **as_plain(rows)}
            print_text(json.dumps(plain, allow_nan=False))
        else:
            print_text(rows_of_text(_fitted(rows) or [NOTHING]))
            print_text(rows_of_text(_wrapped(reasons(rows))))

    def _end(self) -> int:
        options = self._options
        if options.json:
            kept = {} if options.pid is not None else {"runs": kept_as_plain()}
            print_json({**as_plain(self._rows()), **kept})
        elif not options.lasts or not self._tracks:
            self._print_rows()
        if not options.json and not options.jsonl:
            print_text(rows_of_text(_wrapped(self._findings())))
            if options.pid is None and not options.lasts:
                print_text(rows_of_text(kept_lines()))
        if self._signalled is not None:
            return 128 + int(self._signalled)
        return 1 if self._gives_nothing() else 0

    def _findings(self) -> Sequence[str]:
        return [
            f"{pid} {device}: {found.text} ({found.source})"
            for (pid, _, device), track in self._tracks.items()
            for found in track.findings()
        ]


def _fitted(rows: Sequence[Row]) -> list[str]:
    """The table as wide as the terminal; whole where it is not for one."""
    if not sys.stdout.isatty():
        return table(rows)
    # Here, because it measures with rich, which a pipe has no use for.
    from tui.ui.views.lines import fit

    columns = shutil.get_terminal_size().columns
    return [fit(line, columns) for line in table(rows, columns)]


def _wrapped(sentences: Sequence[str]) -> list[str]:
    """Sentences as wide as the terminal, between words; a line each where they are not for one."""
    if not sys.stdout.isatty():
        return list(sentences)
    columns = shutil.get_terminal_size().columns
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, columns, subsequent_indent="  ")
    ]


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{text}: give seconds, above 0")
    return value


def _pace(text: str) -> float:
    value = _positive(text)
    if value < 0.05:
        raise UsageError(f"--every {text}: at least 0.05 s")
    return value


def _pid(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise UsageError(f"--pid {text}: give the number of a process")
    return int(text)


def _add_options(parser: Parser) -> None:
    add_screen(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object, at the end")
    parser.add_argument("--pid", type=_pid, metavar="N", help="this process and what it started")
    parser.add_argument("--no-children", action="store_true", help="not what it started")
    parser.add_argument(
        "--inject",
        nargs="?",
        const="remote_exec",
        choices=("gdb",),
        help="put the agent into the process, which runs Python 3.14 or later; with =gdb into any, "
        "by a debugger, after a question",
    )
    parser.add_argument(
        "--jsonl", action="store_true", help="one JSON object a line, until stopped"
    )
    parser.add_argument(
        "--for", dest="seconds", type=_positive, metavar="S", help="go on for that many seconds"
    )
    parser.add_argument("--until", choices=UNTIL, help="go on until the process has ended")
    parser.add_argument(
        "--every", type=_pace, metavar="S", help="print this far apart; 1 unless given"
    )
    parser.add_argument(
        "--no-screen",
        action="store_true",
        help="run a command: its output, then how it ended and why it ran out of memory",
    )
    parser.add_argument("--markdown", action="store_true", help="the same as Markdown, at the end")
    parser.add_argument(
        "--here",
        action="store_true",
        help="run a command in the place of this program: same pid, terminal and exit code",
    )
    parser.add_argument(
        "--env", action="store_true", help="print what to export where a command is started"
    )
    parser.add_argument(
        "--record",
        dest="entries",
        type=entries_of,
        nargs="?",
        const=ENTRIES,
        metavar="ENTRIES",
        help=f"keep torch's memory history from the first CUDA call on; {ENTRIES} entries unless "
        "given as --record=ENTRIES",
    )
    parser.add_argument(
        "command",
        nargs="*",
        metavar="RUN | -- COMMAND",
        help="a kept run that is shown again, by its name or the beginning of it; or, after two "
        "dashes, what is run, under the screen unless --no-screen or --here is given",
    )


SUBCOMMAND = Subcommand(
    "what torch's allocator holds in processes that run already, or of a command it runs",
    WatchOptions,
    _add_options,
    watch,
    place=15,
)
