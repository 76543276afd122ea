"""The terminal of a soak, and the program's processes."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping

import psutil

from tests.terminal.terminal import Terminal

TAIL = 20_000
WATCH_S = 0.5
REST_S = 0.3


class Screen(Terminal):
    """Stores the newest output only, and records the processes regularly."""

    def __init__(
        self, argv: tuple[str, ...], variables: Mapping[str, str], columns: int, rows: int
    ) -> None:
        self.size = (columns, rows)
        super().__init__(argv, columns, rows, variables)
        self.seen: dict[int, psutil.Process] = {}
        """All processes of the program so far."""
        self.memory: list[tuple[float, int]] = []
        """Times, and the program's unique memory at rest, bytes."""
        self.most_processes = 0
        self._watched = 0.0

    def read(self, timeout: float = 0.05) -> bool:
        ready, _, _ = select.select([self.master], [], [], timeout)
        if not ready:
            return True
        try:
            chunk = os.read(self.master, 65_536)
        except OSError:
            # Linux reports the last close of the other side as an input/output error.
            return False
        self.output = (self.output + chunk)[-TAIL:]
        return bool(chunk)

    def live(self, seconds: float) -> None:
        """Read for so many seconds, and record the processes."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and self.read(min(left, 0.05)):
            self.watch()

    def type(self, keys: str) -> None:
        """Type if the program reads its terminal."""
        _, ready, _ = select.select([], [self.master], [], 0)
        if ready:
            os.write(self.master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)
        super().resize(columns, rows)

    def rest(self) -> None:
        """Show every tab at the same small size, then record the memory.

        The caches of a screen grow with its size.
        """
        self.resize(80, 24)
        for key in ("\x1b", "\x1b", "\x1b", "4", "3", "2", "1"):
            self.type(key)
            self.live(REST_S)
        try:
            used = psutil.Process(self.process.pid).memory_full_info().uss
        except psutil.Error:
            return  # the program has ended, which the soak reports
        self.memory.append((time.monotonic(), used))

    def watch(self) -> None:
        """Record the processes, twice a second."""
        now = time.monotonic()
        if now - self._watched < WATCH_S:
            return
        self._watched = now
        family = self.family()
        self.seen.update((process.pid, process) for process in family)
        self.most_processes = max(self.most_processes, len(family))

    # ---- the children ----

    def monitor(self) -> psutil.Process | None:
        return self._child(lambda words: "tui.monitor" in words)

    def runner(self) -> psutil.Process | None:
        return self._child(lambda words: "workloads" in words and "serve" in words)

    def worker(self) -> psutil.Process | None:
        runner = self.runner()
        try:
            return next(iter(runner.children()), None) if runner else None
        except psutil.NoSuchProcess:
            return None

    def _child(self, matches: Callable[[list[str]], bool]) -> psutil.Process | None:
        try:
            for child in psutil.Process(self.process.pid).children():
                if matches(child.cmdline()):
                    return child
        except psutil.Error:
            return None
        return None
