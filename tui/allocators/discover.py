"""Discovery of processes with torch, and their facts as seen from outside."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tui.allocators.messages import RankJob, TorchProcess, WatchTargets, undescribed
from tui.allocators.peek import LIBRARY, find_torch_library
from tui.allocators.process_files import PROC, GoneError, ProcessFiles, Refusal, library_in
from tui.monitor.processes import ProcessOwners

_LAUNCHERS = (
    # The launcher; its marker variable; its rank, local rank and number of ranks.
    ("torchrun", "TORCHELASTIC_RUN_ID", ("RANK", "LOCAL_RANK", "WORLD_SIZE")),
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ),
    ("MPICH", "PMI_RANK", ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE")),
    ("srun", "SLURM_STEP_ID", ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS")),
)
_PLAIN = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
"""The variables that ``torch.distributed`` itself reads (``init_method="env://"``)."""
_VERSION = re.compile(rb"^__version__ = ['\"]([\w.+-]{1,60})['\"]", re.MULTILINE)
_NO_RUN_ID = "none"
"""torchrun's run id unless ``--rdzv-id`` is given."""
_NOT_SET = "no launcher set it in the environment"


@dataclass(frozen=True)
class Ranks:
    """The rank of a process among several, as set by its launcher."""

    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    launcher: str | None = None


def ranks_of(variables: Mapping[str, str]) -> Ranks:
    """Read the ranks that a launcher has put into the environment.

    Variables set by hand or by an unknown launcher give a rank without a launcher.
    """
    for launcher, mark, names in _LAUNCHERS:
        if mark in variables:
            # Scripts under srun and MPI copy the launcher's variables to torch's own names.
            own = (variables.get(name) for name in _PLAIN)
            pairs = zip(own, names)
            texts = (variables.get(name) if plain is None else plain for plain, name in pairs)
            rank, local_rank, world_size = map(_number, texts)
            return Ranks(rank, local_rank, world_size, launcher)
    rank, local_rank, world_size = (_number(variables.get(name)) for name in _PLAIN)
    return Ranks(rank, local_rank, world_size)


def job_of(variables: Mapping[str, str]) -> RankJob | None:
    """Return the job of a rank by its variables; ``None`` if they name none."""
    address, port = _name(variables.get("MASTER_ADDR")), _number(variables.get("MASTER_PORT"))
    run_id = _name(variables.get("TORCHELASTIC_RUN_ID"))
    job, step = _number(variables.get("SLURM_JOB_ID")), _number(variables.get("SLURM_STEP_ID"))
    rank_job = RankJob(
        master=f"{address}:{port}" if address is not None and port is not None else None,
        run_id=None if run_id == _NO_RUN_ID else run_id,
        slurm=f"{job}.{step}" if job is not None and step is not None else None,
    )
    return None if rank_job == RankJob() else rank_job


def _name(text: str | None) -> str | None:
    return text if text is not None and re.fullmatch(r"[\w.:@%-]{1,255}", text) else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text, re.ASCII) else None


