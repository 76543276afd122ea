"""The measurements of links: copies between the GPUs of a host, all-reduce between hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tui.devices.state.devices import CPU
from tui.headless.host_runs import HostRuns
from tui.headless.spanning import run_together
from tui.headless.waiter import choose_devices
from tui.hosts.meeting import MeetingError, Meetings
from tui.kit.command_line.output import Failure
from tui.links.verdict import MeasuredLink, bus_bandwidth, judge_links
from tui.monitor.topology import P2P_ALLOWED, GpuTopology
from tui.runs.state.runs import RunState
from workloads.protocol.messages import Meeting
from workloads.protocol.results import RunResult, Setting, TorchDevice

T = TypeVar("T")
MIB = 2**20
GPU_LARGEST, CPU_LARGEST = 1024, 64
"""MiB of the largest all-reduce; ``--largest`` sets another."""
GPU_PAIR, CPU_PAIR = 256, 16
"""MiB of the all-reduce of a pair of hosts: large enough for the bandwidth to decide."""


@dataclass(frozen=True, slots=True)
class GpuLink:
    """One direction between two GPUs of a host."""

    source: str
    """torch's name of the source GPU."""
    target: str
    label: str | None
    """As in ``nvidia-smi topo -m``; ``None`` if unknown."""
    p2p: str | None
    """``yes``, or why there is no peer access; ``None`` if unknown."""
    byte_per_s: float | None
    """Rate of the copies; ``None`` if not measured."""


@dataclass(slots=True)
class HostLinks:
    """The links within one host."""

    host: str
    gpus: tuple[TorchDevice, ...] = ()
    links: tuple[GpuLink, ...] = ()
    problem: str = ""
    """Reason for a missing measurement; empty if there is none."""


@dataclass(frozen=True, slots=True)
class AllReducePoint:
    """An all-reduce of one size over all hosts."""

    byte: float
    seconds: float
    algorithm_byte_per_s: float
    bus_byte_per_s: float


@dataclass(frozen=True, slots=True)
class AllReduce:
    """The all-reduce over all hosts."""

    hosts: tuple[str, ...]
    device: str
    """cpu or cuda."""
    ranks: int | None
    backend: str
    points: tuple[AllReducePoint, ...]


@dataclass(frozen=True, slots=True)
class HostPair:
    """An all-reduce between two hosts alone."""

    round: int
    """From 1; after the last for a pair that was measured again, alone."""
    first: str
    second: str
    byte: int
    bus_byte_per_s: float | None
    high: float | None
    """Upper end of the interval of 95%, or the rate itself."""
    problem: str = ""
    """Reason for a missing measurement; empty if it was measured."""


@dataclass(slots=True)
class LinkFindings:
    """All measurements."""

    within: list[HostLinks] = field(default_factory=list)
    over_all: AllReduce | None = None
    pairs: list[HostPair] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def gpu_links(self) -> list[MeasuredLink]:
        """Return the measured links between GPUs; the model and the label are their kind."""
        return [
            MeasuredLink(
                name_gpu(host.host, link.source),
                name_gpu(host.host, link.target),
                link.byte_per_s,
                link.byte_per_s,
                f"{host.gpus[0].name} {link.label or 'unknown'}",
            )
            for host in self.within
            for link in host.links
            if link.byte_per_s is not None
        ]

    def host_links(self) -> list[MeasuredLink]:
        """Return the measured links between hosts."""
        return link_hosts(self.pairs)


def link_hosts(pairs: Sequence[HostPair]) -> list[MeasuredLink]:
    """Return the measured pairs of hosts."""
    return [
        MeasuredLink(pair.first, pair.second, pair.bus_byte_per_s, pair.high)
        for pair in pairs
        if pair.bus_byte_per_s is not None and pair.high is not None
    ]


def _is_between(pair: HostPair, link: MeasuredLink) -> bool:
    return (pair.first, pair.second) == (link.first, link.second)


def name_gpu(host: str, device: str) -> str:
    """Return a GPU's name over hosts, such as ``gpu2:3``."""
    return f"{host}:{device.partition(':')[2]}"


