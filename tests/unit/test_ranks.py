"""Ranks without processes: the layout, torchrun's command and words, decisions in lock-step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.declare.workload import RANK_PARAMETERS, ParameterError, Skip
from workloads.measure import timing
from workloads.measure.clocks import TimedBlock
from workloads.protocol.messages import Run
from workloads.protocol.results import Setting
from workloads.ranks import torchrun
from workloads.ranks.launch import LockstepClock, RankGroup

DEFAULTS = {parameter.name: parameter.default for parameter in RANK_PARAMETERS}
KILLED = """Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 13505)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  rank      : 3 (local_rank: 1)
  exitcode  : -9 (pid: 13506)  (SIGKILL)
"""


def _request(device: str = "cpu", **parameters: Setting) -> Run:
    return Run("r", "all_reduce", device, {"mib": 16, **DEFAULTS, **parameters}, {})


@pytest.mark.parametrize(
    ("device", "gpus", "asked", "ranks"),
    [("cpu", 0, 0, 2), ("cpu", 0, 5, 5), ("cuda", 8, 0, 8), ("cuda", 8, 4, 4), ("cuda", 1, 1, 1)],
)
def test_one_rank_per_gpu_and_two_on_the_cpu_unless_told(
    device: str, gpus: int, asked: int, ranks: int
) -> None:
    assert torchrun.layout(_request(ranks=asked), device, gpus).ranks == ranks


def test_what_the_gpus_do_not_suffice_for_is_skipped_with_the_need() -> None:
    with pytest.raises(Skip, match="4 ranks need 4 GPUs on this host, torch sees 2"):
        torchrun.layout(_request(ranks=4), "cuda", 2)
    with pytest.raises(Skip, match="needs 2 GPUs: torch sees 1"):
        torchrun.layout(_request(), "cuda", 1)


def test_several_hosts_need_a_place_to_meet() -> None:
    with pytest.raises(ParameterError, match="hosts=2 needs rendezvous=HOST:PORT"):
        torchrun.layout(_request(hosts=2), "cpu", 0)


def test_hosts_meet_whatever_their_local_settings_and_not_for_another_size() -> None:
    here = torchrun.layout(_request(hosts=2, rendezvous="a:1", ranks=1), "cpu", 0)
    there = torchrun.layout(_request(hosts=2, rendezvous="b:1", wait_s=9), "cpu", 0)
    other = torchrun.layout(_request(hosts=2, rendezvous="a:1", mib=1), "cpu", 0)
    assert here.meeting == there.meeting
    assert here.meeting != other.meeting


def test_the_command_is_torchruns_own() -> None:
    alone = torchrun.command(torchrun.layout(_request(), "cpu", 0))
    assert "--standalone" in alone
    assert "--nproc-per-node=2" in alone
    several = torchrun.command(
        torchrun.layout(_request(hosts=3, rendezvous="head:29500", wait_s=7), "cpu", 0)
    )
    assert "--nnodes=3" in several
    assert "--rdzv-endpoint=head:29500" in several
    assert "--rdzv-conf=join_timeout=7,read_timeout=7" in several
    assert "--standalone" not in several


def test_the_cores_are_divided_and_what_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = torchrun.layout(_request(ranks=3), "cpu", 0)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert torchrun.environment(planned, 16)["OMP_NUM_THREADS"] == "5"
    assert torchrun.environment(planned, 2)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert "OMP_NUM_THREADS" not in torchrun.environment(planned, 16)


def test_torchruns_words_name_each_local_rank_with_its_exit() -> None:
    assert torchrun.exits(KILLED) == {0: -15, 1: -9}
    assert torchrun.describe_rank_exit(-9).startswith("SIGKILL")
    assert torchrun.describe_rank_exit(3) == "exit status 3"


def test_a_start_that_failed_is_told_in_one_line() -> None:
    planned = torchrun.layout(_request(hosts=2, rendezvous="head:1", wait_s=5), "cpu", 0)
    line, whole = torchrun.explain_no_start(planned, "Traceback\nx.RendezvousTimeoutError")
    assert line.startswith("2 hosts did not meet at head:1 within 5 s")
    assert whole
    line, whole = torchrun.explain_no_start(planned, "No module named torch.distributed.run\n\n")
    assert line.endswith("No module named torch.distributed.run")
    assert not whole


class _Meeting:
    """Stands for the ranks' group: what each says is compared once all have said it."""

    def __init__(self, ranks: int) -> None:
        self._said: list[list[float]] = []
        self._ranks = ranks
        self._largest: list[float] = []
        self._in = threading.Barrier(ranks, self._compare, timeout=10)
        self._out = threading.Barrier(ranks, timeout=10)

    def _compare(self) -> None:
        self._largest = [max(values) for values in zip(*self._said, strict=True)]
        self._said = []

    def largest(self, values: Sequence[float]) -> list[float]:
        self._said.append(list(values))
        self._in.wait()
        found = list(self._largest)
        self._out.wait()
        return found

    def barrier(self) -> None:
        self.largest(())


class _Scripted:
    """A clock whose blocks take what was told beforehand, over and over."""

    def __init__(self, seconds: list[float]) -> None:
        self._seconds = seconds
        self.blocks = 0

    def synchronize(self) -> None:
        return None

    def block(self, _call: Callable[[], object], calls: int) -> TimedBlock:
        seconds = self._seconds[self.blocks % len(self._seconds)] * calls
        self.blocks += 1
        return TimedBlock(seconds, seconds / 2, seconds / 4)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.floats(1e-3, 0.3), min_size=1, max_size=5), min_size=2, max_size=3))
def test_ranks_decide_alike_whatever_each_of_them_measures(seconds: list[list[float]]) -> None:
    meeting = cast(RankGroup, _Meeting(len(seconds)))
    clocks = [_Scripted(each) for each in seconds]
    plan = replace(timing.PLANS["quick"], max_s=1.0, calls_apart=0)

    def rank(clock: _Scripted) -> tuple[float, ...]:
        together = LockstepClock(clock, meeting)
        found, _ = timing.measure(lambda: None, together, "wall", plan, timing.Control())
        return found.block_times_s

    with ThreadPoolExecutor(len(clocks)) as pool:
        times = list(pool.map(rank, clocks))
    assert all(each == times[0] for each in times)
    assert len({clock.blocks for clock in clocks}) == 1
    assert min(times[0]) >= max(min(each) for each in seconds) * (1 - 1e-9)
