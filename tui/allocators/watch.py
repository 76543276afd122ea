"""The watch, which searches for processes at intervals and reads them in between."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, replace

from tui.allocators.agents import AgentConnections, AgentLogs, AgentState
from tui.allocators.discover import Discovery, absent
from tui.allocators.messages import (
    CPU_BUILD,
    NO_TENSOR_YET,
    NO_TORCH,
    NOT_USED_YET,
    WATCH_REQUESTS,
    AgentLogPart,
    ListedProcesses,
    ProcessFigures,
    StepsCounted,
    TorchProcess,
    TorchProcesses,
    WatchRequest,
    WatchTargets,
)
from tui.allocators.peek import AllocatorReader, UnreadableError
from tui.allocators.process_files import (
    GoneError,
    ProcessFiles,
    Refusal,
    access_to,
    no_process,
    refusal,
)
from tui.core.child.inside import LEAST_INTERVAL_S, ParentChannel, complain, until_tick
from tui.monitor.processes import is_in_pid_namespace
from workloads.protocol.torch_memory import TorchMemory

SEARCH_S = 2.0
"""Seconds between two searches for processes while some are requested by their pid."""
IDLE_SEARCH_S = 5.0
"""Seconds between two searches while none are; a process that NVML lists is searched at once."""
EAGER_SEARCH_S, MOST_EAGER = 1.0, 5
"""Seconds between the first searches in a process that NVML lists and whose torch has allocated
nothing yet, and their number: NVML lists a process from its context on, moments before that."""
AFTER_NVML_S = 0.05
"""Seconds between the beginning of a reading of NVML, by the monitor, and one of the allocators: if
both agree, the screen shows them together."""
_RETRY_S = (6.0, 12.0, 24.0, 60.0)
"""Seconds after which a process that has not used CUDA is searched again in any case; the last one
from then on. A search takes some 25 ms."""
_GROWN_BYTES = 16 << 20
"""Growth of a process's address space after which it is searched at once: CUDA takes far more."""
_MOST_ANCESTORS = 8


@dataclass
class _Watched:
    """A watched process."""

    files: ProcessFiles
    description: TorchProcess
    reader: AllocatorReader | None = None
    copy_of: int | None = None
    """The process that this one was forked from, with a copy of its figures."""
    searched: tuple[int, float] = (0, 0.0)
    """The size of its address space at the last unsuccessful search, and the time of the search."""
    failures: int = 0
    """Unsuccessful searches in a row."""

    @property
    def is_read(self) -> bool:
        return self.reader is not None and self.reader.place is not None and self.copy_of is None


