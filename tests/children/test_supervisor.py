"""A child under a supervisor: started, heard, started again, with a wait that grows."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import pytest

from tui.core.child import supervisor
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.child.supervisor import BACK_OFF_S, ChildSupervisor, back_off
from workloads.protocol.messages import Heartbeat

BEATS = """
import json, sys
sys.stdin.readline()
print(json.dumps({"type": "heartbeat", "at": 1.0, "busy_with": None}), flush=True)
print("no message", flush=True)
sys.exit(3)
"""


class Beating(ChildSupervisor[Heartbeat]):
    """Starts a program so many times."""

    def __init__(self, argv: tuple[str, ...], starts: int, *, useful: bool) -> None:
        super().__init__()
        self.argv = argv
        self.left = starts
        self.useful = useful
        self.noted: list[str] = []
        self.waits: list[float] = []

    def make_child(self) -> ChildProcess[Heartbeat]:
        return ChildProcess(self.argv, (Heartbeat,))

    def send_first_requests(self) -> None:
        self.noted.append(f"sent {self.send(Heartbeat(0.0, None))}")

    def apply_event(self, event: Heartbeat) -> None:
        self.is_useful = self.useful
        self.noted.append(f"beat {event.at}")

    def report_malformed(self, message: MalformedMessage) -> None:
        self.noted.append(f"malformed {message.line}")

    def report_no_start(self, error: OSError) -> str:
        return f"no start: {error.strerror}"

    async def wait_for_next_start(self, reason: str, seconds: float) -> None:
        self.noted.append(reason)
        self.waits.append(seconds)
        self.left -= 1
        if not self.left:
            raise asyncio.CancelledError


async def supervised(actual: Beating) -> Beating:
    assert not actual.send(Heartbeat(0.0, None)), "nobody is there yet"
    with contextlib.suppress(asyncio.CancelledError):
        await actual.supervise()
    return actual


async def test_a_child_is_heard_and_started_again_and_the_wait_stays_short_while_it_is_useful() -> (
    None
):
    actual = await supervised(Beating((sys.executable, "-c", BEATS), 2, useful=True))
    once = ["sent True", "beat 1.0", "malformed no message", "exit status 3"]
    assert actual.noted == once * 2
    assert actual.waits == [BACK_OFF_S[0]] * 2


async def test_the_wait_grows_while_a_child_is_of_no_use() -> None:
    actual = await supervised(Beating((sys.executable, "-c", BEATS), 3, useful=False))
    assert actual.waits == [*BACK_OFF_S[1:4]]


async def test_a_program_that_is_not_there_is_tried_again_with_its_reason() -> None:
    actual = await supervised(Beating(("/nowhere/at-all",), 2, useful=False))
    assert actual.noted == ["no start: No such file or directory"] * 2


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0.5), (4, 10.0), (1000, 10.0)])
def test_the_wait_is_bounded(failures: int, seconds: float) -> None:
    assert back_off(failures) == seconds
    assert tuple(sorted(supervisor.BACK_OFF_S)) == supervisor.BACK_OFF_S
