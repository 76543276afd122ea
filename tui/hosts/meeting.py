"""Where the ranks of several hosts meet: the hosts try which addresses of each other they reach."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Union

from tui.core.child.launch import FOLDER
from tui.core.child.process import ChildProcess
from tui.core.text.glyphs import clean
from tui.hosts.archive import build_runner_archive
from tui.hosts.boot import OLDEST_FOR_RUNS, preamble, torch_command
from tui.hosts.children import CONNECT_WITHIN_S, HostConnection, HostExchange
from tui.hosts.failures import HostFailureError
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

    def arrange(self, hosts: Sequence[str]) -> dict[str, Meeting]:
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
        opened = await asyncio.gather(*(visitor.open() for visitor in visitors))
        places = dict(zip((visitor.name for visitor in visitors), opened, strict=True))
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
        child: ChildProcess[_Event] = ChildProcess(
            connection.host.command(torch_command(connection.python)),
            (MeetingPlace, Reached),
            folder=FOLDER,
            preamble=preamble(build_runner_archive(), "workloads", ("meet",), OLDEST_FOR_RUNS),
        )
        self._exchange = HostExchange(connection.host, child)

    async def open(self) -> MeetingPlace:
        """Start the child, and return where it listens."""
        with self._naming_host():
            await self._exchange.start()
            event = await self._exchange.next(CONNECT_WITHIN_S)
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
            self._exchange.child.send(Reach(host, place.port, place.token, addresses))
            with self._naming_host():
                event = await self._exchange.next(CONNECT_WITHIN_S + TRY_S * len(addresses))
            if not isinstance(event, Reached) or event.host != host:
                raise MeetingError(f"{self.name}: it sent an answer to another request")
            # A host may be anybody's: its texts must not control this terminal.
            reason = clean(event.reason)
            answers.append(Reached(host, event.address, event.own, reason))
        return answers

    async def close(self) -> None:
        """End the child, which frees the port."""
        await self._exchange.close()

    @contextlib.contextmanager
    def _naming_host(self) -> Iterator[None]:
        try:
            yield
        except HostFailureError as error:
            raise MeetingError(f"{self.name}: {error}") from error
