"""Find the ranks of a job on several hosts by the variables that its launcher sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tui.allocators.messages import RankJob, TorchProcess
from tui.devices.state.hosts import HERE
from tui.devices.state.machine import MachineState
from tui.devices.state.same_machine import SeenHost, find_repeated
from tui.devices.state.watched_processes import TorchProcessState

_LOOPBACK = ("localhost", "127.", "::1")
"""Beginnings of addresses that mean another machine on each host."""
BEHIND_STEPS = 2
"""Steps behind the median of the ranks from which on a rank is behind: one is the step that the
others have just counted."""


def job_key(host: str, process: TorchProcess) -> tuple[str, str] | None:
    """Return a key that all ranks of a job share; ``None`` if the process is not a rank.

    Args:
        host: of the process; only ranks of one host share a job at a loopback address.
        process: as it was described.
    """
    job = process.job
    if job is None or process.rank is None:
        return None
    if job.master is not None:
        return (host if job.master.startswith(_LOOPBACK) else "", job.master)
    return "", job.slurm or job.run_id or ""


def job_name(job: RankJob) -> str:
    """Return the name of a job, from its launcher."""
    names = (job.master, job.run_id, f"Slurm job {job.slurm}" if job.slurm else None)
    return next((name for name in names if name), "")


@dataclass(frozen=True, slots=True)
class HostRank:
    """One rank of a job."""

    host: str
    rank: int
    process: TorchProcessState

    @property
    def allocated(self) -> int | None:
        """Bytes in tensors on all its devices; ``None`` if not read."""
        figures = self.process.figures
        return sum(figure.allocated for figure in figures) if figures else None

    @property
    def grows(self) -> bool:
        """Its memory grows, by its findings."""
        return any(allocator.grows for allocator in self.process.devices.values())


@dataclass(frozen=True, slots=True)
class HostsJob:
    """The ranks of one job in their order."""

    name: str
    ranks: tuple[HostRank, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the ranks."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))

    @property
    def step(self) -> float | None:
        """Median of the ranks' steps; ``None`` if none is known."""
        steps = [rank.process.steps for rank in self.ranks if rank.process.steps is not None]
        return median(steps) if steps else None

    @property
    def stalled(self) -> tuple[HostRank, ...]:
        """The ranks that the others wait for or leave behind: see :func:`find_stalled`."""
        steps = [rank.process.steps for rank in self.ranks]
        stopped = [rank.process.stalled_s is not None for rank in self.ranks]
        return tuple(self.ranks[index] for index in find_stalled(steps, stopped))

    @property
    def all_stopped(self) -> bool:
        """Every rank whose steps are known has stopped, at the same step."""
        counted = [rank for rank in self.ranks if rank.process.steps is not None]
        return bool(counted) and all(rank.process.stalled_s is not None for rank in counted)


def find_stalled(steps: Sequence[int | None], stopped: Sequence[bool]) -> tuple[int, ...]:
    """Return the indices of the ranks that the others wait for or leave behind.

    A rank that waits for another in a collective makes no step either. So of ranks that have
    stopped, the ranks behind the median count, else the ranks that have stopped while
    others go on. If all have stopped at the same step, nothing says which one is at fault.

    Args:
        steps: of each rank; ``None`` if unknown.
        stopped: whether each rank has made no step for far longer than usual.
    """
    known = [step for step in steps if step is not None]
    if not known or not any(stopped):
        return ()
    middle = median(known)
    behind = tuple(
        index
        for index, step in enumerate(steps)
        if step is not None and stopped[index] and step <= middle - BEHIND_STEPS
    )
    if behind:
        return behind
    counted = [index for index, step in enumerate(steps) if step is not None]
    at_fault = tuple(index for index in counted if stopped[index])
    return at_fault if len(at_fault) < len(counted) else ()


def find_host_jobs(machine: MachineState) -> tuple[HostsJob, ...]:
    """Return the jobs of several ranks on this machine and the other hosts, by their first rank.

    A process that two names of one machine list is one rank, on the first of them.
    """
    machines = [(HERE, machine)] if machine.hosts.here else []
    machines += [(host.name, host.machine) for host in machine.hosts.all]
    listed = [
        (
            SeenHost.of_sample(name, machine.sample),
            tuple(machine.allocators.seen.values()) if machine.allocators is not None else (),
        )
        for name, machine in machines
    ]
    repeated = find_repeated(
        [(host, [process.description for process in processes]) for host, processes in listed]
    )
    ranks_of: dict[tuple[str, str], list[HostRank]] = {}
    for host, processes in listed:
        for process in processes:
            pid, rank = process.description.pid, process.description.rank
            key = job_key(host.name, process.description)
            if key is None or rank is None or process.gone or (host.name, pid) in repeated:
                continue
            ranks_of.setdefault(key, []).append(HostRank(host.name, rank, process))
    jobs: list[HostsJob] = []
    for ranks in ranks_of.values():
        job = ranks[0].process.description.job
        if len(ranks) > 1 and job is not None:
            ordered: Sequence[HostRank] = sorted(ranks, key=lambda rank: (rank.rank, rank.host))
            jobs.append(HostsJob(job_name(job), tuple(ordered)))
    return tuple(jobs)
