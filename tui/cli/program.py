"""The whole program's arguments. Only the commands that they name are imported."""

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
    "list": "tui.runs.cli.list",
    "replay": "tui.recordings.cli.replay",
    "results": "tui.results.cli.results",
    "run": "tui.runs.cli.run",
    "serve": "tui.cli.serve",
    "snapshot": "tui.snapshots.cli.snapshot",
    "watch": "tui.watch.cli.watch",
}
"""The module of each command, which has its ``SUBCOMMAND``."""
REST = "rest"
"""The name of what a command that stands first does not know."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """What was asked for."""

    name: str
    """The command's; empty for the workbench."""
    subcommand: Subcommand[Any]
    found: dict[str, Any]
    """What was given, by the names of options; ``given`` has those that are settings."""

    def carry_out(self) -> int:
        """Do it; returns the exit code.

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
    """Read the arguments. Of the commands, only what they name is imported.

    Raises:
        UsageError: arguments that cannot be carried out.
        SystemExit: argparse's own end, for ``--help``.
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
    """What is to be said may name the commands that there are, and not all are imported."""


class _Program(Parser):
    """The parser of the arguments up to the command.

    Args:
        complete: it has all commands, and can say which there are.
    """

    def __init__(self, *, complete: bool) -> None:
        self._complete = complete
        super().__init__(prog="gpu-workbench", description=WORKBENCH.about)

    def error(self, message: str) -> NoReturn:
        """Raise the error, as argparse calls it.

        Raises:
            UsageError: always, where it is complete.
        """
        if not self._complete:
            raise _IncompleteError
        super().error(message)

    def print_help(self, file: Any = None) -> None:
        """Print the help, as argparse calls it for ``--help``."""
        if not self._complete:
            raise _IncompleteError
        super().print_help(file)


def parser(names: Iterable[str], *, first: str = "", complete: bool = True) -> Parser:
    """Return the parser of the program.

    Args:
        names: of the commands that it has.
        first: the word that the arguments begin with.
        complete: these are all commands.
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
        # One that has to stand first and does not knows no options.
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
    # argparse takes them out, and a command may be told from a name by them.
    found["dashes"] = "--" in argv
    found["given"] = {known.name: found[known.name] for known in KNOWN if known.name in found}
    return Invocation(name, one, found)


def _check_options(program: Parser, argv: Sequence[str]) -> None:
    """Refuse an option that is wrong before the command: argparse takes its value for one.

    Raises:
        UsageError: there is one.
    """
    known = flags_in(program.format_help())
    for word in argv:
        flag = word.partition("=")[0]
        if word in program.commands:
            return
        if len(flag) > 2 and flag.startswith("--") and not any(k.startswith(flag) for k in known):
            program.unknown([flag])


def _check_options_before(program: Parser, command: Parser, found: dict[str, Any]) -> None:
    """Refuse what the workbench takes and the command does not: it would change nothing.

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
    """A command that takes none."""


def _show_version(_options: NoOptions) -> int:
    # The door to the packages' metadata, which no other command pays for.
    from importlib.metadata import version

    print_line(f"gpu-workbench {version('gpu-workbench')}")
    return 0


VERSION = Subcommand("print the version", NoOptions, lambda _parser: None, _show_version)
