"""A heartbeat on an event loop: how late it comes, and how much of that the machine causes.

A beat is late because the loop computed or was blocked (a freeze), because the kernel ran something
else on the core, because the core is slower than usual (its other hardware thread or its host is
busy), or because the whole virtual machine stood still. The kernel counts how long a thread was
ready to run and waited for a core (schedstat, in nanoseconds) and how long it ran. A heart in an
idle process shows how fast the machine is, and whether it stood still: it regularly times a small
piece of work.
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
"""A heart records beats that are later than this."""
STACK_S = 0.1
"""If a beat is so late, the heart also records the main thread's stack."""
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
    """The records of a heart."""

    late: tuple[Late, ...]
    stacks: tuple[tuple[float, str], ...]
    """Times, and the main thread's stack while a beat was late."""
    work: tuple[tuple[float, float], ...]
    """Times, and the processor time of the piece of work, seconds."""

    def slowness(self, began: float, ended: float) -> float:
        """Return the ratio of the work's time in a period to its fast tenth, at least 1.

        Return 1 if the period has no work.
        """
        spans = sorted(seconds for _, seconds in self.work)
        during = [seconds for at, seconds in self.work if began <= at <= ended]
        if not during:
            return 1.0
        return max(1.0, median(during) / spans[len(spans) // 10])


def _waited() -> float:
    """Return the seconds that the main thread has waited for a core since its start."""
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0  # unknown: all of a late beat counts as a freeze


class Heart:
    """Beats until the loop ends and writes late beats to a file.

    Args:
        path: the file.
        works: whether it regularly times a piece of work.
    """

    def __init__(self, path: str, *, works: bool = False) -> None:
        self._works = works
        self._file = Path(path).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 (kept open)
        self._beat = time.monotonic()
        self._main = threading.main_thread().ident or 0

    async def beat(self) -> None:
        """Beat forever."""
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
        recorded = 0.0
        while True:
            time.sleep(STACK_S / 4)
            beat = self._beat
            if beat != recorded and time.monotonic() - beat > STACK_S:
                recorded = beat
                stack = _stack(sys._current_frames().get(self._main))
                self._file.write(f"stack {time.monotonic()} {stack}\n")


def _stack(frame: FrameType | None) -> str:
    """Return the innermost calls, outermost first; reading their source would fill a cache."""
    calls: list[str] = []
    while frame is not None and len(calls) < STACK_CALLS:
        code = frame.f_code
        calls.insert(0, f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " > ".join(calls)


def _work() -> float:
    """Work for about a millisecond and return its processor time, seconds."""
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
            at, seconds = (float(word) for word in rest.split(" "))
            work.append((at, seconds))
        elif kind == "stack":
            time_text, _, stack = rest.partition(" ")
            stacks.append((float(time_text), stack))
    return Beats(tuple(late), tuple(stacks), tuple(work))


if __name__ == "__main__":
    # The machine's heart, in a process with nothing else to do.
    asyncio.run(Heart(sys.argv[1], works=True).beat())
