"""A value that is worked out beside this process, on another core.

A fork sees what is in memory without copying it, and sends back what it found. Only for functions
of plain data: threads do not live on in a fork, and locks that they held stay locked there.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Generic, TypeVar

from workloads.process import die_with_parent

T = TypeVar("T")


class Beside(Generic[T]):
    """Begins at once; where there is no second core, or no fork, when it is asked for.

    Args:
        work: works it out. What it raises, it raises here: it is then tried once more.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._pid = self._answer = -1
        if sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1:
            self._begin()

    def get(self) -> T:
        """The value; waits for it."""
        found = self.found()
        return self._work() if found is None else found[0]

    def found(self) -> tuple[T] | None:
        """The value; waits for it. ``None`` where no other process worked it out."""
        if self._pid < 0:
            return None
        _, status = os.waitpid(self._pid, 0)
        self._pid = -1
        with os.fdopen(self._answer, "rb") as stream:
            stream.seek(0)
            # Our own process wrote it.
            return (pickle.load(stream),) if status == 0 else None

    def drop(self) -> None:
        """End what nobody waits for any more."""
        if self._pid > 0:
            os.kill(self._pid, signal.SIGKILL)
            self.found()

    def _begin(self) -> None:
        parent = os.getpid()
        try:
            # In memory, and not a pipe: it would be full until somebody has time to read it.
            answer = os.memfd_create("beside")
        except OSError:
            return
        try:
            with warnings.catch_warnings():
                # Python warns of the threads that do not live on.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
        except OSError:
            # No room for a process: then it is worked out here.
            os.close(answer)
            return
        if pid:
            self._pid, self._answer = pid, answer
            return
        code = 1
        try:
            die_with_parent(parent, signal.SIGKILL)
            gc.disable()
            with os.fdopen(answer, "wb") as stream:
                pickle.dump(self._work(), stream, protocol=5)
            code = 0
        finally:
            # Whatever it raised is raised again by the other process, which can tell of it.
            os._exit(code)
