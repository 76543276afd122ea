"""The arguments of the whole program. Only the commands that they name are imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

from tui.app.start import WorkbenchOptions, open_workbench
from tui.core.settings import KNOWN
from tui.core.text import glyphs
from tui.devices.host_options import add_hosts
from tui.kit.command_line.options import (
    Parser,
    Subcommand,
    add_files,
    add_no_store,
    add_python,
    add_settings,
)
from tui.kit.command_line.output import UsageError, flags_in, print_line
from tui.snapshots import MEMORY_OPTION
from tui.snapshots.options import parse_memory

ABOUT = (
    "A terminal workbench for PyTorch on GPU machines: look, run, debug "
    "memory. Without a command it opens the workbench."
)


def add_workbench(parser: Parser) -> None:
    """Add the options of the workbench: appearance, permissions, and the first tab."""
    parser.begin_section("screen")
    add_settings(parser)
    parser.begin_section("hosts")
    add_hosts(parser)
    parser.begin_section("session")
    parser.add_argument("--readonly", action="store_true", help="run nothing and change nothing")
    parser.add_argument("--present", metavar="GROUP", help="present a group page by page")
    add_no_store(parser, "storing")
    parser.begin_section("snapshot")
    parser.add_argument("--snapshot", metavar="FILE", help="open an allocator snapshot")
    parser.add_argument("--oom-text", metavar="FILE", help="with --snapshot: the exception's text")
    parser.add_argument(
        MEMORY_OPTION,
        type=parse_memory,
        metavar="SIZE",
        help="limit for reading a snapshot (default: a quarter of what is free)",
    )
    parser.begin_section("recording")
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="record for replay (.gz: compressed), with the names of host, users and programs",
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="record no names, GPU UUIDs, home directories and arguments",
    )


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of ``--version``: none."""


def show_version(_options: NoOptions) -> int:
    """Print the version; returns the exit code."""
    # Imported by name: its import takes longer than the parsing of the arguments.
    version = resolve_name("importlib.metadata:version")
    print_line(f"gpu-workbench {version('gpu-workbench')}")
    return 0


WORKBENCH = Subcommand(WorkbenchOptions, add_workbench, open_workbench)
VERSION = Subcommand(NoOptions, lambda _parser: None, show_version)


@dataclass(frozen=True, slots=True)
class ListedCommand:
    """A command as the list of commands shows it; its module is imported if it is named."""

    module: str
    """The module that defines its ``SUBCOMMAND``."""
    about: str
    """Its effect in one sentence."""
    example: str = ""
    """Arguments of an example; empty for none."""
    docs: str = "README.md"
    """The page of the documentation on it."""
    subcommand: str = "SUBCOMMAND"
    """Its name in the module."""
    passes: Mapping[str, str] = field(default_factory=dict)
    """Functions of packages above the command's own, as ``module:name``, by the field of the
    options that receives them; imported if the command is named."""


COMMANDS: dict[str, ListedCommand] = {
    # Look.
    "devices": ListedCommand(
        "tui.devices.cli.devices",
        "Show the devices, here or on several hosts.",
        example="--until 'free 20G' --for 1h",
        docs="docs/hosts.md",
    ),
    "doctor": ListedCommand(
        "tui.doctor.doctor", "Check this machine, and say how to fix what fails."
    ),
    "links": ListedCommand(
        "tui.links.links", "Measure the links between GPUs and hosts: which one is slow?"
    ),
    "fleet": ListedCommand(
        "tui.fleet.fleet", "Compare equal GPUs, here or on several hosts: which one is slow?"
    ),
    # Run.
    "list": ListedCommand("tui.headless.list", "List the workloads, or the parameters of one."),
    "run": ListedCommand(
        "tui.headless.run",
        "Time workloads on the CPU and the GPUs.",
        example="matmul --set n=1024,4096",
    ),
    "compare": ListedCommand(
        "tui.headless.compare",
        "Compare two settings of a backend flag: does it matter?",
        example="conv2d --flag cudnn.benchmark=off,on",
    ),
    "learn": ListedCommand(
        "tui.headless.learn", "Walk through the first steps: script, run, one question each."
    ),
    "code": ListedCommand("tui.headless.code", "Print a workload as a PyTorch script."),
    "results": ListedCommand(
        "tui.results.cli.results", "List, compare, export and import stored results."
    ),
    # Debug memory.
    "watch": ListedCommand(
        "tui.watch.cli.watch",
        "Run a command and explain an OOM, or show the memory of running processes.",
        example="-- python train.py",
        docs="docs/watching.md",
        passes={"open_run": "tui.app.start:open_run"},
    ),
    "rehearse": ListedCommand(
        "tui.rehearsal.rehearse",
        "Rehearse a program on a GPU that is not here: will it fit?",
        example="--gpu h100 -- python train.py",
        docs="docs/rehearsal.md",
    ),
    "snapshot": ListedCommand(
        "tui.snapshots.cli.snapshot",
        "Explain an allocator snapshot: why did memory run out?",
        example="memory.pickle --top 20",
        passes={"find_context": "tui.watch.session.stored_ooms:find_oom_context"},
    ),
    # Show.
    "demo": ListedCommand(
        "tui.recordings.cli",
        "Play a story of a minute, recorded on one NVIDIA H200.",
        subcommand="DEMO_SUBCOMMAND",
        passes={"play": "tui.app.start:play_recording"},
    ),
    "replay": ListedCommand(
        "tui.recordings.cli",
        "Play a recording; --record makes one.",
        passes={"play": "tui.app.start:play_recording"},
    ),
    "serve": ListedCommand(
        "tui.cli.serve", "Show the workbench in a browser, through an SSH tunnel."
    ),
    # Set up.
    "config": ListedCommand("tui.cli.config", "Show the settings and their sources."),
    "completion": ListedCommand(
        "tui.cli.completion",
        'Print a shell\'s completion: eval "$(gpu-workbench completion bash)".',
    ),
}
"""The commands by name, in the order of the list: look, run, debug memory, show, set up."""
REST = "rest"
"""The name under which a command that stands first gets the arguments that it does not know."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """The parsed arguments."""

    name: str
    """Name of the command; empty for the workbench."""
    subcommand: Subcommand[Any]
    values: dict[str, Any]
    """Values by the names of options; ``overrides`` has the settings among them."""

    def carry_out(self) -> int:
        """Carry out the command; returns the exit code.

        Raises:
            UsageError: the arguments cannot be carried out.
        """
        if self.values.get("ascii"):
            glyphs.use_ascii()
        usage = self.subcommand.usage_when_first
        if usage and REST not in self.values:
            raise UsageError(f"{self.name} comes first: gpu-workbench {self.name} {usage}")
        return self.subcommand.carry_out(self.values)


def parse(argv: Sequence[str]) -> Invocation:
    """Parse the arguments. Only the commands that they name are imported.

    Raises:
        UsageError: the arguments cannot be carried out.
        SystemExit: argparse ends the program, for ``--help``.
    """
    first = next(iter(argv), "")
    program = parser([name for name in COMMANDS if name in argv], first=first)
    _check_options(program, argv)
    namespace, rest = program.parse_known_args(argv)
    values = vars(namespace)
    name, subcommand = values.pop("subcommand")
    if subcommand.usage_when_first and first == name:
        values[REST] = rest
    elif rest:
        program.commands.get(name, program).unknown(rest, flags_in(program.format_help()))
    if name in program.commands and not subcommand.usage_when_first:
        _check_options_before(program, program.commands[name], values)
    # argparse removes them, and they distinguish a command from the name of a run.
    values["dashes"] = "--" in argv
    values["late_options"] = _has_late_options(argv, values.get("command", ()))
    values["overrides"] = {
        known.name: values[known.name] for known in KNOWN if known.name in values
    }
    if name in COMMANDS:
        values |= resolve_passed(COMMANDS[name].passes)
    return Invocation(name, subcommand, values)


def _has_late_options(argv: Sequence[str], command: Sequence[str]) -> bool:
    """Return whether options stand behind the first word of another program's command."""
    if not command or command[0] not in argv:
        return False
    return any(word.startswith("-") for word in argv[list(argv).index(command[0]) :])


