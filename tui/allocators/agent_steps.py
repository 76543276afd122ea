"""Query the agents of running processes over their sockets: steps, OOMs, run.

A process has an agent if ``watch`` has started it. A socket is trusted if only this user can write
to its folder and its other end is the process that its name says.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from workloads.agent import identity
from workloads.agent.address import LONGEST_LINE, open_socket_folder, place, read_peer

PATIENCE_S = 0.2
"""Seconds to wait for an answer: the agent's thread needs the GIL, which an extension may hold."""


@dataclass(frozen=True)
class AgentReport:
    """The report of a process's agent."""

    identity: str
    """Machine, pid and start of the process."""
    program: int
    """Number of the program among all that the process has executed."""
    run: str
    """Folder of the run."""
    steps: int
    ooms: int


class AgentReports:
    """Connections to the agents of this user's processes, reused while open."""

    def __init__(self) -> None:
        self._open: dict[int, socket.socket] = {}

    def read(self, pids: Iterable[int]) -> dict[int, AgentReport]:
        """Return the reports by pid; processes without an agent that answers are absent.

        Args:
            pids: the processes.
        """
        requested = set(pids)
        for pid in set(self._open) - requested:
            self._open.pop(pid).close()
        missing = requested.difference(self._open)
        if missing:
            self._connect(missing)
        reports = {}
        for pid in sorted(self._open):
            report = self._request_report(self._open[pid])
            if report is None:
                self._open.pop(pid).close()
            else:
                reports[pid] = report
        return reports

    def _connect(self, pids: Iterable[int]) -> None:
        try:
            folder = open_socket_folder(place())
        except OSError:
            return  # no agent was ever here, or the folder cannot be trusted
        try:
            for pid in pids:
                with contextlib.suppress(OSError):
                    self._open[pid] = _connect(folder, pid)
        finally:
            os.close(folder)

    @staticmethod
    def _request_report(connection: socket.socket) -> AgentReport | None:
        try:
            connection.sendall(b'{"ask": "state"}\n')
            data = b""
            while not data.endswith(b"\n"):
                part = connection.recv(LONGEST_LINE)
                if not part or len(data) > LONGEST_LINE:
                    return None
                data += part
            report = json.loads(data)
            identity, run = str(report["identity"]), str(report["run"])
            program, steps, ooms = (int(report[name]) for name in ("program", "steps", "ooms"))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        # The name becomes part of a path.
        return None if "/" in identity else AgentReport(identity, program, run, steps, ooms)


def _connect(folder: int, pid: int) -> socket.socket:
    """Connect to the agent of a process.

    Raises:
        OSError: it has none, or another process answers.
    """
    name = identity(pid)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(PATIENCE_S)
        connection.connect(f"/proc/self/fd/{folder}/{name}.sock")
        if read_peer(connection) != (pid, os.getuid()):
            raise ConnectionError("another process")
    except OSError:
        connection.close()
        raise
    return connection
