"""The terminal of a soak: written to at random and read; and the processes behind it."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping

import psutil

from tests.terminal.terminal import Terminal

TAIL = 20_000
WATCH_S = 0.5
REST_S = 0.3


class Screen(Terminal):
    """Keeps the newest output only, and looks at the processes now and then."""

    def __init__(
        self, argv: tuple[str, ...], variables: Mapping[str, str], columns: int, rows: int
    ) -> None:
        self.size = (columns, rows)
        super().__init__(argv, columns, rows, variables)
        self.seen: dict[int, psutil.Process] = {}
        """Every process that the program has ever had."""
        self.memory: list[tuple[float, int]] = []
        """Unique memory of the program at rest: when, bytes."""
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
        """Read for so long, and see to the processes."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and self.read(min(left, 0.05)):
            self.watch()

    def type(self, keys: str) -> None:
        """Type, as far as the program takes it."""
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
            return  # it has ended; that is noticed elsewhere
        self.memory.append((time.monotonic(), used))

    def watch(self) -> None:
        """Note the processes, twice a second."""
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

    def _child(self, is_it: object) -> psutil.Process | None:
        assert callable(is_it)
        try:
            for child in psutil.Process(self.process.pid).children():
                if is_it(child.cmdline()):
                    return child
        except psutil.Error:
            return None
        return None
