"""``gpu-workbench fleet``: compare equal devices, and name the slow one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.core.text.glyphs import rows_of_text
from tui.devices.state.devices import CPU
from tui.fleet.rounds import FleetMember, FleetRounds
from tui.fleet.views import encode_fleet, find_slow, fleet_lines
from tui.headless.host_runs import (
    HostRuns,
    MeasuredHosts,
    add_measured_hosts,
    choose_hosts,
    connect_hosts,
)
from tui.headless.waiter import choose_devices
from tui.hosts.address import HERE, HostAddress
from tui.kit.command_line.options import Parser, Subcommand, add_devices, add_output, add_python
from tui.kit.command_line.output import Failure, UsageError, fit_to_terminal, print_json, print_text
from tui.kit.command_line.progress import ProgressLine, run_to_exit
from tui.kit.command_line.values import whole_number
from workloads.protocol.machine_identity import MachineIdentity


@dataclass(frozen=True, slots=True)
class FleetOptions(MeasuredHosts):
    """The hosts, the devices and the number of rounds."""

    rounds: int | None = None
    """``None`` for six, and twelve more for suspects."""
    together: bool = False


def add_options(parser: Parser) -> None:
    """Add the hosts, the devices and the number of rounds."""
    add_python(parser)
    add_output(parser)
    add_devices(parser, "D", "cuda:0, …, or cpu; repeatable (default: all GPUs, or the CPU)")
    add_measured_hosts(parser, "compare the devices of these hosts (default: of this machine)")
    parser.add_argument(
        "--rounds",
        type=whole_number("--rounds"),
        metavar="N",
        help="rounds of every device (default: 6, and 12 more for suspects)",
    )
    parser.add_argument(
        "--together",
        action="store_true",
        help="load all devices at once, which shows limits of power and cooling",
    )


def fleet(options: FleetOptions) -> int:
    """Compare the devices; return the exit code.

    The code is 1 if a device is odd, or if a host or a device could not be timed.

    Raises:
        UsageError: the options contradict each other.
    """
    if options.rounds is not None and options.rounds < 2:
        raise UsageError(f"--rounds {options.rounds}: at least 2")
    hosts, pythons = choose_hosts(options)
    return run_to_exit(_compare(options, hosts, pythons))


async def _compare(
    options: FleetOptions, hosts: Sequence[HostAddress], pythons: Mapping[str, str]
) -> int:
    progress = ProgressLine()
    async with connect_hosts(hosts, pythons, options.devices, progress) as lanes:
        members, problems = find_members(lanes, options.devices)
        if options.together:
            extra = _separate_lanes(members)
            lanes += extra
            await asyncio.gather(*(host_runs.connect() for host_runs in extra))
        models: dict[str, list[FleetMember]] = {}
        for member in members:
            models.setdefault(member.model, []).append(member)
        fleets = []
        for model, alike in models.items():
            if len(alike) > 1:
                fleets.append(FleetRounds(alike, options.together, progress.show))
            elif hosts == (HERE,) and len(members) == 1 and alike[0].device == CPU:
                problems.append("no GPU here; give --host A,B to compare the devices of hosts")
            else:
                problems.append(f"{alike[0].name}: the only {model}")
        for fleet in fleets:
            await fleet.run(options.rounds)
        if options.json:
            print_json(encode_fleet(fleets, problems))
        else:
            progress.clear()
            lines = fleet_lines(fleets, problems)
            print_text(fit_to_terminal(rows_of_text(lines)), "fleet.txt")
    failed = any(lane.error for lane in lanes) or any(
        member.problem for fleet in fleets for member in fleet.members
    )
    odd = any(device.ratio.odd for device in find_slow(fleets))
    return lanes[0].exit_code(1 if failed or odd or not fleets else 0)


def find_members(
    lanes: Sequence[HostRuns], devices: Sequence[str]
) -> tuple[list[FleetMember], list[str]]:
    """Return the devices of the connected hosts, and why others are left out.

    Args:
        lanes: one for each host.
        devices: torch's names, or ``all``.
    """
    members: list[FleetMember] = []
    problems: list[str] = []
    seen: dict[str, str] = {}
    cpus: dict[str, MachineIdentity] = {}
    for lane in lanes:
        session, host = lane.session, lane.host.name
        environment = session.state.machine.environment if session is not None else None
        if session is None or environment is None:
            problems.append(f"{host}: {lane.error or 'not connected'}")
            continue
        try:
            chosen = choose_devices(session, devices)
        except Failure as failure:
            problems.append(f"{host}: {failure}")
            continue
        known = {device.id: device for device in environment.devices}
        for name in chosen:
            label = host if name == CPU else f"{host}:{name.partition(':')[2] or name}"
            uuid = known[name].uuid
            if name == CPU:
                identity = session.state.machine.identity
                same = [other for other in cpus if identity.is_same_system(cpus[other])]
                if same:
                    problems.append(f"{label}: the same CPU as {same[0]}, timed once")
                    continue
                cpus[label] = identity
            if uuid is not None and uuid in seen:
                problems.append(f"{label}: the same GPU as {seen[uuid]}, timed once")
                continue
            if uuid is not None:
                seen[uuid] = label
            members.append(FleetMember(label, known[name].name, name, lane, host))
    return members, problems


def _separate_lanes(members: Sequence[FleetMember]) -> list[HostRuns]:
    """Give every device but the first of its host a runner of its own; return the new ones."""
    served: set[str] = set()
    added = []
    for member in members:
        if member.host in served:
            member.runs = member.runs.another()
            added.append(member.runs)
        served.add(member.host)
    return added


SUBCOMMAND = Subcommand(FleetOptions, add_options, fleet)
