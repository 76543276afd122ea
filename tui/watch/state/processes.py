"""The processes of a run, live or from its samples, as facts for its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tui.allocators.agents import AgentState, pid_of
from tui.allocators.findings import NEVER_KNOWN, NO_GROWTH
from tui.allocators.messages import (
    NO_TORCH,
    DevicesPlaced,
    Placed,
    StepsCounted,
    undescribed,
)
from tui.core.text import numbers as text
from tui.core.text.commands import OWN_RUNNER
from tui.devices.state.watched_processes import (
    UNPLACED,
    Allocator,
    TorchProcessState,
    Trend,
    WatchedProcesses,
    parse_pid,
    rows_by_device,
)
from tui.monitor.messages import Device, GpuProcess, Sample
from tui.snapshots.explain.evidence import Holder
from tui.watch.runs.ooms import Oom, describe_outcome
from tui.watch.runs.process_logs import ProcessLog, joined
from tui.watch.state.run import GpuOccupancy, Mark, WatchedDevice, find_ooms, full_gpu

BEFORE_IT_WAS_SEEN = "it ended before it was seen"
REHEARSED = "rehearsed without a GPU"
KILLED = "was killed, or left by os._exit"
NOT_LISTED = "the card is simulated, and NVML lists none of its processes"
SIMULATED = Placed(None, None, NOT_LISTED, NOT_LISTED)


def find_occupancy(devices: Sequence[Device]) -> dict[str, GpuOccupancy]:
    """Return who uses each device, by NVML's id."""
    rows = rows_by_device(devices)
    return {
        device.id: GpuOccupancy(
            device.memory.total, device.memory.free, holders_of(rows[device.id])
        )
        for device in devices
    }


