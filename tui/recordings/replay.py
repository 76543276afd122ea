"""A session without children: recorded events change its states, at a chosen speed."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tui.core.events import LogLine, Topic
from tui.devices.state.machine import DeviceSelected
from tui.recordings import lines
from tui.recordings.lines import RecordedLine, Scene, decode_event, format_time
from tui.runs.state.state import WorkbenchState
from workloads.protocol import wire

SLOWEST, FASTEST = 1 / 8, 256.0
"""The speeds that the keys choose, in times real time."""
AT_ONCE = math.inf
"""The speed that never waits."""


class Playhead:
    """A position in a recording, in seconds from its beginning, which advances with time.

    Args:
        length: length of the recording, seconds.
        speed: multiple of real time; with :data:`AT_ONCE`, only :meth:`reached` moves it.
        now: seconds since any fixed moment.
    """

    def __init__(
        self, length: float, speed: float = 1.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._length = length
        self._now = now
        self._speed = speed
        self._position, self._since = 0.0, now()
        self.paused = False

    @property
    def speed(self) -> float:
        """Speed as a multiple of real time, while not paused."""
        return self._speed

    @property
    def position(self) -> float:
        """Seconds from the beginning, at most the recording's length."""
        if self.paused or self._speed == AT_ONCE:
            return self._position
        gone = (self._now() - self._since) * self._speed
        return min(self._length, self._position + gone)

    @property
    def ended(self) -> bool:
        return self.position >= self._length

    def until(self, at: float) -> float | None:
        """Return the real seconds until a position: 0 if reached, ``None`` while paused."""
        if self.paused:
            return None
        if self._speed == AT_ONCE:
            return 0.0
        return max(0.0, (at - self.position) / self._speed)

    def reached(self, at: float) -> None:
        """Record that the recording was played up to a position."""
        if self._speed == AT_ONCE:
            self._position = max(self._position, at)

    def pause(self, paused: bool) -> None:
        """Pause, or resume from here."""
        self._fix_position()
        self.paused = paused

    def set_speed(self, speed: float) -> None:
        """Change the speed from here on."""
        self._fix_position()
        self._speed = speed

    def faster(self) -> None:
        """Double the speed, up to :data:`FASTEST`."""
        self.set_speed(max(self._speed, min(FASTEST, self._speed * 2)))

    def slower(self) -> None:
        """Halve the speed, down to :data:`SLOWEST`."""
        self.set_speed(max(SLOWEST, min(FASTEST, self._speed / 2)))

    def rewind(self) -> None:
        """Go back to the beginning."""
        self._position, self._since = 0.0, self._now()

    def _fix_position(self) -> None:
        self._position, self._since = self.position, self._now()


def format_speed(speed: float) -> str:
    """Format a speed: ``2x``, ``1/4x`` or ``max``."""
    if speed == AT_ONCE:
        return "max"
    if speed < 1 and (1 / speed).is_integer():
        return f"1/{1 / speed:.0f}x"
    return f"{speed:g}x"


POSITION_EVERY_S = 1.0
"""Seconds between two updates of the position while the recording has no events."""
REDRAW_AFTER_S = 0.02
"""Most seconds of work before the screen can redraw."""


OUT_OF_MEMORY = "CUDA out of memory"
"""The beginning of torch's exception text."""


def find_out_of_memory(path: Path) -> str:
    """Return the exception of the first run of a recording that ran out of memory, or no text.

    A snapshot has only part of what the exception says.
    """
    for entry in lines.read_events(path):
        is_end = entry.speaker == "runner" and entry.message.get("type") == "finished"
        result = entry.message.get("result") if is_end else None
        reason = result.get("reason") if isinstance(result, dict) else None
        if isinstance(reason, str) and OUT_OF_MEMORY in reason:
            return reason
    return ""


