"""The soak: run the real program under random faults and report what it did wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from benchmarks.soak import heart
from benchmarks.soak.faults import GPUS, Faults
from benchmarks.soak.heart import Beats, Late
from benchmarks.soak.hostile import Hostile
from benchmarks.soak.screen import Screen
from tests.nvml.fixtures import ScriptedNvml, build_library
from tests.nvml.scenario import busy_box

FREEZE_S = 0.2
LEAK_BYTES = 5 * 2**20
MARK = "GPU_WORKBENCH_SOAK"
END_S = 10.0
REST_EACH_S = 20.0
"""Between two readings of the memory."""
START_S = 60.0
NEAR_S = 0.5
RING_S = 600.0
"""The program stores so many seconds of samples; its memory grows until then."""
RESTORED = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?2004l")


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a soak; times in seconds, memory in bytes."""

    seed: int
    seconds: float
    faults: dict[str, int]
    died: str | None
    """How the program ended before the soak."""
    exit_code: int | None
    restored: bool
    """Whether it restored the terminal."""
    freezes: tuple[str, ...]
    """Pauses of which the program itself caused more than :data:`FREEZE_S`."""
    longest: tuple[str, ...]
    """The longest pauses, freezes or not."""
    latest: float
    """The latest beat, whatever the cause."""
    latest_control: float
    """The latest beat of an idle process."""
    memory_first: int
    memory_last: int
    most_processes: int
    processes: int
    left: tuple[str, ...]
    """Processes that outlived it."""

    @property
    def growth(self) -> int:
        return self.memory_last - self.memory_first

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each failure."""
        lines = [f"the program froze: {words}" for words in self.freezes]
        if self.died:
            lines.append(f"the program ended: {self.died}")
        if self.exit_code not in (0, 130):
            lines.append(f"the exit code was {self.exit_code} after the key to quit")
        if not self.restored:
            lines.append("the program did not restore the terminal")
        if self.growth > LEAK_BYTES:
            lines.append(f"the program's memory grew by {self.growth / 2**20:.1f} MiB")
        lines += [f"a process outlived the program: {words}" for words in self.left]
        return tuple(lines)


@dataclass(frozen=True, slots=True)
class Pause:
    """A late beat, and the program's part in it; times in seconds.

    The program's part is its computing, scaled to the machine's best speed, and the time it was
    blocked: it neither computed nor waited for a core, and the machine did not stand still.
    """

    beat: Late
    slowness: float
    blocked: float

    @classmethod
    def of(cls, beat: Late, control: Beats) -> Pause:
        began, ended = beat.began - NEAR_S, beat.at + NEAR_S
        stood_still = max(
            (other.late for other in control.late if began < other.at and other.began < ended),
            default=0.0,
        )
        blocked = beat.late - beat.waited - beat.ran - stood_still
        return cls(beat, control.slowness(began, ended), max(0.0, blocked))

    @property
    def own(self) -> float:
        return self.beat.ran / self.slowness + self.blocked

    def describe(self, beats: Beats) -> str:
        beat = self.beat
        where = [words for at, words in beats.stacks if beat.began <= at <= beat.at]
        figures = {"late": beat.late, "computing": beat.ran, "waiting for a core": beat.waited}
        parts = ", ".join(f"{name} {1000 * value:.0f} ms" for name, value in figures.items())
        return (
            f"{1000 * self.own:.0f} ms of its own ({parts}, blocked {1000 * self.blocked:.0f} ms, "
            f"machine {self.slowness:.2f} times slower): {'; '.join(where)}"
        )


def soak(
    seconds: float, seed: int, print_progress: Callable[[str], None] = lambda _text: None
) -> Report:
    """Run the program under faults and return the outcome.

    Args:
        seconds: the time of the faults.
        seed: the seed of the faults.
        print_progress: gets a line every half minute.
    """
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        nvml = ScriptedNvml(build_library(folder), folder)
        mark = uuid.uuid4().hex
        variables = {
            **nvml.env(busy_box(GPUS)),
            "GPU_WORKBENCH_STATE": str(folder / "state"),
            "GPU_WORKBENCH_CONFIG": str(folder / "config.toml"),
            MARK: mark,
        }
        del variables["SCRIPTED_NVML_LOG"]
        control = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.soak.heart", str(folder / "control")]
        )
        argv = (sys.executable, "-m", "benchmarks.soak.probe", str(folder / "heart"))
        try:
            with Screen(argv, variables, 120, 40) as screen:
                hostile = Hostile(folder / "state", variables)
                faults = Faults(seed, screen, nvml, hostile)
                return _watch(screen, faults, folder, mark, seconds, seed, print_progress)
        finally:
            control.kill()
            control.wait()


def _watch(
    screen: Screen,
    faults: Faults,
    folder: Path,
    mark: str,
    seconds: float,
    seed: int,
    print_progress: Callable[[str], None],
) -> Report:
    started = time.monotonic()
    while screen.runner() is None and time.monotonic() < started + START_S:
        screen.live(0.5)
    screen.live(3.0)  # the imports of the first paint are no freezes
    began = printed = time.monotonic()
    died = None
    rested = 0.0
    while time.monotonic() < began + seconds:
        faults.next()
        if time.monotonic() - rested > min(REST_EACH_S, seconds / 8):
            screen.rest()
            rested = time.monotonic()
        if (code := screen.process.poll()) is not None:
            died = f"exit code {code}: {_last_words(screen.output)}; {_reports(folder)}"
            break
        if time.monotonic() - printed > 30:
            printed = time.monotonic()
            memory = screen.memory[-1][1] / 2**20 if screen.memory else 0
            count = sum(faults.counts.values())
            print_progress(f"{printed - began:.0f} s: {count} faults, {memory:.1f} MiB")
    ended = time.monotonic()
    code = _quit(screen)
    beats, control = heart.read(folder / "heart"), heart.read(folder / "control")
    late = [
        beat
        for beat in beats.late
        if began <= beat.at <= ended and not _unread(beat, faults.unread)
    ]
    pauses = [Pause.of(beat, control) for beat in late]
    first, last = _levels(screen.memory, began, ended)
    return Report(
        seed=seed,
        seconds=ended - began,
        faults=dict(sorted(faults.counts.items())),
        died=died,
        exit_code=code,
        restored=all(part in screen.output for part in RESTORED),
        freezes=tuple(pause.describe(beats) for pause in pauses if pause.own > FREEZE_S),
        longest=tuple(
            pause.describe(beats) for pause in sorted(pauses, key=lambda pause: -pause.own)[:5]
        ),
        latest=max((beat.late for beat in late), default=0.0),
        latest_control=max((beat.late for beat in control.late if beat.at >= began), default=0.0),
        memory_first=first,
        memory_last=last,
        most_processes=screen.most_processes,
        processes=len(screen.seen),
        left=_left(screen, mark),
    )


def _last_words(output: bytes) -> str:
    """Return the output below the screen that the program left."""
    return output[output.rfind(b"\x1b[?1006l") :].decode(errors="replace")


def _reports(folder: Path) -> str:
    """Return the program's reports on itself, which the folder's removal would delete."""
    texts = (path.read_text(encoding="utf-8") for path in (folder / "state").rglob("*.txt"))
    return "\n".join(text for text in texts if "the workbench failed" in text)


QUIT_S = 5
"""Seconds from q to ctrl-c, whose signal would end the process if it met the interpreter's end."""


