"""The options that name other hosts, on every command that takes them.

Imports no connection code: ``--help`` adds these options too.
"""

from __future__ import annotations

from tui.kit.command_line.options import Parser
from tui.kit.command_line.output import UsageError


def add_hosts(parser: Parser) -> None:
    """Add the options of :class:`~tui.hosts.choice.HostChoice`."""
    parser.add_argument(
        "--host", metavar="A,B", help="add hosts: ssh names, docker:CONTAINER or kubectl:POD"
    )
    parser.add_argument("--no-here", action="store_true", help="leave out this machine")
    parser.add_argument("--slurm", action="store_true", help="all hosts of the Slurm allocation")
    add_connection(parser, default_python="python3")


def add_connection(parser: Parser, default_python: str) -> None:
    """Add the options for connecting to hosts: the command, and the hosts' Pythons.

    Args:
        parser: gets them.
        default_python: the Python of a host that no option names, in words.
    """
    parser.add_argument(
        "--transport", metavar="CMD", help="command in place of ssh; {host} is the name"
    )
    parser.add_argument(
        "--host-python",
        dest="host_pythons",
        type=parse_host_python,
        action="append",
        metavar="HOST=PATH",
        help=f"a host's Python (default: {default_python}); repeatable",
    )


def parse_host_python(text: str) -> tuple[str, str]:
    """Return the host and the Python of ``--host-python HOST=PATH``.

    Raises:
        UsageError: the text does not have that form.
    """
    name, equals, python = text.partition("=")
    if not (name and equals and python) or python.startswith("-"):
        raise UsageError(f"--host-python {text}: give a host and a Python, such as gpu1=python3.11")
    return name, python
