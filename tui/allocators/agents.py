"""The agents of running processes: their answers over sockets, and their logs of OOMs.

A process has an agent if ``watch`` has started it. A socket is trusted if only this user can write
to its folder and its other end is the process that its name says: a fork may hold it open after
that process has ended.

The agent appends lines to a file in the folder of its run. Another machine cannot read that file,
so its lines are sent as they appear, once they contain an OOM.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.allocators.messages import AgentLogPart
from workloads.agent import address, identity, program_name
from workloads.agent.address import open_socket_folder, place, read_peer

TIMEOUT_S = 0.2
"""Seconds to wait for an answer: the agent's thread needs the GIL, which an extension may hold."""
_MOST_PID_DIGITS = 10


def pid_of(process: str) -> int:
    """Return the pid in the identity of a process; 0, the pid of no process, for other texts."""
    words = process.rsplit("-", 2)
    is_pid = len(words) == 3 and words[1].isdecimal() and len(words[1]) <= _MOST_PID_DIGITS
    return int(words[1]) if is_pid else 0


def find_running(process: str) -> int:
    """Return the pid of the process with this identity; 0 if it has ended."""
    pid = pid_of(process)
    with contextlib.suppress(OSError):
        if pid and identity(pid) == process:
            return pid
    return 0


@dataclass(frozen=True)
class AgentState:
    """An agent's report on its process."""

    identity: str
    """Machine, pid and start of the process."""
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

    @property
    def log_name(self) -> str:
        """Name of the program's log in the folder of the run, without its ending."""
        return program_name(self.identity, self.program)


def connect(folder: int, pid: int, timeout_s: float) -> socket.socket:
    """Connect to the agent of a process.

    Args:
        folder: descriptor of the folder with the sockets.
        pid: the process.
        timeout_s: seconds to wait for each answer.

    Raises:
        OSError: it has none, or another process answers.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(f"/proc/self/fd/{folder}/{identity(pid)}.sock")
        if read_peer(connection) != (pid, os.getuid()):
            raise ConnectionError("another process")
    except OSError:
        connection.close()
        raise
    return connection


def send_request(connection: socket.socket, request: str) -> None:
    """Send a request to an agent.

    Raises:
        OSError: the agent has ended.
    """
    connection.sendall(json.dumps({"ask": request}).encode() + b"\n")


def receive_answer(connection: socket.socket) -> Any:
    """Receive one answer.

    Raises:
        OSError: the agent has ended, or does not answer.
        ValueError: the answer is no JSON.
    """
    data = b""
    while not data.endswith(b"\n"):
        part = connection.recv(address.LONGEST_LINE)
        if not part or len(data) > address.LONGEST_LINE:
            raise ConnectionError("the agent has gone")
        data += part
    return json.loads(data)


def request_state(
    connection: socket.socket, process: str, request: str = "state"
) -> AgentState | None:
    """Send a request to an agent and return its state afterwards; ``None`` if it has ended.

    Args:
        connection: of the agent.
        process: identity of its process.
        request: the request, which the process may carry out at its next step.
    """
    try:
        send_request(connection, request)
        answer = receive_answer(connection)
        return AgentState(
            process,
            pid_of(process),
            run=str(answer["run"]),
            steps=int(answer["steps"]),
            ooms=int(answer["ooms"]),
            snapshots=int(answer["snapshots"]),
            recording=bool(answer["recording"]),
            waiting=int(answer["waiting"]),
            program=int(answer.get("program", 1)),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


class AgentConnections:
    """Connections to the agents of this user's processes, reused while open."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[str, socket.socket]] = {}
        """Identity and connection by pid."""

    def read(self, pids: Iterable[int]) -> dict[int, AgentState]:
        """Return the states by pid; processes without an agent that answers are absent.

        Args:
            pids: the processes.
        """
        requested = set(pids)
        for pid in set(self._open) - requested:
            self._close(pid)
        missing = requested.difference(self._open)
        if missing:
            self._connect(missing)
        states = {}
        for pid in sorted(self._open):
            process, connection = self._open[pid]
            state = request_state(connection, process)
            if state is None:
                self._close(pid)
            else:
                states[pid] = state
        return states

    def _close(self, pid: int) -> None:
        self._open.pop(pid)[1].close()

    def _connect(self, pids: Iterable[int]) -> None:
        try:
            folder = open_socket_folder(place())
        except OSError:
            return  # no agent was ever here, or the folder cannot be trusted
        try:
            for pid in pids:
                with contextlib.suppress(OSError):
                    self._open[pid] = identity(pid), connect(folder, pid, TIMEOUT_S)
        finally:
            os.close(folder)