class RunProcesses(WatchedProcesses):
    """All processes of a run since its first sample, with their agents' reports."""

    def __init__(self) -> None:
        super().__init__(retains=True)
        self.simulated = False
        """The run's devices are simulated, and no GPU of this machine belongs to it."""
        self.logs: tuple[ProcessLog, ...] = ()
        self.gpus: dict[str, GpuOccupancy] = {}
        """GPUs by NVML's id, each at its last sample with a process on it."""
        self.host_available: int | None = None
        """Available bytes of the host's memory at the last sample; ``None`` before it."""
        self._known: dict[int, Holder] = {}
        """Processes by pid."""
        self._agents: dict[int, AgentState] = {}
        self._troubles: tuple[str, ...] = ()

    # ---- events ----

    def apply(self, event: object) -> bool:
        """Apply a live or recorded event of the watch, the agents or the monitor."""
        if isinstance(event, StepsCounted):
            for identity, steps in event.steps.items():
                process = self._find_reported(pid_of(identity))
                if process is not None:
                    process.apply_steps(event.at, steps, identity)
        elif isinstance(event, DevicesPlaced):
            for name, placed in event.placed.items():
                pid, _, device = name.partition(" ")
                placed_process = self._newest.get(parse_pid(pid))
                if placed_process is not None and device in placed_process.devices:
                    placed_process.devices[device].placed = placed
        else:
            return super().apply(event)
        return True

    def apply_sample(self, sample: Sample) -> DevicesPlaced | None:
        self.host_available = sample.host.memory.available
        if self.simulated:
            return super().apply_sample(replace(sample, devices=()))
        self._apply_occupancy(sample.devices)
        return super().apply_sample(sample)

    def _find_places(
        self, process: TorchProcessState, devices: Sequence[Device]
    ) -> dict[str, Placed]:
        if self.simulated:
            return {figure.device: SIMULATED for figure in process.figures}
        return super()._find_places(process, devices)

    def end(self) -> None:
        """Mark all processes as ended, with the run."""
        for process in self.seen.values():
            process.end("the process has ended")

    def _apply_occupancy(self, devices: Sequence[Device]) -> None:
        for identity, occupancy in find_occupancy(devices).items():
            if occupancy.holders or identity not in self.gpus:
                self.gpus[identity] = occupancy
        for device in devices:
            holders = holders_of(device.processes or ())
            self._known.update((holder.pid, holder) for holder in holders)

    @property
    def listed_holders(self) -> tuple[Holder, ...]:
        """All processes that NVML has listed while the run was watched."""
        return tuple(self._known.values())

    def apply_agents(self, states: Iterable[AgentState]) -> None:
        """Apply the states of all agents that answer."""
        self._agents = {state.pid: state for state in states}

    def apply_logs(self, logs: Sequence[ProcessLog], troubles: Sequence[str]) -> None:
        """Apply the logs of the agents, and the reasons for missing agents."""
        self.logs = tuple(logs)
        self._troubles = tuple(troubles)

    # ---- queries ----

    def completed_logs(self) -> list[ProcessLog]:
        """Return the log of each agent, completed by the last known steps of killed ones."""
        completed = []
        for log in self.logs:
            process = self._find_writer(log)
            steps = log.steps
            if steps is None and process is not None:
                steps = process.steps_of.get(log.identity)
            completed.append(replace(log, steps=steps))
        return completed

    def agent(self, pid: int) -> AgentState | None:
        """Return the agent of a process that answers."""
        return self._agents.get(pid)

    def devices(self, *, over: bool) -> tuple[WatchedDevice, ...]:
        """Return the devices to show, by rank, pid and device.

        Args:
            over: the run has ended, and with it all its processes.
        """
        programs: dict[int, list[ProcessLog]] = {}
        for log in self.logs:
            writer = self._find_writer(log)
            if writer is not None:
                programs.setdefault(id(writer), []).append(log)
        joined_logs = {number: joined(program) for number, program in programs.items()}
        devices: list[WatchedDevice] = []
        ended: list[TorchProcessState] = []
        """Ended processes that have used no GPU."""
        for process in self.seen.values():
            own = joined_logs.get(id(process))
            gone = over or process.gone or process is not self._newest.get(process.description.pid)
            if gone and not process.devices and own is None:
                ended.append(process)  # such as a loader's worker, or a shell
                continue
            devices += self._devices_of(process, own, gone)
        for log in self.logs:
            if self._find_writer(log) is None:
                devices += self._devices_of(_make_unseen(log), log, over or log.ended)
        if not devices:
            for process in _select_programs(ended):
                devices += self._devices_of(process, None, gone=True)
        # If no process qualifies, show the shell or the launcher that the user started.
        of_use = [device for device in devices if device.process.reason != NO_TORCH]
        return tuple(sorted(of_use or devices, key=_sort_key))

    def _find_writer(self, log: ProcessLog) -> TorchProcessState | None:
        """Return the process whose agent wrote this log."""
        for process in reversed(self.seen.values()):
            start = process.description.start
            if process.description.pid == log.pid and (start is None or start <= log.began + 2.0):
                return process
        return None

    def _devices_of(
        self, process: TorchProcessState, log: ProcessLog | None, gone: bool
    ) -> list[WatchedDevice]:
        pid = process.description.pid
        agent = None if gone else self._agents.get(pid)
        ended = _describe_end(log, gone)
        ran_out = {f"cuda:{oom.device}" for oom in log.ooms} if log else set()
        names = sorted({*process.devices, *process.silent, *ran_out}) or [""]
        steps = process.steps
        if log is not None and log.steps is not None:
            steps = max(log.steps, steps or 0)
        host = process.host.trend(ended=gone)
        devices = []
        for name in names:
            seen = process.devices.get(name)
            description = process.description
            if seen is None and name and not description.reason:
                description = replace(
                    description, reason=process.silent.get(name, "no figures of it were read")
                )
            too_short = NEVER_KNOWN if ended else NO_GROWTH
            trend = seen.trend(ended=gone) if seen else Trend(0.0, None, "s", ())
            devices.append(
                WatchedDevice(
                    process=description,
                    device=name,
                    figures=seen.figures if seen and name not in process.silent else None,
                    placed=seen.placed if seen else UNPLACED,
                    points=tuple(seen.points) if seen else (),
                    marks=_collect_marks(name, seen, log, gone),
                    agent=agent,
                    why_no_agent="" if agent else self._why_no_agent(process, log, gone),
                    log=log,
                    steps=steps,
                    steps_per_s=process.steps_per_s if agent is not None else None,
                    stalled_s=process.stalled_s if agent is not None and not ended else None,
                    growth=trend.growth,
                    growth_per=trend.growth_per,
                    why_no_growth="" if trend.growth else too_short if seen else description.reason,
                    ended=ended,
                    at_oom=_oom_that_ended(log, name) if ended else None,
                    findings=(*trend.findings, *([host.finding] if host.finding else [])),
                    holders=holders_of(seen.neighbours) if seen else (),
                    gpu=self.gpus.get(seen.placed.id or "") if seen else None,
                    full_gpu=full_gpu(self.gpus.values()),
                    host_rss=process.host.resident,
                    host_points=tuple(process.host.points),
                    host_peak=process.host.peak,
                    host_growth=host.growth,
                    host_available=self.host_available,
                    allocator=seen,
                )
            )
        return devices

    def _why_no_agent(self, process: TorchProcessState, log: ProcessLog | None, gone: bool) -> str:
        """Explain a missing agent in a short sentence with advice."""
        pid = process.description.pid
        if gone:
            return "the process has ended"
        if log is not None:
            return (
                "its agent does not answer yet: the process holds the interpreter, as in an "
                "import, or its sockets are elsewhere; start gpu-workbench with the same "
                "XDG_RUNTIME_DIR"
            )
        for trouble in self._troubles:
            number, _, why = trouble.partition(": ")
            if number == str(pid):
                return f"the agent could not start: {why}"
        if process.devices:
            return (
                "no agent: its environment was not passed on (python -I or -E, env -i, sudo, "
                "docker run without -e); pass on PYTHONPATH and GPU_WORKBENCH_RUN"
            )
        return "no agent yet: the first CUDA call starts it"


