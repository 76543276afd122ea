"""A heartbeat on an event loop: how late it comes, and how much of that is the machine's doing.

A beat is late for three reasons: the loop was busy or blocked (a freeze), the kernel ran something
else on the core (the machine is busy), or the whole virtual machine stood still. The second is told
by the kernel: the time that a thread was ready to run and waited for a core (schedstat, in
nanoseconds). The third hits every process: the same heart beats in a process that does nothing
else.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType

from workloads.fact import fact

BEAT_S = 0.02
LATE_S = 0.1
"""Beats that are later than this are written down."""
STACK_S = 0.2
"""So late, what the main thread does is written down too."""


@fact
class Late:
    """A beat that came late.

    ``at``: when it came, seconds of the monotonic clock, which all processes share. ``late``:
    seconds. ``waited``: of these, for a core.
    """

    at: float
    late: float
    waited: float


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
    """

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 (kept open)
        self._beat = time.monotonic()
        self._main = threading.main_thread().ident or 0

    async def beat(self) -> None:
        """Never returns."""
        threading.Thread(target=self._watch, daemon=True).start()
        waited = _waited()
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(BEAT_S)
            late = time.monotonic() - self._beat - BEAT_S
            before, waited = waited, _waited()
            if late > LATE_S:
                self._file.write(f"late {time.monotonic()} {late} {waited - before}\n")

    def _watch(self) -> None:
        told = 0.0
        while True:
            time.sleep(STACK_S / 4)
            beat = self._beat
            if beat != told and time.monotonic() - beat > STACK_S:
                told = beat
                frame: FrameType | None = sys._current_frames().get(self._main)
                stack = [line.strip() for line in traceback.format_stack(frame)[-6:]]
                words = " | ".join(" ".join(line.split()) for line in stack)
                self._file.write(f"stack {time.monotonic()} {words}\n")


def read(path: Path) -> tuple[list[Late], list[tuple[float, str]]]:
    """The late beats of a file, and where the main thread was in the latest ones."""
    late: list[Late] = []
    stacks: list[tuple[float, str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "late":
            at, amount, waited = (float(word) for word in rest.split(" "))
            late.append(Late(at, amount, waited))
        elif kind == "stack":
            when, _, words = rest.partition(" ")
            stacks.append((float(when), words))
    return late, stacks


if __name__ == "__main__":
    # The heart of the machine: a process with nothing else to do.
    asyncio.run(Heart(sys.argv[1]).beat())
