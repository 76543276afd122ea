"""One question to a child: its answer, or in words why there is none."""

from __future__ import annotations

import asyncio
import sys

import psutil
import pytest

from tui.core.child.process import ChildProcess, NoAnswerError, first_answer
from workloads.protocol.messages import Heartbeat, HostHeap

SAY = "import sys, time\nprint({line!r}, flush=True)\n"
STAYS = "time.sleep(600)\n"
BEAT = '{"type": "heartbeat", "at": 2.0, "busy_with": null}'


def child(program: str) -> ChildProcess[Heartbeat | HostHeap]:
    return ChildProcess((sys.executable, "-c", program), (Heartbeat, HostHeap))


async def test_the_first_message_of_its_kind_is_the_answer_and_the_child_ends() -> None:
    one = child(SAY.format(line=BEAT) + STAYS)
    assert (await first_answer(one, (Heartbeat,))).at == 2.0
    assert one.pid is not None
    assert not psutil.pid_exists(one.pid)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (SAY.format(line="no message") + STAYS, "says 'no message': "),
        (SAY.format(line=BEAT) + "sys.exit('a reason')", "exit status 1 a reason"),
        ("import os; os.kill(os.getpid(), 9)", "ended without an answer: SIGKILL"),
    ],
)
async def test_no_answer_is_said_with_how_it_ended(program: str, words: str) -> None:
    one = child(program)
    with pytest.raises(NoAnswerError) as caught:
        await first_answer(one, (HostHeap,))
    assert words in str(caught.value)
    assert not one.running


async def test_a_program_that_is_not_there_is_an_error_of_the_system() -> None:
    nowhere: ChildProcess[Heartbeat] = ChildProcess(("/nowhere/at-all",), (Heartbeat,))
    with pytest.raises(FileNotFoundError):
        await first_answer(nowhere, (Heartbeat,))


async def test_who_no_longer_waits_leaves_no_child() -> None:
    one = child("import time; time.sleep(600)")
    asked = asyncio.create_task(first_answer(one, (Heartbeat,)))
    while not one.running:
        await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert not one.running
