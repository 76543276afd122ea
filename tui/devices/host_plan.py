"""The hosts that the options name, and how they are reached."""

from __future__ import annotations

from collections.abc import Collection

from tui.hosts.address import HERE, HostError, parse_hosts, slurm_hosts
from tui.hosts.choice import HostChoice
from tui.hosts.plan import HostPlan
from tui.kit.command_line.output import UsageError


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
    includes_this = not choice.no_here
    names = [*((HERE.name,) if includes_this else ()), *(host.name for host in hosts)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--host {name}: the name is given twice")
    if not names:
        raise UsageError("--no-here: name other hosts with --host or --slurm")
    for name, _ in choice.host_pythons:
        if name not in names:
            raise UsageError(f"--host-python {name}: --host does not name it")
    return HostPlan(hosts, includes_this, dict(choice.host_pythons))


def find_other_hosts(choice: HostChoice, overrides: Collection[str]) -> HostPlan:
    """Return the hosts that a command runs on instead of this machine.

    Args:
        choice: the options that name them.
        overrides: names of the settings from the command line.

    Raises:
        UsageError: as :func:`find_hosts`, or the Python of this machine is given.
    """
    if "python" in overrides:
        raise UsageError("--python is for this machine: with --host, use --host-python HOST=PATH")
    return find_hosts(
        HostChoice(choice.host, True, choice.slurm, choice.transport, choice.host_pythons)
    )
