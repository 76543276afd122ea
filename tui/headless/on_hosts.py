"""``run --host``: the same runs on several hosts, each in its own torch, stored here.

Workloads of several ranks run over all hosts at once, as one job.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tui.core.text import numbers as fmt
from tui.core.text.glyphs import rows_of_text
from tui.devices.host_plan import find_other_hosts
from tui.headless.host_runs import HostRuns, connect_hosts, explain_same_machine, usable_sessions
from tui.headless.spanning import SpanningRun, find_spanning, meet, run_spanning
from tui.headless.waiter import choose_devices, choose_workloads, set_parameters
from tui.hosts.address import HostAddress
from tui.hosts.meeting import MeetingError
from tui.kit.command_line.output import Failure, UsageError, print_json, print_notice, print_text
from tui.kit.command_line.progress import ProgressLine
from tui.runs.session.session import Session
from tui.runs.views.result_text import format_run, format_sweeps, format_warnings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.headless.run import RunOptions
    from tui.runs.state.runs import RunState
    from tui.runs.state.state import RunsState
    from workloads.protocol.results import WorkloadInfo


def find_run_hosts(options: RunOptions) -> tuple[HostAddress, ...]:
    """Return the hosts to run on.

    Raises:
        UsageError: a name is invalid, or another option does not go with hosts.
    """
    refused = {
        "--runs": options.runs is not None,
        "--against": bool(options.against),
        "--interleave": bool(options.interleave),
    }
    for option, is_given in refused.items():
        if is_given:
            raise UsageError(f"{option} is for runs on this machine: leave it out with --host")
    return find_other_hosts(options, options.overrides).hosts


async def run_on_hosts(options: RunOptions, hosts: Sequence[HostAddress]) -> int:
    """Run everything on each host, and print the results.

    Args:
        options: the options of the command.
        hosts: all are connected to at once; they run one after another unless
            ``options.together``. Workloads of several ranks run over all of them afterwards.

    Returns:
        The exit code: 1 if a host was not reached or a run failed.

    Raises:
        Failure: two hosts are to run together, and are one machine or share a GPU.
        UsageError: no host knows a name or accepts a value.
    """
    pythons = dict(options.host_pythons)
    progress = ProgressLine()
    storing = options.store
    async with connect_hosts(
        hosts, pythons, options.devices, progress, files=options.files, storing=storing
    ) as lanes:

        def show() -> None:
            progress.show("   ".join(lane.progress for lane in lanes if lane.progress))

        for lane in lanes:
            lane.on_change(show)
        sessions = usable_sessions(lanes)
        if options.together and (same := explain_same_machine(sessions, options.devices)):
            raise Failure(
                f"{same}, so runs at the same time would slow each other down:"
                " leave one out of --host, or leave out --together"
            )
        runs = _HostsRuns(options, lanes)
        await runs.run_alone()
        progress.show("finding where the hosts meet" if runs.spanning else "")
        await runs.run_over_all()
    for problem in dict.fromkeys(problem for lane in lanes for problem in lane.problems):
        print_notice(problem)
    if options.json:
        encoded: dict[str, object] = {"hosts": [lane.encode() for lane in lanes]}
        if runs.problems:
            encoded["problems"] = runs.problems
        print_json(encoded, "run")
    else:
        text = format_host_results(lanes, runs.over_all, runs.problems, stored=storing)
        print_text(text, "run.txt")
    failed = bool(runs.problems) or any(lane.failed for lane in lanes)
    return lanes[0].exit_code(1 if failed else 0)


class _HostsRuns:
    """The runs of each host by itself, and those over all hosts.

    Args:
        options: the options of the command.
        lanes: one for each host, after its attempt to connect.
    """

    def __init__(self, options: RunOptions, lanes: Sequence[HostRuns]) -> None:
        self._options = options
        self._lanes = lanes
        self._texts = dict(options.parameters)
        self.spanning: list[WorkloadInfo] = []
        """The workloads that run over all hosts."""
        self.over_all: list[SpanningRun] = []
        self.problems: list[str] = []
        """Why a workload did not run over all hosts, a line each."""
        usable = self._usable()
        if usable and usable[0].session is not None:
            first = usable[0].session
            catalogue, names = first.state.runs.catalogue, self._choose_names(first)
            self.spanning = find_spanning(catalogue, names, self._texts, len(lanes))

    def _usable(self) -> list[HostRuns]:
        return [lane for lane in self._lanes if lane.session is not None and not lane.error]

    def _choose_names(self, session: Session) -> list[str]:
        return choose_workloads(
            session.state.runs,
            self._options.names,
            self._options.groups,
            everything=self._options.everything,
        )

    async def run_alone(self) -> None:
        """Run the workloads of single hosts, on all hosts at the same time."""
        together = {info.name for info in self.spanning}

        def request(session: Session) -> None:
            names = self._choose_names(session)
            set_parameters(session, names, self._texts, sweeps=True)
            devices = choose_devices(session, self._options.devices)
            session.run(
                [name for name in names if name not in together], devices, self._options.budget
            )

        if self._options.together:
            await asyncio.gather(*(lane.run(request) for lane in self._lanes))
        else:
            for lane in self._lanes:
                await lane.run(request)

    async def run_over_all(self) -> None:
        """Run workloads of several ranks over all hosts that can run."""
        lanes = self._usable()
        if not self.spanning or self._lanes[0].signalled:
            return
        why = ""
        if len(lanes) < 2:
            why = "not run: a run over hosts takes two that can run"
        elif same := explain_same_machine(usable_sessions(lanes), self._options.devices):
            why = f"not run: {same}: leave one out of --host, or --set hosts=1 to run on each alone"
        if why:
            self.problems = [f"{info.name}: {why}" for info in self.spanning]
            return
        known = {parameter.name for info in self.spanning for parameter in info.parameters}
        texts = {name: text for name, text in self._texts.items() if name in known}
        texts["hosts"] = str(len(lanes))
        for lane in lanes:
            assert lane.session is not None
            names = [info.name for info in self.spanning]
            set_parameters(lane.session, names, texts, sweeps=True)
        try:
            meetings = await meet(lanes)
        except MeetingError as error:
            self.problems = [f"{info.name}: {error}" for info in self.spanning]
            return
        for info in self.spanning:
            if not lanes[0].signalled:
                devices, budget = self._options.devices, self._options.budget
                done, missing = await run_spanning(lanes, info, devices, budget, meetings)
                self.over_all += done
                self.problems += missing


def format_host_results(
    lanes: Sequence[HostRuns],
    over_all: Sequence[SpanningRun] = (),
    problems: Sequence[str] = (),
    *,
    stored: bool = False,
) -> str:
    """Return the number of successful runs, then the runs over all hosts, then each host's own.

    Args:
        lanes: one for each host.
        over_all: the runs over several hosts, each counted once.
        problems: why others are missing, a line each.
        stored: the results are stored, so the command that compares two hosts stands at the end.
    """
    joint = {(name, state.request.id) for run in over_all for name, state in run.states.items()}
    own = {
        lane.host.name: [
            entry for entry in lane.entries if (lane.host.name, entry.request.id) not in joint
        ]
        for lane in lanes
    }
    runs = [entry for of_host in own.values() for entry in of_host]
    well = sum(entry.succeeded for entry in runs) + sum(run.succeeded for run in over_all)
    total = len(runs) + len(over_all)
    useless = sum(bool(lane.error) for lane in lanes)
    first = f"{well} of {fmt.count(total, 'run')} succeeded" if total else "nothing ran"
    if useless:
        first += f"; {fmt.count(useless, 'host')} of {len(lanes)} cannot run"
    text = rows_of_text([first, *problems])
    states = {lane.host.name: lane.state for lane in lanes}
    for spanning in over_all:
        text += "".join(_format_spanning(spanning, states))
    for lane in lanes:
        entries = own[lane.host.name]
        if entries or lane.error or not over_all:
            text += rows_of_text(["", f"{lane.host.name}  {lane.error}".rstrip()])
        if lane.state is not None:
            alone = len(entries) == 1
            text += "".join(format_run(lane.state, entry, warned=alone) for entry in entries)
            text += "" if alone else format_warnings(lane.state, entries)
            text += format_sweeps(lane.state, lane.entries) if entries else ""
    return text + (_format_comparison(own) if stored else "")


def _format_comparison(entries: Mapping[str, Sequence[RunState]]) -> str:
    """Return the command that compares the first two hosts with results; empty without two."""
    measured = [
        f"box={name}"
        for name, of_host in entries.items()
        if any(entry.succeeded for entry in of_host)
    ]
    if len(measured) < 2:
        return ""
    command = shlex.join(["gpu-workbench", "results", "compare", *measured[:2]])
    return rows_of_text(["", f"to compare two hosts: {command}"])


def _format_spanning(run: SpanningRun, states: Mapping[str, RunsState | None]) -> Iterator[str]:
    """Yield the result of a run over hosts, or each host's result if the run failed."""
    yield rows_of_text(["", f"over {', '.join(run.states)}"])
    for name, entry in run.states.items():
        state = states[name]
        if state is None:
            continue
        if not run.succeeded:
            yield rows_of_text([f"on {name}:"])
        yield format_run(state, entry)
        if run.succeeded:
            # The ranks are timed in lock-step, so the other hosts report the same times.
            return
