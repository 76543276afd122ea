"""Runs are found by what was asked, and what newer ones have superseded is forgotten in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tui.headless.host_runs import HostRuns
from tui.hosts.address import HostAddress
from tui.runs.session.session import Session
from tui.runs.state.runs import MOST_SUPERSEDED, RunBook, RunState, select_standing
from workloads.protocol.messages import Run
from workloads.protocol.results import RunResult, Status


def _run(number: int, n: int = 1, device: str = "cpu", *, demo: bool = False) -> RunState:
    return RunState(Run(f"run-{number}", "matmul", device, {"n": n}, {}, "quick"), demo=demo)


def _end(book: RunBook, run_id: str, status: Status = "failed") -> None:
    request = book[run_id].request
    book.change(
        run_id,
        result=RunResult(
            run_id, request.workload, request.device, request.parameters, {}, status, "told"
        ),
    )


def test_the_newest_of_the_same_parameters_comes_first() -> None:
    book = RunBook()
    for number, n in enumerate((1, 2, 1)):
        book.add(_run(number, n))
    assert [run.request.id for run in book.newest_first("matmul", "cpu", {"n": 1})] == [
        "run-2",
        "run-0",
    ]
    assert not list(book.newest_first("matmul", "cuda:0", {"n": 1}))
    assert list(book) == ["run-0", "run-1", "run-2"]


def test_of_equal_runs_that_wait_the_one_that_runs_is_shown() -> None:
    book = RunBook()
    for number in range(3):
        book.add(_run(number))
    _end(book, "run-0", "ok")
    newest_first = list(book.newest_first("matmul", "cpu", {"n": 1}))
    shown = select_standing(newest_first)
    assert shown is not None
    assert shown.request.id == "run-1"
    _end(book, "run-1", "ok")
    _end(book, "run-2", "cancelled")
    shown = select_standing(book.newest_first("matmul", "cpu", {"n": 1}))
    assert shown is not None
    assert shown.request.id == "run-1"


def test_a_run_that_is_not_known_is_not_changed() -> None:
    book = RunBook()
    book.change("run-9", progress=None)
    assert not book


@given(st.binary(min_size=MOST_SUPERSEDED, max_size=4 * MOST_SUPERSEDED))
def test_what_stands_and_all_that_wait_are_kept(asked: bytes) -> None:
    book = RunBook()
    waiting, newest, measured = set(), {}, set()
    # A byte for each run: hypothesis draws hundreds of bytes at once, but tuples one by one.
    for number, byte in enumerate(asked):
        n, demo, ends, cancelled = byte % 3, bool(byte & 64), bool(byte & 128), bool(byte & 32)
        book.add(_run(number, n, demo=demo))
        if ends:
            _end(book, f"run-{number}", "cancelled" if cancelled else "failed")
            if not cancelled:
                measured.add((n, demo))
            if not cancelled or (n, demo) not in measured:
                newest[n, demo] = f"run-{number}"
        else:
            waiting.add(f"run-{number}")
    assert waiting <= book.keys()
    assert set(newest.values()) <= book.keys()
    assert len(book) <= len(waiting) + len(newest) + MOST_SUPERSEDED
    found = {
        run.request.id for n in range(3) for run in book.newest_first("matmul", "cpu", {"n": n})
    }
    assert found == set(book)


def test_a_command_gets_each_of_more_equal_runs_than_are_kept() -> None:
    book = RunBook()

    class _OneHost(HostRuns):
        @property
        def entries(self) -> tuple[RunState, ...]:
            return tuple(book.values())

        async def run(self, request: Callable[[Session], None]) -> None:
            request(cast(Any, None))

    lane = _OneHost(HostAddress("here", ()), None, (), files=(), storing=False)

    def request(number: int) -> Callable[[Session], None]:
        def add(_session: Session) -> None:
            book.add(_run(number))
            _end(book, f"run-{number}", "ok")

        return add

    for number in range(2 * MOST_SUPERSEDED):
        run = asyncio.run(lane.run_one(request(number)))
        assert run is not None
        assert run.request.id == f"run-{number}"
    assert asyncio.run(lane.run_one(lambda _session: None)) is None
