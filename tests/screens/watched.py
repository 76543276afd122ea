"""A handmade run under the watch, as its session would report it, and a scripted session."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.screens.helpers import GIB, MIB, NOW, STRANGER, gpu
from tests.screens.watching import figures, torch_process
from tui.allocators.agents import AgentState
from tui.allocators.growth import GrowthRate
from tui.allocators.messages import (
    CPU_BUILD,
    DevicesPlaced,
    Placed,
    ProcessFigures,
    Seen,
    StepsCounted,
    TorchProcesses,
)
from tui.devices.state.resident_memory import ResidentMemory
from tui.devices.state.watched_processes import Allocator, StepPoint
from tui.monitor.messages import Sample
from tui.watch.runs.agents import RankStacks
from tui.watch.runs.ooms import FROM_EXCEPTION, Oom, rebuilt_text
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.runs import StartedRun
from tui.watch.session.command_start import CommandError
from tui.watch.session.rehearsal_start import RehearsalError, RehearsalRequest
from tui.watch.session.watched_session import RunError, WatchedRunSession
from tui.watch.state.processes import RunProcesses
from tui.watch.state.run import Mark, WatchedDevice, WatchedRun

FOLDER = Path("/home/ada/.local/state/gpu-workbench/runs")
COMMAND = ("torchrun", "--nproc-per-node", "2", "train.py", "--lr", "1e-3")
NO_AGENT = "no agent in it: its environment was emptied; start it with the variables of watch --env"
PIECE = 256 * MIB
"""Bytes by which the reserved memory grows."""


def kept_run(name: str = "20260101-120000-77", **changes: Any) -> StartedRun:
    """Return a run that began two minutes ago; ``end`` decides whether it continues."""
    values: dict[str, Any] = {
        "folder": FOLDER / name,
        "command": COMMAND,
        "cwd": "/home/ada",
        "began": NOW - 125,
        "pid": 4700,
        "start_ticks": 1,
        **changes,
    }
    return StartedRun(**values)


def points(count: int = 120) -> tuple[StepPoint, ...]:
    """Return growing waves over steps that end at 2 GiB in tensors and 3.5 GiB reserved.

    Args:
        count: number of points, one per second.
    """
    found, reserved = [], 0
    for number in range(count):
        left = count - 1 - number
        held = 2 * GIB - left * 12 * MIB + int(GIB * abs(math.sin(left / 3)))
        reserved = max(reserved, -(-held // PIECE) * PIECE + 2 * PIECE)
        found.append(StepPoint(NOW - count + number, number * 2, held, reserved))
    return tuple(found)


def agent(pid: int = STRANGER, **changes: Any) -> AgentState:
    values: dict[str, Any] = {
        "identity": f"box-{pid}-1",
        "pid": pid,
        "run": str(FOLDER / "20260101-120000-77"),
        "steps": 240,
        "ooms": 0,
        "snapshots": 0,
        "recording": False,
        "waiting": 0,
        **changes,
    }
    return AgentState(**values)


def process_log(pid: int = STRANGER, **changes: Any) -> ProcessLog:
    values: dict[str, Any] = {
        "identity": f"box-{pid}-1",
        "pid": pid,
        "host": "box",
        "rank": "0",
        "torch": "2.13.0",
        "began": NOW - 120,
        **changes,
    }
    return ProcessLog(**values)


def an_oom(**changes: Any) -> Oom:
    values: dict[str, Any] = {
        "number": 1,
        "at": NOW - 10,
        "step": 220,
        "device": 0,
        "request": 2 * GIB,
        "free": int(0.4 * GIB),
        "limit": int(139.8 * GIB),
        "allocated": 130 * GIB,
        "reserved": 138 * GIB,
        "thread": "main",
        "where": "train.py:41",
        "handled": False,
        "text_source": FROM_EXCEPTION,
        "snapshot": FOLDER / "20260101-120000-77" / "oom-1.pickle",
        **changes,
    }
    oom = Oom(**values)
    return replace(oom, text=oom.text or rebuilt_text(oom))


def device(pid: int = STRANGER, rank: int | None = 0, **changes: Any) -> WatchedDevice:
    """Return a healthy rank on the first GPU: 2 GiB in tensors, 1.5 GiB cached."""
    values: dict[str, Any] = {
        "process": torch_process(
            pid, rank=rank, world_size=2, launcher="torchrun", start=NOW - 125
        ),
        "device": "cuda:0",
        "figures": figures(pid),
        "placed": Placed(gpu().id, int(4.1 * GIB)),
        "points": points(),
        "marks": (
            Mark(NOW - 70, 98, "cache flush", "flushed its cache"),
            Mark(NOW - 40, 158, "snapshot", "asked for", taken(1)),
        ),
        "agent": agent(pid),
        "why_no_agent": "",
        "log": process_log(pid),
        "steps": 240,
        "steps_per_s": 1.987,
        "stalled_s": None,
        "growth": GrowthRate(6.1 * MIB, 5.9 * MIB, 6.3 * MIB, span=240),
        "growth_per": "step",
        "why_no_growth": "",
        "ended": "",
        **changes,
    }
    return with_allocator(WatchedDevice(**values))


def with_allocator(row: WatchedDevice) -> WatchedDevice:
    """Return a row with its allocator's newest figures."""
    if row.figures is None:
        return row
    allocator = Allocator(row.process, row.figures)
    allocator.apply(row.figures)
    allocator.place(row.placed)
    allocator.ended = row.ended
    return replace(row, allocator=allocator)


