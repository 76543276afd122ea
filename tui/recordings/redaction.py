"""Takes out of a recording who is at work: user names, home directories, arguments, the host."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TypeVar, cast

from tui.monitor.messages import GpuProcess, HostProcesses, Sample
from tui.text.redact import NAME, Redactor
from workloads.protocol import messages

E = TypeVar("E")

HOST = "host"
"""What stands for the name of the host."""


class Redaction:
    """Replaces what tells on somebody, the same way in every message of one recording.

    Processes keep their PID, their program's name and their memory, and so does the Python that
    runs the workloads. Names of users become
    ``user``, wherever they stand: those of processes and those in paths of home directories.

    Args:
        home: our own home directory.
    """

    def __init__(self, home: Path | None = None) -> None:
        self._names = {(home or Path.home()).name}
        self._redact = self._redactor()

    def __call__(self, event: E) -> E:
        """The event without them."""
        if isinstance(event, Sample):
            return cast(E, self._sample(event))
        if isinstance(event, messages.Hello):
            event = cast(E, replace(event, executable=program(event.executable)))
        elif isinstance(event, messages.Ready):
            python = program(event.environment.executable)
            event = cast(
                E, replace(event, environment=replace(event.environment, executable=python))
            )
        return self._redact.all_of(event)

    def _sample(self, sample: Sample) -> Sample:
        rows = [row for device in sample.devices for row in device.processes or ()]
        hosts = sample.host_processes
        rows += hosts.rows if hosts else ()
        users = {row.user for row in rows if row.user}
        users |= {row.parent.user for row in rows if row.parent and row.parent.user}
        if not users <= self._names:
            self._names |= users
            self._redact = self._redactor()
        devices = tuple(
            replace(device, processes=device.processes and self._rows(device.processes))
            for device in sample.devices
        )
        return self._redact.all_of(
            replace(
                sample,
                host=replace(sample.host, name=HOST),
                devices=devices,
                host_processes=self._host_processes(hosts),
            )
        )

    def _host_processes(self, found: HostProcesses | None) -> HostProcesses | None:
        return None if found is None else replace(found, rows=self._rows(found.rows))

    def _rows(self, rows: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
        return tuple(
            replace(
                row,
                user=row.user and NAME,
                command=row.command and program(row.command),
                parent=row.parent
                and replace(
                    row.parent,
                    user=row.parent.user and NAME,
                    command=row.parent.command and program(row.parent.command),
                ),
            )
            for row in rows
        )

    def _redactor(self) -> Redactor:
        # Its collector looks for names in paths of home directories.
        return Redactor(f"/home/{name}/" for name in sorted(self._names))


def program(command: str) -> str:
    """The program's name out of a command line: its arguments can hold paths and keys."""
    # A title that a program gives itself, as "postgres: jane idle", ends its name with a colon.
    first = re.split(r"[\s:]", command.strip(), maxsplit=1)[0]
    return PurePath(first).name or first
