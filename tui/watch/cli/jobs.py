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
        return tuple(dict.fromkeys(each.host for each in self.rows))

    @property
    def world_size(self) -> int | None:
        """Return the number of ranks that the launcher has told; ``None`` if it has told none."""
        told = (each.row.process.world_size for each in self.rows)
        return next((size for size in told if size is not None), None)

    @property
    def missing(self) -> tuple[int, ...]:
        """Return the ranks that no host has, if their number is known."""
        present = {each.row.process.rank for each in self.rows}
        return tuple(rank for rank in range(self.world_size or 0) if rank not in present)


def find_jobs(rows: Sequence[HostProcessRow]) -> tuple[RanksOfJob, ...]:
    """Return the jobs that the processes are ranks of, in the order of their first rank.

    Args:
        rows: the processes of all hosts.
    """
    found: dict[tuple[str, str], list[HostProcessRow]] = {}
    for each in rows:
        key = job_key(each.host, each.row.process)
        if key is not None:
            found.setdefault(key, []).append(each)
    jobs = []
    for ranks in found.values():
        ranks.sort(key=lambda each: (each.row.process.rank or 0, each.row.process.pid))
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
    launchers = {each.row.process.launcher for each in job.rows} - {None}
    by = f" ({', '.join(sorted(map(str, launchers)))})" if launchers else ""
    ranks = {each.row.process.rank for each in job.rows}
    lines = [f"job {job.name}{by}: {len(ranks)}{of} ranks, on {', '.join(job.hosts)}"]
    lines += [
        f"rank {each.row.process.rank} on {each.host} grows: {each.grows}"
        for each in job.rows
        if each.grows
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
    counts = [each.steps.count for each in job.rows if each.steps.count is not None]
    if not counts:
        return []
    stalled = find_stalled(
        [each.steps.count for each in job.rows],
        [each.steps.stalled_s is not None for each in job.rows],
    )
    lines = []
    for each in (job.rows[place] for place in stalled):
        since = f", for {fmt.old(each.steps.stalled_s)}" if each.steps.stalled_s else ""
        lines.append(
            f"rank {each.row.process.rank} on {each.host} stalls at step {each.steps.count}{since}"
        )
    least, most = min(counts), max(counts)
    return [*lines, f"steps: {least}" if least == most else f"steps: {least} to {most}"]


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
        f"{100 * (most / usual - 1):.1f}% above the median of the ranks"
    )
