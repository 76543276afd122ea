"""The end: a terminal that is gone, a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

from tui.kit.terminal.ending import HangupWatch, hung_up


def test_a_terminal_is_gone_when_its_other_side_is_closed() -> None:
    ours, theirs = os.openpty()
    try:
        assert not hung_up(theirs)
        os.close(ours)
        assert hung_up(theirs)
    finally:
        os.close(theirs)


async def test_a_signal_ends_once_with_128_and_its_number() -> None:
    codes: list[int] = []
    ended = asyncio.Event()

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    lifeline = HangupWatch(end, None)
    lifeline.install()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(ended.wait(), 5)
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        assert codes == [128 + signal.SIGTERM]
    finally:
        lifeline.remove()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


async def test_a_hang_up_ends_with_129() -> None:
    ours, theirs = os.openpty()
    before = set(threading.enumerate())
    code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    lifeline = HangupWatch(code.set_result, theirs)
    os.close(ours)
    lifeline.install()
    try:
        assert await asyncio.wait_for(code, 60) == 128 + signal.SIGHUP
    finally:
        lifeline.remove()
        for thread in set(threading.enumerate()) - before:
            if isinstance(thread, threading.Timer):
                thread.cancel()  # the last resort would end the tests
        os.close(theirs)