def _quit(screen: Screen) -> int | None:
    for key, seconds in (("\x1b", 1), ("\x1b", 1), ("\x1b", 1), ("q", QUIT_S), ("\x03", 1)):
        if screen.process.poll() is None:
            screen.type(key)
        for _ in range(seconds):
            if screen.process.poll() is None:
                screen.live(1.0)
    try:
        return screen.exit_code(END_S)
    except AssertionError:
        return None


def _unread(beat: Late, windows: list[tuple[float, float]]) -> bool:
    """Return whether the terminal was unread: then a program that writes to it must wait."""
    return any(began < beat.at and beat.began < ended for began, ended in windows)


def _levels(memory: list[tuple[float, int]], began: float, ended: float) -> tuple[int, int]:
    """Return the median memory after the warm-up and at the end; 0 if the program ended before."""
    warm = began + min(max(0.3 * (ended - began), 20.0), RING_S, 0.5 * (ended - began))
    levels = [size for at, size in memory if at >= warm]
    count = max(1, len(levels) // 4)
    return (int(median(levels[:count])), int(median(levels[-count:]))) if levels else (0, 0)


def _left(screen: Screen, mark: str) -> tuple[str, ...]:
    """Return the program's processes, and those with its mark, that outlive it by more than 5 s."""
    _, alive = psutil.wait_procs(list(screen.seen.values()), timeout=5)
    marked = [process for process in psutil.process_iter() if _carries(process, mark)]
    left = {process.pid: process for process in (*alive, *marked)}
    return tuple(f"{pid} {_command(process)}" for pid, process in left.items())


def _carries(process: psutil.Process, mark: str) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        return process.environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False  # ended, or another user's, which cannot be ours


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return "(ended)"
