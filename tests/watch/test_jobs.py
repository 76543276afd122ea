"""The ranks of one job over several hosts: which belong together, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.watch.test_command import figures, process
from tui.allocators.messages import RankJob
from tui.watch.cli.jobs import HostProcessRow, RanksOfJob, RankSteps, find_jobs, job_lines
from tui.watch.cli.output import WatchedProcessRow

MIB = 2**20
NODE = RankJob("node0:29500", "exp7")


def ranked(
    host: str, rank: int | None, job: RankJob | None = NODE, *, allocated: int = 100 * MIB
) -> HostProcessRow:
    """Return a rank of four, whose pid is its rank."""
    described = process(pid=rank or 0, rank=rank, world_size=4, launcher="torchrun", job=job)
    held = (replace(figures(0), pid=rank or 0, allocated=allocated),)
    return HostProcessRow(host, WatchedProcessRow(described, held, {}, {}, {}))


def hosts_of(jobs: tuple[RanksOfJob, ...]) -> list[tuple[str, ...]]:
    return [job.hosts for job in jobs]


def test_ranks_with_one_master_are_one_job_in_their_order() -> None:
    (job,) = find_jobs([ranked("a", 2), ranked("a", 1), ranked("b", 3)])
    assert [each.row.process.rank for each in job.rows] == [1, 2, 3]
    assert job.hosts == ("a", "b")
    assert job.name == "node0:29500"
    assert job.missing == (0,)


@pytest.mark.parametrize("address", ["localhost:1", "127.0.0.1:1", "::1:1"])
def test_a_loopback_address_is_another_master_on_each_host(address: str) -> None:
    rows = [ranked("a", 0, RankJob(address)), ranked("b", 0, RankJob(address))]
    assert hosts_of(find_jobs(rows)) == [("a",), ("b",)]


def test_without_a_master_slurm_or_the_run_id_tells_the_job() -> None:
    slurm, other = RankJob(slurm="4711.0"), RankJob(slurm="4711.1")
    rows = [ranked("a", 0, slurm), ranked("b", 1, slurm), ranked("b", 0, other)]
    assert hosts_of(find_jobs(rows)) == [("a", "b"), ("b",)]
    by_id = [ranked("a", 0, RankJob(run_id="x")), ranked("b", 1, RankJob(run_id="x"))]
    (job,) = find_jobs(by_id)
    assert job.name == "x"


def test_what_is_no_rank_or_of_no_known_job_is_in_none() -> None:
    assert find_jobs([ranked("a", None), ranked("a", 0, None)]) == ()


def test_the_lines_say_who_grows_who_has_most_and_who_is_absent() -> None:
    grows = replace(ranked("b", 2), grows="allocated grows 3 MiB/min, 2 to 4 (95%), over 60 s")
    (job,) = find_jobs([ranked("a", 0), ranked("a", 1, allocated=150 * MIB), grows])
    assert job_lines(job) == [
        "job node0:29500 (torchrun): 3 of 4 ranks, on a, b",
        "rank 2 on b grows: allocated grows 3 MiB/min, 2 to 4 (95%), over 60 s",
        "rank 1 on a has most allocated memory: 150 MiB, 50.0% above the median of the ranks",
        "not on these hosts, or not read: rank 3",
    ]


def test_ranks_with_equal_memory_are_reported_as_equal() -> None:
    (job,) = find_jobs([ranked("a", each) for each in range(4)])
    assert job_lines(job)[1:] == ["all ranks have the same allocated memory"]


def test_a_rank_without_figures_is_compared_with_none() -> None:
    bare = ranked("b", 1)
    bare = replace(bare, row=replace(bare.row, figures=()))
    (job,) = find_jobs([ranked("a", 0), bare])
    assert not any("allocated memory" in line for line in job_lines(job))


def test_the_rank_that_stalls_is_named_before_its_memory() -> None:
    steps = [RankSteps(410), RankSteps(12, 65.0), RankSteps(411)]
    rows = [replace(ranked("ab"[rank % 2], rank), steps=told) for rank, told in enumerate(steps)]
    (job,) = find_jobs(rows)
    assert job_lines(job)[1:3] == [
        "rank 1 on b stalls at step 12, for 1 min",
        "steps: 12 to 411",
    ]