def resolve_passed(passes: Mapping[str, str]) -> dict[str, Any]:
    """Import the functions that a command receives, by the field of its options."""
    return {name: resolve_name(path) for name, path in passes.items()}


def parser(names: Iterable[str] = COMMANDS, *, first: str = "") -> Parser:
    """Return the program's parser. It lists all commands.

    Args:
        names: the commands whose modules to import and whose options to add.
        first: the first word of the arguments.
    """
    program = Parser(prog="gpu-workbench", description=ABOUT)
    add_python(program)
    add_files(program)
    program.add_argument(
        "--version",
        dest="subcommand",
        action="store_const",
        const=("--version", VERSION),
        help="print the version",
    )
    WORKBENCH.add_options(program)
    program.set_defaults(subcommand=("", WORKBENCH))
    commands = program.add_subparsers(metavar="COMMAND", parser_class=Parser)
    imported = set(names)
    for name, listed in COMMANDS.items():
        if name not in imported:
            commands.add_parser(name, help=listed.about)
            continue
        subcommand: Subcommand[Any] = resolve_name(f"{listed.module}:{listed.subcommand}")
        # A command that must stand first, and does not, accepts no options.
        knows = not subcommand.usage_when_first or first == name
        text = subcommand.description or listed.about
        child = commands.add_parser(
            name,
            help=listed.about,
            description=text,
            epilog=_format_epilog(name, listed),
            add_help=knows,
        )
        child.set_defaults(subcommand=(name, subcommand))
        program.commands[name] = child
        if knows:
            subcommand.add_options(child)
    return program


def _format_epilog(name: str, listed: ListedCommand) -> str | None:
    """Return the last paragraph of a command's help: an example, and where to read more."""
    if not listed.example:
        return None
    return f"Example: gpu-workbench {name} {listed.example} (more in {listed.docs})"


def _check_options(program: Parser, argv: Sequence[str]) -> None:
    """Refuse an unknown option before the command: argparse would take its value for the command.

    Raises:
        UsageError: there is such an option.
    """
    known = [flag for argument in program.arguments for flag in argument.option_strings]
    for word in argv:
        flag = word.partition("=")[0]
        if word in COMMANDS:
            return
        if len(flag) > 2 and flag.startswith("--") and not any(k.startswith(flag) for k in known):
            program.unknown([flag])


def _check_options_before(program: Parser, command: Parser, values: dict[str, Any]) -> None:
    """Refuse options of the workbench that the command does not take: they would have no effect.

    Raises:
        UsageError: there is such an option.
    """
    occupied = {argument.dest for argument in command.arguments}
    its_own = {flag for argument in command.arguments for flag in argument.option_strings}
    for argument in program.arguments:
        flags = argument.option_strings
        if not flags or argument.dest in occupied or argument.dest not in values:
            continue
        if flags[0] in its_own:
            command.error(f"{flags[0]} goes after the command: {command.prog} {flags[0]}")
        command.error(f"{flags[0]} is for the workbench and not for this command")
