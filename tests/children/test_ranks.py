"""Workloads of several ranks through torchrun: what comes back, how they fail, what they leave."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.children.driver import Driver
from tests.tiers import VARIANT
from tests.waiting import until
from workloads.catalog.multi_gpu.collectives import SMALLEST
from workloads.protocol import messages
from workloads.protocol.results import RunResult, Setting
from workloads.ranks import torchrun

# Each run of ranks imports torch three times: torchrun and two ranks.
pytestmark = pytest.mark.timeout(240)

MISBEHAVING = Path(__file__).with_name("rank_misbehaving.py")


@pytest.fixture(scope="module")
def runner() -> Iterator[Driver]:
    with Driver(files=(str(MISBEHAVING),)) as driver:
        driver.ready()
        yield driver


def _ranks_of(driver: Driver) -> list[int]:
    """Return the pids of the processes that speak to this runner's current worker."""
    mark = f"{torchrun.VARIABLE}=".encode()
    inside = f"{torchrun.PREFIX}{driver.worker_pid()}-".encode()
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            variables = (path / "environ").read_bytes().split(b"\0")
        except OSError:
            # It has ended, or is somebody else's.
            continue
        if any(each.startswith(mark) and inside in each for each in variables):
            found.append(int(path.name))
    return found


def _lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _until_measuring(driver: Driver, phase: str) -> list[int]:
    driver.until(messages.Progress, lambda event: event.phase == phase)
    pids = _ranks_of(driver)
    # torchrun and two ranks.
    assert len(pids) == 3
    return pids


@pytest.mark.slow
def test_the_ranks_decide_alike_and_the_slowest_is_what_counts(runner: Driver) -> None:
    result = runner.run("unequal")
    assert (result.status, result.reason) == ("ok", None)
    assert result.time is not None
    assert result.time.min_s >= 0.004
    assert result.figures["ranks"].value == 2.0
    assert result.figures["backend"].value == "gloo"
    assert [span.devices for span in result.spans] == [("cpu",)]
    assert len(set(result.pids)) == 2
    assert runner.worker_pid() not in result.pids
    phases = [event.phase for event in runner.seen if isinstance(event, messages.Progress)]
    assert list(dict.fromkeys(phases)) == ["preparing", "first call", "warm-up", "measuring"]


@pytest.mark.slow
def test_a_rank_that_raises_is_named_with_its_error_and_its_last_words(runner: Driver) -> None:
    result = runner.run("second_raises")
    assert result.status == "failed"
    assert result.reason == "rank 1: RuntimeError: aten::all_reduce went wrong"
    assert "about to fail [/x]" in result.log
    assert result.trace is not None
    assert "_second_raises" in result.trace


@pytest.mark.slow
def test_a_rank_that_is_killed_is_named_with_the_signal(runner: Driver) -> None:
    result = runner.run("second_is_killed")
    assert result.status == "failed"
    assert result.reason is not None
    assert result.reason.startswith("rank 1 died: SIGKILL")


@pytest.mark.slow
def test_what_one_rank_lacks_skips_the_run(runner: Driver) -> None:
    result = runner.run("second_lacks_something")
    assert (result.status, result.reason) == ("skipped", "needs more than there is")


@VARIANT
def test_hosts_without_a_place_to_meet_are_refused_at_once(runner: Driver) -> None:
    result = runner.run("unequal", hosts=2)
    assert result.status == "failed"
    assert result.reason is not None
    assert "hosts=2 needs rendezvous=HOST:PORT" in result.reason


@pytest.mark.slow
def test_hosts_that_do_not_meet_end_with_one_line(runner: Driver) -> None:
    place = f"127.0.0.1:{_free_port()}"
    result = runner.run("unequal", hosts=2, ranks=1, rendezvous=place, wait_s=5)
    assert result.status == "failed"
    assert result.reason is not None
    assert result.reason.startswith(f"2 hosts did not meet at {place} within 5 s: start the same")
    assert result.log == ()


@pytest.mark.slow
def test_a_cancel_keeps_what_was_measured_and_leaves_no_rank(runner: Driver) -> None:
    runner.send(messages.Run("c", "unequal", "cpu", {}, {}, "careful"))
    runner.until(messages.Progress, lambda event: event.blocks >= 3)
    pids = _ranks_of(runner)
    runner.send(messages.Cancel("c"))
    result = runner.until(messages.Finished).result
    assert result.status == "cancelled"
    assert result.time is not None or "median_so_far" in result.figures
    assert len(pids) == 3
    until(lambda: not any(map(_lives, pids)))


