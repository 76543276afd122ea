"""A process that keeps a core busy, as a child of this one or an unrelated process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

BUSY = (
    "import os, time\n"
    "os.write(1, b'%d\\n' % os.getpid())\n"
    "until = time.monotonic() + 60\n"
    "while time.monotonic() < until: pass\n"
)
"""It ends by itself if nothing else ends it."""
STRANGER = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"


@contextmanager
def busy(*, ours: bool) -> Iterator[int]:
    """Run a busy process until the block ends, and yield its pid.

    Args:
        ours: it is a child of this process. Otherwise the process that started it has ended.
    """
    argv = [sys.executable, "-c", BUSY] if ours else [sys.executable, "-c", STRANGER, BUSY]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        pid = int(started.stdout.readline())
        if not ours:
            started.wait()
        try:
            yield pid
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
