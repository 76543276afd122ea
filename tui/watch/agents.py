"""The agents of running processes: found by their sockets, asked for their state.

A socket is believed where its folder is this user's alone and its other end is the process after
which it is named: a fork may hold it open when that process is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import Any, Literal

from workloads.agent import identity
from workloads.agent.listening import LONGEST_LINE, open_place, peer_of, place
from workloads.protocol.frozen import frozen

PATIENCE_S = 1.0
"""For an answer: the agent's thread needs the interpreter, which an extension may hold."""
Ask = Literal["state", "snapshot", "record", "record no more"]


@frozen
class AgentState:
    """What an agent says of its process."""

    identity: str
    pid: int
    run: str
    """The folder of the run."""
    steps: int
    ooms: int
    snapshots: int
    """That were asked for and begun."""
    recording: bool
    """Torch's memory history, switched on by the agent."""
    waiting: int
    """Requests that the next step carries out."""


class Agents:
    """Connections to all agents of this user on this machine.

    While one is open, its process may be read by this one and by what this one has started, also
    where Yama lets a process be read by its ancestors alone.
    """

    def __init__(self) -> None:
        self._open: dict[str, socket.socket] = {}
        self._closed = False
        self._runs: dict[str, str] = {}
        """The run of each, by its identity."""

    def close(self) -> None:
        """Leave; the processes go on. A question that another thread asks meanwhile is the last."""
        self._closed = True
        for each in list(self._open.values()):
            each.close()
        self._open.clear()

    def states(self, run: str = "") -> list[AgentState]:
        """Of all agents that answer, or of those of one run.

        Args:
            run: its folder; empty for all.
        """
        self._find()
        found = []
        for name in list(self._open):
            if self._closed:
                break
            if run and self._runs.get(name, run) != run:
                continue
            state = self.ask(name, "state")
            if state is not None:
                self._runs[name] = state.run
                found.append(state)
        return [state for state in found if run in ("", state.run)]

    def ask(self, name: str, what: Ask) -> AgentState | None:
        """Ask one agent for something, which its process does at its next step.

        Args:
            name: its identity.
            what: the request.

        Returns:
            Its state then; ``None`` where it has gone.
        """
        connection = self._open.get(name)
        if connection is None:
            return None
        try:
            connection.sendall(json.dumps({"ask": what}).encode() + b"\n")
            data = b""
            while not data.endswith(b"\n"):
                part = connection.recv(LONGEST_LINE)
                if not part or len(data) > LONGEST_LINE:
                    raise ConnectionError("the agent has gone")
                data += part
            return _state(name, json.loads(data))
        except (OSError, ValueError, KeyError, TypeError):
            self._open.pop(name, connection).close()
            return None

    def _find(self) -> None:
        try:
            folder = open_place(place())
        except OSError:
            return  # no agent has been here, or the folder is not to be trusted
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
            return  # of another container with the same folder
        if not _is(pid, name):
            with contextlib.suppress(OSError):
                os.unlink(file, dir_fd=folder)  # its process was killed
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE_S)
        try:
            connection.connect(f"/proc/self/fd/{folder}/{file}")
            if peer_of(connection) != (int(pid), os.getuid()):
                raise ConnectionError("another process")
        except OSError:
            connection.close()
            return
        self._open[name] = connection


def _is(pid: str, name: str) -> bool:
    with contextlib.suppress(OSError):
        return pid.isdigit() and identity(pid) == name
    return False


def _state(name: str, told: dict[str, Any]) -> AgentState:
    kinds = {"run": str, "steps": int, "ooms": int, "snapshots": int, "waiting": int}
    facts = {key: kind(told[key]) for key, kind in kinds.items()}
    pid = int(name.split("-")[-2])
    return AgentState(identity=name, pid=pid, recording=bool(told["recording"]), **facts)
