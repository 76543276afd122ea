"""A run of several ranks: started through torchrun, timed in lock-step, reported as one result.

A measurement uses its times to choose the number of calls in a block, and when to stop. Where each
call waits for the other ranks, different decisions would block for ever. So all ranks begin every
block together, and its times are the slowest rank's.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
import torch.distributed as dist

from workloads.declare import user_workloads
from workloads.measure.clocks import Clock, TimedBlock
from workloads.measure.timing import Cancelled, Control
from workloads.protocol.messages import Progress, Run
from workloads.protocol.results import Figure, RunResult
from workloads.ranks import torchrun
from workloads.ranks.torchrun import Order, Rank, RankLayout

CHECK_S = 0.05
"""Interval between two reports to the control."""
START_S = 60.0
"""Time for the ranks to import torch and to meet, beside the wait for other hosts."""
CANCEL_S = 0.4
"""Time for cancelled ranks to send their results."""
REPORTS_S = 3.0
"""Time after a rank's failure for the others and torchrun to report theirs."""
LEAVE_S = 10.0
"""Time for torchrun to end after every rank has finished."""
GONE_S = 5.0
"""Time for killed ranks to be gone: releasing the memory of a GPU takes a while."""
TAIL = 12
"""Last lines of a failing rank's output in the log."""


class TorchrunLaunch:
    """torchrun and the ranks of this host, from start to end.

    Args:
        request: the run, its parameters complete.
        planned: the run's layout.
    """

    def __init__(self, request: Run, planned: RankLayout) -> None:
        self._planned = planned
        order = Order(request, user_workloads.find_source(request.workload))
        self._folder = torchrun.create_folder(planned.ranks, order)
        self._hangup = torchrun.open_hangup_pipe(self._folder)
        self.ranks = [Rank(self._folder, index) for index in range(planned.ranks)]
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        added = torchrun.environment(planned, cores or 1)
        self.began = time.monotonic()
        self.start_s: float | None = None
        """Seconds until all ranks of this host had met the others."""
        with self._folder.torchrun_output.open("wb") as output:
            self.torchrun = subprocess.Popen(
                torchrun.command(planned),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Python searches its working folder for modules: none of ours are there.
                cwd=self._folder.path,
                env={**os.environ, **added, torchrun.VARIABLE: str(self._folder.path)},
            )

    @property
    def late(self) -> bool:
        """Return whether the ranks should have met by now."""
        timeout_s = START_S + (self._planned.wait_s if self._planned.hosts > 1 else 0)
        return self.start_s is None and time.monotonic() - self.began > timeout_s

    @property
    def over(self) -> bool:
        """Return whether no further event can change the result."""
        ended = self.torchrun.poll() is not None
        return ended or all(rank.finished is not None for rank in self.ranks)

    def listen(self, timeout_s: float) -> None:
        """Read the ranks' messages, waiting at most ``timeout_s`` seconds for the first."""
        open_ = [rank for rank in self.ranks if not rank.channel.ended]
        ready, _, _ = select.select([rank.channel.reading for rank in open_], [], [], timeout_s)
        for rank in open_:
            if rank.channel.reading in ready:
                rank.read()
        if not open_:
            time.sleep(timeout_s)
        if self.start_s is None and all(rank.joined for rank in self.ranks):
            self.start_s = time.monotonic() - self.began

    def listen_until(self, done: Callable[[], bool], timeout_s: float) -> None:
        """Listen until ``done`` returns true, at most ``timeout_s`` seconds."""
        deadline = time.monotonic() + timeout_s
        while not done() and time.monotonic() < deadline:
            self.listen(CHECK_S)

    def request_end(self) -> None:
        """Ask the ranks to end at their next meeting."""
        self._folder.cancel.touch()

    def output(self, local_rank: int | None = None) -> list[str]:
        """Return the output lines of torchrun or of a rank."""
        path = (
            self._folder.torchrun_output if local_rank is None else self._folder.output(local_rank)
        )
        try:
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def end(self) -> None:
        """End torchrun and every rank, and wait until they are gone."""
        os.close(self._hangup)
        if self.torchrun.poll() is None:
            self.torchrun.kill()
        self.torchrun.wait()
        for rank in self.ranks:
            rank.expect_end()
        self.listen_until(lambda: all(rank.channel.ended for rank in self.ranks), GONE_S)
        for rank in self.ranks:
            rank.close()
        shutil.rmtree(self._folder.path, ignore_errors=True)


