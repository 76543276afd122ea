"""The start of a user's command, with the agent and independent of this program."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import workloads.agent
from tui.core.child.inside import Cgroup
from tui.watch.runs.runs import (
    StartedRun,
    describe_folder_error,
    drop,
    limits,
    new_run,
    of_process,
    read_again,
    record_end,
)
from workloads.agent import RECORD, RUN

START_FOLDER = Path(workloads.agent.__file__).with_name("start")
"""Contains only the file that Python executes at its start."""
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_CHECK_S = 0.01


class Supervised:
    """The command of a run: its process, its supervisor, and its end.

    Args:
        link: connection to its supervisor.
        supervisor: the supervisor's process.
        outputs: read ends of its standard output and standard error, if they were requested.

    Raises:
        OSError: the command cannot be started.
    """

    def __init__(
        self,
        link: socket.socket,
        supervisor: subprocess.Popen[bytes],
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
        self._begin()

    def _begin(self) -> None:
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
            raise OSError(error, os.strerror(error))
        raise OSError(0, f"its supervisor ended with code {code}; try --here")

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


_STARTED: dict[Path, Supervised] = {}
"""Commands that any part of this program has started, by the run's folder. The pid would not do:
an older stored run may have had the same one, above all in a container."""


def variables(run: Path, entries: int | None, present: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a command.

    Args:
        run: folder of the run.
        entries: entries of torch's memory history from the first CUDA call; ``None`` for none.
        present: the environment without the agent.
    """
    path = present.get("PYTHONPATH", "")
    settings = {
        "PYTHONPATH": f"{START_FOLDER}{os.pathsep}{path}" if path else str(START_FOLDER),
        RUN: str(run),
    }
    return settings if entries is None else {**settings, RECORD: str(entries)}


NO_PROGRAM = 127
"""The exit code of a shell for a program that does not exist."""


class StartError(Exception):
    """A command that cannot be started; the text is the reason, in one line.

    Args:
        reason: the reason.
        code: the exit code: 127, as of a shell, if the program does not exist.
    """

    def __init__(self, reason: str, code: int = 1) -> None:
        super().__init__(reason)
        self.code = code


def describe_start_error(command: Sequence[str], error: OSError) -> tuple[str, int]:
    """Return why a command did not start, and the exit code: 127, as of a shell, for no program.

    Args:
        command: program and arguments.
        error: the error of its start.
    """
    program = command[0]
    if isinstance(error, FileNotFoundError) and shutil.which(program) is None:
        if os.sep in program:
            return f"{program}: no such program", NO_PROGRAM
        return f"{program}: no such program on PATH", NO_PROGRAM
    return f"{program}: {error.strerror or error}", 1


def begin(
    command: Sequence[str],
    entries: int | None,
    environment: Mapping[str, str] | None = None,
    *,
    passes_streams: bool = False,
    on_oom: str | None = None,
) -> tuple[StartedRun, Supervised]:
    """Create a run for a command and start it under a supervisor that outlives this program.

    Neither a terminal nor this process can end the command. Both output streams go to
    ``output.log`` in the run's folder, through the supervisor
    (:mod:`tui.watch.runs.supervisor`), which also writes its process and its end to ``run.json``.

    Args:
        command: program and arguments.
        entries: entries of torch's memory history; ``None`` for no history.
        environment: the environment without the agent; ``None`` for this process's.
        passes_streams: pass both streams on to this program too, and this program's standard
            input to the command, if that is a pipe or a file.
        on_oom: a shell command to start once, at the first OOM of the run
            (:mod:`tui.watch.runs.on_oom`).

    Raises:
        StartError: the command cannot be started; no run is left behind.
    """
    try:
        run = new_run(command)
    except OSError as error:
        raise StartError(describe_folder_error(error)) from error
    present = os.environ if environment is None else environment
    try:
        kills_file = Cgroup().oom_kills_file()
        request = {
            "folder": str(run.folder),
            "command": list(command),
            "limit": limits().log_bytes,
            "oom_kills_file": None if kills_file is None else str(kills_file),
            "on_oom": on_oom,
        }
        process = _start_supervisor(
            request, {**present, **variables(run.folder, entries, present)}, passes_streams
        )
    except OSError as error:
        drop(run)
        raise StartError(*describe_start_error(command, error)) from error
    _STARTED[run.folder] = process
    run = read_again(run)
    return run if run.pid == process.pid else of_process(run, process.pid), process


def _start_supervisor(
    request: dict[str, object], environment: Mapping[str, str], passes_streams: bool
) -> Supervised:
    """Start a supervisor and send it the request.

    Raises:
        OSError: the command cannot be started.
    """
    parent_socket, child_socket = socket.socketpair()
    pipes = [os.pipe(), os.pipe()] if passes_streams else []
    inherited = [writer for _, writer in pipes]
    try:
        supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SUPERVISOR), str(child_socket.fileno())],
            env=environment,
            stdin=None if passes_streams and _is_input() else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(child_socket.fileno(), *inherited),
            start_new_session=True,
        )
        child_socket.close()
        parent_socket.sendall(json.dumps({**request, "files": inherited}).encode() + b"\n")
    except BaseException:
        for reader, _ in pipes:
            os.close(reader)
        parent_socket.close()
        raise
    finally:
        child_socket.close()
        for writer in inherited:
            os.close(writer)
    return Supervised(parent_socket, supervisor, tuple(reader for reader, _ in pipes))


def _is_input() -> bool:
    """Return whether standard input is a pipe, a socket or a file, which a command may read."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)


def is_child(run: StartedRun) -> bool:
    """Return whether this program has started a run."""
    process = _STARTED.get(run.folder)
    return process is not None and process.pid == run.pid


def has_ended(run: StartedRun) -> bool:
    """Return whether the command of a run that this program started has ended."""
    return _STARTED[run.folder].has_ended


def is_over(run: StartedRun) -> bool:
    """Return whether the last process of a run that this program started has ended."""
    return _STARTED[run.folder].is_over


def log_problem(run: StartedRun) -> str:
    """Return why the output of a run started by this program cannot be stored; empty if it can."""
    return _STARTED[run.folder].log_problem if is_child(run) else ""


def with_end(run: StartedRun) -> StartedRun:
    """Return a run as it is written down, plus its end if only this program observed it."""
    process = _STARTED[run.folder] if is_child(run) else None
    code = process.poll() if process is not None and process.is_over else None
    run = read_again(run)
    return run if code is None or run.ended is not None else record_end(run, code)


def replace_with(command: Sequence[str], run: Path, entries: int | None) -> None:
    """Replace this process with the command: same pid, terminal, signals and exit code.

    Raises:
        OSError: the program does not exist or cannot be executed.
    """
    environment = {**os.environ, **variables(run, entries, os.environ)}
    os.execvpe(command[0], list(command), environment)
