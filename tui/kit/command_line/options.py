"""The parser of a command, the options that several commands share, and a command's definition."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from tui.kit.command_line.output import UsageError, flags_in, nearest, not_known, print_text
from tui.kit.command_line.values import parse_file, python_at, setting_named

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Parser(argparse.ArgumentParser):
    """Reports an error in one line; --help prints the usage.

    Parsing returns only the options on the command line: the dataclass of the options has the
    defaults.
    """

    def __init__(self, **named: Any) -> None:
        """Pass the arguments on to ``argparse.ArgumentParser``."""
        self.arguments: list[argparse.Action] = []
        """The options added to it, without groups of mutually exclusive options."""
        self.commands: dict[str, Parser] = {}
        """The parsers of its commands."""
        self.defaults: dict[str, Any] = {}
        """The defaults that are no argument's."""
        self.actions: dict[str, Parser] = {}
        """The parsers of the actions that its first argument may name; see :meth:`add_action`."""
        self.runs_command = False
        """Its last arguments are another program's command, whose options stand after ``--``."""
        self._section: Any = None
        """The section of the help that gets new arguments; ``None`` for argparse's own."""
        super().__init__(argument_default=argparse.SUPPRESS, **named)

    def add_argument(self, *names: Any, **named: Any) -> argparse.Action:
        """Add an argument as ``argparse.ArgumentParser.add_argument`` does."""
        add = super().add_argument if self._section is None else self._section.add_argument
        self.arguments.append(add(*names, **named))
        return self.arguments[-1]

    def begin_section(self, title: str) -> None:
        """List the options that are added from now on below a title of their own in the help."""
        self._section = self.add_argument_group(title)

    def add_action(self, name: str, about: str) -> Parser:
        """Return a parser of its own for the arguments after a name that stands first.

        Unlike argparse's subparsers, other first arguments remain possible, such as a file.
        """
        action = Parser(prog=f"{self.prog} {name}", description=about)
        action.set_defaults(**self.defaults)
        self.actions[name] = action
        return action

    def set_defaults(self, **named: Any) -> None:
        """Set defaults as ``argparse.ArgumentParser`` does; later actions get them too."""
        self.defaults |= named
        super().set_defaults(**named)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as ``argparse.ArgumentParser`` does, except for an action."""
        action = self.actions.get(args[0]) if args else None
        if action is None:
            return super().parse_known_args(args, namespace)
        parsed, rest = action.parse_known_args(args[1:], namespace)
        if rest:
            action.unknown(rest)
        return parsed, rest

    def unknown(self, rest: Sequence[str], screens: Sequence[str] = ()) -> NoReturn:
        """Refuse unknown arguments.

        Args:
            rest: the arguments.
            screens: options of the workbench, which have no effect on a command without a screen.

        Raises:
            UsageError: always.
        """
        flag = next((word.partition("=")[0] for word in rest if word.startswith("-")), None)
        if flag is None:
            self.error(f"too many arguments: {' '.join(rest)}")
        meant = nearest(flag.lstrip("-"), [option[2:] for option in flags_in(self.format_help())])
        if meant is not None:
            self.error(f"no option {flag} (did you mean --{meant}?)")
        if flag in screens:
            self.error(f"{flag} is for the workbench and not for this command")
        if self.runs_command:
            self.error(f"no option {flag}; put -- before a command that has options")
        self.error(f"no option {flag}")

    def error(self, message: str) -> NoReturn:
        """Raise the error, as argparse calls it.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{_plainer(message)}; see {self.prog} --help")

    def print_help(self, file: Any = None) -> None:
        """Print the help, as argparse calls it for ``--help``."""
        if file is not None:
            super().print_help(file)
        else:
            print_text(self.format_help())


def _plainer(message: str) -> str:
    """Return argparse's message on an invalid choice, with the nearest choice."""
    match = re.match(r"argument (.+?): invalid choice: '(.*?)' \(choose from (.*)\)$", message)
    if match is None:
        return message
    known = [word.strip("' ") for word in match[3].split(",")]
    kind = {"COMMAND": "command", "WHAT": "action"}.get(match[1], match[1])
    return not_known(kind, match[2], known)


