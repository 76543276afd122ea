"""Requests in their turn, and what is done while there is none."""

from __future__ import annotations

from tui.snapshots.reader.messages import (
    Call,
)
from tui.snapshots.reader.serve import RequestQueue


def test_the_one_that_waited_longest_comes_first() -> None:
    waiting = RequestQueue()
    first, second = Call(1, "state", {}, ("state",)), Call(2, "report", {}, ("report",))
    waiting.put(first)
    waiting.put(second)
    assert [waiting.get(), waiting.get()] == [first, second]


def test_pieces_of_work_are_done_until_a_request_comes() -> None:
    waiting, request, done = RequestQueue(), Call(1, "report", {}, ("report",)), 0

    def piece() -> bool:
        nonlocal done
        done += 1
        if done == 3:
            waiting.put(request)
        return True

    assert waiting.get(piece) == request
    assert done == 3


def test_a_request_that_waits_comes_before_any_work() -> None:
    waiting, request = RequestQueue(), Call(1, "report", {}, ("report",))
    waiting.put(request)
    assert waiting.get(lambda: 1 / 0 > 0) == request
