"""The agents of running processes: their states, requests to them, and the stacks of each rank."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tui.allocators.agents import (
    AgentState,
    connect,
    find_running,
    pid_of,
    receive_answer,
    request_state,
    send_request,
)
from tui.snapshots.explain.inventory import ThreadStack
from tui.watch.runs.process_logs import process_logs_in
from tui.watch.runs.runs import StartedRun, processes_of
from workloads.agent import identity
from workloads.agent.address import open_socket_folder, place
from workloads.protocol import wire

TIMEOUT_S = 1.0
"""Seconds to wait for an answer: the agent's thread needs the GIL, which an extension may hold."""
NO_ANSWER = (
    "its agent does not answer: an extension holds the interpreter, the process is stopped, or its "
    "socket is in another XDG_RUNTIME_DIR; py-spy dump --pid {pid} reads the stacks from outside"
)
NO_PROCESS = "the process has ended, or has not used CUDA yet"
AgentRequest = Literal["state", "snapshot", "record", "record no more", "end rehearsal"]


@dataclass(frozen=True, slots=True)
class ProcessStacks:
    """The Python stacks of one process, all read at one moment."""

    identity: str
    pid: int
    steps: int
    """Number of optimizer steps."""
    threads: tuple[ThreadStack, ...]
    """The main thread first; C++ threads have no Python stack and are absent."""
    left_out: int = 0
    """Threads that did not fit into the answer."""


def parse_stacks(identity: str, data: Any) -> ProcessStacks:
    """Parse an agent's answer.

    Raises:
        WireError: the answer is malformed (a ``ValueError``); the message names the place.
    """
    if not isinstance(data, dict) or "threads" not in data:
        raise wire.WireError("stacks: the agent does not know this request")
    facts = {name: data.get(name, 0) for name in ("steps", "threads", "left_out")}
    plain = dict(facts, identity=identity, pid=pid_of(identity))
    stacks: ProcessStacks = wire.from_plain(ProcessStacks, plain, "stacks")
    return stacks


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
        state = request_state(connection, name, request)
        if state is None:
            self._open.pop(name, connection).close()
        return state

    def stacks(self, names: Sequence[str]) -> dict[str, ProcessStacks]:
        """Ask agents where their threads are: send all requests first, then wait for each answer.

        Args:
            names: identities of the agents.

        Returns:
            The stacks by identity; agents that ended or exceeded :data:`TIMEOUT_S` are absent.
        """
        self._find()
        requested = []
        for name in names:
            connection = self._open.get(name)
            if connection is not None:
                with contextlib.suppress(OSError):
                    send_request(connection, "stacks")
                    requested.append((name, connection))
        deadline = time.monotonic() + TIMEOUT_S
        stacks = {}
        for name, connection in requested:
            try:
                connection.settimeout(max(0.01, deadline - time.monotonic()))
                stacks[name] = parse_stacks(name, receive_answer(connection))
                connection.settimeout(TIMEOUT_S)
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
        if name.rsplit("-", 2)[0] != identity().rsplit("-", 2)[0]:
            return  # an agent of another container with the same folder
        pid = find_running(name)
        with contextlib.suppress(OSError):
            if pid:
                self._open[name] = connect(folder, pid, TIMEOUT_S)
            else:
                os.unlink(file, dir_fd=folder)  # the process of the socket was killed


@dataclass(frozen=True, slots=True)
class RankStacks:
    """One process of a run with its stacks, or with the reason why there are none."""

    pid: int
    rank: str | None
    """``RANK`` as its launcher set it; ``None`` without a launcher."""
    stacks: ProcessStacks | None
    why_none: str = ""


def read_rank_stacks(run: StartedRun) -> tuple[tuple[RankStacks, ...], str]:
    """Ask all running processes of a run for their stacks.

    This stops nothing in them: the agent's own thread answers, which needs the GIL for a moment,
    so that even a rank that waits in a C++ call can answer.

    Returns:
        The processes, sorted by rank and pid, and the reason if there are none.
    """
    if not run.is_of_this_machine:
        return (), f"it is a run of {run.host}: ask there"
    present = set(processes_of(run.folder))
    logs = [log for log in process_logs_in(run.folder) if log.pid in present and not log.ended]
    logs.sort(key=lambda log: (log.rank_number is None, log.rank_number or 0, log.pid))
    with contextlib.closing(Agents()) as agents:
        stacks = agents.stacks([log.identity for log in logs])
    ranks = tuple(
        RankStacks(
            log.pid,
            log.rank,
            stacks.get(log.identity),
            "" if log.identity in stacks else NO_ANSWER.format(pid=log.pid),
        )
        for log in logs
    )
    return ranks, "" if ranks else NO_PROCESS