def taken(number: int) -> Path:
    """Return the path of a requested snapshot."""
    return FOLDER / "20260101-120000-77" / f"box-{STRANGER}-1-{number}.pickle"


def on_cpu(pid: int = STRANGER, *, seconds: int = 90, **changes: Any) -> WatchedDevice:
    """Return a process whose torch is built for the CPU and whose memory grows by 4 MiB/s."""
    memory = ResidentMemory()
    for number in range(2 * seconds):
        memory.apply(NOW - seconds + number / 2, 300 * MIB + number * 2 * MIB)
    trend = memory.trend(ended=False)
    process = torch_process(pid, start=NOW - seconds, reason=CPU_BUILD, word="cpu")
    values: dict[str, Any] = {
        "process": process,
        "host_rss": memory.resident,
        "host_points": tuple(memory.points),
        "host_peak": memory.peak,
        "host_growth": trend.growth,
        "findings": () if trend.finding is None else (trend.finding,),
        **changes,
    }
    return replace(unread(pid), **values)


def unread(pid: int = 5001, **changes: Any) -> WatchedDevice:
    """Return a rank without an agent that must not be read."""
    told = torch_process(
        pid,
        rank=1,
        start=NOW - 125,
        reason="Yama's ptrace_scope is 2",
        word="denied",
        advice="sudo it",
    )
    nothing = Placed(None, None, "it is not read", "it is not read")
    return device(
        pid,
        1,
        process=told,
        device="",
        figures=None,
        placed=nothing,
        points=(),
        marks=(),
        agent=None,
        why_no_agent=NO_AGENT,
        log=None,
        steps=None,
        steps_per_s=None,
        growth=None,
        why_no_growth="it is not read",
        **changes,
    )


def watched(*devices: WatchedDevice, **changes: Any) -> WatchedRun:
    """Return a run with these rows."""
    values: dict[str, Any] = {
        "run": kept_run(),
        "devices": devices,
        "output": tuple(f"step {step} loss {3 / step:.4f}" for step in range(181, 241)),
        "replayed": False,
        **changes,
    }
    return WatchedRun(**values)


def failing_output(last: int = 220) -> tuple[str, ...]:
    """Return the output of a training whose step ran out of memory."""
    return (
        *(f"step {step} loss {3 / step:.4f}" for step in range(last - 50, last + 1)),
        "Traceback (most recent call last):",
        '  File "/home/ada/train.py", line 58, in <module>',
        "    train(model, data, losses)",
        '  File "/home/ada/train.py", line 41, in train',
        "    hidden = hidden @ weight",
        f"torch.OutOfMemoryError: {an_oom().text}",
    )


