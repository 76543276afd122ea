"""Rounds over all devices: their order and their results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from tui.devices.state.devices import CPU
from tui.fleet.comparison import PeerRatio, choose_suspects, compare_with_peers
from tui.headless.host_runs import HostRuns
from tui.runs.state.runs import RunState

T = TypeVar("T")
FIRST_ROUNDS = 6
FURTHER_ROUNDS = 12
MOST_PEERS = 7
"""Devices that run beside the suspects in further rounds."""


@dataclass(frozen=True, slots=True)
class FleetWork:
    """What every device does in a round."""

    workload: str
    parameters: tuple[tuple[str, str], ...]
    title: str


GPU_WORKS = (
    FleetWork("matmul", (("n", "8192"), ("dtype", "bfloat16")), "matmul"),
    FleetWork("device_copy", (("mib", "1024"),), "device copy"),
    FleetWork("transfer", (("mib", "256"),), "copy over the link"),
)
CPU_WORKS = (
    FleetWork("matmul", (("n", "1024"),), "matmul"),
    FleetWork("device_copy", (("mib", "64"),), "memory copy"),
)


@dataclass
class FleetMember:
    """One device of the fleet, and its results."""

    name: str
    """``gpu2:3``, or the host's name for its CPU."""
    model: str
    device: str
    """torch's name of the device."""
    runs: HostRuns
    """Its runner."""
    host: str
    done: dict[str, list[RunState]] = field(default_factory=dict)
    """Runs with a time, by the title of the work."""
    problem: str = ""
    """Reason for the first round without its time; empty if all rounds have one."""

    @property
    def works(self) -> tuple[FleetWork, ...]:
        """The work of one round."""
        return CPU_WORKS if self.device == CPU else GPU_WORKS


class FleetRounds:
    """Times the devices of one model round by round.

    Args:
        members: devices of one model.
        together: all devices work at the same time; otherwise one at a time on each host.
        progress: called with a text before each work.
    """

    def __init__(
        self, members: Sequence[FleetMember], together: bool, progress: Callable[[str], None]
    ) -> None:
        self.members = tuple(members)
        self._together = together
        self._progress = progress
        self._times: dict[str, list[dict[str, float]]] = {}

    async def run(self, rounds: int | None) -> None:
        """Run all rounds.

        Args:
            rounds: number of rounds; ``None`` for six, then twelve more of the suspects beside
                their most usual peers.
        """
        first = rounds or FIRST_ROUNDS
        for number in range(first):
            await self._round(number, first, self.members)
        suspects = self.suspects() if rounds is None else ()
        chosen = tuple(member for member in self.members if member.name in suspects)
        further = FURTHER_ROUNDS if len(chosen) > 1 else 0
        for number in range(first, first + further):
            await self._round(number, first + further, chosen)

    def suspects(self) -> set[str]:
        """Return the devices that may be slower in some work, with the peers that run beside."""
        return {
            name
            for ratios in self.ratios().values()
            for name in choose_suspects(ratios, MOST_PEERS)
        }

    def ratios(self) -> dict[str, tuple[PeerRatio, ...]]:
        """Return each device against its peers, by the title of the work."""
        comparisons = len(self.members) * max(1, len(self._times))
        return {
            title: compare_with_peers(rounds, comparisons) for title, rounds in self._times.items()
        }

    async def _round(self, number: int, rounds: int, members: Sequence[FleetMember]) -> None:
        if any(member.runs.signalled for member in members):
            return
        for work in members[0].works:
            self._progress(
                f"round {number + 1} of {rounds}: {work.title} on {len(members)} devices"
            )
            hosts: dict[str, list[FleetMember]] = {}
            for member in members:
                hosts.setdefault(member.name if self._together else member.host, []).append(member)
            times: dict[str, float] = {}
            await asyncio.gather(
                *(
                    self._run_in_turn(number, work, rotate(host, number), times)
                    for host in hosts.values()
                )
            )
            self._times.setdefault(work.title, []).append(times)

    async def _run_in_turn(
        self,
        number: int,
        work: FleetWork,
        members: Sequence[FleetMember],
        times: dict[str, float],
    ) -> None:
        for member in members:
            state = await member.runs.time(work.workload, member.device, dict(work.parameters))
            result = state.result if state is not None else None
            if state is None or result is None or result.time is None:
                if not member.problem:
                    reason = _explain_no_time(member, state)
                    member.problem = f"{work.title}, round {number + 1}: {reason}"
                continue
            times[member.name] = result.time.median_s
            member.done.setdefault(work.title, []).append(state)

    def typical_s(self, member: FleetMember, title: str) -> float | None:
        """Return a device's median seconds per call in a work."""
        times = [
            state.result.time.median_s
            for state in member.done.get(title, ())
            if state.result is not None and state.result.time is not None
        ]
        return median(times) if times else None


def _explain_no_time(member: FleetMember, state: RunState | None) -> str:
    """Return why a run has no time: the connection, a signal, or the run's own reason."""
    if member.runs.error:
        return member.runs.error
    if member.runs.signalled:
        return "stopped"
    result = state.result if state is not None else None
    return (result.reason if result is not None else "") or "not run"


def rotate(members: Sequence[T], number: int) -> Sequence[T]:
    """Return the order of a round: each begins with another device, every second is reversed."""
    start = (number // 2) % len(members)
    turned = [*members[start:], *members[:start]]
    return turned if number % 2 == 0 else turned[::-1]
