"""A heartbeat on an event loop: how late it comes, and how much of that is the machine's doing.

A beat is late because the loop computed or was blocked (a freeze), because the kernel ran something
else on the core, because the core is slower than usual (another hardware thread at work beside it,
its host busy), or because the whole virtual machine stood still. The kernel tells how long a thread
was ready to run and waited for a core (schedstat, in nanoseconds) and how long it ran. How fast the
machine is, and whether it stood still, is told by the same heart in a process of its own, which
times a small piece of work now and then.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import FrameType

BEAT_S = 0.02
LATE_S = 0.1
"""Beats that are later than this are written down."""
STACK_S = 0.1
"""So late, what the main thread does is written down too."""
STACK_CALLS = 10
WORK_BEATS = 5
"""Beats between two pieces of work."""


@dataclass(frozen=True, slots=True)
class Late:
    """A beat that came late.

    ``at``: when it came, seconds of the monotonic clock, which all processes share. ``late``:
    seconds. ``waited``: of these, for a core. ``ran``: of these, on a core.
    """

    at: float
    late: float
    waited: float
    ran: float

    @property
    def began(self) -> float:
        return self.at - self.late


@dataclass(frozen=True, slots=True)
class Beats:
    """What a heart has written down."""

    late: tuple[Late, ...]
    stacks: tuple[tuple[float, str], ...]
    """When, and where the main thread was while a beat was owed."""
    work: tuple[tuple[float, float], ...]
    """When, and the seconds of processor time that the piece of work took."""

    def slowness(self, began: float, ended: float) -> float:
        """How many times longer work took in that time than when it was quick; at least 1.

        1 too where none was done in that time.
        """
        spans = sorted(took for _, took in self.work)
        during = [took for at, took in self.work if began <= at <= ended]
        if not during:
            return 1.0
        return max(1.0, median(during) / spans[len(spans) // 10])


def _waited() -> float:
    """Seconds that the main thread has been ready to run without a core, since it began."""
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0  # not told here: all of a late beat counts as a freeze


class Heart:
    """Beats until the loop ends; late beats are lines of a file.

    Args:
        path: the file.
        works: does a piece of work now and then, and writes down how long it took.
    """

    def __init__(self, path: str, *, works: bool = False) -> None:
        self._works = works
        self._file = Path(path).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 (kept open)
        self._beat = time.monotonic()
        self._main = threading.main_thread().ident or 0

    async def beat(self) -> None:
        """Never returns."""
        threading.Thread(target=self._watch, daemon=True).start()
        waited, ran, beats = _waited(), time.thread_time(), 0
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(BEAT_S)
            now = time.monotonic()
            late = now - self._beat - BEAT_S
            waited_before, waited = waited, _waited()
            ran_before, ran = ran, time.thread_time()
            if late > LATE_S:
                self._file.write(f"late {now} {late} {waited - waited_before} {ran - ran_before}\n")
            beats += 1
            if self._works and beats % WORK_BEATS == 0:
                self._file.write(f"work {now} {_work()}\n")

    def _watch(self) -> None:
        told = 0.0
        while True:
            time.sleep(STACK_S / 4)
            beat = self._beat
            if beat != told and time.monotonic() - beat > STACK_S:
                told = beat
                words = _stack(sys._current_frames().get(self._main))
                self._file.write(f"stack {time.monotonic()} {words}\n")


def _stack(frame: FrameType | None) -> str:
    """Return the innermost calls, outermost first; reading their source would fill a cache."""
    found: list[str] = []
    while frame is not None and len(found) < STACK_CALLS:
        code = frame.f_code
        found.insert(0, f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " > ".join(found)


def _work() -> float:
    """Seconds of processor time for what takes a millisecond or so."""
    began = time.thread_time()
    words = [str(number) for number in range(5000)]
    sorted(words, key=len)
    return time.thread_time() - began


def read(path: Path) -> Beats:
    """Parse what a heart has written to its file."""
    late: list[Late] = []
    stacks: list[tuple[float, str]] = []
    work: list[tuple[float, float]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "late":
            late.append(Late(*(float(word) for word in rest.split(" "))))
        elif kind == "work":
            at, took = (float(word) for word in rest.split(" "))
            work.append((at, took))
        elif kind == "stack":
            when, _, words = rest.partition(" ")
            stacks.append((float(when), words))
    return Beats(tuple(late), tuple(stacks), tuple(work))


if __name__ == "__main__":
    # The heart of the machine: a process with nothing else to do.
    asyncio.run(Heart(sys.argv[1], works=True).beat())