async def measure_within(
    lane: HostRuns, topology: GpuTopology | str, progress: Callable[[str], None]
) -> HostLinks:
    """Measure the copies between all GPUs of a host.

    Args:
        lane: a connected host.
        topology: how its GPUs are connected, or why that is unknown.
        progress: called with a text before the measurement.
    """
    session = lane.session
    environment = session.state.machine.environment if session is not None else None
    if session is None or environment is None:
        return HostLinks(lane.host.name, problem=lane.error or "not connected")
    gpus = tuple(device for device in environment.devices if device.id.startswith("cuda:"))
    links = HostLinks(lane.host.name, gpus)
    if len(gpus) < 2:
        return links
    progress(f"copies between the {len(gpus)} GPUs of {lane.host.name}")
    state = await lane.time("peer_copies", gpus[0].id, {})
    result = state.result if state is not None else None
    rates = copy_rates(result, gpus) if result is not None else {}
    if not rates:
        links.problem = lane.error or (result.reason if result else "") or "not measured"
    reason = topology if isinstance(topology, str) else topology.reason
    if reason:
        links.problem = "; ".join(filter(None, (links.problem, f"no labels: {reason}")))
    links.links = tuple(
        GpuLink(
            source.id,
            target.id,
            *_find_pair(topology, source.uuid, target.uuid),
            rates.get((source.id, target.id)),
        )
        for source in gpus
        for target in gpus
        if source is not target
    )
    return links


def copy_rates(result: RunResult, gpus: Sequence[TorchDevice]) -> dict[tuple[str, str], float]:
    """Return the rates of the matrix of ``peer_copies``, in byte/s by source and target."""
    matrix = next((table for table in result.tables if table.name == "matrix"), None)
    if matrix is None:
        return {}
    targets = [column.name.removeprefix("to ") for column in matrix.columns[1:]]
    known = {gpu.id for gpu in gpus}
    return {
        (str(row[0]), target): float(cell)
        for row in matrix.rows
        for target, cell in zip(targets, row[1:], strict=True)
        if isinstance(cell, (int, float)) and target in known
    }


def _find_pair(
    topology: GpuTopology | str, first: str | None, second: str | None
) -> tuple[str | None, str | None]:
    """Return the label of a pair of GPUs, and whether there is peer access."""
    if isinstance(topology, str):
        return None, None
    numbers = {row.id: number for number, row in enumerate(topology.rows)}
    row, column = numbers.get(first or ""), numbers.get(second or "")
    if row is None or column is None:
        return None, None
    return topology.rows[row].links[column], topology.p2p[row][column]


def without_p2p(links: Sequence[GpuLink]) -> dict[str, list[GpuLink]]:
    """Return the links without peer access, by the reason."""
    pairs: dict[str, list[GpuLink]] = {}
    for link in links:
        if link.p2p is not None and link.p2p != P2P_ALLOWED:
            pairs.setdefault(link.p2p, []).append(link)
    return pairs