def run(
    request: Run,
    control: Control,
    begun: RunResult,
    on_result: Callable[[RunResult], None],
) -> RunResult:
    """Run a workload in several ranks.

    Args:
        request: the run, its parameters complete.
        control: receives the progress; may end the run.
        begun: the result before anything has run.
        on_result: receives the result after the timing.

    Returns:
        The result of this host's first rank, or the reason for none.

    Raises:
        Skip: this host has too few GPUs.
        ParameterError: several hosts, and no meeting place.
        Cancelled: the run must end, and nothing was measured.
        OSError: torchrun does not start.
    """
    planned = torchrun.layout(request, *_gpus(request.device))
    begun = replace(begun, parameters=request.parameters)
    launch = TorchrunLaunch(request, planned)
    try:
        return _follow(launch, planned, control, begun, on_result)
    finally:
        launch.end()


def _gpus(device: str) -> tuple[str, int]:
    """Return the type of the device, and the number of GPUs for ranks."""
    kind = torch.device(device).type
    return kind, torch.cuda.device_count() if kind == "cuda" else 0


def _follow(
    launch: TorchrunLaunch,
    planned: RankLayout,
    control: Control,
    begun: RunResult,
    on_result: Callable[[RunResult], None],
) -> RunResult:
    first, last = launch.ranks[0], None
    while not launch.over and not launch.late and not any(rank.failed for rank in launch.ranks):
        launch.listen(CHECK_S)
        if first.measured is not None and first.measured is not last:
            last = first.measured
            on_result(_as_requested(last, begun, launch))
        try:
            _report(control, first.progress)
        except Cancelled:
            return _cancelled(launch, begun)
    if all(rank.finished and not rank.failed for rank in launch.ranks):
        assert first.finished is not None
        # Failed ranks of other hosts make torchrun fail here too, but our result is complete.
        launch.listen_until(lambda: launch.torchrun.poll() is not None, LEAVE_S)
        return _as_requested(first.finished, begun, launch)
    launch.listen_until(lambda: launch.torchrun.poll() is not None, REPORTS_S)
    launch.listen(0.0)
    return _failed(launch, planned, begun)


def _report(control: Control, latest: Progress | None) -> None:
    if latest is None:
        control.report("preparing")
        return
    control.report(
        latest.phase, latest.blocks, latest.estimate_s, latest.half_width, latest.remaining_s
    )


def _as_requested(result: RunResult, begun: RunResult, launch: TorchrunLaunch) -> RunResult:
    """Return a rank's result as the result of the requested run."""
    joined = [rank.joined for rank in launch.ranks if rank.joined is not None]
    devices = tuple(dict.fromkeys(result.device for result in joined))
    return replace(
        result,
        id=begun.id,
        device=begun.device,
        started_at=begun.started_at,
        figures={**result.figures, **_layout_figures(launch)},
        spans=tuple(replace(span, devices=devices) for span in result.spans),
        pids=tuple(result.pid for result in joined),
    )


def _layout_figures(launch: TorchrunLaunch) -> dict[str, Figure]:
    joined = launch.ranks[0].joined
    if joined is None or launch.start_s is None:
        return {}
    return {
        "ranks": Figure(float(joined.world), "", "processes that took part, on all hosts"),
        "backend": Figure(joined.backend, "", "of torch.distributed"),
        "threads_per_rank": Figure(
            float(joined.threads), "", "of torch: the cores are divided among this host's ranks"
        ),
        "launch_s": Figure(launch.start_s, "s", "torchrun, import of torch and rendezvous"),
    }


def _cancelled(launch: TorchrunLaunch, begun: RunResult) -> RunResult:
    """Return the measurements before the cancel, if the ranks can still send them."""
    first = launch.ranks[0]
    if launch.start_s is not None:
        launch.request_end()
        launch.listen_until(lambda: first.finished is not None, CANCEL_S)
    best = first.finished or first.measured
    if best is None:
        raise Cancelled
    reason = best.reason if best.status == "cancelled" else "its processes had to be ended"
    return replace(_as_requested(best, begun, launch), status="cancelled", reason=reason)