class AllocatorWatch:
    """Search and reader of the watched processes."""

    def __init__(
        self,
        interval: float,
        targets: WatchTargets,
        listed: tuple[int, ...] = (),
        *,
        steps: bool = False,
    ) -> None:
        """Prepare the watch without opening a process.

        Args:
            interval: seconds between two readings.
            targets: the requested processes.
            listed: the processes that NVML lists on a GPU.
            steps: also ask the agents of the processes for their steps, and follow their logs.
        """
        self._agents = AgentConnections() if steps else None
        self._states: dict[int, AgentState] = {}
        """The last answers of the agents, by pid."""
        self._logs = AgentLogs()
        self.interval = interval
        self.targets = targets
        self.listed = listed
        self.search_now = threading.Event()
        """Set to request the next search at once."""
        self._discovery = Discovery()
        self._watched: dict[int, _Watched] = {}
        self._own_pids = is_in_pid_namespace()
        self._latest: TorchProcesses | None = None
        self._answered: WatchTargets | None = None
        """The request that the last list answers."""
        self._lost = False

    def apply_request(self, request: WatchRequest) -> None:
        """Apply one request of the front end."""
        if isinstance(request, WatchTargets):
            self.targets = request
        elif isinstance(request, ListedProcesses):
            if set(request.pids) == set(self.listed):
                return
            self.listed = request.pids
        elif not request.seconds >= LEAST_INTERVAL_S:
            complain(f"not a request: an interval of {request.seconds} s")
            return
        else:
            self.interval = request.seconds
        self.search_now.set()

    def search(self, now: float) -> TorchProcesses | None:
        """Search for processes; return the list after a request or a change, else ``None``.

        Args:
            now: Unix time.
        """
        targets, listed = self.targets, self.listed
        pids = self._discovery.find(targets, listed)
        for pid in set(self._watched).difference(pids):
            self._drop(pid)
        listed_processes = [self._list_process(pid, requested) for pid, requested in pids.items()]
        self._discovery.forget_all_but(pids)
        self._lost = False
        processes = tuple(process for process in listed_processes if process is not None)
        # Compare by identity: an equal request gets an answer too.
        if (
            self._answered is targets
            and self._latest is not None
            and self._latest.processes == processes
        ):
            return None
        self._answered = targets
        self._latest = TorchProcesses(now, processes)
        return self._latest

    @property
    def search_interval_s(self) -> float:
        """The seconds from one search to the next."""
        if any(map(self._is_eager, self._watched.values())):
            return EAGER_SEARCH_S
        return SEARCH_S if self.targets.pids else IDLE_SEARCH_S

    def read(self, now: float) -> ProcessFigures:
        """Return the figures of all readable processes, and the host memory of requested ones.

        Args:
            now: Unix time.
        """
        devices: list[TorchMemory] = []
        unavailable: dict[str, str] = {}
        host: dict[str, int] = {}
        for pid, watched in list(self._watched.items()):
            if watched.is_read and watched.reader is not None:
                try:
                    peek = watched.reader.read(now)
                except GoneError:
                    self._drop(pid)
                    self._lost = True
                    continue
                devices += peek.figures
                missing = {f"{pid} {name}": why for name, why in peek.unavailable.items() if name}
                unavailable.update(missing)
            elif not self.targets.pids:
                continue
            resident = watched.files.resident()
            if resident is not None:
                host[str(pid)] = resident
        if self._lost:
            self.search_now.set()
        return ProcessFigures(now, tuple(devices), unavailable, host)

    def count_steps(self, now: float) -> StepsCounted | None:
        """Return the steps of the processes that have an agent; ``None`` if nobody wants them.

        Args:
            now: Unix time.
        """
        if self._agents is None:
            return None
        self._states = self._agents.read(self._watched)
        return StepsCounted(now, {str(pid): state.steps for pid, state in self._states.items()})

    def read_logs(self) -> tuple[AgentLogPart, ...]:
        """Return new lines of logs with an OOM, and the last lines of processes that are gone."""
        present = {pid: state for pid, state in self._states.items() if pid in self._watched}
        return tuple(self._logs.read(present, self._watched))

    def _drop(self, pid: int) -> None:
        watched = self._watched.pop(pid, None)
        if watched is not None:
            watched.files.close()

    def _list_process(self, pid: int, requested: tuple[int, ...]) -> TorchProcess | None:
        """Return the description of a process, or ``None`` if there is nothing to report."""
        is_requested = pid in requested
        try:
            description = self._describe(pid)
        except GoneError:
            self._drop(pid)
            if not is_requested:
                return None
            return replace(absent(pid, no_process(pid, self._own_pids)), requested=requested)
        if not is_requested and description.reason in (NO_TORCH, CPU_BUILD):
            return None
        return replace(description, requested=requested)

    def _describe(self, pid: int) -> TorchProcess:
        """Open a process, find its figures, and return its description.

        Raises:
            GoneError: there is no such process.
        """
        watched = self._watched.get(pid)
        if watched is not None and watched.files.state() in "ZX":
            raise GoneError(f"process {pid} has ended")
        if watched is None:
            files = ProcessFiles(pid)
            if files.state() in "ZX":
                files.close()
                raise GoneError(f"process {pid} has ended")
            watched = _Watched(files, self._discovery.describe(files))
            self._watched[pid] = watched
        why, refused = self._find_refusal(watched)
        description = replace(
            watched.description,
            reason=why.reason if why else "",
            word=why.word if why else "",
            advice=why.advice if why else "",
            refused=refused,
        )
        if watched.description.torch is None and why is None:
            # The earlier description dates from before the process loaded torch.
            description = self._discovery.describe(watched.files)
        watched.description = description
        return description

    def _is_eager(self, watched: _Watched) -> bool:
        """Return whether a process that NVML lists had allocated nothing in a few searches."""
        return 0 < watched.failures <= MOST_EAGER and watched.files.pid in self.listed

    def _can_wait(self, watched: _Watched) -> bool:
        """Return whether a process in which nothing was found need not be searched again yet."""
        if watched.files.pid in self.listed:
            return False  # it uses a GPU
        size, at = watched.searched
        grown = self._discovery.size_of(watched.files.pid) - size >= _GROWN_BYTES
        wait_s = _RETRY_S[min(watched.failures, len(_RETRY_S)) - 1]
        return not grown and time.monotonic() - at < wait_s

    def _find_refusal(self, watched: _Watched) -> tuple[Refusal | None, bool]:
        """Return why a process is not read (``None`` if read), and whether the kernel refuses."""
        size, now = self._discovery.size_of(watched.files.pid), time.monotonic()
        if watched.reader is not None and watched.reader.place is None and self._can_wait(watched):
            return Refusal(
                watched.description.reason, watched.description.advice, watched.description.word
            ), False
        try:
            if watched.reader is None:
                watched.reader = AllocatorReader(watched.files)
            new = watched.reader.place is None
            watched.reader.locate()
            watched.failures = 0
            if new and watched.files.pid not in self.listed:
                watched.copy_of = _forked_from(watched.reader)
        except UnreadableError as error:
            watched.searched = size, now
            watched.failures += 1
            if str(error) == NOT_USED_YET and self._is_eager(watched):
                return Refusal(NO_TENSOR_YET, "", "unread"), False
            return Refusal(str(error), error.advice, error.word), False
        except PermissionError:
            with contextlib.suppress(OSError):
                return refusal(access_to(watched.files)), True
            raise GoneError(f"process {watched.files.pid} has ended") from None
        except OSError as error:
            raise GoneError(f"process {watched.files.pid} has ended") from error
        if watched.copy_of is not None and watched.files.pid not in self.listed:
            return Refusal(
                f"a fork of process {watched.copy_of}, made after CUDA was used: its figures are "
                "copies, and it owns no memory",
                f"watch process {watched.copy_of}",
                "fork",
            ), False
        watched.copy_of = None
        return None, False