def tournament(members: Sequence[T]) -> list[list[tuple[T, T]]]:
    """Return rounds of disjoint pairs, in which each member meets each other once.

    The circle method of a round-robin tournament: one member stays, the others move on by one
    place from round to round. With n members, n even, there are n-1 rounds; with n odd there are
    n, and in each round one member rests.

    Args:
        members: all different.

    Returns:
        The rounds; in each pair, the member that comes first in ``members`` is first.
    """
    count = len(members)
    if count < 2:
        return []
    even = count + count % 2
    order = list(range(even))
    rounds = []
    for _ in range(even - 1):
        pairs = [
            (min(order[place], order[-1 - place]), max(order[place], order[-1 - place]))
            for place in range(even // 2)
        ]
        rounds.append(
            [(members[first], members[second]) for first, second in pairs if second < count]
        )
        order = [order[0], order[-1], *order[1:-1]]
    return rounds


class BetweenHosts:
    """The all-reduce over all hosts, and over each pair of hosts.

    Args:
        lanes: at least two connected hosts.
        meetings: addresses where they meet, also in pairs.
        requested: the devices, as typed.
        largest_mib: size of the largest all-reduce over all hosts; ``None`` for the default.
        progress: called with a text before each measurement.

    Raises:
        Failure: torch does not have a device on some host.
    """

    def __init__(
        self,
        lanes: Sequence[HostRuns],
        meetings: Meetings,
        requested: Sequence[str],
        largest_mib: int | None,
        progress: Callable[[str], None],
    ) -> None:
        self._lanes = lanes
        self._meetings = meetings
        self._progress = progress
        chosen = []
        for lane in lanes:
            assert lane.session is not None
            try:
                chosen.append(choose_devices(lane.session, requested)[0])
            except Failure as failure:
                raise Failure(f"{lane.host.name}: {failure}") from failure
        on_gpus = all(device != CPU for device in chosen)
        self.kind = "cuda" if on_gpus else CPU
        names = [lane.host.name for lane in lanes]
        self._devices = dict(zip(names, chosen if on_gpus else [CPU] * len(names), strict=True))
        self._largest = largest_mib or (GPU_LARGEST if on_gpus else CPU_LARGEST)
        self._pair = min(self._largest, GPU_PAIR if on_gpus else CPU_PAIR)

    async def run_over_all(self) -> AllReduce:
        """Measure the all-reduce over all hosts.

        Raises:
            MeetingError: the hosts cannot meet, or the run fails.
        """
        names = [lane.host.name for lane in self._lanes]
        self._progress(f"all-reduce over {', '.join(names)}")
        places = self._meetings.arrange(names)
        states = await self._all_reduce(self._lanes, places, self._largest, time_only=False)
        result = _agreed_result(states, len(names))
        chart = next((chart for chart in result.charts if chart.name == "sizes"), None)
        ranks, backend = result.figures.get("ranks"), result.figures.get("backend")
        series = [series.values for series in chart.series] if chart is not None else []
        rows = zip(chart.places, *series, strict=True) if chart is not None else ()
        return AllReduce(
            hosts=tuple(names),
            device=self.kind,
            ranks=int(float(ranks.value)) if ranks is not None and ranks.value else None,
            backend=str(backend.value) if backend is not None else "",
            points=tuple(
                AllReducePoint(*map(float, row))
                for row in rows
                # The workload measures small sizes in any case.
                if None not in row and row[0] <= self._largest * MIB
            ),
        )

    async def run_pairs(self) -> list[HostPair]:
        """Measure every pair of hosts, in rounds of disjoint pairs at the same time.

        A slow pair is measured again, alone, and the better time counts, because one disturbance
        would make it look slow.
        """
        host_pairs: list[HostPair] = []
        rounds = tournament(self._lanes)
        for number, pairs in enumerate(rounds, 1):
            if self._lanes[0].signalled:
                break
            self._progress(f"pairs of hosts: round {number} of {len(rounds)}")
            host_pairs += await asyncio.gather(*(self._run_pair(number, pair) for pair in pairs))
        lanes = {lane.host.name: lane for lane in self._lanes}
        low = judge_links(link_hosts(host_pairs)).low
        for link in (finding.link for finding in low):
            if self._lanes[0].signalled:
                break
            self._progress(f"{link.first} and {link.second} again, alone")
            again = await self._run_pair(len(rounds) + 1, (lanes[link.first], lanes[link.second]))
            if (again.bus_byte_per_s or 0.0) > link.rate:
                host_pairs = [again if _is_between(pair, link) else pair for pair in host_pairs]
        return host_pairs

    async def _run_pair(self, number: int, lanes: tuple[HostRuns, HostRuns]) -> HostPair:
        first, second = (lane.host.name for lane in lanes)
        byte = self._pair * MIB
        try:
            places = self._meetings.arrange([first, second])
            states = await self._all_reduce(lanes, places, self._pair, time_only=True)
            result = _agreed_result(states, 2)
        except MeetingError as error:
            return HostPair(number, first, second, byte, None, None, str(error))
        ranks = result.figures.get("ranks")
        if result.time is None or ranks is None or not ranks.value:
            return HostPair(number, first, second, byte, None, None, "it reports no time")
        count, time = int(float(ranks.value)), result.time
        shortest = time.ci95_s[0] if time.ci95_s is not None else time.median_s
        return HostPair(
            number,
            first,
            second,
            byte,
            bus_bandwidth(byte, time.median_s, count),
            bus_bandwidth(byte, shortest, count),
        )

    async def _all_reduce(
        self,
        lanes: Sequence[HostRuns],
        places: dict[str, Meeting],
        mib: int,
        *,
        time_only: bool,
    ) -> dict[str, RunState]:
        settings: dict[str, Setting] = {"mib": mib}
        if self.kind == CPU:
            # More ranks of a host would share its cores; this measures the link.
            settings["ranks"] = 1
        return await run_together(
            lanes, "all_reduce", self._devices, settings, "quick", places, time_only=time_only
        )


def _agreed_result(states: dict[str, RunState], hosts: int) -> RunResult:
    """Return the result of the first host, which all agree on.

    Raises:
        MeetingError: a host has no result; the text has the reason.
    """
    for name, state in states.items():
        if state.result is None or state.result.status != "ok":
            reason = state.result.reason if state.result is not None else "not run"
            raise MeetingError(f"all-reduce on {name}: {reason}")
    results = [state.result for state in states.values() if state.result is not None]
    if len(results) < hosts:
        raise MeetingError("a host is lost")
    return results[0]
