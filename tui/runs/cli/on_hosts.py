"""``run --host``: the same runs on several hosts, each in its own torch, stored here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.core.text import numbers as fmt
from tui.core.text.glyphs import rows_of_text
from tui.devices.host_options import find_other_hosts
from tui.hosts.address import HostAddress
from tui.kit.command_line.output import UsageError, print_json, print_text, say
from tui.kit.command_line.progress import ProgressLine
from tui.runs.cli.headless import choose_devices, choose_workloads, set_parameters
from tui.runs.cli.host_runs import HostRuns, end_on_signals
from tui.runs.session.session import Session
from tui.runs.views.result_text import format_run, format_sweeps

if TYPE_CHECKING:
    from tui.runs.cli.run import RunOptions


def find_run_hosts(options: RunOptions) -> tuple[HostAddress, ...]:
    """Return the hosts to run on.

    Raises:
        UsageError: a name is invalid, or another option does not go with hosts.
    """
    refused = {
        "--runs": options.runs is not None,
        "--against": bool(options.against),
        "--interleave": bool(options.interleave),
        "--workloads": bool(options.files),
    }
    for option, is_given in refused.items():
        if is_given:
            raise UsageError(f"{option} is for runs on this machine: leave it out with --host")
    return find_other_hosts(options, options.given).hosts


async def run_on_hosts(options: RunOptions, hosts: Sequence[HostAddress]) -> int:
    """Run everything on each host, and print the results.

    Args:
        options: the options of the command.
        hosts: all are connected to at once; they run one after another unless
            ``options.together``.

    Returns:
        The exit code: 1 if a host was not reached or a run failed.

    Raises:
        UsageError: no host knows a name or accepts a value.
    """
    pythons = dict(options.host_pythons)
    progress = ProgressLine()
    runs = [
        HostRuns(host, pythons.get(host.name), options.devices, storing=options.store)
        for host in hosts
    ]
    end_on_signals(runs)

    def request(session: Session) -> None:
        names = choose_workloads(
            session.state.runs, options.names, options.groups, everything=options.everything
        )
        set_parameters(session, names, dict(options.parameters), sweeps=True)
        session.run(names, choose_devices(session, options.devices), options.budget)

    def show() -> None:
        progress.show("   ".join(each.progress for each in runs if each.progress))

    for each in runs:
        each.on_change(show)
    try:
        await asyncio.gather(*(each.connect() for each in runs))
        if options.together:
            await asyncio.gather(*(each.run(request) for each in runs))
        else:
            for each in runs:
                await each.run(request)
    finally:
        await asyncio.gather(*(each.close() for each in runs))
        progress.clear()
    for problem in dict.fromkeys(problem for each in runs for problem in each.problems):
        say(problem)
    if options.json:
        print_json({"hosts": [each.encode() for each in runs]}, "run")
    else:
        print_text(format_hosts(runs), "run.txt")
    return runs[0].exit_code(1 if any(each.failed for each in runs) else 0)


def format_hosts(runs: Sequence[HostRuns]) -> str:
    """Return how many runs ended well, then each host with its results."""
    ended = [entry.result for each in runs for entry in each.entries]
    well = sum(1 for result in ended if result is not None and result.status == "ok")
    useless = sum(1 for each in runs if each.error)
    first = f"{well} of {fmt.count(len(ended), 'run')} ended well" if ended else "nothing ran"
    if useless:
        first += f"; {fmt.count(useless, 'host')} of {len(runs)} cannot run"
    text = rows_of_text([first])
    for each in runs:
        text += rows_of_text(["", f"{each.host.name}  {each.error}".rstrip()])
        if each.state is not None:
            text += "".join(format_run(each.state, entry) for entry in each.entries)
            text += format_sweeps(each.state, each.entries)
    return text
