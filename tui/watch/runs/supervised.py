"""A command under its supervisor, as seen by the program that started it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tui.watch.runs.bounded_log import DEFAULT_LIMIT

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_CHECK_S = 0.01


class Supervised:
    """The command of a run: its process, its supervisor, and its end.

    Args:
        link: connection to its supervisor.
        supervisor: the supervisor's process.
        command: program and arguments.
        outputs: read ends of its standard output and standard error, if they were requested.
    """

    def __init__(
        self,
        link: socket.socket,
        supervisor: subprocess.Popen[bytes],
        command: Sequence[str],
        outputs: tuple[int, ...],
    ) -> None:
        self.outputs = outputs
        self.returncode: int | None = None
        """As in ``Popen``: below 0 it is the signal that ended the command; ``None`` if unknown."""
        self.log_problem = ""
        """Why its output cannot be stored."""
        self._link = link
        self._supervisor = supervisor
        self._text = b""
        self._is_over = False
        self._lost = False
        self.pid = 0
        self._begin(command)

    def _begin(self, command: Sequence[str]) -> None:
        """Wait until the command is started.

        Raises:
            OSError: the command cannot be started.
        """
        processes: list[dict[str, object]] = []
        while not processes and not self._lost:
            processes = self._read()
            for fact in processes:
                self._apply(fact)
        if self.pid:
            self._link.setblocking(False)
            return
        self._link.close()
        for file in self.outputs:
            os.close(file)
        code = self._supervisor.wait()
        error = processes[0].get("error") if processes else None
        if isinstance(error, int):
            raise OSError(error, os.strerror(error), command[0])
        raise OSError(0, f"its supervisor ended with code {code}; try --here", command[0])

    def poll(self) -> int | None:
        """Return the exit code as in ``Popen``; ``None`` while the command runs, or if unknown."""
        for fact in self._read():
            self._apply(fact)
        return self.returncode

    @property
    def has_ended(self) -> bool:
        """True if the command has ended; processes that it started may continue."""
        return self.poll() is not None or (self._lost and not _is_running(self.pid))

    @property
    def is_over(self) -> bool:
        """True if its last process has ended."""
        return self.has_ended and (self._is_over or self._lost)

    def wait(self) -> int | None:
        """Wait until the last process has ended; returns the exit code of the command."""
        while not self.is_over:
            time.sleep(_CHECK_S)
        return self.returncode

    def kill(self) -> None:
        """Send SIGKILL to the command's process group."""
        self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process group, if the command is still running."""
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def _apply(self, fact: Mapping[str, object]) -> None:
        match fact:
            case {"pid": int(pid)}:
                self.pid = pid
            case {"log": str(why)}:
                self.log_problem = why
            case {"code": int(code), **more}:
                self.returncode = code
                self._is_over = more.get("over") is True
            case {"over": True}:
                self._is_over = True

    def _read(self) -> list[dict[str, object]]:
        if self._lost:
            return []
        try:
            data = self._link.recv(4096)
        except BlockingIOError:
            if self._supervisor.poll() is None:
                return []
            data = b""  # the drain may continue and keep the other end open
        except OSError:
            data = b""
        if not data:
            self._lost = True
            self._link.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(0)
            return []
        *lines, self._text = (self._text + data).split(b"\n")
        return [json.loads(line) for line in lines]


def _is_running(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return text.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def start(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    limit: int = DEFAULT_LIMIT,
    separate: bool = False,
    passes_stdin: bool = False,
    oom_kills_file: Path | None = None,
    on_oom: str | None = None,
) -> Supervised:
    """Start a command under a supervisor that outlives this program.

    Args:
        command: program and arguments.
        folder: folder of the run.
        environment: environment of the command.
        limit: most bytes of its output to store.
        separate: also pass its two streams on to this program, each separately.
        passes_stdin: pass this program's standard input on to it, if that is a pipe or a file.
        oom_kills_file: file in which the kernel counts the processes that its OOM killer ends.
        on_oom: a shell command to start once, at the first OOM
            (:mod:`tui.watch.runs.on_oom`).

    Raises:
        OSError: the command cannot be started.
    """
    parent_socket, child_socket = socket.socketpair()
    pipes = [os.pipe(), os.pipe()] if separate else []
    inherited = [writer for _, writer in pipes]
    try:
        supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SUPERVISOR), str(child_socket.fileno())],
            env=environment,
            stdin=None if passes_stdin and _is_input() else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(child_socket.fileno(), *inherited),
            start_new_session=True,
        )
        child_socket.close()
        request = {
            "folder": str(folder),
            "command": list(command),
            "limit": limit,
            "files": inherited,
        }
        request["oom_kills_file"] = None if oom_kills_file is None else str(oom_kills_file)
        request["on_oom"] = on_oom
        parent_socket.sendall(json.dumps(request).encode() + b"\n")
    except BaseException:
        for reader, _ in pipes:
            os.close(reader)
        parent_socket.close()
        raise
    finally:
        child_socket.close()
        for writer in inherited:
            os.close(writer)
    return Supervised(parent_socket, supervisor, command, tuple(reader for reader, _ in pipes))


def _is_input() -> bool:
    """Return whether standard input is a pipe, a socket or a file, which a command may read."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)
