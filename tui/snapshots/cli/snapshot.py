"""``gpu-workbench snapshot``: explain an allocator snapshot as text, JSON or Markdown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tui.kit.command_line.options import Subcommand, add_devices, add_output
from tui.kit.command_line.output import UsageError, print_text
from tui.kit.command_line.progress import run_to_exit
from tui.kit.command_line.values import size_of, whole_number
from tui.snapshots import MEMORY_OPTION, STANDARD_INPUT
from tui.snapshots.cli.output import open_reader, snapshot_text, without_context
from tui.snapshots.explain.evidence import OomContext
from tui.snapshots.model.calls import REPORT, ReportArguments
from tui.snapshots.options import parse_memory, read_oom_text
from tui.snapshots.reader.messages import Load

if TYPE_CHECKING:
    from tui.kit.command_line.options import Parser

EventRange = tuple[int, int | None]
"""The first and the last event of a trace; ``None`` for its end."""
WHOLE: EventRange = (0, None)


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """The files, the part to analyse and the output format."""

    names: Sequence[str]
    """A file, or two to compare; with options before the word, ``diff`` is the first name."""
    compares: bool = False
    """Compare two files: ``diff`` is the first argument."""
    json: bool = False
    markdown: bool = False
    devices: Sequence[str] = ()
    """The index of one device in the file; empty for all."""
    at: int | None = None
    """Show the state right after this event."""
    top: int = 10
    """Sites to list."""
    peak: bool = False
    """With ``diff``: compare the peaks, not the ends."""
    without_names: bool = False
    """Remove user names and home directories."""
    exceptions: str = ""
    """File with exception messages, ``-`` for standard input; empty for none."""
    range: EventRange = WHOLE
    """The part of the trace to keep."""
    min_size: int = 0
    """Leave out smaller allocations, in bytes."""
    allowed: int | None = None
    """Bytes that reading may take; ``None`` for a quarter of the available memory."""
    find_context: Callable[[Path], OomContext | None] = without_context
    """Returns a watched run's facts about a file; ``None`` for no run."""


def add_options(parser: Parser) -> None:
    """Add the options of the command, and those of ``diff``."""
    add_output(parser)
    parser.add_argument(
        "names", nargs="+", metavar="FILE", help="a snapshot, - for standard input, or: diff A B"
    )
    _add_report(parser)
    parser.add_argument(
        "--at",
        type=whole_number("--at"),
        metavar="EVENT",
        help="show the state right after this event",
    )
    _add_peak(parser, "with diff: compare the peaks, not the ends")
    parser.add_argument(
        "--oom-text",
        dest="exceptions",
        metavar="FILE",
        help="read the exception's text, or a log with it, from this file; - for standard input",
    )
    diff = parser.add_action(
        "diff", "Compare two snapshots: what has grown, is new, gone or shrunk?"
    )
    diff.set_defaults(compares=True)
    add_output(diff)
    diff.add_argument("names", action="append", metavar="A", help="the earlier snapshot")
    diff.add_argument("names", action="append", metavar="B", help="the later snapshot")
    _add_report(diff)
    _add_peak(diff, "compare the peaks, not the ends")


def _add_peak(parser: Parser, about: str) -> None:
    parser.add_argument("--peak", action="store_true", help=about)


def _add_report(parser: Parser) -> None:
    """Add the options on what to read and how to print it, which ``diff`` has too."""
    parser.add_argument("--markdown", action="store_true", help="print a report as Markdown")
    add_devices(parser, "I", "show only the device of this index in the file")
    parser.add_argument("--top", type=whole_number("--top"), metavar="N", help="list N sites")
    # The names differ from those of the workbench's own options before the command.
    parser.add_argument(
        "--redact",
        dest="without_names",
        action="store_true",
        help="leave out user names and home directories",
    )
    # An empty text, as of a shell's variable that is not set, is the same as none.
    parser.add_argument(
        "--range",
        type=lambda text: event_range(text) if text else WHOLE,
        metavar="A..B",
        help="read only these events of the trace",
    )
    parser.add_argument(
        "--min-size",
        type=lambda text: size_of(text, "--min-size") if text else 0,
        metavar="SIZE",
        help="leave out smaller items, such as 1MiB",
    )
    parser.add_argument(
        MEMORY_OPTION,
        dest="allowed",
        type=parse_memory,
        metavar="SIZE",
        help="memory limit for reading, such as 8GiB (default: a quarter of the available memory)",
    )


