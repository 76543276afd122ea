"""The options that name other hosts, on every command that takes them."""

from __future__ import annotations

from collections.abc import Collection

from tui.hosts.address import HERE, HostError, parse_hosts
from tui.hosts.choice import HostChoice
from tui.hosts.plan import HostPlan
from tui.hosts.slurm import slurm_hosts
from tui.kit.command_line.options import Parser
from tui.kit.command_line.output import UsageError


def add_hosts(parser: Parser) -> None:
    """Add the options of :class:`~tui.hosts.choice.HostChoice`."""
    parser.add_argument(
        "--host",
        metavar="A,B",
        help="show these hosts too: names for ssh, docker:CONTAINER or kubectl:POD",
    )
    parser.add_argument("--no-here", action="store_true", help="leave out this machine")
    parser.add_argument("--slurm", action="store_true", help="all hosts of the Slurm allocation")
    add_connection(parser, default_python="python3")


def add_connection(parser: Parser, default_python: str) -> None:
    """Add the options of how hosts are reached: the command, and their Pythons.

    Args:
        parser: gets them.
        default_python: the Python of a host that no option names, in words.
    """
    parser.add_argument(
        "--transport",
        metavar="CMD",
        help="reach the hosts with this command instead of ssh; {host} stands for the name",
    )
    parser.add_argument(
        "--host-python",
        dest="host_pythons",
        type=host_python_of,
        action="append",
        metavar="HOST=PATH",
        help=f"use this Python on a host (default: {default_python}); repeat for more hosts",
    )


def find_hosts(choice: HostChoice) -> HostPlan:
    """Return the hosts of the options.

    Raises:
        UsageError: a name is invalid, there is no allocation, or no host is left.
    """
    try:
        named = parse_hosts(choice.host, choice.transport) if choice.host else ()
        hosts = (*(slurm_hosts() if choice.slurm else ()), *named)
    except HostError as error:
        raise UsageError(f"{error}") from error
    here = not choice.no_here
    names = [*((HERE.name,) if here else ()), *(host.name for host in hosts)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--host {name}: the name is given twice")
    if not names:
        raise UsageError("--no-here: name other hosts with --host or --slurm")
    for name, _ in choice.host_pythons:
        if name not in names:
            raise UsageError(f"--host-python {name}: no such host is given")
    return HostPlan(hosts, here, dict(choice.host_pythons))


def find_other_hosts(choice: HostChoice, given: Collection[str]) -> HostPlan:
    """Return the hosts that a command runs on instead of this machine.

    Args:
        choice: the options that name them.
        given: names of the settings that were given.

    Raises:
        UsageError: as :func:`find_hosts`, or the Python of this machine is given.
    """
    if "python" in given:
        raise UsageError("--python is for this machine: with --host, use --host-python HOST=PATH")
    return find_hosts(
        HostChoice(choice.host, True, choice.slurm, choice.transport, choice.host_pythons)
    )


def host_python_of(text: str) -> tuple[str, str]:
    """Return the host and the Python of ``--host-python HOST=PATH``.

    Raises:
        UsageError: the text does not have that form.
    """
    name, equals, python = text.partition("=")
    if not (name and equals and python) or python.startswith("-"):
        raise UsageError(f"--host-python {text}: give a host and a Python, such as gpu1=python3.11")
    return name, python
