"""One run while it is open: replayed, followed to its end, its output, put together."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tui.core.text import numbers as text
from tui.core.text.glyphs import clean
from tui.devices.allocators.messages import Seen, pids_of
from tui.devices.monitor.messages import Sample
from tui.watch.runs import runs, samples, start
from tui.watch.runs.first_failure import first_failure
from tui.watch.runs.runs import StartedRun
from tui.watch.runs.untrusted import open_regular
from tui.watch.session.sampler import SAMPLE_S, Looked, RunFolder, Sampler
from tui.watch.state.processes import RunProcesses
from tui.watch.state.run import WatchedDevice, WatchedRun

MOST_LINES = 5000
"""Of its output, the last."""
MOST_CHARACTERS = 4000
"""Of a line."""
FIRST_BYTES = 1 << 20
"""Of what was written before the first look."""
MOST_BYTES = 1 << 20
"""That are read at one look; of more, the end is."""
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
"""Colours, movements, titles: ECMA-48, 5.4 and 8.3.89."""


class FollowedFile:
    """Follows a file to which others append.

    Args:
        path: the file, which may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.problem = ""
        """Why it cannot be read; empty where it can, or is not there."""
        self._path = path
        self._place: int | None = None
        """Where reading goes on."""
        self._whole: deque[str] = deque(maxlen=MOST_LINES)
        self._rest = ""
        self._begin()

    def _begin(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines, and what was written of the next."""
        rest = shown(self._rest)
        return (*self._whole, rest) if rest else tuple(self._whole)

    def read(self) -> bool:
        """Read what has been added; returns whether anything was."""
        try:
            with open_regular(self._path) as file:
                size = os.fstat(file.fileno()).st_size
                if self._place is None:
                    self._place = max(0, size - FIRST_BYTES)
                    file.seek(self._place)
                    if self._place:
                        self._skip_line(file.read(FIRST_BYTES))
                        return True
                elif size < self._place:  # somebody has emptied it
                    self._place = 0
                    self._begin()
                elif size - self._place > MOST_BYTES:
                    left_out = size - MOST_BYTES - self._place
                    self._place = size - MOST_BYTES
                    self._begin()
                    said = f"[{text.size(left_out)} more, too fast to be shown, are in the file]"
                    self._whole.append(said)
                file.seek(self._place)
                data = file.read(MOST_BYTES)
        except FileNotFoundError:
            return False
        except OSError as error:
            changed = not self.problem
            self.problem = f"its output cannot be read: {error.strerror}"
            return changed
        self.problem = ""
        self._place += len(data)
        self._take(data)
        return bool(data)

    def _skip_line(self, data: bytes) -> None:
        """Begin in the middle of the file, with a whole line."""
        assert self._place is not None
        self._place += len(data)
        self._take(data[data.find(b"\n") + 1 :])

    def _take(self, data: bytes) -> None:
        *lines, rest = (self._rest + self._decoder.decode(data)).split("\n")
        self._whole.extend(shown(line) for line in lines[-MOST_LINES:])
        # A bar of progress is one line that is written over and over.
        self._rest = rest[-2 * MOST_CHARACTERS :]


def shown(line: str) -> str:
    """Return a line as a terminal would leave it, without overwritten text."""
    line = line.rstrip("\r").rpartition("\r")[2]
    line = _ESCAPE.sub("", line[: 4 * MOST_CHARACTERS]).expandtabs()
    return clean(line[:MOST_CHARACTERS])


SEEN_S = 0.1
"""Between two samples, and two looks at the output, while the page is on the screen."""
END_S = 2.0
"""That whoever has started a run is waited for: it alone writes down how it has ended."""
_READING = "its samples are being read"


class FollowedRun:
    """What is known of one run.

    Args:
        run: which one.
        changed: called when something is to be drawn anew.
        starter: this program has just started it.
        clock: Unix time now.
    """

    def __init__(
        self,
        run: StartedRun,
        changed: Callable[[], None],
        *,
        starter: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.run = run
        self.processes = RunProcesses()
        self.sampler: Sampler | None = None
        self._starter = starter
        self._changed = changed
        self._clock = clock
        self._output = FollowedFile(run.log)
        self._looked: Looked | None = None
        self._why_no_samples = "" if starter else _READING
        self._notes: list[str] = []
        self._over = False
        self._replayed = False
        self._pace = SAMPLE_S
        self._sample: Sample | None = None
        self._state: WatchedRun | None = None
        self._frozen: tuple[float, tuple[WatchedDevice, ...]] | None = None

    # ---- life ----

    async def live(self) -> None:
        """Read what was seen of it, follow it to its end; to be cancelled when it is left."""
        try:
            if not self._starter:
                await self._replay()
            if self.run.goes_on:
                await self._follow()
            else:
                await self._read_once()
        except Exception as error:
            # An error of our own: the page says so, and the run does not notice.
            self._why_no_samples = f"watching failed: {type(error).__name__}: {error}"
            self._tell()
            raise

    async def _replay(self) -> None:
        processes = RunProcesses()
        self._output.read()
        left = threading.Event()
        try:
            done = await asyncio.to_thread(
                samples.read, self.run, processes.apply, lambda: not left.is_set()
            )
        except asyncio.CancelledError:
            left.set()  # the end of the program waits for its threads
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
        self._tell()

    async def _read_once(self) -> None:
        """Read a run that has ended, or is out of reach, once."""
        if self.run.ended is None and start.is_child(self.run):
            await self._learn_end()  # it has ended before it was looked at
        self._over = self.run.is_of_this_machine
        if not self._over:
            self._why_no_samples = (
                f"it is a run of {self.run.host}: what was kept of it is shown; open it there to "
                "see what it does"
            )
        await self._finish(replayed=True)

    async def _follow(self) -> None:
        self.sampler = sampler = Sampler(
            self.run, self._take, starter=self._starter, told=self._tell, clock=self._clock
        )
        sampler.watch.set_pace(self._pace)
        if self._sample is not None:
            self.apply_devices(self._sample)
        sampling = asyncio.create_task(sampler.work())
        try:
            while not sampling.done() and self._goes_on():
                if self._output.read():
                    self._tell()
                await asyncio.sleep(self._pace)
        finally:
            sampling.cancel()
            # What it raises by itself is an error of our own.
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
        await self._learn_end()
        self._over = True
        self.processes.end()
        await self._finish()

    def _goes_on(self) -> bool:
        if start.is_child(self.run):
            return not start.is_over(self.run)
        return self.run.goes_on

    async def _learn_end(self) -> None:
        """How it has ended, as far as anybody has seen."""
        deadline = asyncio.get_running_loop().time() + END_S
        while asyncio.get_running_loop().time() < deadline:
            self.run = start.with_end(self.run)
            if self.run.ended is not None:
                return
            await asyncio.sleep(SEEN_S)

    async def _finish(self, *, replayed: bool = False) -> None:
        """Read the folder a last time; a replay ends when all of it is read."""
        folder = RunFolder(self.run.folder)
        looked = await asyncio.to_thread(folder.look, self._clock(), ())
        self._replayed = replayed
        self._take(looked)
        self._output.read()
        self._tell()

    # ---- what comes ----

    def _take(self, event: Seen | Looked) -> None:
        if isinstance(event, Looked):
            self._looked = event
            self.processes.apply_agents(event.states)
            self.processes.apply_logs(event.left, event.troubles)
            for identity, what in event.refused:
                self._notes.append(f"{identity} did not take the request ({what}): it has gone")
        else:
            self.processes.apply(event)
        self._tell()

    def apply_devices(self, sample: Sample) -> None:
        """NVML's newest."""
        self._sample = sample
        if self.sampler is None or self._over:
            return
        placed = self.processes.apply_sample(sample)
        self.sampler.watch.set_listed(pids_of(sample.devices))
        if placed is not None:
            self.sampler.keep(placed)
            self._tell()

    def set_seen(self, seen: bool) -> None:
        """Return whether the page is on the screen."""
        self._pace = SEEN_S if seen else SAMPLE_S
        if self.sampler is not None:
            self.sampler.watch.set_pace(self._pace)

    def freeze(self, wanted: bool) -> None:
        """Hold the figures still, or not."""
        if wanted != (self._frozen is not None):
            self._frozen = (self._clock(), _frozen(self.state().devices)) if wanted else None
            self._tell()

    def _tell(self) -> None:
        self._state = None
        self._changed()

    # ---- what is known ----

    @property
    def over(self) -> bool:
        """It has ended."""
        return self._over

    def state(self) -> WatchedRun:
        """Return the present state; the same object until it changes."""
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
            snapshots=self._looked.snapshots if self._looked else (),
            notes=self._collect_notes(),
        )

    def _collect_notes(self) -> tuple[str, ...]:
        failed = first_failure(self.processes.completed_left(), self.run.command)
        notes = [words for words in (failed, runs.oom_killer_words(self.run)) if words]
        notes += self._notes
        if self._output.problem:
            notes.append(self._output.problem)
        elif why := start.log_problem(self.run):
            notes.append(f"its output cannot be stored: {why}; the run goes on without")
        elif not self._output.lines and not self.run.log.exists():
            notes.append("its output went to where it was started: --here and --env keep none")
        if not self.run.folder.exists():
            notes.append(f"{self.run.folder} is gone: nothing more is kept of it")
        elif self.sampler is not None and self.sampler.file.problem:
            notes.append(self.sampler.file.problem)
        for left in self.processes.left:
            notes += [f"the agent of {left.pid} could not {each}" for each in left.troubles]
        if self.run.problem:
            notes.append(self.run.problem)
        if self._looked is not None:
            notes += self._looked.skipped
            notes += [f"no agent in process {trouble}" for trouble in self._looked.troubles]
        return tuple(dict.fromkeys(notes))


def _frozen(devices: Sequence[WatchedDevice]) -> tuple[WatchedDevice, ...]:
    """Return the devices with copies of their allocators, which later readings do not change."""
    return tuple(
        each if each.allocator is None else replace(each, allocator=each.allocator.copy())
        for each in devices
    )
