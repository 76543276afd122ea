"""One open run: its replay, its samples until the end, and its output in one state."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tui.allocators.messages import Seen, pids_of
from tui.core.text import numbers as text
from tui.devices.session.shared_watch import SharedWatch
from tui.monitor.messages import Sample
from tui.watch.runs import samples, start
from tui.watch.runs.failures import first_failure
from tui.watch.runs.rehearsals import RehearsalNote, read_note
from tui.watch.runs.run_summary import describe_oom_kills
from tui.watch.runs.runs import StartedRun
from tui.watch.session.followed_file import FollowedFile
from tui.watch.session.run_folder import RunFolder, RunReading
from tui.watch.session.sampler import SAMPLE_S, Sampler
from tui.watch.state.processes import RunProcesses
from tui.watch.state.run import WatchedDevice, WatchedRun

VISIBLE_S = 0.1
"""Seconds between two samples, and two readings of the output, while the page is visible."""
END_S = 2.0
"""Seconds to wait for the program that started the run: only it writes down how the run ended."""
_READING = "its samples are being read"


class FollowedRun:
    """The state of one run, built from its folder, its samples and its output.

    Args:
        run: the run to follow.
        changed: called when something must be redrawn.
        watch: reads the run's processes while it is followed.
        starter: whether this program has just started the run.
    """

    def __init__(
        self,
        run: StartedRun,
        changed: Callable[[], None],
        watch: SharedWatch,
        *,
        starter: bool,
    ) -> None:
        self.run = run
        self.processes = RunProcesses()
        self.sampler: Sampler | None = None
        self._starter = starter
        self._changed = changed
        self._watch = watch
        self._output = FollowedFile(run.log)
        self._reading: RunReading | None = None
        self._why_no_samples = "" if starter else _READING
        self._notes: list[str] = []
        self._over = False
        self._replayed = False
        self._pace = SAMPLE_S
        self._sample: Sample | None = None
        self._state: WatchedRun | None = None
        self._frozen: tuple[float, tuple[WatchedDevice, ...]] | None = None
        self._rehearsal: RehearsalNote | None = None

    # ---- life ----

    async def follow(self) -> None:
        """Read the run's samples and follow it to its end; cancel this when the run is left."""
        try:
            if not self._starter:
                await self._replay()
            self._rehearsal = read_note(self.run.folder)
            self.processes.simulated = self._rehearsal is not None
            if self.run.is_running:
                await self._follow()
            else:
                await self._read_once()
            await self._await_verdict()
        except Exception as error:
            # This error is our own: the page shows it, and the run is not affected.
            self._why_no_samples = f"watching failed: {type(error).__name__}: {error}"
            self._announce()
            raise

    async def _replay(self) -> None:
        processes = RunProcesses()
        self._output.read()
        is_left = threading.Event()
        try:
            done = await asyncio.to_thread(
                samples.read, self.run, processes.apply, lambda: not is_left.is_set()
            )
        except asyncio.CancelledError:
            is_left.set()  # at exit, the program waits for its threads
            raise
        except OSError as error:
            self._notes.append(f"its samples cannot be read: {error.strerror}")
        else:
            if done.unreadable:
                lines = text.count(done.unreadable, "line")
                self._notes.append(f"{lines} of samples.jsonl cannot be read and are left out")
            if done.left_out:
                size = text.size(done.left_out)
                self._notes.append(f"the first {size} of samples.jsonl are left out")
        self.processes = processes
        self._why_no_samples = ""
        self._announce()

    async def _read_once(self) -> None:
        """Read a run once that has ended or cannot be reached."""
        if self.run.ended is None and start.is_child(self.run):
            await self._find_end()  # the run ended before this program read it
        self._over = self.run.is_of_this_machine
        if not self._over:
            self._why_no_samples = (
                f"stored samples only: the run is on {self.run.host}; open it there to follow it"
            )
        await self._finish(replayed=True)

    async def _follow(self) -> None:
        self.sampler = sampler = Sampler(
            self.run,
            self._apply,
            self._watch,
            starter=self._starter,
            on_status=self._announce,
        )
        sampler.set_pace(self._pace)
        if self._sample is not None:
            self.apply_devices(self._sample)
        sampling = asyncio.create_task(sampler.run())
        try:
            while not sampling.done() and self._is_running():
                if self._output.read():
                    self._announce()
                await asyncio.sleep(self._pace)
        finally:
            sampling.cancel()
            # An exception of the task itself is an error of our own.
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
        await self._find_end()
        self._over = True
        self.processes.end()
        await self._finish()

    def _is_running(self) -> bool:
        if start.is_child(self.run):
            return not start.is_over(self.run)
        return self.run.is_running

    async def _await_verdict(self) -> None:
        """Wait for the verdict on a rehearsal, which comes after its run's end."""
        while True:
            # In this order: a process that has ended has written the verdict before.
            in_progress = self._rehearsal is not None and self._rehearsal.is_in_progress
            note = read_note(self.run.folder)
            if note != self._rehearsal:
                self._rehearsal = note
                self._announce()
            elif not in_progress:
                return
            else:
                await asyncio.sleep(SAMPLE_S)

    async def _find_end(self) -> None:
        """Find the recorded end of the run."""
        deadline = asyncio.get_running_loop().time() + END_S
        while asyncio.get_running_loop().time() < deadline:
            self.run = start.with_end(self.run)
            if self.run.ended is not None:
                return
            await asyncio.sleep(VISIBLE_S)

    async def _finish(self, *, replayed: bool = False) -> None:
        """Read the folder one last time; a replay ends when everything is read."""
        folder = RunFolder(self.run.folder)
        reading = await asyncio.to_thread(folder.read, time.time(), ())
        self._replayed = replayed
        self._apply(reading)
        self._output.read()
        self._announce()

    # ---- incoming data ----

    def _apply(self, event: Seen | RunReading) -> None:
        if isinstance(event, RunReading):
            self._reading = event
            self.processes.apply_agents(event.states)
            self.processes.apply_logs(event.logs, event.troubles)
            for identity, refused in event.refused:
                self._notes.append(
                    f"{identity} did not accept the request ({refused}): it has ended"
                )
        else:
            self.processes.apply(event)
        self._announce()

    def apply_devices(self, sample: Sample) -> None:
        """Take over NVML's newest sample."""
        self._sample = sample
        if self.sampler is None or self._over:
            return
        placed = self.processes.apply_sample(sample)
        self.sampler.set_listed(pids_of(sample.devices))
        if placed is not None:
            self.sampler.store(placed)
            self._announce()

    def set_visible(self, visible: bool) -> None:
        """Set whether the page is visible."""
        self._pace = VISIBLE_S if visible else SAMPLE_S
        if self.sampler is not None:
            self.sampler.set_pace(self._pace)

    def freeze(self, frozen: bool) -> None:
        """Freeze the figures, or let them follow the run again."""
        if frozen != (self._frozen is not None):
            self._frozen = (time.time(), _frozen(self.state().devices)) if frozen else None
            self._announce()

    def _announce(self) -> None:
        self._state = None
        self._changed()

    # ---- the state ----

    @property
    def over(self) -> bool:
        """True if the run has ended."""
        return self._over

    def state(self) -> WatchedRun:
        """Return the current state; the same object until it changes."""
        if self._state is None:
            self._state = self._build_state()
        return self._state

    def _build_state(self) -> WatchedRun:
        at, devices = self._frozen or (None, None)
        why = self._why_no_samples
        if self.sampler is not None and not self._over:
            why = why or self.sampler.why_no_samples
        return WatchedRun(
            run=self.run,
            devices=self.processes.devices(over=self._over) if devices is None else devices,
            output=self._output.lines,
            replayed=self._replayed,
            over=self._over,
            frozen_at=at,
            why_no_samples=why,
            snapshots=self._reading.snapshots if self._reading else (),
            rehearsal=self._rehearsal,
            notes=self._collect_notes(),
        )

    def _collect_notes(self) -> tuple[str, ...]:
        failed = first_failure(self.processes.completed_logs(), self.run.command)
        notes = [words for words in (failed, describe_oom_kills(self.run)) if words]
        notes += self._notes
        if self._output.problem:
            notes.append(self._output.problem)
        elif why := start.log_problem(self.run):
            notes.append(f"its output cannot be stored: {why}; the run continues without it")
        elif not self._output.lines and not self.run.log.exists():
            notes.append("its output went to where it was started: --here and --env store none")
        if not self.run.folder.exists():
            notes.append(f"{self.run.folder} is gone: nothing more of the run is stored")
        elif self.sampler is not None and self.sampler.file.problem:
            notes.append(self.sampler.file.problem)
        for log in self.processes.logs:
            notes += [f"the agent of {log.pid} could not {trouble}" for trouble in log.troubles]
        if self.run.problem:
            notes.append(self.run.problem)
        if self._reading is not None:
            notes += self._reading.skipped
            notes += [f"no agent in process {trouble}" for trouble in self._reading.troubles]
        return tuple(dict.fromkeys(notes))


def _frozen(devices: Sequence[WatchedDevice]) -> tuple[WatchedDevice, ...]:
    """Return the devices with copies of their allocators, which later readings do not change."""
    return tuple(
        device if device.allocator is None else replace(device, allocator=device.allocator.copy())
        for device in devices
    )
