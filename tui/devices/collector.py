"""The one thread that NVML is read in, so that a call that hangs stops nothing but itself."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace

from tui.child.channel import complain
from tui.devices.look import NOT_YET, Looker, NvmlState

SILENT_AFTER = 3.0
"""Seconds without an answer from NVML after which its figures are called old."""


class Collector:
    """Looks at NVML when told to, in a thread of its own, and holds the newest state.

    There is never a second thread: one that hangs in the driver cannot be ended, and those that
    are started beside it hang there too.
    """

    def __init__(self, make: Callable[[Callable[[], None]], Looker]) -> None:
        """Start the thread; it waits for the first :meth:`request`.

        Args:
            make: Makes what looks, from a function to be called after each answer of NVML.
        """
        self.newest: NvmlState = NOT_YET
        self._looker = make(self._beat)
        self._wanted = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._answered_at = time.monotonic()
        threading.Thread(target=self._run, name="nvml", daemon=True).start()

    def request(self) -> None:
        """Ask for a look; nothing where one is under way."""
        if self._idle.is_set():
            self._answered_at = time.monotonic()
            self._idle.clear()
            self._wanted.set()

    def wait(self, timeout: float) -> bool:
        """Wait for the look under way.

        Args:
            timeout: Seconds.

        Returns:
            Whether it is done.
        """
        return self._idle.wait(timeout)

    def silent_s(self) -> float | None:
        """For how many seconds NVML has owed an answer; ``None`` where it is prompt enough."""
        if self._idle.is_set():
            return None
        silent = time.monotonic() - self._answered_at
        return silent if silent > SILENT_AFTER or self.newest.looks == 0 else None

    def _beat(self) -> None:
        self._answered_at = time.monotonic()

    def _publish(self, state: NvmlState) -> None:
        self.newest = state

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            self._look()
            self._idle.set()

    def _look(self) -> None:
        before = self.newest
        try:
            self._looker.look(before, self._publish)
        except Exception as error:  # noqa: BLE001  # shown in the sample, with old figures marked
            complain(traceback.format_exc())
            self._looker.drop(shut_down=False)
            text = f"reading NVML failed and starts anew: {type(error).__name__}: {error}"
            self.newest = replace(
                self.newest, looks=before.looks + 1, problem=" ".join(text.split())
            )
