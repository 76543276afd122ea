"""The logs of agents that have recorded an OOM, read from the folders of their runs.

The agent of a process, if ``watch`` has started it there, appends lines to a file in the folder of
its run. Another machine cannot read that file, so its lines are sent as they appear.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tui.allocators.agent_steps import AgentReport
from tui.allocators.messages import AgentLogPart
from workloads.agent import program_name

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
        self, reports: Mapping[int, AgentReport], pids: Collection[int]
    ) -> Iterator[AgentLogPart]:
        """Yield the new lines of the logs.

        Args:
            reports: the agents' reports, by pid.
            pids: the watched processes; agents of other processes have ended.
        """
        for pid, report in reports.items():
            identity = program_name(report.identity, report.program)
            known = self._logs.get(pid)
            if known is None or known.identity != identity:
                known = self._logs[pid] = _Log(pid, identity, report.run)
            known.ooms, known.turns = report.ooms, _TURNS_AFTER_END
        for pid, log in list(self._logs.items()):
            has_gone = pid not in reports
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