@pytest.mark.slow
def test_ranks_that_hang_are_ended_by_a_cancel(runner: Driver) -> None:
    runner.send(messages.Run("h", "never_returns", "cpu", {}, {}, "quick"))
    pids = _until_measuring(runner, "first call")
    runner.send(messages.Cancel("h"))
    assert runner.until(messages.Finished).result.status == "cancelled"
    until(lambda: not any(map(_lives, pids)))


@pytest.mark.slow
def test_no_rank_outlives_a_worker_that_is_killed(runner: Driver) -> None:
    runner.send(messages.Run("k", "never_returns", "cpu", {}, {}, "quick"))
    pids = _until_measuring(runner, "first call")
    os.kill(runner.worker_pid(), signal.SIGKILL)
    assert runner.until(messages.Finished).result.status == "failed"
    until(lambda: not any(map(_lives, pids)))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_two_hosts_on_loopback_find_the_same_figures(runner: Driver) -> None:
    place = f"127.0.0.1:{_free_port()}"
    settings: dict[str, Setting] = {"hosts": 2, "ranks": 1, "rendezvous": place, "mib": 1}
    with Driver() as other:
        other.ready()
        for host in (runner, other):
            host.start_run("all_reduce", "two", **settings)
        first, second = (_finished(host) for host in (runner, other))
    assert (first.status, first.reason) == ("ok", None)
    assert first.time is not None
    assert second.time is not None
    assert first.time.block_times_s == second.time.block_times_s
    assert first.charts == second.charts
    assert first.figures["ranks"].value == 2.0
    assert first.figures["bus_bandwidth"] == second.figures["bus_bandwidth"]


def _finished(host: Driver) -> RunResult:
    return host.until(messages.Finished, lambda event: event.result.id == "two").result


@pytest.mark.slow
def test_data_parallel_training_averages_its_gradients(runner: Driver) -> None:
    result = runner.run("ddp_training", batch=16, width=32)
    assert (result.status, result.reason) == ("ok", None)
    assert result.check is not None
    assert result.check.passed
    (table,) = result.tables
    assert [row[0] for row in table.rows] == [
        "one rank, the others idle",
        "all ranks, no exchange",
        "all ranks, DDP",
    ]
    assert result.figures["gradient_bytes"].value == 4 * (3 * (32 * 32 + 32) + 32 + 1)
    assert result.time is not None
    assert result.rates.item_per_s == pytest.approx(2 * 16 / result.time.median_s)


@pytest.mark.slow
def test_collective_operations_are_right_and_rated_as_by_nccl_tests(runner: Driver) -> None:
    result = runner.run("collectives", mib=1)
    assert (result.status, result.reason) == ("ok", None), result.log
    assert result.check is not None
    assert result.check.passed
    (table,) = result.tables
    rows = {str(row[0]): row for row in table.rows}
    assert list(rows) == ["all_gather", "reduce_scatter", "all_to_all", "broadcast", "all_reduce"]
    for operation, (_, seconds, algorithm, bus, _, verdict) in rows.items():
        assert verdict == "passed"
        assert isinstance(seconds, float)
        assert algorithm == pytest.approx(2**20 / seconds)
        whole = operation in ("broadcast", "all_reduce")
        assert bus == pytest.approx(2**20 / seconds * (1 if whole else 1 / 2))
    assert result.time is not None
    assert result.rates.byte_per_s == pytest.approx(2**20 / 2 / result.time.median_s)
    (chart,) = result.charts
    assert [series.name for series in chart.series] == list(rows)
    assert chart.places[0] == SMALLEST


@pytest.mark.slow
def test_sharded_training_stores_half_on_each_of_two_ranks_and_has_the_same_loss(
    runner: Driver,
) -> None:
    result = runner.run("fsdp_training", batch=16, width=32)
    assert (result.status, result.reason) == ("ok", None), result.log
    assert result.check is not None
    assert result.check.passed
    tables = {table.name: table for table in result.tables}
    assert [row[0] for row in tables["ways"].rows] == [
        "DDP",
        "FSDP2",
        "FSDP2, parameters kept after forward",
    ]
    parameters = 4 * (3 * (32 * 32 + 32) + 32 + 1)
    # The last layer has a single row, which the first rank stores.
    first = 4 * (3 * (16 * 32 + 16) + 32 + 1)
    assert [row[1:3] for row in tables["memory"].rows] == [
        (parameters, first),
        (parameters, first),
        (2 * parameters, 2 * first),
        (4 * parameters, 4 * first),
    ]
    assert result.figures["traffic_ddp"].value == parameters
    assert result.figures["traffic_fsdp"].value == 1.5 * parameters
