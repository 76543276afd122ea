"""Rounds of reading: what arrives during one waits for its end, but no answer whose time counts."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.hosts.conftest import Boxes
from tests.tiers import VARIANT
from tui.core.child.process import ChildProcess
from tui.hosts.monitor import HostMonitor
from tui.hosts.supervisor import ReadingRounds
from workloads.protocol.messages import Heartbeat

AT_ANY_TIME = 60.0
ECHO = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"type": "heartbeat", "at": 1.0, "busy_with": None}), flush=True)
    print("written", file=sys.stderr, flush=True)
"""


class _Reader:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.resumed = asyncio.Event()

    def pause_reading(self) -> None:
        self.noted.append("pause")

    def resume_reading(self) -> None:
        self.noted.append("resume")
        self.resumed.set()


async def test_a_round_pauses_all_readers_once_and_the_next_begins_after_its_end() -> None:
    rounds, readers = ReadingRounds(0.01), [_Reader(), _Reader()]
    for reader in readers:
        rounds.join(reader)
    for number in (1, 2):
        rounds.begin()
        rounds.begin()
        assert [reader.noted for reader in readers] == [[*["pause", "resume"] * number][:-1]] * 2
        await asyncio.wait_for(readers[1].resumed.wait(), AT_ANY_TIME)
        readers[1].resumed.clear()
        assert [reader.noted for reader in readers] == [["pause", "resume"] * number] * 2


async def test_what_a_child_writes_while_its_reading_is_paused_is_read_afterwards() -> None:
    child = ChildProcess((sys.executable, "-u", "-c", ECHO), (Heartbeat,))
    await child.start()
    try:
        events = child.events()
        child.pause_reading()
        child.send(Heartbeat(0.0, None))

        async def until_written() -> None:
            while child.stderr.last() != ["written"]:
                await asyncio.sleep(0.01)

        await asyncio.wait_for(until_written(), AT_ANY_TIME)
        reading = asyncio.ensure_future(anext(events))
        # A turn of the loop would suffice to read what is in the pipe.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not reading.done()
        child.resume_reading()
        assert await asyncio.wait_for(reading, AT_ANY_TIME) == Heartbeat(1.0, None)
    finally:
        await child.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
@VARIANT
async def test_an_answer_whose_round_trip_is_measured_does_not_wait_for_a_round(
    boxes: Boxes,
) -> None:
    """In a round that never ends, a monitor is read no further until an answer is due."""
    monitor = HostMonitor(boxes.add("a"), lambda _event: None, 3600.0)
    task = asyncio.create_task(monitor.watch())

    async def until_answered() -> None:
        while monitor.round_trip_s is None:
            await asyncio.sleep(0.01)

    try:
        await asyncio.wait_for(until_answered(), AT_ANY_TIME)
        monitor.pause_reading()
        monitor.round_trip_s = None
        await asyncio.wait_for(until_answered(), AT_ANY_TIME)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await monitor.close()