def event_range(text: str) -> EventRange:
    """Parse ``1000..2000`` into its first and last number; either may be left out.

    Raises:
        UsageError: the text does not have this form.
    """
    first, dots, last = text.partition("..")
    ends = [end.strip() for end in (first, last)]
    if not dots or any(end and not end.isdecimal() for end in ends):
        raise UsageError(f"--range {text}: give two numbers, such as 1000..2000 or 1000..")
    low, high = int(ends[0] or 0), int(ends[1]) if ends[1] else None
    if high is not None and high < low:
        raise UsageError(f"--range {text}: the first number is the larger one")
    return low, high


def snapshot(options: SnapshotOptions) -> int:
    """Print the requested report; return the exit code.

    Raises:
        UsageError: the arguments do not go together.
    """
    if options.top < 1:
        raise UsageError(f"--top {options.top}: at least 1")
    if options.json and options.markdown:
        raise UsageError("--json and --markdown: give one of them")
    names, compares = tuple(options.names), options.compares
    if not compares and len(names) == 3 and names[0] == "diff":
        names, compares = names[1:], True
    if not compares and len(names) != 1:
        raise UsageError("snapshot: give one FILE, or diff A B (a file named diff is ./diff)")
    if options.peak and not compares:
        raise UsageError("--peak compares the peaks of two files: snapshot diff A B --peak")
    if compares and (options.at is not None or options.exceptions):
        flag = "--oom-text" if options.at is None else "--at"
        raise UsageError(f"{flag} is for one file: snapshot FILE {flag} …")
    paths = names
    text = read_oom_text(options.exceptions, paths)
    if STANDARD_INPUT in paths:
        if compares:
            raise UsageError("snapshot diff: both files must be named, - is for one file alone")
        if sys.stdin.isatty():
            raise UsageError("snapshot -: nothing is piped in; give a file or pipe one in")
    return run_to_exit(_print_snapshot(options, paths, text, compares=compares))


async def _print_snapshot(
    options: SnapshotOptions, paths: tuple[str, ...], text: str, *, compares: bool
) -> int:
    # A watched run's facts describe one file.
    find_context = without_context if compares else options.find_context
    async with open_reader(_build_load(options, paths, text), find_context) as reader:
        loaded = await reader.loaded()
        event, top, at_peak = options.at, options.top, options.peak
        if options.json or options.markdown:
            form: Literal["json", "markdown"] = "json" if options.json else "markdown"
            arguments = ReportArguments(form, event=event, top=top, at_peak=at_peak)
            report = await reader.call(REPORT, arguments)
        else:
            report = await snapshot_text(
                reader, loaded, event=event, top=top, at_peak=at_peak, compares=compares
            )
        # Print before the reader ends: releasing its memory takes a while.
        print_text(report)
    return 0


def _build_load(options: SnapshotOptions, paths: tuple[str, ...], text: str) -> Load:
    first, last = options.range
    return Load(
        0,
        paths,
        device=_parse_device(options.devices),
        first=first,
        last=last,
        minimal_size=options.min_size,
        oom_text=text,
        top=options.top,
        redact=options.without_names,
        memory=options.allowed,
    )


def _parse_device(names: Sequence[str]) -> int | None:
    if not names:
        return None
    if len(names) > 1 or not names[0].isdigit():
        raise UsageError(f"--device {' '.join(names)}: give one number, such as 0")
    return int(names[0])


SUBCOMMAND = Subcommand(SnapshotOptions, add_options, snapshot)