def _forked_from(reader: AllocatorReader) -> int | None:
    """Return the ancestor with the same library and allocator addresses."""
    with contextlib.suppress(GoneError, OSError):  # an ancestor has ended, or may not be read
        pid = reader.files.parent()
        for _ in range(_MOST_ANCESTORS):
            if pid <= 1:
                break
            with contextlib.closing(ProcessFiles(pid)) as files:
                with contextlib.suppress(UnreadableError):
                    ancestor = AllocatorReader(files)
                    ancestor.locate()
                    if (ancestor.library, ancestor.place) == (reader.library, reader.place):
                        return pid
                pid = files.parent()
    return None


def serve(
    parent: ParentChannel,
    watch: AllocatorWatch,
    keep_alive_s: float | None = None,
    *,
    changes: bool = False,
) -> None:
    """Write figures at each tick and changes of the processes, until the front end exits.

    Args:
        parent: the front end.
        watch: the watch to serve.
        keep_alive_s: seconds without a request after which the front end counts as gone; ``None``
            where a closed pipe says so.
        changes: write lists, figures and steps as changes, after the first of each.
    """
    if changes:
        parent.send_changes_of((TorchProcesses, ProcessFigures, StepsCounted))
    parent.listen(WATCH_REQUESTS, watch.apply_request, keep_alive_s)
    next_search = 0.0
    while True:
        began, wait_s = time.monotonic(), until_tick(watch.interval, time.time() - AFTER_NVML_S)
        if watch.search_now.is_set() or time.monotonic() >= next_search:
            watch.search_now.clear()
            processes = watch.search(time.time())
            next_search = time.monotonic() + watch.search_interval_s
            # Before the list that says a process has ended: nobody may wait for more after it.
            for part in watch.read_logs():
                parent.send(part)
            if processes is not None:
                parent.send(processes)
        # The steps first: figures belong to the step that they are read after.
        steps = watch.count_steps(time.time())
        if steps is not None and steps.steps:
            parent.send(steps)
        for part in watch.read_logs():
            parent.send(part)
        parent.send(watch.read(time.time()))
        # Late ticks are skipped, and a request does not wait for the next tick.
        watch.search_now.wait(max(0.0, began + wait_s - time.monotonic()))


def lower_priority() -> None:
    """Lower this process's priority, so that it takes no core from the processes it reads."""
    with contextlib.suppress(OSError):  # a container may forbid it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.nice(5)