def _failed(launch: TorchrunLaunch, planned: RankLayout, begun: RunResult) -> RunResult:
    output = launch.output()
    if launch.start_s is None and not any(rank.failed for rank in launch.ranks):
        if launch.late:
            return replace(begun, reason=torchrun.explain_no_meeting(planned))
        if not torchrun.exits("\n".join(output)):
            reason, known = torchrun.explain_no_start(planned, "\n".join(output))
            return replace(begun, reason=reason, log=() if known else tuple(output[-TAIL:]))
    rank = _find_culprit(launch, output)
    tail = launch.output(rank.local_rank)[-TAIL:]
    name = f"rank {rank.joined.rank}" if rank.joined else f"local rank {rank.local_rank}"
    log = (f"last words of {name}:", *tail) if tail else ()
    measured = rank.finished or launch.ranks[0].measured
    base = _as_requested(measured, begun, launch) if measured else begun
    if rank.finished is not None and rank.failed:
        status, reason = rank.finished.status, rank.finished.reason or "it did not say why"
        # An unmet need concerns the host, not the rank.
        text = reason if status == "skipped" else f"{name}: {reason}"
    else:
        code = torchrun.exits("\n".join(output)).get(rank.local_rank)
        status, text = "failed", f"{name} died: {torchrun.describe_rank_exit(code)}"
    return replace(base, status=status, reason=text, log=(*base.log, *log))


def _find_culprit(launch: TorchrunLaunch, output: list[str]) -> Rank:
    """Return the rank that ended first; the others fail because it is missing.

    A rank without any message ended before those that could still report it as missing; torchrun
    sends SIGTERM and what follows it.
    """
    codes = torchrun.exits("\n".join(output))
    silent = [
        rank
        for rank in launch.ranks
        if rank.finished is None and codes.get(rank.local_rank, -15) != -15
    ]
    reporting = [rank for rank in launch.ranks if rank.failed and rank.finished]
    reporting.sort(key=lambda rank: (rank.finished and rank.finished.ended_at) or 0.0)
    return next(iter([*silent, *reporting]), launch.ranks[0])


class RankGroup:
    """The ranks of one run.

    Args:
        group: all ranks, over gloo; it carries only what they agree on here.
        must_end: returns whether this rank must end the run.
    """

    def __init__(self, group: dist.ProcessGroup, must_end: Callable[[], bool]) -> None:
        self._group = group
        self._must_end = must_end
        self.ended = False
        """Some rank had to end at the last meeting; the same on all."""

    def largest(self, values: Sequence[float]) -> list[float]:
        """Return the maximum of each value over the ranks, after waiting for all of them."""
        own = torch.tensor([float(self._must_end()), *values], dtype=torch.float64)
        dist.all_reduce(own, dist.ReduceOp.MAX, group=self._group)
        end, *largest = own.tolist()
        self.ended = self.ended or end > 0
        return largest

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.largest(())


class LockstepClock:
    """A clock whose blocks all ranks begin together; times are the slowest rank's."""

    def __init__(self, own: Clock, ranks: RankGroup) -> None:
        self._own = own
        self._ranks = ranks

    def synchronize(self) -> None:
        """Wait for this rank's own device."""
        self._own.synchronize()

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        """Time ``calls`` calls back to back."""
        self._own.synchronize()
        self._ranks.barrier()
        block = self._own.block(call, calls)
        device = 0.0 if block.device_s is None else block.device_s
        wall, device, enqueue = self._ranks.largest((block.wall_s, device, block.enqueue_s))
        device_s = None if block.device_s is None else device
        return replace(block, wall_s=wall, device_s=device_s, enqueue_s=enqueue)


_current: list[RankGroup] = []


def join_ranks(ranks: RankGroup) -> None:
    """Make this process a rank."""
    _current.append(ranks)


def own_ranks() -> RankGroup | None:
    """Return the ranks to which this process belongs; ``None`` in a worker."""
    return _current[-1] if _current else None