LONGEST_LINE = 1 << 20
"""Bytes of a line; longer ones are left out."""
_MOST_BYTES = 4 << 20
"""Bytes of a log that are sent."""
_PART_BYTES = 512 << 10
"""Bytes after which a part ends: it must stay below the longest line of the protocol."""
_TURNS_AFTER_END = 5
"""Readings for which a log is followed after its agent has gone."""
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


@dataclass
class _Log:
    """The log of one program."""

    pid: int
    identity: str
    run: str
    ooms: int = 0
    sent: int = 0
    """Bytes that were sent or left out."""
    number: int = 0
    """Parts that were sent."""
    size: int = 0
    """Bytes of the file at the last reading."""
    turns: int = _TURNS_AFTER_END
    """Readings that are left once the agent has gone."""

    def read_lines(self) -> list[bytes]:
        """Return the complete lines since the last reading."""
        path = Path(self.run) / f"{self.identity}.jsonl"
        room = _MOST_BYTES - self.sent
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError:
            return []
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if room <= 0 or facts.st_size == self.size or not stat.S_ISREG(facts.st_mode):
                return []
            self.size = facts.st_size
            file.seek(self.sent)
            data = file.read(room)
        whole = data[: data.rfind(b"\n") + 1]
        self.sent += len(whole)
        return whole.splitlines(keepends=True)


class AgentLogs:
    """Follows the logs of agents, and returns their lines once they contain an OOM."""

    def __init__(self) -> None:
        self._logs: dict[int, _Log] = {}

    def read(
        self, states: Mapping[int, AgentState], pids: Collection[int]
    ) -> Iterator[AgentLogPart]:
        """Yield the new lines of the logs.

        Args:
            states: the agents' states, by pid.
            pids: the watched processes; agents of other processes have ended.
        """
        for pid, state in states.items():
            known = self._logs.get(pid)
            if known is None or known.identity != state.log_name:
                known = self._logs[pid] = _Log(pid, state.log_name, state.run)
            known.ooms, known.turns = state.ooms, _TURNS_AFTER_END
        for pid, log in list(self._logs.items()):
            has_gone = pid not in states
            if has_gone:
                # An agent that is busy with an OOM does not answer either.
                log.turns -= pid not in pids
                if log.turns < 0:
                    del self._logs[pid]
            if log.ooms or has_gone:
                yield from _parts(log)


def _parts(log: _Log) -> Iterator[AgentLogPart]:
    """Yield the new lines of a log; none of one without an OOM."""
    before = log.sent
    lines = log.read_lines()
    if not (log.number or log.ooms or any(b'"oom"' in line for line in lines)):
        log.sent = before
        return
    part: list[str] = []
    size = 0
    for line in lines:
        if len(line) > LONGEST_LINE:
            continue
        if part and size + len(line) > _PART_BYTES:
            yield _part(log, part)
            part, size = [], 0
        part.append(line.decode("utf-8", "replace").rstrip("\n"))
        size += len(line)
    if part:
        yield _part(log, part)


def _part(log: _Log, lines: list[str]) -> AgentLogPart:
    log.number += 1
    return AgentLogPart(log.pid, log.identity, log.run, log.number, tuple(lines))
