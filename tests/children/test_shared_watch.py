"""One watch child for several parties: which processes, at what pace, and until when."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.waiting import TIMEOUT_S
from tests.watch.test_findings import figures
from tests.watch.test_watched_processes import process
from tui.allocators.messages import (
    CPU_BUILD,
    NO_TORCH,
    ProcessFigures,
    TorchProcess,
    TorchProcesses,
    WatchHello,
    WatchPace,
    WatchTargets,
)
from tui.core.events import EventBus, LogLine, RequestSent, WatchStatus
from tui.core.tasks import Tasks
from tui.devices.session import shared_watch
from tui.devices.session.device_session import DeviceSession
from tui.devices.session.shared_watch import (
    CHANGING_S,
    ON_SCREEN_S,
    ScreenPace,
    SharedWatch,
    WatchInterest,
    WatchParty,
)
from tui.devices.state.machine import MachineState
from workloads.protocol.messages import TorchMemory

EVERYONE = WatchInterest(0.5, others=True)


async def wait_until(holds: Callable[[], bool]) -> None:
    async def check() -> None:
        while not holds():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(check(), TIMEOUT_S)


def pids_of(events: Sequence[object]) -> set[int]:
    """Return the pids in the newest list."""
    lists = [item for item in events if isinstance(item, TorchProcesses)]
    return {item.pid for item in lists[-1].processes} if lists else set()


class Session:
    """A shared watch and what it wrote on its bus."""

    def __init__(self) -> None:
        self.bus, self.tasks = EventBus(), Tasks()
        self.watch = SharedWatch(self.bus, self.tasks.spawn)
        self.requests: list[object] = []
        self.supervisors: list[FakeSupervisor] = []
        self.bus.subscribe(RequestSent, lambda sent: self.requests.append(sent.request))

    def join(self, interest: WatchInterest) -> tuple[WatchParty, list[Any]]:
        events: list[Any] = []
        return self.watch.join(interest, events.append), events


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Session]:
    session = Session()
    try:
        yield session
    finally:
        session.tasks.cancel()
        await asyncio.gather(*(child.stop() for child in session.watch.children))
        await session.tasks.ended()


async def test_one_child_reads_the_processes_of_all_parties_at_the_fastest_pace() -> None:
    own, parent = os.getpid(), os.getppid()
    async with running() as session:
        _, first = session.join(WatchInterest(0.5, frozenset({own})))
        await wait_until(lambda: pids_of(first) == {own})
        (child,) = session.watch.children
        other, second = session.join(WatchInterest(0.1, frozenset({parent}), children=False))
        await wait_until(lambda: pids_of(second) == {parent})
        both = tuple(sorted((own, parent)))
        assert session.requests == [WatchPace(0.1), WatchTargets(both)]
        assert session.watch.children == (child,)
        other.leave()
        await wait_until(lambda: len(session.requests) == 4)
        assert session.requests[2:] == [WatchPace(0.5), WatchTargets((own,))]
        heard, read = len(second), len(first)
        await wait_until(lambda: len(first) > read + 1)
        assert child.running
        assert len(second) == heard, "it has left"
        assert pids_of(first) == {own}


async def test_the_child_ends_with_its_last_party_and_a_later_party_gets_a_new_one() -> None:
    own = os.getpid()
    async with running() as session:
        one, first = session.join(WatchInterest(0.5, frozenset({own})))
        other, second = session.join(WatchInterest(0.5, frozenset({own})))
        await wait_until(lambda: pids_of(first) == pids_of(second) == {own})
        (child,) = session.watch.children
        one.leave()
        one.leave()
        assert session.watch.children == (child,)
        other.leave()
        await wait_until(lambda: not session.watch.children)
        assert not child.running
        _, third = session.join(WatchInterest(0.5, frozenset({own})))
        await wait_until(lambda: pids_of(third) == {own})
        (later,) = session.watch.children
        assert later.pid != child.pid


def test_an_interest_without_a_process_is_refused() -> None:
    with pytest.raises(ValueError, match="includes no process"):
        WatchInterest(0.5)


# ---- what each party receives, from a watch whose child is a fake ----


class FakeSupervisor:
    """Stands for the supervisor of the child: a test sends the events."""

    child = None

    def __init__(self, publish: Callable[[object], None], **_: object) -> None:
        self.publish = publish
        self.wanted: list[WatchTargets] = []

    async def supervise(self) -> None:
        await asyncio.Event().wait()

    def set_pace(self, seconds: float) -> None:
        pass

    def set_targets(self, wanted: WatchTargets) -> None:
        self.wanted.append(wanted)


@pytest.fixture
async def fed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Session]:
    async with running() as session:

        def make(*args: Any, **facts: Any) -> FakeSupervisor:
            session.supervisors.append(FakeSupervisor(*args, **facts))
            return session.supervisors[-1]

        monkeypatch.setattr(shared_watch, "WatchSupervisor", make)
        yield session


def send(session: Session, event: object) -> None:
    session.supervisors[-1].publish(event)


def listing(*found: TorchProcess) -> TorchProcesses:
    return TorchProcesses(1.0, found)


def held_by(pid: int) -> TorchMemory:
    return replace(figures(5.0), pid=pid)


RUN = process(7, requested=(7,), reason=NO_TORCH)
WORKER = process(8, requested=(7,))
STRANGER = process(9)


async def test_each_party_receives_its_own_processes_and_their_figures(fed: Session) -> None:
    _, run = fed.join(WatchInterest(0.1, frozenset({7})))
    _, tab = fed.join(EVERYONE)
    send(fed, listing(RUN, WORKER, STRANGER))
    assert run == [listing(RUN, WORKER)]
    assert tab == [listing(WORKER, STRANGER)]
    stranger, worker = held_by(9), held_by(8)
    why = {"9 cuda:1": "it changes", "7 cuda:0": "it ends"}
    send(fed, ProcessFigures(5.0, (worker, stranger), why, {"7": 1, "8": 2, "9": 3}))
    own = ProcessFigures(5.0, (worker,), {"7 cuda:0": "it ends"}, {"7": 1, "8": 2})
    assert run[1:] == [own]
    all_of_it = ProcessFigures(
        5.0, (worker, stranger), {"9 cuda:1": "it changes"}, {"8": 2, "9": 3}
    )
    assert tab[1:] == [all_of_it]


async def test_a_list_is_sent_to_a_party_when_its_own_processes_change(fed: Session) -> None:
    party, run = fed.join(WatchInterest(0.1, frozenset({7})))
    _, tab = fed.join(EVERYONE)
    send(fed, listing(RUN))
    send(fed, listing(RUN, STRANGER))
    assert run == [listing(RUN)]
    assert tab == [listing(), listing(STRANGER)]
    party.set_interest(WatchInterest(0.1, frozenset({7, 9})))
    send(fed, listing(RUN, process(9, requested=(9,))))
    assert run[1:] == [listing(RUN, process(9, requested=(9,)))]


async def test_a_party_waits_for_the_list_that_answers_its_request(fed: Session) -> None:
    fed.join(EVERYONE)
    _, run = fed.join(WatchInterest(0.1, frozenset({7})))
    (supervisor,) = fed.supervisors
    assert supervisor.wanted == [WatchTargets((7,), others=True)]
    send(fed, listing(STRANGER))
    send(fed, ProcessFigures(5.0, (held_by(9),)))
    assert run == []
    _, again = fed.join(WatchInterest(0.1, frozenset({7})))
    assert len(supervisor.wanted) == 2, "the watch sends its list after each request"
    send(fed, listing(RUN, STRANGER))
    assert run == again == [listing(RUN)]


async def test_a_party_receives_figures_at_its_own_pace(fed: Session) -> None:
    _, tab = fed.join(EVERYONE)
    _, run = fed.join(WatchInterest(0.1, frozenset({7})))
    send(fed, listing(RUN, STRANGER))
    for number in range(21):
        # A tenth of a second apart, by a clock that is a little early or late.
        send(fed, ProcessFigures(100 + number / 10 + 0.02 * (-1) ** number, ()))
    assert len(run) == 1 + 21
    assert len(tab) == 1 + 5
    send(fed, ProcessFigures(50.0, ()))
    assert len(tab) == 1 + 6, "the clock was set back"


async def test_the_tabs_of_this_machine_show_nothing_that_only_a_run_requests(
    fed: Session,
) -> None:
    machine = MachineState(fed.bus)
    shown: list[object] = []
    session = DeviceSession(fed.bus, machine, interval=None)
    run = session.shared_watch.join(WatchInterest(0.1, frozenset({7})), lambda _: None)
    send(fed, listing(RUN, WORKER))
    shown.append(machine.allocators)
    session.watch_processes(0.5)
    send(fed, listing(RUN, WORKER, STRANGER))
    send(fed, ProcessFigures(5.0, (held_by(8), held_by(9))))
    assert machine.allocators is not None
    assert machine.allocators.processes == (WORKER, STRANGER)
    run.leave()
    send(fed, listing(process(8), STRANGER))
    assert shown == [None], "nothing had requested all processes"
    assert [item.pid for item in machine.allocators.processes] == [8, 9]
    assert [item.ended for item in machine.allocators.allocators()] == ["", ""]
    await session.stop()


async def test_all_parties_learn_the_status_and_the_bus_gets_the_log(fed: Session) -> None:
    lines: list[LogLine] = []
    fed.bus.subscribe(LogLine, lines.append)
    _, tab = fed.join(EVERYONE)
    _, run = fed.join(WatchInterest(0.1, frozenset({7})))
    status, line = WatchStatus("restarting", "it ended"), LogLine("watch", "ended")
    for event in (WatchHello(1, 5), status, line):
        send(fed, event)
    assert tab == run == [WatchHello(1, 5), status]
    assert lines == [line]


def test_a_party_reads_its_own_processes_alone() -> None:
    tree = WatchInterest(0.5, frozenset({7}))
    assert tree.includes(process(7, requested=(7,), reason=NO_TORCH))
    assert tree.includes(process(9, requested=(8, 7)))
    assert not tree.includes(process(9, requested=(8,)))
    assert not tree.includes(process(9))
    alone = WatchInterest(0.5, frozenset({7}), children=False)
    assert alone.includes(process(7, requested=(7,)))
    assert not alone.includes(process(9, requested=(7,)))


@pytest.mark.parametrize("reason", [NO_TORCH, CPU_BUILD])
def test_this_users_others_are_those_with_a_cuda_build_of_torch(reason: str) -> None:
    assert EVERYONE.includes(process(9))
    assert EVERYONE.includes(process(9, requested=(7,)))
    assert not EVERYONE.includes(process(7, requested=(7,), reason=reason))


def test_a_requested_process_that_does_not_exist_is_none_of_the_others() -> None:
    missing = process(78, start=None, refused=True, reason="there is none", requested=(78,))
    assert not EVERYONE.includes(missing)
    assert WatchInterest(0.5, frozenset({78})).includes(missing)


def test_what_reserves_memory_is_read_more_often_while_it_does() -> None:
    pace = ScreenPace()

    def decide(at: float, *reserved: int) -> float:
        devices = [
            replace(figures(at, reserved=size), pid=pid) for pid, size in enumerate(reserved)
        ]
        return pace.decide(ProcessFigures(at, tuple(devices)))

    assert decide(100.0, 5, 7) == ON_SCREEN_S
    assert decide(101.0, 5, 7) == ON_SCREEN_S
    assert decide(102.0, 5, 8) == CHANGING_S
    assert decide(103.9, 5, 8) == CHANGING_S
    assert decide(104.1, 5, 8) == ON_SCREEN_S
    # One that is new or has ended has changed nothing.
    assert decide(105.0, 5, 8, 9) == ON_SCREEN_S
    assert decide(106.0, 5) == ON_SCREEN_S
