"""Runs over several hosts at once: one torchrun on each, whose ranks form one job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.headless.host_runs import HostRuns
from tui.headless.waiter import choose_devices
from tui.hosts.children import HostConnection
from tui.hosts.meeting import MeetingError, Meetings, find_meetings
from tui.kit.command_line.output import Failure
from tui.runs.session.session import Session
from tui.runs.state.runs import RunState
from workloads.protocol.messages import Budget, Meeting
from workloads.protocol.results import Setting, WorkloadInfo

MEETING_PARAMETERS = ("hosts", "rendezvous")
"""Parameters that set where ranks meet: with them, each host runs by itself."""
LEAVE_S = 5.0
"""Seconds in which the other hosts may notice a failure themselves, before they are canceled."""


@dataclass(frozen=True, slots=True)
class SpanningRun:
    """One run over several hosts."""

    workload: str
    kind: str
    """Type of device: cpu or cuda."""
    states: Mapping[str, RunState]
    """The run on each host, by the host's name; a host that was lost before has none."""

    @property
    def succeeded(self) -> bool:
        """True if it succeeded on every host."""
        return all(state.succeeded for state in self.states.values())


def find_spanning(
    catalogue: Sequence[WorkloadInfo], names: Sequence[str], texts: Mapping[str, str], hosts: int
) -> list[WorkloadInfo]:
    """Return the workloads that run over all hosts together.

    Args:
        catalogue: all workloads.
        names: the chosen ones.
        texts: typed values by parameter.
        hosts: number of hosts that can run.
    """
    if hosts < 2 or any(name in texts for name in MEETING_PARAMETERS):
        return []
    return [info for info in catalogue if info.name in names and info.ranks]


def find_first_devices(session: Session, requested: Sequence[str]) -> dict[str, str]:
    """Return the first chosen device of each type: the ranks of a host begin there.

    Raises:
        Failure: torch does not have a device.
    """
    devices: dict[str, str] = {}
    for device in choose_devices(session, requested):
        devices.setdefault(device.partition(":")[0], device)
    return devices


async def meet(lanes: Sequence[HostRuns], *, pairwise: bool = False) -> Meetings:
    """Return where connected hosts can meet.

    Args:
        lanes: the hosts.
        pairwise: also in pairs.

    Raises:
        MeetingError: a host does not answer.
    """
    connections = [HostConnection(lane.reached, lane.python) for lane in lanes]
    return await find_meetings(connections, pairwise=pairwise)


async def run_spanning(
    lanes: Sequence[HostRuns],
    info: WorkloadInfo,
    requested: Sequence[str],
    budget: Budget,
    meetings: Meetings,
) -> tuple[list[SpanningRun], list[str]]:
    """Run a workload over all hosts, with every setting of its sweep; on each type of device.

    Args:
        lanes: connected hosts, whose sessions have the parameters.
        info: the workload.
        requested: the devices, as typed.
        budget: time for the measurement.
        meetings: where they meet.

    Returns:
        The runs, and why it did not run on some type of device.
    """
    devices: dict[str, dict[str, str]] = {}
    problems = []
    for lane in lanes:
        assert lane.session is not None
        try:
            devices[lane.host.name] = find_first_devices(lane.session, requested)
        except Failure as failure:
            return [], [f"{info.name}: {lane.host.name}: {failure}"]
    kinds = dict.fromkeys(kind for of_host in devices.values() for kind in of_host)
    done: list[SpanningRun] = []
    for kind in kinds:
        if kind not in info.devices:
            continue
        without = [name for name, of_host in devices.items() if kind not in of_host]
        if without:
            problems.append(f"{info.name}: no {kind} on {', '.join(without)}, so not run there")
            continue
        try:
            places = meetings.arrange([lane.host.name for lane in lanes])
        except MeetingError as error:
            return done, [*problems, f"{info.name}: {error}"]
        first = lanes[0].session
        assert first is not None
        for point in first.state.runs.points(info.name):
            chosen = {name: of_host[kind] for name, of_host in devices.items()}
            states = await run_together(lanes, info.name, chosen, point, budget, places)
            done.append(SpanningRun(info.name, kind, states))
    return done, problems


async def run_together(
    lanes: Sequence[HostRuns],
    workload: str,
    devices: Mapping[str, str],
    parameters: Mapping[str, Setting],
    budget: Budget,
    places: Mapping[str, Meeting],
    *,
    time_only: bool = False,
) -> dict[str, RunState]:
    """Run one workload with one setting over several hosts, and return the run of each host.

    If it fails on one host, it is canceled on the others, whose ranks would wait for minutes.
    The next run may use the same port, so this returns when all have ended.

    Args:
        lanes: connected hosts.
        workload: its name.
        devices: torch's name of the first device, by host.
        parameters: its settings; the number of hosts is added.
        budget: time for the measurement.
        places: the meeting, by host.
        time_only: skip the check and the further figures.
    """
    settings = {**parameters, "hosts": len(lanes)}

    async def run_one(lane: HostRuns) -> RunState | None:
        name = lane.host.name

        def request(session: Session) -> None:
            place, device = places[name], devices[name]
            session.here.request_run(
                workload, device, settings, budget, meeting=place, time_only=time_only
            )

        return await lane.run_one(request)

    tasks = {lane.host.name: asyncio.create_task(run_one(lane)) for lane in lanes}
    waiting = set(tasks.values())
    while waiting:
        ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        runs = [task.result() for task in ended]
        if waiting and not all(run is not None and run.succeeded for run in runs):
            _, waiting = await asyncio.wait(waiting, timeout=LEAVE_S)
            for lane in lanes:
                if tasks[lane.host.name] in waiting:
                    lane.cancel()
            await asyncio.gather(*waiting)
            break
    results = {name: task.result() for name, task in tasks.items()}
    return {name: state for name, state in results.items() if state is not None}
