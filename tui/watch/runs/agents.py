"""The agents of running processes: injecting one, finding their sockets, asking for their state.

``sys.remote_exec`` (PEP 768) injects an agent into a process that runs Python 3.14 or later: its
main thread executes a script between two bytecodes.

A socket is trusted if only this user can write to its folder and its other end is the process
that its name says: a fork may hold it open after that process has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tui.allocators.process_files import (
    GoneError,
    ProcessFiles,
    access_to,
    no_process,
    refusal,
)
from tui.core.text.commands import EXAMPLE
from tui.watch.runs.stacks import ProcessStacks, parse_stacks
from tui.watch.runs.start import START_FOLDER
from workloads.agent import identity
from workloads.agent.address import LONGEST_LINE, open_socket_folder, place, read_peer

REMOTE_EXEC = (3, 14)
"""The first version of Python that has ``sys.remote_exec``."""
OLDEST = (3, 8)
"""The first version that the agent runs in."""
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?t?")
_VERSION_S, _INJECT_TIMEOUT_S = 20, 60
_START = '''exec("""
try:
    import importlib.util
    spec = importlib.util.spec_from_file_location("gpu_workbench_start", {file})
    start = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(start)
    start.put_in({run}, {entries})
except KeyboardInterrupt:
    import _thread
    _thread.start_new_thread(_thread.interrupt_main, ())
except BaseException as error:
    with open({log}, "a") as file:
        file.write("%r\\\\n" % (error,))
""", {{"__name__": "gpu_workbench_start"}})
'''
"""Script for the target's ``__main__``, in which it leaves no name."""


class CannotInjectError(Exception):
    """An agent that cannot be injected; the text is why and what to do, in one line."""


@dataclass(frozen=True, slots=True)
class InjectionTarget:
    """A Python process that the agent may be injected into."""

    pid: int
    program: str
    """Path of its interpreter."""
    version: tuple[int, int]
    command: tuple[str, ...]


def target_of(pid: int) -> InjectionTarget:
    """Inspect a process from outside; its interpreter is run once to learn its version.

    Raises:
        CannotInjectError: code cannot be injected into the process.
    """
    try:
        files = ProcessFiles(pid)
    except GoneError as error:
        raise CannotInjectError(no_process(pid, own_pids=False).reason) from error
    try:
        access = access_to(files)
        if access.user != os.geteuid():
            raise CannotInjectError(
                f"process {pid} is run by another user: give the command as that user, for whom "
                "the agent listens"
            )
        try:
            files.open_memory()
        except OSError as error:
            why = refusal(access)
            raise CannotInjectError(f"process {pid}: {why.reason}; {why.advice}") from error
        if files.link("ns/mnt") != str(Path("/proc/self/ns/mnt").readlink()):
            raise CannotInjectError(
                f"process {pid} sees other files, as in a container: give the command in there"
            )
        program = files.link("exe")
        words = files.read("cmdline").decode("utf-8", "replace").split("\0")[:-1]
    except (GoneError, OSError) as error:
        raise CannotInjectError(f"process {pid} has ended") from error
    finally:
        files.close()
    # Only a Python interpreter is run with -c.
    if _PYTHON.fullmatch(Path(program).name) is None or not Path(program).exists():
        raise CannotInjectError(f"process {pid} runs {program}, which is no Python interpreter")
    return InjectionTarget(pid, program, version_of(program), tuple(words))