def _sort_key(row: WatchedDevice) -> tuple[bool, int, int, str]:
    rank = row.process.rank
    return rank is None, rank or 0, row.process.pid, row.device


def _select_programs(ended: Sequence[TorchProcessState]) -> list[TorchProcessState]:
    """Return the ended processes that have loaded torch, without the workers of others."""
    programs = {
        process.description.pid: process
        for process in ended
        if process.description.torch is not None and process.host.points
    }
    return [process for process in programs.values() if process.description.parent not in programs]


def _describe_end(log: ProcessLog | None, gone: bool) -> str:
    if log is not None and log.ended:
        return f"ended by {log.kind}" if log.kind else "ended"
    if not gone:
        return ""
    # The last lines of a process that ran when its log was read are still to be read.
    return KILLED if log is not None and not log.running else "ended"


def _collect_marks(
    device: str, seen: Allocator | None, log: ProcessLog | None, gone: bool
) -> tuple[Mark, ...]:
    marks = [
        Mark(
            flush.at,
            flush.step,
            "cache flush",
            f"the allocator flushed its cache {text.count(flush.count, 'time')}",
        )
        for flush in (seen.flushes if seen else ())
    ]
    if log is not None:
        marks += [
            Mark(
                snapshot.at,
                snapshot.step,
                "snapshot",
                f"a snapshot: {snapshot.path.name}",
                snapshot.path,
            )
            for snapshot in log.snapshots
        ]
        marks += [
            Mark(oom.at, oom.step, "OOM", _describe_oom(oom, gone or log.ended), oom.snapshot)
            for oom in find_ooms(log, device)
        ]
    return tuple(sorted(marks, key=lambda mark: mark.at))


def _oom_that_ended(log: ProcessLog | None, device: str) -> Oom | None:
    """Return the last OOM of a device, unless the program continued after it."""
    ooms = find_ooms(log, device)
    return ooms[-1] if ooms and not ooms[-1].handled else None


def _describe_oom(oom: Oom, gone: bool) -> str:
    where = f" at {oom.where}" if oom.where else ""
    if oom.request is None or oom.free is None:
        sizes = f"the driver had no memory left{where}"
    else:
        sizes = f"{text.size(oom.request)} requested{where}, {text.size(oom.free)} free"
    if oom.handled is None and not gone:
        return f"{sizes}; unknown whether the program continues"
    return f"{sizes}; {describe_outcome(oom)}"


def _make_unseen(log: ProcessLog) -> TorchProcessState:
    """Return a process that is known only from its agent's log."""
    reason = BEFORE_IT_WAS_SEEN if log.ended else "it was not seen yet"
    if log.rehearsed is not None:
        reason = REHEARSED
    description = undescribed(log.pid, reason)
    return TorchProcessState(replace(description, rank=log.rank_number, torch=log.torch))


def holders_of(rows: Iterable[GpuProcess]) -> tuple[Holder, ...]:
    """Return the memory of processes that NVML lists on a GPU."""
    return tuple(
        Holder(row.pid, row.memory or 0, "", f"({OWN_RUNNER})")
        if row.ours
        else Holder(row.pid, row.memory or 0, row.user or "", row.command or "")
        for row in rows
    )
