"""The command that a run's supervisor starts at its first out-of-memory error: ``watch --on-oom``.

The supervisor runs even after the screen was left, so it reads the agents' files; no other part of
the run waits for the command.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
from pathlib import Path

LOG = "on-oom.log"
"""File in the run's folder with the command's output."""
RUN_NAME = "GPU_WORKBENCH_RUN_NAME"
"""Variable that gives the command the run's name, in addition to ``$1``."""
_OF_THE_AGENT = ("GPU_WORKBENCH_RUN", "GPU_WORKBENCH_RECORD")
"""Variables of the agent; without them, a Python that the command starts has no agent."""
_EVENT = b'{"event": "oom"'
"""The start of an agent's line about an OOM, whose snapshot is complete by then."""
_MOST_BYTES = 1 << 20
"""Most bytes that are read of one file at a time."""


_SHELL = """
sh -c "$1" on-oom "$2"
code=$?
[ $code = 0 ] || echo "gpu-workbench: the command of --on-oom ended with exit code $code"
"""
"""Wrapper script; it outlives the supervisor, so the shell itself records a failed command."""


class OnOom:
    """Starts a shell command once.

    Args:
        folder: folder of the run.
        command: the text for ``sh -c``.
    """

    def __init__(self, folder: Path, command: str) -> None:
        self._folder = folder
        self._command = command
        self._read: dict[Path, int] = {}
        """Bytes of each agent's file that have been searched."""
        self._process: subprocess.Popen[bytes] | None = None
        self._is_done = False

    def poll(self) -> None:
        """Start the command if an agent has recorded an OOM since the last call."""
        if not self._is_done and any(map(self._has_oom, self._folder.glob("*.jsonl"))):
            self._is_done = True
            # The disk is full, or there is no shell: the run must not suffer from it.
            with contextlib.suppress(OSError):
                self._start()

    @property
    def pid(self) -> int | None:
        """Pid of the shell; ``None`` before it is started."""
        return None if self._process is None else self._process.pid

    def _has_oom(self, path: Path) -> bool:
        begin = self._read.get(path, 0)
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return False
            data = os.pread(file, _MOST_BYTES, begin)
        except OSError:
            return False
        finally:
            os.close(file)
        whole = data.rfind(b"\n") + 1
        # A longer line is not an agent's.
        self._read[path] = begin + (whole or (len(data) if len(data) == _MOST_BYTES else 0))
        return data.startswith(_EVENT) or b"\n" + _EVENT in data

    def _start(self) -> None:
        name = self._folder.name
        environment = {key: text for key, text in os.environ.items() if key not in _OF_THE_AGENT}
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        log = os.open(self._folder / LOG, flags, 0o600)
        try:
            self._process = subprocess.Popen(
                ["sh", "-c", _SHELL, "gpu-workbench", self._command, name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environment, RUN_NAME: name},
                start_new_session=True,
                preexec_fn=_unblock_signals,
            )
        finally:
            os.close(log)


def _unblock_signals() -> None:
    """Unblock, in the child, the signals that the supervisor has blocked."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
