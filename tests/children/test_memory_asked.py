"""The worker says what memory it holds when it is asked, and is never flooded with the question."""

from __future__ import annotations

import time

from tests.children.driver import MISBEHAVING, TIMEOUT_S, Driver
from tests.tiers import VARIANT
from workloads.protocol import messages
from workloads.protocol.messages import ReportMemory


def test_an_idle_worker_answers_at_once(runner: Driver) -> None:
    runner.run("rests")
    before = time.time()
    runner.send(ReportMemory())
    heap = runner.until(messages.HostHeap, lambda event: event.at >= before)
    assert heap.pid == runner.worker_pid()


@VARIANT
def test_a_busy_worker_answers_between_two_blocks(runner: Driver) -> None:
    runner.send(messages.Run("run", "matmul", "cpu", {"n": 256}, {}, "careful"))
    runner.until(messages.Progress, lambda event: event.phase == "measuring")
    for _ in range(3):
        _asked_anew(runner)
    runner.send(messages.Cancel())
    assert runner.until(messages.Finished).result.status == "cancelled"


def _asked_anew(runner: Driver) -> None:
    before = time.time()
    runner.send(ReportMemory())
    runner.until(messages.HostHeap, lambda event: event.at >= before)


@VARIANT
def test_without_a_worker_nothing_answers_and_nothing_is_rejected() -> None:
    with Driver(MISBEHAVING) as driver:
        driver.ready()
        driver.send(ReportMemory())
        assert driver.run("rests").status == "ok"
        assert not any(isinstance(event, messages.Rejected) for event in driver.seen)


def test_a_worker_that_hangs_is_asked_once_and_can_still_be_cancelled(runner: Driver) -> None:
    runner.start_run("holds_the_gil")
    runner.until(messages.Progress, lambda event: event.phase == "first call")
    # Passed on one by one they would fill the worker's pipe, and stop the runner.
    for _ in range(4_000):
        runner.send(ReportMemory())
    runner.send(messages.Cancel())
    began = time.monotonic()
    assert runner.until(messages.Finished).result.status == "cancelled"
    assert time.monotonic() - began < TIMEOUT_S


def test_a_new_worker_is_asked_though_the_one_before_never_answered(runner: Driver) -> None:
    runner.start_run("holds_the_gil")
    runner.until(messages.Progress, lambda event: event.phase == "first call")
    runner.send(ReportMemory())
    runner.send(messages.Cancel())
    runner.until(messages.Finished)
    runner.run("rests")
    before = time.time()
    runner.send(ReportMemory())
    heap = runner.until(messages.HostHeap, lambda event: event.at >= before)
    assert heap.pid == runner.worker_pid()
