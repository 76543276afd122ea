"""The arguments of the whole program. Only the commands that they name are imported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

from tui.app.options import add_workbench
from tui.app.start import WorkbenchOptions, open_workbench
from tui.core.settings import KNOWN
from tui.core.text import glyphs
from tui.kit.command_line.options import Parser, Subcommand, add_python_and_files
from tui.kit.command_line.output import UsageError, flags_in, print_line

WORKBENCH = Subcommand(
    "A terminal workbench for PyTorch on GPU machines: look, run, debug "
    "memory. Without a command it opens the workbench.",
    WorkbenchOptions,
    add_workbench,
    open_workbench,
)


MODULES = {
    "compare": "tui.runs.cli.compare",
    "completion": "tui.cli.completion",
    "config": "tui.cli.config",
    "devices": "tui.devices.cli.devices",
    "doctor": "tui.devices.cli.doctor",
    "fleet": "tui.fleet.cli.fleet",
    "list": "tui.runs.cli.list",
    "replay": "tui.recordings.cli.replay",
    "results": "tui.results.cli.results",
    "run": "tui.runs.cli.run",
    "serve": "tui.cli.serve",
    "snapshot": "tui.snapshots.cli.snapshot",
    "watch": "tui.watch.cli.watch",
}
"""The module of each command, which defines its ``SUBCOMMAND``."""
REST = "rest"
"""The name under which a command that stands first gets the arguments that it does not know."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """The parsed arguments."""

    name: str
    """Name of the command; empty for the workbench."""
    subcommand: Subcommand[Any]
    found: dict[str, Any]
    """Values by the names of options; ``given`` has those that are settings."""

    def carry_out(self) -> int:
        """Carry out the command; returns the exit code.

        Raises:
            UsageError: the arguments cannot be carried out.
        """
        if self.found.get("ascii"):
            glyphs.use_ascii()
        usage = self.subcommand.usage_when_first
        if usage and REST not in self.found:
            raise UsageError(f"{self.name} comes first: gpu-workbench {self.name} {usage}")
        return self.subcommand.carry_out(self.found)


def parse(argv: Sequence[str]) -> Invocation:
    """Parse the arguments. Only the commands that they name are imported.

    Raises:
        UsageError: the arguments cannot be carried out.
        SystemExit: argparse ends the program, for ``--help``.
    """
    names = command_names()
    try:
        return _read(argv, [name for name in names if name in argv], complete=False)
    except _IncompleteError:
        return _read(argv, names, complete=True)


def command_names() -> list[str]:
    """Return the names of all commands."""
    return list(MODULES)


class _IncompleteError(Exception):
    """An error message that may list all commands, while not all are imported."""


class _Program(Parser):
    """The parser of the arguments up to the command.

    Args:
        complete: it has all commands, so that messages may list them.
    """

    def __init__(self, *, complete: bool) -> None:
        self._complete = complete
        super().__init__(prog="gpu-workbench", description=WORKBENCH.about)

    def error(self, message: str) -> NoReturn:
        """Raise the error; argparse calls this.

        Raises:
            UsageError: always, if the parser is complete.
        """
        if not self._complete:
            raise _IncompleteError
        super().error(message)

    def print_help(self, file: Any = None) -> None:
        """Print the help; argparse calls this for ``--help``."""
        if not self._complete:
            raise _IncompleteError
        super().print_help(file)


def parser(names: Iterable[str], *, first: str = "", complete: bool = True) -> Parser:
    """Return the program's parser.

    Args:
        names: names of the commands to include.
        first: the first word of the arguments.
        complete: whether these are all commands.
    """
    program = _Program(complete=complete)
    add_python_and_files(program)
    WORKBENCH.add_options(program)
    program.set_defaults(asked=("", WORKBENCH))
    program.add_argument(
        "--version",
        dest="asked",
        action="store_const",
        const=("--version", VERSION),
        help="print the version",
    )
    commands = program.add_subparsers(metavar="COMMAND", parser_class=Parser)
    found = {name: import_module(MODULES[name]).SUBCOMMAND for name in names}
    for name, one in sorted(found.items(), key=lambda item: item[1].place):
        # A command that must stand first, and does not, accepts no options.
        knows = not one.usage_when_first or first == name
        text = one.description or one.about
        child = commands.add_parser(name, help=one.about, description=text, add_help=knows)
        child.set_defaults(asked=(name, one))
        program.commands[name] = child
        if knows:
            one.add_options(child)
    return program


def _read(argv: Sequence[str], names: Iterable[str], *, complete: bool) -> Invocation:
    first = next(iter(argv), "")
    program = parser(names, first=first, complete=complete)
    if complete:
        _check_options(program, argv)
    namespace, rest = program.parse_known_args(argv)
    found = vars(namespace)
    name, one = found.pop("asked")
    if one.usage_when_first and first == name:
        found[REST] = rest
    elif rest:
        program.commands.get(name, program).unknown(rest, flags_in(program.format_help()))
    if name in program.commands and not one.usage_when_first:
        _check_options_before(program, program.commands[name], found)
    # argparse removes them, and they distinguish a command from the name of a run.
    found["dashes"] = "--" in argv
    found["given"] = {known.name: found[known.name] for known in KNOWN if known.name in found}
    return Invocation(name, one, found)


def _check_options(program: Parser, argv: Sequence[str]) -> None:
    """Refuse an unknown option before the command: argparse would take its value for the command.

    Raises:
        UsageError: there is such an option.
    """
    known = flags_in(program.format_help())
    for word in argv:
        flag = word.partition("=")[0]
        if word in program.commands:
            return
        if len(flag) > 2 and flag.startswith("--") and not any(k.startswith(flag) for k in known):
            program.unknown([flag])


def _check_options_before(program: Parser, command: Parser, found: dict[str, Any]) -> None:
    """Refuse options of the workbench that the command does not take: they would have no effect.

    Raises:
        UsageError: there is such an option.
    """
    taken = {each.dest for each in command.arguments}
    its_own = {flag for each in command.arguments for flag in each.option_strings}
    for each in program.arguments:
        flags = each.option_strings
        if not flags or each.dest in taken or each.dest not in found:
            continue
        if flags[0] in its_own:
            command.error(f"{flags[0]} goes after the command: {command.prog} {flags[0]}")
        command.error(f"{flags[0]} is for the workbench and not for this command")


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a command that takes none."""


def _show_version(_options: NoOptions) -> int:
    # Imported here: no other command needs the packages' metadata.
    from importlib.metadata import version

    print_line(f"gpu-workbench {version('gpu-workbench')}")
    return 0


VERSION = Subcommand("print the version", NoOptions, lambda _parser: None, _show_version)
