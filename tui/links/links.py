"""``gpu-workbench links``: measure the links between GPUs and hosts, and name the slow one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.core.text.glyphs import rows_of_text
from tui.headless.host_runs import (
    HostRuns,
    MeasuredHosts,
    add_measured_hosts,
    choose_hosts,
    connect_hosts,
    explain_same_machine,
    usable_sessions,
)
from tui.headless.spanning import meet
from tui.hosts.address import HostAddress
from tui.hosts.failures import HostFailureError
from tui.hosts.meeting import MeetingError
from tui.hosts.survey import query_topology
from tui.kit.command_line.options import Parser, Subcommand, add_devices, add_output, add_python
from tui.kit.command_line.output import Failure, UsageError, fit_to_terminal, print_json, print_text
from tui.kit.command_line.progress import ProgressLine, run_to_exit
from tui.kit.command_line.values import whole_number
from tui.links.measure import BetweenHosts, LinkFindings, measure_within
from tui.links.views import encode_links, is_measured, is_slow, links_lines
from tui.monitor.topology import GpuTopology

MOST_MIB = 16_384


@dataclass(frozen=True, slots=True)
class LinksOptions(MeasuredHosts):
    """The hosts, the devices and the largest size."""

    largest: int | None = None
    """MiB; ``None`` for 1024 on GPUs and 64 on CPUs."""


def add_options(parser: Parser) -> None:
    """Add the hosts, the devices and the largest size."""
    add_python(parser)
    add_output(parser)
    add_devices(parser, "D", "cpu to measure hosts without their GPUs (default: GPUs if all have)")
    add_measured_hosts(
        parser, "measure between and within these hosts (default: within this machine)"
    )
    parser.add_argument(
        "--largest",
        type=whole_number("--largest"),
        metavar="MIB",
        help="largest all-reduce (default: 1024 on GPUs, 64 on CPUs)",
    )


def links(options: LinksOptions) -> int:
    """Measure the links; return the exit code.

    The code is 1 if a link is slow, if a host or a link could not be measured, or if nothing was.

    Raises:
        Failure: two of the hosts are one machine, or share a GPU.
        UsageError: the options contradict each other.
    """
    if options.largest is not None and not 1 <= options.largest <= MOST_MIB:
        raise UsageError(f"--largest {options.largest}: from 1 to {MOST_MIB} MiB")
    hosts, pythons = choose_hosts(options)
    return run_to_exit(_measure(options, hosts, pythons))


async def _measure(
    options: LinksOptions, hosts: Sequence[HostAddress], pythons: Mapping[str, str]
) -> int:
    progress = ProgressLine()
    findings = LinkFindings()
    async with connect_hosts(hosts, pythons, options.devices, progress) as lanes:
        if same := explain_same_machine(usable_sessions(lanes), options.devices):
            raise Failure(f"{same}, so no link is between them: leave one out of --host")
        topologies = await asyncio.gather(*(_query(lane) for lane in lanes))
        # All hosts at once: measurements within a host disturb no other.
        findings.within = list(
            await asyncio.gather(
                *(
                    measure_within(lane, topology, progress.show)
                    for lane, topology in zip(lanes, topologies, strict=True)
                )
            )
        )
        usable = [lane for lane in lanes if not lane.error and lane.session is not None]
        if len(usable) > 1 and not lanes[0].signalled:
            await _measure_between(usable, options, findings, progress)
        elif len(lanes) > 1:
            findings.problems.append("links between hosts: not measured, fewer than two can run")
        if options.json:
            print_json(encode_links(findings))
        else:
            progress.clear()
            print_text(fit_to_terminal(rows_of_text(links_lines(findings))), "links.txt")
    problems = [
        *findings.problems,
        *(lane.error for lane in lanes if lane.error),
        *(host.problem for host in findings.within if host.problem),
        *(pair.problem for pair in findings.pairs if pair.problem),
    ]
    failed = problems or is_slow(findings) or not is_measured(findings)
    return lanes[0].exit_code(1 if failed else 0)


async def _measure_between(
    lanes: Sequence[HostRuns],
    options: LinksOptions,
    findings: LinkFindings,
    progress: ProgressLine,
) -> None:
    """Measure the links between hosts into ``findings``."""
    progress.show("finding where the hosts meet")
    try:
        meetings = await meet(lanes, pairwise=True)
        between = BetweenHosts(lanes, meetings, options.devices, options.largest, progress.show)
    except (MeetingError, Failure) as error:
        findings.problems.append(f"links between hosts: {error}")
        return
    try:
        findings.over_all = await between.run_over_all()
    except MeetingError as error:
        findings.problems.append(f"all-reduce over all hosts: {error}")
    if not lanes[0].signalled:
        findings.pairs = await between.run_pairs()


async def _query(lane: HostRuns) -> GpuTopology | str:
    """Return how the GPUs of a host are connected, or why that is unknown."""
    try:
        return await query_topology(lane.reached, lane.python)
    except HostFailureError as error:
        return str(error)


SUBCOMMAND = Subcommand(LinksOptions, add_options, links)
