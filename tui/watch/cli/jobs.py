"""The ranks of one job, found on several hosts by the variables that its launcher sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tui.allocators.messages import RankJob
from tui.core.text import numbers as fmt
from tui.devices.state.jobs import find_stalled, job_key, job_name
from tui.watch.cli.output import WatchedProcessRow

MOST_NAMED = 8
"""The most missing ranks that are named."""


@dataclass(frozen=True, slots=True)
class RankSteps:
    """The optimizer steps of a process."""

    count: int | None = None
    """``None`` if unknown: it has no agent."""
    stalled_s: float | None = None
    """Seconds since the newest, if that is far longer than a step takes."""


NO_STEPS = RankSteps()


@dataclass(frozen=True, slots=True)
class HostProcessRow:
    """A process with the host that it runs on."""

    host: str
    row: WatchedProcessRow
    grows: str = ""
    """The finding that it grows; empty if that is not proved."""
    steps: RankSteps = NO_STEPS


@dataclass(frozen=True, slots=True)
class RanksOfJob:
    """The ranks of one job, in their order."""

    job: RankJob
    rows: tuple[HostProcessRow, ...]

    @property
    def name(self) -> str:
        """Return the name of the job, from its launcher."""
        return job_name(self.job)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the ranks, in their order."""
        return tuple(dict.fromkeys(row.host for row in self.rows))

    @property
    def world_size(self) -> int | None:
        """Return the number of ranks that the launcher has set; ``None`` if unknown."""
        sizes = (row.row.process.world_size for row in self.rows)
        return next((size for size in sizes if size is not None), None)

    @property
    def missing(self) -> tuple[int, ...]:
        """Return the ranks that no host has, if their number is known."""
        present = {row.row.process.rank for row in self.rows}
        return tuple(rank for rank in range(self.world_size or 0) if rank not in present)


def find_jobs(rows: Sequence[HostProcessRow]) -> tuple[RanksOfJob, ...]:
    """Return the jobs that the processes are ranks of, in the order of their first rank.

    Args:
        rows: the processes of all hosts.
    """
    ranks_of: dict[tuple[str, str], list[HostProcessRow]] = {}
    for row in rows:
        key = job_key(row.host, row.row.process)
        if key is not None:
            ranks_of.setdefault(key, []).append(row)
    jobs = []
    for ranks in ranks_of.values():
        ranks.sort(key=lambda row: (row.row.process.rank or 0, row.row.process.pid))
        job = ranks[0].row.process.job
        assert job is not None
        jobs.append(RanksOfJob(job, tuple(ranks)))
    return tuple(jobs)


def job_lines(job: RanksOfJob) -> list[str]:
    """Return the lines about a job: its ranks, growth, the most memory, missing ranks.

    Args:
        job: of at least one rank.
    """
    size = job.world_size
    of = f" of {size}" if size is not None else ""
    launchers = {row.row.process.launcher for row in job.rows} - {None}
    by = f" ({', '.join(sorted(map(str, launchers)))})" if launchers else ""
    ranks = {row.row.process.rank for row in job.rows}
    lines = [f"job {job.name}{by}: {len(ranks)}{of} ranks, on {', '.join(job.hosts)}"]
    lines += [
        f"rank {row.row.process.rank} on {row.host} grows: {row.grows}"
        for row in job.rows
        if row.grows
    ]
    lines += _describe_steps(job)
    largest = _describe_largest(job)
    if largest:
        lines.append(largest)
    if job.missing:
        named = ", ".join(map(str, job.missing[:MOST_NAMED]))
        more = len(job.missing) - MOST_NAMED
        rest = f" and {more} more" if more > 0 else ""
        lines.append(f"not on these hosts, or not read: rank {named}{rest}")
    return lines


def _describe_steps(job: RanksOfJob) -> list[str]:
    """Return the ranks' steps and which ranks stall; nothing if no steps are known."""
    counts = [row.steps.count for row in job.rows if row.steps.count is not None]
    if not counts:
        return []
    stalled = find_stalled(
        [row.steps.count for row in job.rows],
        [row.steps.stalled_s is not None for row in job.rows],
    )
    lines = []
    for row in (job.rows[place] for place in stalled):
        since = f", for {fmt.old(row.steps.stalled_s)}" if row.steps.stalled_s else ""
        lines.append(
            f"rank {row.row.process.rank} on {row.host} stalls at step {row.steps.count}{since}"
        )
    least, most = min(counts), max(counts)
    return [*lines, f"steps: {least}" if least == most else f"steps: {least} to {most}"]


def _describe_largest(job: RanksOfJob) -> str:
    """Return which rank has allocated most, compared with the median of all; empty for one rank."""
    sizes = [
        (sum(figures.allocated for figures in row.row.figures), row)
        for row in job.rows
        if row.row.figures
    ]
    if len(sizes) < 2:
        return ""
    most, row = max(sizes, key=lambda pair: pair[0])
    usual = median(allocated for allocated, _ in sizes)
    if not usual or most <= usual:
        return "all ranks have the same allocated memory" if most == usual else ""
    return (
        f"rank {row.row.process.rank} on {row.host} has most allocated memory: {fmt.size(most)}, "
        f"{100 * (most / usual - 1):.1f}% above the median of the ranks"
    )
