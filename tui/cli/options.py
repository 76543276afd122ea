"""The parser, and the options that several commands share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from tui.cli.errors import UsageError
from tui.cli.nearest import flags_in, nearest, not_known
from tui.cli.streams import print_text
from tui.cli.values import file_at, python_at


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong; the command's whole usage is a --help away.

    What is not given is left out of what it finds: the defaults stand in the options' dataclass.
    """

    def __init__(self, **named: Any) -> None:
        """Takes what ``argparse.ArgumentParser`` takes."""
        self.arguments: list[argparse.Action] = []
        """Those that were added to it, but for the groups of those that exclude each other."""
        self.commands: dict[str, Parser] = {}
        """The parsers of its commands."""
        super().__init__(argument_default=argparse.SUPPRESS, **named)

    def add_argument(self, *names: Any, **named: Any) -> argparse.Action:
        """Takes what ``argparse.ArgumentParser.add_argument`` takes."""
        self.arguments.append(super().add_argument(*names, **named))
        return self.arguments[-1]

    def unknown(self, rest: Sequence[str], screens: Sequence[str] = ()) -> NoReturn:
        """Refuse arguments that it does not know.

        Args:
            rest: the arguments.
            screens: options of the workbench, which a command without a screen has no use for.

        Raises:
            UsageError: always.
        """
        flag = next((word.partition("=")[0] for word in rest if word.startswith("-")), None)
        if flag is None:
            self.error(f"too many arguments: {' '.join(rest)}")
        meant = nearest(flag.lstrip("-"), [each[2:] for each in flags_in(self.format_help())])
        if meant is not None:
            self.error(f"no option {flag} (did you mean --{meant}?)")
        if flag in screens:
            self.error(f"{flag} is for the workbench and not for this command")
        self.error(f"no option {flag}")

    def error(self, message: str) -> NoReturn:
        """Called by argparse.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{_plainer(message)}; see {self.prog} --help")

    def print_help(self, file: Any = None) -> None:
        """Called by argparse for ``--help``."""
        if file is not None:
            super().print_help(file)
        else:
            print_text(self.format_help())


def _plainer(message: str) -> str:
    """What argparse says of a choice that there is not, with the nearest one."""
    found = re.match(r"argument (.+?): invalid choice: '(.*?)' \(choose from (.*)\)$", message)
    if found is None:
        return message
    known = [word.strip("' ") for word in found[3].split(",")]
    kind = "command" if found[1] == "COMMAND" else f"{found[1]}"
    return not_known(kind, found[2], known)


def add_python_and_files(parser: argparse.ArgumentParser) -> None:
    """``--python``, which is a setting, and ``files`` of workloads that the user brings."""
    parser.add_argument(
        "--python",
        type=python_at,
        metavar="PATH",
        help="run the workloads in this Python, which needs torch and nothing of ours",
    )
    parser.add_argument(
        "--workloads",
        dest="files",
        type=file_at,
        action="append",
        metavar="FILE",
        help="add the workloads that this Python file declares; again for more",
    )


def add_ascii(parser: argparse.ArgumentParser) -> None:
    """``ascii``, which is a setting; what is printed goes by it where it is given."""
    parser.add_argument("--ascii", action="store_true", help="use plain ASCII characters alone")


def add_common(parser: argparse.ArgumentParser) -> None:
    """What every command takes that prints something: as above, ``ascii`` and ``json``."""
    add_python_and_files(parser)
    add_ascii(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_devices(parser: argparse.ArgumentParser, metavar: str, about: str) -> None:
    """``devices``: one for each ``--device``."""
    parser.add_argument("--device", dest="devices", action="append", metavar=metavar, help=about)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """``parameters`` of workloads, a name and a text for each ``--set``."""
    parser.add_argument(
        "--set",
        dest="parameters",
        type=parameter,
        action="append",
        metavar="K=V",
        help="a parameter, such as n=4096; run takes several values too: n=256..8192x2 (times 2), "
        "n=1..9+2 (plus 2), n=256,1024, dtype=*; again for more",
    )


def parameter(text: str) -> tuple[str, str]:
    """``n=4096`` as a name and a value.

    Raises:
        UsageError: it is not of that form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text}: give a name and a value, such as n=4096")
    return name.strip(), value.strip()


def add_budget(parser: argparse.ArgumentParser) -> None:
    """``budget``: how long a workload is timed, see ``workloads.protocol.messages.Budget``."""
    group = parser.add_mutually_exclusive_group()
    for name, about in (
        ("quick", "about 3 s each, to 2%%"),
        ("careful", "up to 60 s each, to 0.25%%"),
    ):
        group.add_argument(f"--{name}", dest="budget", action="store_const", const=name, help=about)