def add_python(parser: argparse.ArgumentParser) -> None:
    """Add ``--python``, which is a setting."""
    parser.add_argument(
        "--python", type=python_at, metavar="PATH", help="a Python with torch, for the workloads"
    )


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add ``files``: the user's workload files."""
    parser.add_argument(
        "--workloads",
        dest="files",
        type=parse_file,
        action="append",
        metavar="FILE",
        help="add a Python file's workloads; repeatable",
    )


def add_ascii(parser: argparse.ArgumentParser) -> None:
    """Add ``--ascii``, a setting that also applies to printed output."""
    parser.add_argument("--ascii", action="store_true", help="draw in ASCII")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add ``ascii`` and ``json``, which every printing command takes."""
    add_ascii(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command about all workloads, also the user's own."""
    add_python(parser)
    add_files(parser)
    add_output(parser)


def add_devices(parser: argparse.ArgumentParser, metavar: str, about: str) -> None:
    """Add ``devices``: one for each ``--device``."""
    parser.add_argument("--device", dest="devices", action="append", metavar=metavar, help=about)


def add_parameters(parser: argparse.ArgumentParser, *, sweeps: bool = False) -> None:
    """Add ``parameters`` of workloads: a name and a text for each ``--set``.

    Args:
        parser: of a command.
        sweeps: the command also takes several values of a parameter.
    """
    about = "set a parameter (n=4096)"
    if sweeps:
        about += " or sweep it (n=256..8192x2, n=1..9+2, n=256,1024, dtype=*)"
    parser.add_argument(
        "--set",
        dest="parameters",
        type=parse_parameter,
        action="append",
        metavar="K=V",
        help=f"{about}; repeatable",
    )


def parse_parameter(text: str) -> tuple[str, str]:
    """Parse ``n=4096`` as a name and a value.

    Raises:
        UsageError: the text has another form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text}: give a name and a value, such as n=4096")
    return name.strip(), value.strip()


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Add ``budget``: the time for a workload, see ``workloads.protocol.messages.Budget``."""
    group = parser.add_mutually_exclusive_group()
    for name, about in (
        ("quick", "measure each to 2%%, about 3 s"),
        ("careful", "measure each to 0.25%%, up to 60 s"),
    ):
        group.add_argument(f"--{name}", dest="budget", action="store_const", const=name, help=about)


def add_screen(parser: Parser) -> None:
    """Add the settings of any screen: theme, characters, mouse."""
    parser.add_argument("--theme", type=setting_named("theme"), metavar="THEME", help="color theme")
    add_ascii(parser)
    parser.add_argument(
        "--no-mouse", dest="mouse", action="store_false", help="do not capture the mouse"
    )


def add_settings(parser: Parser) -> None:
    """Add all settings but ``python``, which is added with the files."""
    add_screen(parser)
    parser.add_argument(
        "--refresh",
        type=setting_named("refresh"),
        metavar="SECONDS",
        help="sampling interval, 0.2 to 60",
    )
    parser.add_argument(
        "--device",
        type=setting_named("device"),
        metavar="D",
        help="device to select: cpu, cuda:0 or a GPU's UUID",
    )


def add_no_store(parser: Parser, name: str = "store") -> None:
    """Add ``store``, or another name: false if results shall not be stored."""
    parser.add_argument("--no-store", dest=name, action="store_false", help="do not store results")


T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class Subcommand(Generic[T]):
    """The definition of a command; ``T`` is the frozen dataclass of its options.

    The module is imported only if the arguments name the command.
    """

    options: type[T]
    """Each field has a default; argparse fills the given options, by their names. A command shares
    only the names ``given`` and ``files`` with the workbench: options before the command belong to
    the workbench."""
    add_options: Callable[[Parser], None]
    """Adds the options to the command's parser, each with the name of its field as ``dest``."""
    work: Callable[[T], int]
    """Carries out the command and returns the exit code."""
    description: str = ""
    """First paragraph of the command's help; empty to repeat its line in the list of commands."""
    usage_when_first: str = ""
    """Usage after the command's name, for a command that passes unknown arguments on in the field
    ``rest`` of its options. Such a command must come first. Empty for all others."""

    def carry_out(self, values: Mapping[str, object]) -> int:
        """Run the command with the parsed options; ignore other commands' options.

        Args:
            values: values by the names of fields.

        Returns:
            The exit code.
        """
        names = {field.name for field in fields(self.options)}
        accepted: dict[str, Any] = {name: value for name, value in values.items() if name in names}
        return self.work(self.options(**accepted))