class Discovery:
    """Search of this machine's processes, which re-reads a process only if it may have changed."""

    def __init__(self) -> None:
        self._owners = ProcessOwners(own_pids=False)
        self._seen: dict[int, tuple[bytes, bytes, bool]] = {}
        """By pid: start time, size of the address space, and whether torch's library is loaded.
        Loading a library changes the size."""

    def find(self, targets: WatchTargets, listed: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """Find the processes to watch: all with torch, or the requested ones with or without it.

        Args:
            targets: the request.
            listed: the processes that NVML lists on a GPU.

        Returns:
            By pid, in order: the requested pids among the process and its ancestors.
        """
        parents = self._scan()
        with_torch = {pid for pid, (_, _, has) in self._seen.items() if has}
        others: set[int] = set()
        if targets.others or not targets.pids:
            others = with_torch | {pid for pid in listed if pid in parents}
        processes = {}
        for pid in sorted(with_torch | others | set(targets.pids)):
            requested = _requested(pid, targets, parents)
            if requested or pid in others:
                processes[pid] = requested
        return processes

    def _scan(self) -> dict[int, int]:
        """Read all processes; return the parent of each."""
        parents: dict[int, int] = {}
        seen = {}
        own, root = os.getpid(), os.geteuid() == 0
        for entry in os.scandir(PROC):
            if not entry.name.isdigit():
                continue
            pid = int(entry.name)
            try:
                with open(f"{PROC}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 (quick)
                    text = file.read(4096).rpartition(b") ")[2].split()
            except OSError:
                continue  # the process has ended or is hidden
            parents[pid] = int(text[1])
            start, size = text[19], text[20]
            known = self._seen.get(pid)
            if known is not None and known[:2] == (start, size):
                seen[pid] = known
            elif known is not None and known[0] == start and known[2]:
                seen[pid] = (start, size, True)
            elif size != b"0" and pid != own and (root or _is_own(entry)):
                seen[pid] = (start, size, _has_torch(pid))
        self._seen = seen
        return parents

    def size_of(self, pid: int) -> int:
        """Return the bytes of a process's address space, which grows at the first use of CUDA."""
        return int(self._seen[pid][1]) if pid in self._seen else 0

    def describe(self, files: ProcessFiles) -> TorchProcess:
        """Return the facts of a process, except why it has no figures."""
        owner = self._owners.find_owner(files.pid, time.time())
        unavailable = dict(owner.unavailable)
        torch, why_no_version = _version(files)
        if torch is None:
            unavailable["torch"] = why_no_version
        variables, why_not = _environment(files)
        ranks = ranks_of(variables)
        for name in ("rank", "local_rank", "world_size", "launcher"):
            if getattr(ranks, name) is None:
                unavailable[name] = why_not or _NOT_SET
        if "CUDA_VISIBLE_DEVICES" not in variables:
            unavailable["visible_devices"] = why_not or "CUDA_VISIBLE_DEVICES is not set"
        try:
            parent: int | None = files.parent()
        except GoneError as error:
            parent, unavailable["parent"] = None, str(error)
        return TorchProcess(
            pid=files.pid,
            start=owner.started_at,
            parent=parent,
            user=owner.user,
            command=owner.command,
            torch=torch,
            rank=ranks.rank,
            local_rank=ranks.local_rank,
            world_size=ranks.world_size,
            launcher=ranks.launcher,
            visible_devices=variables.get("CUDA_VISIBLE_DEVICES"),
            device_order=variables.get("CUDA_DEVICE_ORDER"),
            ours=owner.ours,
            job=job_of(variables),
            launched_by=owner.parent,
            unavailable=unavailable,
        )

    def forget_all_but(self, pids: Iterable[int]) -> None:
        """Drop the owners of all other processes."""
        self._owners.forget_all_but(pids)


def _requested(pid: int, targets: WatchTargets, parents: Mapping[int, int]) -> tuple[int, ...]:
    """Return the requested pids among a process and its ancestors, nearest first."""
    if not targets.children:
        return (pid,) if pid in targets.pids else ()
    # The parents are read one after the other, so a reused pid can close a cycle.
    line = {pid: None}
    while (parent := parents.get(pid)) is not None and parent not in line:
        line[parent] = None
        pid = parent
    return tuple(pid for pid in line if pid in targets.pids)


def absent(pid: int, why: Refusal) -> TorchProcess:
    """Return the description of a requested process that does not exist."""
    return replace(undescribed(pid, why.reason), word=why.word, advice=why.advice, refused=True)


def _is_own(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _has_torch(pid: int) -> bool:
    with contextlib.suppress(GoneError, OSError), contextlib.closing(ProcessFiles(pid)) as files:
        return library_in(files.read("maps"), LIBRARY) is not None
    return False


def _version(files: ProcessFiles) -> tuple[str | None, str]:
    """Return torch's version from ``torch/version.py``, or the reason that it is unknown."""
    try:
        maps = files.read("maps")
    except OSError as error:
        return None, f"torch's path may not be read: {error.strerror}"
    library = find_torch_library(maps)
    if library is None:
        return None, "torch's library is not loaded"
    if library.deleted:
        return None, "torch's files were replaced since the process loaded them"
    path = f"{library.path.rpartition('/lib/')[0]}/version.py"
    try:
        match = _VERSION.search(files.read_in_root(path))
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    return (match[1].decode("ascii"), "") if match else (None, f"{path} names no version")


def _environment(files: ProcessFiles) -> tuple[dict[str, str], str]:
    """Return the process's initial environment, or the reason that it is unknown."""
    try:
        text = files.read("environ")
    except OSError as error:
        return {}, f"its environment cannot be read: {error.strerror}"
    pairs = (entry.decode(errors="replace").partition("=") for entry in text.split(b"\0"))
    return {name: value for name, mark, value in pairs if mark}, ""