class ReplaySession:
    """Plays a recording; has the interface of :class:`tui.runs.session.session.Session`.

    The only request that has an effect is the choice of a device. Every other request does nothing,
    because there are no children; the front end must report that.

    Args:
        summary: the recording.
        speed: multiple of real time; :data:`AT_ONCE` never waits.
        loop: restart at the end.
        now: seconds since any fixed moment.
    """

    def __init__(
        self,
        summary: lines.RecordingSummary,
        speed: float = 1.0,
        *,
        loop: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = WorkbenchState(simulated=summary.recording.simulated, clock=self.clock)
        self.playhead = Playhead(summary.seconds, speed, now)
        self._summary = summary
        self._loop = loop
        self._changed = asyncio.Event()
        self._again = False
        self._chosen: str | None = None
        """Key of the row that the user has selected."""
        self._is_chosen_due = False
        """The user's row is to be selected once the recording, played again, has it."""
        self._on_error: Callable[[BaseException], None] | None = None
        self._on_scene: Callable[[Scene], None] = lambda _scene: None
        self.caption = ""
        """The words of the present scene; empty without one."""
        self._task: asyncio.Task[None] | None = None
        self._now = now

    # ---- life ----

    def on_error(self, handler: Callable[[BaseException], None]) -> None:
        """Register a function to call with an error that ends the replay."""
        self._on_error = handler

    def on_scene(self, handler: Callable[[Scene], None]) -> None:
        """Register a function to call with each scene that is played at a speed to follow."""
        self._on_scene = handler

    def watch(self) -> None:
        """Do nothing: the recording includes the watch's events."""

    async def wait_for_sample(self, timeout_s: float = 0.0) -> None:
        """Return at once."""

    async def start(self) -> None:
        """Begin to play."""
        self.playhead.rewind()
        self._task = asyncio.create_task(self._play())
        self._task.add_done_callback(self._apply_end)

    async def stop(self) -> None:
        """Stop playing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _apply_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self._on_error is not None:
            self._on_error(error)

    # ---- position ----

    def clock(self) -> float:
        """Return the Unix time in the recording, from which its figures' ages are computed."""
        return self._summary.recording.at + self.playhead.position

    @property
    def ended(self) -> bool:
        """True if the recording has ended and does not repeat."""
        return self.playhead.ended and not self._loop

    def describe_position(self) -> str:
        """Return the position and speed, as the header shows them."""
        head = self.playhead
        place = f"{format_time(head.position)}/{format_time(self._summary.seconds)}"
        if self.ended:
            return f"REPLAY {place} end"
        return f"REPLAY {place} {'paused' if head.paused else format_speed(head.speed)}"

    def out_of_memory(self) -> str:
        """Return the exception of the first run that ran out of memory; empty if none did."""
        return find_out_of_memory(self._summary.path)

    def hide_caption(self) -> None:
        """Forget the caption of the present scene; the next scene has its own."""
        self.caption = ""
        self.state.bus.announce(frozenset({Topic.RUNNER}))

    def toggle(self) -> None:
        """Pause, resume, or restart after the end."""
        if self.playhead.ended:
            self._again = True
        else:
            self.playhead.pause(not self.playhead.paused)
        self._moved()

    def faster(self) -> None:
        """Play twice as fast."""
        self.playhead.faster()
        self._moved()

    def slower(self) -> None:
        """Play half as fast."""
        self.playhead.slower()
        self._moved()

    def _moved(self) -> None:
        self._changed.set()
        self.state.bus.announce(frozenset({Topic.RUNNER}))

    # ---- playing ----

    async def _play(self) -> None:
        while True:
            self._log_description()
            await self._play_once()
            self.state.bus.announce(frozenset({Topic.RUNNER}))
            while not (self._loop or self._again):
                self._changed.clear()
                await self._changed.wait()
            self._again = False
            self.playhead.pause(False)
            self.playhead.rewind()
            self.state.forget()
            self.caption = ""
            # A recording without duration would otherwise loop without a pause.
            await asyncio.sleep(REDRAW_AFTER_S)

    async def _play_once(self) -> None:
        began = self._now()
        for entry in lines.read_events(self._summary.path):
            await self._wait_for(entry.at)
            self._play_line(entry)
            self.playhead.reached(entry.at)
            # Decoding takes time: at high speeds it must not freeze the screen.
            if self._now() - began > REDRAW_AFTER_S:
                await asyncio.sleep(0)
                began = self._now()
        await self._wait_for(self._summary.seconds)
        self.playhead.reached(self._summary.seconds)

    async def _wait_for(self, at: float) -> None:
        while (wait := self.playhead.until(at)) != 0:
            self._changed.clear()
            try:
                await asyncio.wait_for(
                    self._changed.wait(), None if wait is None else min(wait, POSITION_EVERY_S)
                )
            except asyncio.TimeoutError:
                self.state.bus.announce(frozenset({Topic.RUNNER}))

    def _play_line(self, entry: RecordedLine) -> None:
        try:
            event = decode_event(entry)
        except wire.WireError as error:
            self.state.publish(LogLine("workbench", f"not played: {error}", "warning"))
            return
        if isinstance(event, DeviceSelected) and self._chosen is not None:
            return  # the user has selected another
        if isinstance(event, Scene):
            self._show(event)
            return
        self.state.publish(event)
        self._select_again()

    def _select_again(self) -> None:
        """Select the row that the user has selected, if it is due and known."""
        machine = self.state.machine
        if not self._is_chosen_due or self._chosen is None:
            return
        if machine.hosts.find(self._chosen) or machine.find_device(self._chosen):
            self._is_chosen_due = False
            self.state.publish(DeviceSelected(self._chosen))

    def _show(self, scene: Scene) -> None:
        """Show a scene, unless the recording is played at once."""
        if self.playhead.speed != AT_ONCE:
            self.caption = scene.caption
            self._on_scene(scene)
            self.state.bus.announce(frozenset({Topic.RUNNER}))

    def _log_description(self) -> None:
        recording = self._summary.recording
        description = f"recording of {recording.date} by gpu-workbench {recording.program}"
        self._log(f"{description}: {recording.title}" if recording.title else description)
        if self._summary.cut:
            self._log("it breaks off in the middle of a line: played up to there", "warning")
        self._is_chosen_due = self._chosen is not None

    def _log(self, text: str, level: Literal["info", "warning"] = "info") -> None:
        self.state.publish(LogLine("workbench", text, level))

    # ---- requests of front ends ----

    def select_device(self, key: str) -> None:
        """Select a device, and ignore later selections in the recording."""
        self._chosen, self._is_chosen_due = key, False
        self.state.publish(DeviceSelected(key))

    def _ignore_request(self, *_: object, **__: object) -> None:
        """Ignore a request: a replay has no children."""

    set_parameters = set_sweep = set_flag = run = run_to_present = compare = _ignore_request
    cancel = cancel_shown = _ignore_request
    empty_cache = reset_peaks = restart_runner = _ignore_request
    set_refresh = sample_hosts = watch_host = watch_torch = watch_device = _ignore_request
