"""The ranks of jobs over hosts as text: who stalls, who grows, how far they are. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from statistics import median

from tui.core.text import numbers as text
from tui.devices.state.jobs import HostRank, HostsJob
from tui.kit.lines import Span, TextStyle

_NOTABLE = 0.1
"""Share above the median of the ranks from which on the largest rank is named."""


def job_notes(jobs: Sequence[HostsJob], host: str = "") -> tuple[str, ...]:
    """Return a sentence for each job: its ranks, its step, and the ranks that stand out.

    Args:
        jobs: all of them.
        host: only jobs with a rank on this host; empty for all.
    """
    return tuple(_describe(job) for job in jobs if not host or host in job.hosts)


def _describe(job: HostsJob) -> str:
    step = "" if job.step is None else f", step {text.grouped(round(job.step))}"
    head = f"job {job.name}: {text.count(len(job.ranks), 'rank')} on {', '.join(job.hosts)}{step}"
    return "; ".join([head, *_findings(job)])


def _findings(job: HostsJob) -> Iterator[str]:
    stalled = job.stalled
    for rank in stalled:
        yield f"rank {rank.rank} on {rank.host} stalls{_describe_stall(rank)}"
    if not stalled and job.all_stopped:
        yield "all ranks have stopped at the same step"
    for rank in job.ranks:
        if rank.grows:
            yield f"rank {rank.rank} on {rank.host} grows"
    sizes = [(rank.allocated, rank) for rank in job.ranks if rank.allocated is not None]
    if len(sizes) > 1:
        most, rank = max(sizes, key=lambda pair: pair[0])
        usual = median(allocated for allocated, _ in sizes)
        if usual and most > (1 + _NOTABLE) * usual:
            share = f"{100 * (most / usual - 1):.0f}%"
            yield f"rank {rank.rank} on {rank.host} has {share} more allocated than the median"


def _describe_stall(rank: HostRank) -> str:
    """Return for how long a rank has made no step, and which step that is."""
    step = f" at step {text.grouped(rank.process.steps)}" if rank.process.steps is not None else ""
    since = rank.process.stalled_s
    return step if since is None else f"{step}, for {text.old(since)}"


def rank_spans(
    jobs: Sequence[HostsJob], gpus: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Span]:
    """Return the spans about the rank on each GPU for the device list, by host and GPU id.

    A rank that stalls goes before one that grows; with several ranks of jobs on one GPU, the first
    that stands out is shown.

    Args:
        jobs: all of them.
        gpus: the GPUs that have a row, by their host and id.
    """
    spans: dict[tuple[str, str], Span] = {}
    for job in jobs:
        stalled = job.stalled
        for rank in job.ranks:
            places = {(rank.host, of.placed.id or "") for of in rank.process.devices.values()}
            if places.isdisjoint(gpus):
                continue
            if rank in stalled:
                span = Span(f"rank {rank.rank} stalls{_describe_stall(rank)}", TextStyle.BAD)
            elif rank.grows:
                span = Span(f"rank {rank.rank} grows", TextStyle.NOTE)
            else:
                steps = rank.process.steps
                step = f"  step {text.grouped(steps)}" if steps is not None else ""
                span = Span(f"rank {rank.rank}{step}", TextStyle.QUIET)
            for key in places:
                if key not in spans or spans[key].style is TextStyle.QUIET:
                    spans[key] = span
    return spans