def version_of(program: str) -> tuple[int, int]:
    """Return the version of a Python interpreter, as it reports itself.

    Raises:
        CannotInjectError: it does not report one.
    """
    code = "import sys; print('%d %d' % sys.version_info[:2])"
    command = [program, "-I", "-S", "-c", code]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_VERSION_S
        )
        major, minor = map(int, done.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise CannotInjectError(f"{program} does not tell its version: {error}") from error
    return major, minor


def check_injection(target: InjectionTarget) -> None:
    """Check that code can be injected into a process.

    Raises:
        CannotInjectError: it cannot.
    """
    version = ".".join(map(str, target.version))
    if target.version < OLDEST:
        raise CannotInjectError(f"process {target.pid} runs Python {version}: 3.8 is the oldest")
    if target.version < REMOTE_EXEC:
        raise CannotInjectError(
            f"process {target.pid} runs Python {version}, which takes no code while it runs (3.14 "
            f"does): start it with {EXAMPLE}"
        )


def injected_script(run: Path, entries: int) -> str:
    """Return the script for the process to execute.

    Args:
        run: folder of the run.
        entries: entries of torch's memory history; 0 for no history.
    """
    # Quoted twice: as JSON, whose strings are valid in Python, inside a Python string.
    quoted = {
        name: json.dumps(str(path)).replace("\\", "\\\\")
        for name, path in (
            ("file", START_FOLDER / "sitecustomize.py"),
            ("run", run),
            ("log", run / "agent-errors.log"),
        )
    }
    return _START.format(entries=entries, **quoted)


def remote_exec_command(target: InjectionTarget, path: Path) -> list[str]:
    """Return the command that injects the script; its Python must have the target's version."""
    code = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
    return [target.program, "-I", "-S", "-c", code, str(target.pid), str(path)]


def inject(target: InjectionTarget, run: Path, entries: int) -> None:
    """Inject the agent's script; the process executes it when its main thread reaches it.

    Raises:
        CannotInjectError: the process did not accept it.
        OSError: the run's folder cannot be written to.
    """
    path = run / "inject.py"
    path.write_text(injected_script(run, entries), encoding="utf-8")
    _run_tool(remote_exec_command(target, path))


def _run_tool(command: Sequence[str]) -> None:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is for this program, and must leave no half-made request
    )
    name = Path(command[0]).name
    try:
        output, _ = process.communicate(timeout=_INJECT_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise CannotInjectError(
            f"{name} took longer than {_INJECT_TIMEOUT_S} s and was ended"
        ) from error
    if process.returncode != 0:
        lines = [line for line in output.splitlines() if line.strip()]
        raise CannotInjectError(f"{name}: {(lines or ['it said nothing'])[-1]}")


PATIENCE_S = 1.0
"""Seconds to wait for an answer: the agent's thread needs the GIL, which an extension may hold."""
AgentRequest = Literal["state", "snapshot", "record", "record no more", "end rehearsal"]


@dataclass(frozen=True, slots=True)
class AgentState:
    """An agent's report on its process."""

    identity: str
    pid: int
    run: str
    """Folder of the run."""
    steps: int
    ooms: int
    snapshots: int
    """Requested snapshots that were begun."""
    recording: bool
    """True if the agent has switched torch's memory history on."""
    waiting: int
    """Requests that the next step carries out."""
    program: int = 1
    """Number of the program among all that the process has executed."""


class Agents:
    """Connections to all agents of this user on this machine.

    While a connection is open, this process and its children may read the agent's process, even
    where Yama restricts reading to ancestors.
    """

    def __init__(self) -> None:
        self._open: dict[str, socket.socket] = {}
        self._closed = False
        self._runs: dict[str, str] = {}
        """The run of each agent, by its identity."""

    def close(self) -> None:
        """Disconnect; the processes continue. A request of another thread is still completed."""
        self._closed = True
        for agent in list(self._open.values()):
            agent.close()
        self._open.clear()

    def states(self, run: str = "") -> list[AgentState]:
        """Return the states of all agents that answer, or of one run's agents.

        Args:
            run: folder of the run; empty for all.
        """
        self._find()
        states = []
        for name in list(self._open):
            if self._closed:
                break
            if run and self._runs.get(name, run) != run:
                continue
            state = self.request(name, "state")
            if state is not None:
                self._runs[name] = state.run
                states.append(state)
        return [state for state in states if run in ("", state.run)]

    def request(self, name: str, request: AgentRequest) -> AgentState | None:
        """Send a request to one agent; its process carries it out at its next step.

        Args:
            name: identity of the agent.
            request: the request.

        Returns:
            Its state afterwards; ``None`` if it has ended.
        """
        connection = self._open.get(name)
        if connection is None:
            return None
        try:
            _send(connection, request)
            return _state(name, _receive(connection))
        except (OSError, ValueError, KeyError, TypeError):
            self._open.pop(name, connection).close()
            return None

    def stacks(self, names: Sequence[str]) -> dict[str, ProcessStacks]:
        """Ask agents where their threads are: send all requests first, then wait for each answer.

        Args:
            names: identities of the agents.

        Returns:
            The stacks by identity; agents that ended or exceeded :data:`PATIENCE_S` are absent.
        """
        self._find()
        requested = []
        for name in names:
            connection = self._open.get(name)
            if connection is not None:
                with contextlib.suppress(OSError):
                    _send(connection, "stacks")
                    requested.append((name, connection))
        deadline = time.monotonic() + PATIENCE_S
        stacks = {}
        for name, connection in requested:
            try:
                connection.settimeout(max(0.01, deadline - time.monotonic()))
                stacks[name] = parse_stacks(name, _receive(connection))
                connection.settimeout(PATIENCE_S)
            except (OSError, ValueError):
                self._open.pop(name, connection).close()
        return stacks

    def _find(self) -> None:
        try:
            folder = open_socket_folder(place())
        except OSError:
            return  # no agent was ever here, or the folder cannot be trusted
        try:
            for file in os.listdir(folder):  # noqa: PTH208 (a descriptor)
                name, ends, _ = file.partition(".sock")
                if ends and name not in self._open:
                    self._connect(folder, file, name)
        finally:
            os.close(folder)

    def _connect(self, folder: int, file: str, name: str) -> None:
        pid = name.split("-")[-2] if name.count("-") >= 2 else ""
        if name.rsplit("-", 2)[0] != identity().rsplit("-", 2)[0]:
            return  # an agent of another container with the same folder
        if not _is_process_of(pid, name):
            with contextlib.suppress(OSError):
                os.unlink(file, dir_fd=folder)  # the process of the socket was killed
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE_S)
        try:
            connection.connect(f"/proc/self/fd/{folder}/{file}")
            if read_peer(connection) != (int(pid), os.getuid()):
                raise ConnectionError("another process")
        except OSError:
            connection.close()
            return
        self._open[name] = connection


def _send(connection: socket.socket, message: str) -> None:
    connection.sendall(json.dumps({"ask": message}).encode() + b"\n")


def _receive(connection: socket.socket) -> Any:
    """Receive one answer.

    Raises:
        OSError: the agent has ended, or does not answer.
        ValueError: the answer is no JSON.
    """
    data = b""
    while not data.endswith(b"\n"):
        part = connection.recv(LONGEST_LINE)
        if not part or len(data) > LONGEST_LINE:
            raise ConnectionError("the agent has gone")
        data += part
    return json.loads(data)


def _is_process_of(pid: str, name: str) -> bool:
    with contextlib.suppress(OSError):
        return pid.isdigit() and identity(pid) == name
    return False


def _state(name: str, answer: dict[str, Any]) -> AgentState:
    kinds = {"run": str, "steps": int, "ooms": int, "snapshots": int, "waiting": int}
    facts = {key: kind(answer[key]) for key, kind in kinds.items()}
    pid, facts["program"] = int(name.split("-")[-2]), int(answer.get("program", 1))
    return AgentState(identity=name, pid=pid, recording=bool(answer["recording"]), **facts)
