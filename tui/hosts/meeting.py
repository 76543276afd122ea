"""Where the ranks of several hosts meet: the hosts try which addresses of each other they reach."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Union

from tui.core.child.launch import FOLDER
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.text.glyphs import clean
from tui.hosts.archive import build_runner_archive
from tui.hosts.boot import OLDEST_FOR_RUNS, preamble, torch_command
from tui.hosts.children import BANNER_LINES, CONNECT_WITHIN_S, HostConnection
from tui.hosts.failures import explain_failure
from workloads.protocol.messages import Meeting
from workloads.ranks.meeting import TRY_S, MeetingPlace, Reach, Reached

_Event = Union[MeetingPlace, Reached]
_MOST_ADDRESSES = 8


class MeetingError(Exception):
    """Hosts cannot meet; the text says which, and why."""


class Meetings:
    """What hosts found out about reaching each other.

    Args:
        places: of each host, by its name.
        reached: of each pair (visitor, host), the address that answered.
    """

    def __init__(
        self, places: Mapping[str, MeetingPlace], reached: Mapping[tuple[str, str], Reached]
    ) -> None:
        self._places = places
        self._reached = reached

    def of(self, hosts: Sequence[str]) -> dict[str, Meeting]:
        """Return the address by which each host reaches the meeting; the first host serves it.

        Raises:
            MeetingError: one of them does not reach the first.
        """
        server, *visitors = hosts
        visits = [self._reached[visitor, server] for visitor in visitors]
        for visitor, visit in zip(visitors, visits, strict=True):
            if visit.reason:
                raise MeetingError(f"{visitor} cannot reach {server}: {visit.reason}")
        port = self._places[server].port
        own = {server: visits[0].address}
        own.update({name: visit.own for name, visit in zip(visitors, visits, strict=True)})
        seen = {server: visits[0].address}
        seen.update({name: visit.address for name, visit in zip(visitors, visits, strict=True)})
        return {
            name: Meeting(
                endpoint=_endpoint(seen[name], port),
                serves=name == server,
                address=own[name],
                interface=self._places[name].interfaces.get(own[name], ""),
            )
            for name in hosts
        }


def _endpoint(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


async def find_meetings(
    connections: Sequence[HostConnection], *, pairwise: bool = False
) -> Meetings:
    """Return what the hosts find out about reaching each other.

    Args:
        connections: at least two hosts, the first of them to serve the meetings of all.
        pairwise: try every pair as well, so that any of the hosts can meet.

    Raises:
        MeetingError: a host does not answer.
    """
    visitors = [_Visitor(connection) for connection in connections]
    try:
        places_found = await asyncio.gather(*(visitor.open() for visitor in visitors))
        places = {
            visitor.name: place for visitor, place in zip(visitors, places_found, strict=True)
        }
        pairs = [
            (second, first)
            for first, second in itertools.combinations(visitors, 2)
            if pairwise or first is visitors[0]
        ]
        answers = await asyncio.gather(
            *(
                visitor.reach_all([host.name for pair, host in pairs if pair is visitor], places)
                for visitor in visitors
            )
        )
    finally:
        await asyncio.gather(*(visitor.close() for visitor in visitors))
    return Meetings(
        places,
        {
            (visitor.name, answer.host): answer
            for visitor, of_visitor in zip(visitors, answers, strict=True)
            for answer in of_visitor
        },
    )


class _Visitor:
    """One host's child, which listens and tries the others."""

    def __init__(self, connection: HostConnection) -> None:
        self.name = connection.host.name
        self._host = connection.host
        self._child: ChildProcess[_Event] = ChildProcess(
            connection.host.command(torch_command(connection.python)),
            (MeetingPlace, Reached),
            folder=FOLDER,
            preamble=preamble(build_runner_archive(), "workloads", ("meet",), OLDEST_FOR_RUNS),
        )
        self._banner: deque[str] = deque(maxlen=BANNER_LINES)

    async def open(self) -> MeetingPlace:
        """Start the child, and return where it listens."""
        try:
            await self._child.start()
        except OSError as error:
            text = f"{self._host.prefix[0]} cannot be started: {error.strerror or error}"
            raise MeetingError(f"{self.name}: {text}") from error
        event = await self._next(CONNECT_WITHIN_S)
        if not isinstance(event, MeetingPlace):
            raise MeetingError(f"{self.name}: it sent an answer to no request")
        return event

    async def reach_all(
        self, hosts: Sequence[str], places: Mapping[str, MeetingPlace]
    ) -> list[Reached]:
        """Return how this host reaches others, in their order."""
        answers = []
        for host in hosts:
            place = places[host]
            addresses = tuple(place.interfaces)[:_MOST_ADDRESSES]
            self._child.send(Reach(host, place.port, place.token, addresses))
            event = await self._next(CONNECT_WITHIN_S + TRY_S * len(addresses))
            if not isinstance(event, Reached) or event.host != host:
                raise MeetingError(f"{self.name}: it sent an answer to another request")
            # A host may be anybody's: its texts must not control this terminal.
            reason = clean(event.reason)
            answers.append(Reached(host, event.address, event.own, reason))
        return answers

    async def close(self) -> None:
        """End the child, which frees the port."""
        await self._child.stop()

    async def _next(self, within_s: float) -> _Event:
        try:
            event = await asyncio.wait_for(self._read(), within_s)
        except asyncio.TimeoutError as error:
            raise MeetingError(f"{self.name}: no answer within {within_s:g} s") from error
        if event is not None:
            return event
        ended = await self._child.ended()
        errors = self._child.stderr.last()
        failure = explain_failure(self._host, ended, errors, tuple(self._banner))
        raise MeetingError(f"{self.name}: {failure.text}")

    async def _read(self) -> _Event | None:
        """Return the next message; ``None`` at the end."""
        async for event in self._child.events():
            if not isinstance(event, MalformedMessage):
                return event
            self._banner.append(event.line or event.reason)
        return None