def oom_points() -> tuple[StepPoint, ...]:
    """Return a leak of 256 MiB per step until :func:`an_oom`, read at any moment of a step."""
    oom, found, reserved = an_oom(), [], 0
    for left in reversed(range(oom.step // 2)):
        freed = int(8 * GIB * (1 - abs(math.cos(2.4 * left))))
        allocated = oom.allocated - 512 * MIB * left - freed
        high = oom.allocated - 512 * MIB * left + 4 * GIB
        reserved = max(reserved, min(-(-high // (12 * GIB)) * 12 * GIB, oom.reserved))
        found.append(StepPoint(oom.at - left, oom.step - 2 * left, allocated, reserved))
    return tuple(found)


def oom_samples() -> tuple[Seen, ...]:
    """Return the samples of two ranks: the first leaks, the second must not be read."""
    row, moments = device(), oom_points()
    events: list[Seen] = [TorchProcesses(moments[0].at, (row.process, unread().process))]
    for point in moments:
        told = figures(
            at=point.at,
            requested=point.allocated,
            allocated=point.allocated,
            active=point.allocated,
            allocated_peak=an_oom().allocated,
            reserved=point.reserved,
            reserved_peak=point.reserved,
        )
        events += [
            StepsCounted(point.at, {process_log().identity: point.step or 0}),
            ProcessFigures(point.at, (told,)),
        ]
    held = Placed(gpu().id, an_oom().reserved + int(0.6 * GIB))
    return *events, DevicesPlaced(moments[-1].at, {f"{STRANGER} cuda:0": held})


def ran_out() -> WatchedDevice:
    """Return the first rank, after its OOM."""
    oom = an_oom()
    log = process_log(ooms=(oom,), oom_count=1, ended=True, text=oom.text, kind="OutOfMemoryError")
    seen = RunProcesses()
    for event in oom_samples():
        seen.apply(event)
    seen.apply_logs((log,), ())
    found = next(row for row in seen.devices(over=True) if row.process.pid == STRANGER)
    # The cache flush and the requested snapshot of the running rank are earlier.
    return replace(found, marks=(*device().marks, *found.marks), steps_per_s=1.987)


class ScriptedRuns(WatchedRunSession):
    """Records its requests, and shows the state that a test sets."""

    def __init__(self, *runs: StartedRun, opens: WatchedRun | None = None) -> None:
        self.runs = list(runs)
        self.opens = opens
        self._shown: WatchedRun | None = None
        self.ranks: tuple[RankStacks, ...] = ()
        """The answer to a request for the ranks' stacks."""
        self.asked: list[tuple[object, ...]] = []
        self._changed: Callable[[], None] = lambda: None
        self._sample: Sample | None = None

    @property
    def state(self) -> WatchedRun | None:
        """The state that is shown."""
        return self._shown

    @state.setter
    def state(self, state: WatchedRun | None) -> None:
        self._shown = state

    def tell(self, state: WatchedRun | None) -> None:
        """Show another state."""
        self.state = state
        self._apply_sample()
        self._changed()

    def _apply_sample(self) -> None:
        for row in self.state.devices if self.state is not None else ():
            if row.allocator is not None and self._sample is not None:
                row.allocator.apply_sample(self._sample)

    def listen(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def stored_runs(self) -> list[StartedRun]:
        return self.runs

    def open(self, run: StartedRun) -> None:
        self.asked.append(("open", run.folder.name))
        if self.opens is None:
            raise RunError(f"{run.folder} is gone: choose another run")
        self.state = replace(self.opens, run=run)
        self._apply_sample()
        self._changed()

    async def start(self, command: str) -> StartedRun:
        self.asked.append(("start", command))
        if "no-such" in command:
            raise CommandError("no-such: no such program on PATH")
        return self.runs[0]

    async def rehearse(self, request: RehearsalRequest) -> StartedRun:
        self.asked.append(("rehearse", request))
        if "no-such" in request.command:
            raise RehearsalError("no-such: no such program; give its path")
        return self.runs[0]

    def close(self) -> None:
        self.asked.append(("close",))
        self.state = None

    async def stop(self) -> None:
        self.asked.append(("stop",))

    def apply_devices(self, sample: Sample) -> None:
        self.asked.append(("devices", sample.at))
        self._sample = sample
        self._apply_sample()

    def set_visible(self, seen: bool) -> None:
        self.asked.append(("looked at", seen))

    def snapshot(self, pid: int) -> str:
        self.asked.append(("snapshot", pid))
        return f"{pid} was asked for a snapshot, which it takes at its next step"

    def record(self, pid: int, on: bool) -> str:
        self.asked.append(("record", pid, on))
        return f"{pid} was asked to record its history from its next step on"

    async def stacks(self) -> tuple[tuple[RankStacks, ...], str]:
        self.asked.append(("stacks",))
        return self.ranks, "" if self.ranks else "no process is running"

    def end(self, number: signal.Signals) -> str:
        self.asked.append(("end", number))
        return f"{number.name} sent to process group 4700"

    def freeze(self, wanted: bool) -> None:
        self.asked.append(("freeze", wanted))
        if self.state is not None:
            self.tell(replace(self.state, frozen_at=NOW if wanted else None))


def asked_for(found: ScriptedRuns, what: str) -> Sequence[tuple[object, ...]]:
    """Return a session's requests of one kind."""
    return [each for each in found.asked if each[0] == what]
