"""The ranks of one job, found on several hosts by what their launcher has told each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tui.core.text import numbers as fmt
from tui.devices.allocators.messages import RankJob
from tui.watch.cli.output import WatchedProcessRow

_LOOPBACK = ("localhost", "127.", "::1")
"""Beginnings of addresses that mean another machine on each host."""
MOST_NAMED = 8
"""The most missing ranks that are named."""


@dataclass(frozen=True, slots=True)
class HostProcessRow:
    """A process with the host that it runs on."""

    host: str
    row: WatchedProcessRow
    grows: str = ""
    """The finding that it grows; empty if that is not proved."""


@dataclass(frozen=True, slots=True)
class RanksOfJob:
    """The ranks of one job, in their order."""

    job: RankJob
    rows: tuple[HostProcessRow, ...]

    @property
    def name(self) -> str:
        """Return the name of the job, from its launcher."""
        job = self.job
        names = (job.master, job.run_id, f"Slurm job {job.slurm}" if job.slurm else None)
        return next(name for name in names if name)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the ranks, in their order."""
        return tuple(dict.fromkeys(each.host for each in self.rows))

    @property
    def world_size(self) -> int | None:
        """Return the number of ranks that the launcher has told; ``None`` if it has told none."""
        told = (each.row.process.world_size for each in self.rows)
        return next((size for size in told if size is not None), None)

    @property
    def missing(self) -> tuple[int, ...]:
        """Return the ranks that no host has, as far as their number is known."""
        present = {each.row.process.rank for each in self.rows}
        return tuple(rank for rank in range(self.world_size or 0) if rank not in present)


def find_jobs(rows: Sequence[HostProcessRow]) -> tuple[RanksOfJob, ...]:
    """Return the jobs that the processes are ranks of, in the order of their first rank.

    Args:
        rows: the processes of all hosts.
    """
    found: dict[tuple[str, str], list[HostProcessRow]] = {}
    for each in rows:
        key = _key_of(each)
        if key is not None:
            found.setdefault(key, []).append(each)
    jobs = []
    for ranks in found.values():
        ranks.sort(key=lambda each: (each.row.process.rank or 0, each.row.process.pid))
        job = ranks[0].row.process.job
        assert job is not None
        jobs.append(RanksOfJob(job, tuple(ranks)))
    return tuple(jobs)


def _key_of(each: HostProcessRow) -> tuple[str, str] | None:
    """Return what the ranks of one job have in common; a loopback address only on one host."""
    process = each.row.process
    job = process.job
    if job is None or process.rank is None:
        return None
    if job.master is not None:
        return (each.host if job.master.startswith(_LOOPBACK) else "", job.master)
    return "", job.slurm or job.run_id or ""


def job_lines(job: RanksOfJob) -> list[str]:
    """Return what is to be said of a job: its ranks, who grows, who has most memory, who is absent.

    Args:
        job: of at least one rank.
    """
    size = job.world_size
    of = f" of {size}" if size is not None else ""
    launchers = {each.row.process.launcher for each in job.rows} - {None}
    by = f" ({', '.join(sorted(map(str, launchers)))})" if launchers else ""
    ranks = {each.row.process.rank for each in job.rows}
    lines = [f"job {job.name}{by}: {len(ranks)}{of} ranks, on {', '.join(job.hosts)}"]
    lines += [
        f"rank {each.row.process.rank} on {each.host} grows: {each.grows}"
        for each in job.rows
        if each.grows
    ]
    largest = _describe_largest(job)
    if largest:
        lines.append(largest)
    if job.missing:
        named = ", ".join(map(str, job.missing[:MOST_NAMED]))
        more = len(job.missing) - MOST_NAMED
        rest = f" and {more} more" if more > 0 else ""
        lines.append(f"not on these hosts, or not read: rank {named}{rest}")
    return lines


def _describe_largest(job: RanksOfJob) -> str:
    """Return which rank has allocated most, compared with the median of all; empty for one rank."""
    held = [
        (sum(figures.allocated for figures in each.row.figures), each)
        for each in job.rows
        if each.row.figures
    ]
    if len(held) < 2:
        return ""
    most, each = max(held, key=lambda one: one[0])
    usual = median(allocated for allocated, _ in held)
    if not usual or most <= usual:
        return "all ranks have the same allocated memory" if most == usual else ""
    return (
        f"rank {each.row.process.rank} on {each.host} has most allocated memory: {fmt.size(most)}, "
        f"{100 * (most / usual - 1):.1f} % above the median of the ranks"
    )
