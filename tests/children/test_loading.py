"""No DataLoader worker outlives the process that uses it, however that ends."""

from __future__ import annotations

import signal

import psutil
import pytest

from tests.children.driver import Driver
from tests.tiers import VARIANT
from tests.waiting import assert_gone
from workloads.catalog.training.data_loading import CAN_FORK
from workloads.protocol import messages

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="worker processes are forked on Linux only")


def loading(runner: Driver) -> list[psutil.Process]:
    """Start a run whose first call takes long; the DataLoader workers, once they are there."""
    # Each sample takes a second, so the cancel finds the loop waiting for its data.
    runner.start_run("data_loading", workers=2, cost_us=1_000_000, samples=64, batch=32)
    runner.until(messages.Progress, lambda event: event.phase == "first call")
    children = psutil.Process(runner.worker_pid()).children(recursive=True)
    assert len(children) == 2
    return children


@VARIANT
def test_a_cancel_ends_the_workers_of_a_loop_that_waits_for_them(runner: Driver) -> None:
    children = loading(runner)
    runner.send(messages.Cancel("run"))
    result = runner.until(messages.Finished).result
    assert result.status == "cancelled"
    assert_gone(children)


@pytest.mark.slow
def test_workers_end_with_a_process_that_was_killed(runner: Driver) -> None:
    children = loading(runner)
    psutil.Process(runner.worker_pid()).send_signal(signal.SIGKILL)
    assert_gone(children)
    assert runner.until(messages.Finished).result.status == "failed"
