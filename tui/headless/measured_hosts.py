"""The options of commands that measure hosts with their torch, or this machine without a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.devices.host_options import add_connection
from tui.devices.host_plan import find_other_hosts
from tui.hosts.address import HERE, HostAddress
from tui.hosts.choice import HostChoice
from tui.kit.command_line.options import Parser
from tui.kit.command_line.output import UsageError
from tui.kit.command_line.values import python_to_use

if TYPE_CHECKING:
    from tui.core.settings import Value


@dataclass(frozen=True, slots=True)
class MeasuredHosts(HostChoice):
    """The hosts and the devices to measure."""

    overrides: Mapping[str, Value] = field(default_factory=dict)
    files: Sequence[str] = ()
    json: bool = False
    devices: Sequence[str] = ("all",)


def add_measured_hosts(parser: Parser, about: str) -> None:
    """Add the options of how hosts are named and reached.

    Args:
        parser: gets them.
        about: help text of ``--host``.
    """
    parser.add_argument("--host", metavar="A,B", help=about)
    parser.add_argument("--slurm", action="store_true", help="all hosts of the Slurm allocation")
    add_connection(parser, default_python="the first that has torch")


def refuse_files(options: MeasuredHosts, command: str) -> None:
    """Refuse a user's own workloads.

    Raises:
        UsageError: there are some.
    """
    if options.files:
        raise UsageError(f"--workloads: {command} times workloads of the catalogue; leave it out")


def choose_hosts(options: MeasuredHosts) -> tuple[Sequence[HostAddress], Mapping[str, str]]:
    """Return the hosts to measure, and the Python of each that has a given one.

    Raises:
        UsageError: the options contradict each other.
    """
    pythons = dict(options.host_pythons)
    if options.names_hosts:
        return find_other_hosts(options, options.overrides).hosts, pythons
    if options.transport or options.host_pythons:
        raise UsageError("--transport and --host-python need --host or --slurm")
    return (HERE,), {HERE.name: python_to_use(options.overrides).path}
