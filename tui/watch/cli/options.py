"""The options of ``watch``: their declaration, their values, and contradictions between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.devices.host_options import add_connection
from tui.hosts.choice import HostChoice
from tui.kit.command_line.options import Parser, add_screen
from tui.kit.command_line.output import UsageError
from tui.kit.command_line.values import parse_duration
from tui.watch.runs.runs import StartedRun
from workloads.agent import ENTRIES

if TYPE_CHECKING:
    from tui.core.settings import Value

OpenRun = Callable[[Callable[[], StartedRun], str, "Mapping[str, Value]"], int]
"""Opens a run on the screen and returns the screen's exit code; raises ``UsageError`` without a
terminal. Its arguments: a function that starts or finds the run, called once everything else is
ready; advice for a start without a terminal; settings of the workbench."""


def without_screen(
    _find: Callable[[], StartedRun], instead: str, _given: Mapping[str, Value]
) -> int:
    """Refuse to open a run.

    Raises:
        UsageError: always.
    """
    raise UsageError(f"there is no screen; {instead}")


@dataclass(frozen=True, slots=True)
class WatchOptions(HostChoice):
    """The processes to watch, for how long, and the output format."""

    pid: int | None = None
    no_children: bool = False
    json: bool = False
    jsonl: bool = False
    seconds: float | None = None
    every: float | None = None
    entries: int | None = None
    no_screen: bool = False
    here: bool = False
    env: bool = False
    markdown: bool = False
    on_oom: str | None = None
    """A shell command to start at the first OOM of the command."""
    stacks: bool = False
    """Print where each rank of a run is now."""
    inject: bool = False
    """Inject the agent into the process."""
    command: Sequence[str] = ()
    """The command to run, or the name of a stored run; if empty, running processes are watched."""
    dashes: bool = False
    """Two dashes precede the command, so it is not the name of a run."""
    late_options: bool = False
    """Options stand behind the first word of the command: of this program, or meant for that."""
    overrides: Mapping[str, Value] = field(default_factory=dict)
    """Settings of the screen."""
    open_run: OpenRun = without_screen
    """Opens a run on the screen."""

    @property
    def prints(self) -> bool:
        """True if an option requests output that the screen lacks."""
        has_output = self.starts_otherwise or self.json or self.lasts or self.pid is not None
        return has_output or self.no_children or self.every is not None

    @property
    def reports_stored(self) -> bool:
        """True if the report of a stored run is requested, and nothing that only a command has."""
        of_process = self.lasts or self.pid is not None or self.no_children
        of_command = self.here or self.env or self.entries is not None or self.on_oom is not None
        prints = self.no_screen or self.markdown or self.json
        return prints and not (of_process or of_command or self.every is not None)

    @property
    def draws(self) -> bool:
        """True if the command runs under the screen."""
        return bool(self.command) and not (self.no_screen or self.here or self.env or self.stacks)

    @property
    def launches(self) -> bool:
        """True if a command is run, or an option says how to run one."""
        return self.dashes if self.command else self.starts_otherwise

    @property
    def starts_otherwise(self) -> bool:
        """True if an option changes how the command is run."""
        how = self.no_screen or self.here or self.env or self.markdown
        return how or (self.entries is not None and not self.inject)

    @property
    def lasts(self) -> bool:
        """True if watching continues after the first reading."""
        follows = self.pid is not None and self.every is not None
        return self.jsonl or follows or self.seconds is not None


def _parse_interval(text: str) -> float:
    value = parse_duration(text, "--every")
    if value < 0.05:
        raise UsageError(f"--every {text}: at least 0.05 s")
    return value


def _parse_pid(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise UsageError(f"--pid {text}: give the number of a process")
    return int(text)


def add_options(parser: Parser) -> None:
    """Add the options of ``watch``."""
    parser.runs_command = True
    add_screen(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object, at the end")
    parser.add_argument(
        "--host",
        metavar="A,B",
        help="hosts to watch (default: this machine)",
    )
    parser.add_argument("--slurm", action="store_true", help="all hosts of the Slurm allocation")
    add_connection(parser, default_python="python3")
    parser.add_argument(
        "--pid", type=_parse_pid, metavar="N", help="watch this process and its children"
    )
    parser.add_argument("--no-children", action="store_true", help="leave out its children")
    parser.add_argument(
        "--inject",
        action="store_true",
        help="inject the agent (Python 3.14 or later)",
    )
    parser.add_argument(
        "--jsonl", action="store_true", help="print one JSON object per line, until stopped"
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=parse_duration,
        metavar="TIME",
        help="watch for this long, such as 90s, 5m or 1h",
    )
    parser.add_argument(
        "--every",
        type=_parse_interval,
        metavar="TIME",
        help="print this often, such as 5s or 1m (default: 1s)",
    )
    parser.add_argument(
        "--no-screen",
        action="store_true",
        help="print the command's output, its end, and why it ran out of memory",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the report of the run as Markdown"
    )
    parser.add_argument(
        "--here",
        action="store_true",
        help="run in place: same pid, terminal and exit code",
    )
    parser.add_argument(
        "--env",
        action="store_true",
        help="print variables for a command started elsewhere",
    )
    parser.add_argument(
        "--on-oom",
        metavar="CMD",
        help="shell command to run at the first OOM, with the run's name as $1; its output is in "
        "the run's on-oom.log",
    )
    parser.add_argument(
        "--stacks",
        action="store_true",
        help="print the ranks' Python stacks, of RUN or the newest live run",
    )
    parser.add_argument(
        "--record",
        dest="entries",
        type=_parse_entries,
        nargs="?",
        const=ENTRIES,
        metavar="ENTRIES",
        help=f"record torch's memory history (default: {ENTRIES} entries)",
    )
    parser.add_argument(
        "command",
        nargs="*",
        metavar="RUN | rm RUN | keep RUN | [--] COMMAND",
        help="open, remove (rm) or protect (keep) a stored run, by the start of its name; or run "
        "and watch a command",
    )


def _parse_entries(text: str) -> int:
    """Return the number given with ``--record=ENTRIES``.

    Raises:
        UsageError: it is not a valid number.
    """
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 8 and int(text) > 0):
        raise UsageError(f"--record={text}: give a number of entries, such as {ENTRIES}")
    return int(text)


def check(options: WatchOptions) -> None:
    """Check that the options do not contradict each other.

    Raises:
        UsageError: they contradict each other.
    """
    _check_hosts(options)
    if options.dashes and not options.command:
        raise UsageError("--: give a command after it, as in -- python train.py")
    if options.inject and options.pid is None:
        raise UsageError("--inject: give the process with --pid")
    for name, flag in (("theme", "--theme"), ("mouse", "--no-mouse")):
        if name in options.overrides and not options.draws:
            raise UsageError(f"{flag}: for a run that is shown on the screen")
    if not (options.command or options.starts_otherwise):
        _check_running(options)
    if options.on_oom is not None:
        _check_on_oom(options)
    if options.stacks:
        _check_stacks(options)
    elif options.launches:
        _check_launch(options)


def _check_running(options: WatchOptions) -> None:
    if options.json and options.jsonl:
        raise UsageError("--json and --jsonl: give one of them")
    if options.no_children and options.pid is None:
        raise UsageError("--no-children: give the process with --pid")
    if options.every is not None and not options.lasts:
        raise UsageError("--every: give --pid PID, --for S or --jsonl too")


def _check_hosts(options: WatchOptions) -> None:
    if not options.names_hosts:
        if options.transport or options.host_pythons:
            raise UsageError("--transport and --host-python need --host or --slurm")
        return
    refused = {
        "--inject": options.inject,
        "--stacks": options.stacks,
        "--on-oom": options.on_oom is not None,
        "a command or a run": bool(options.command) or options.dashes,
        "--no-screen, --here, --env, --markdown or --record": options.starts_otherwise,
    }
    for option, is_given in refused.items():
        if is_given:
            raise UsageError(f"{option}: for processes of this machine; leave out --host")


def _check_on_oom(options: WatchOptions) -> None:
    if not (options.command and options.dashes):
        raise UsageError("--on-oom: give the command that is watched after --")
    if not (options.on_oom or "").strip():
        raise UsageError("--on-oom: give a command for the shell")
    if options.here or options.env:
        option = "--here" if options.here else "--env"
        raise UsageError(f"--on-oom and {option}: no program is left that could run it")


def _check_stacks(options: WatchOptions) -> None:
    others = options.starts_otherwise or options.lasts or options.every is not None
    others = others or options.pid is not None or options.no_children
    if options.dashes or len(options.command) > 1 or others:
        raise UsageError(
            "--stacks: give the name of one run, or none, and no other option than --json"
        )


def _check_launch(options: WatchOptions) -> None:
    if options.pid is not None or options.no_children or options.lasts or options.every:
        raise UsageError("--pid and its options are for a running process, not for a command")
    prints = "--json" if options.json else "--markdown" if options.markdown else ""
    if options.env:
        if options.command or options.here or options.no_screen:
            raise UsageError("--env prints variables to export and takes no command")
        if prints:
            raise UsageError("--env prints shell lines: leave out --json and --markdown")
        return
    if not options.command:
        option = "--markdown" if options.markdown else "--record"
        option = "--here" if options.here else "--no-screen" if options.no_screen else option
        raise UsageError(f"{option}: give the command after --, as in -- python train.py")
    if options.here and options.no_screen:
        raise UsageError("--here and --no-screen: give one of them")
    if options.here and prints:
        raise UsageError("--here: the command takes this program's place; print with --no-screen")
    if options.json and options.markdown:
        raise UsageError("--json and --markdown: give one of them")
    if prints and not options.no_screen:
        raise UsageError(f"{prints}: printed without a screen; add --no-screen")
