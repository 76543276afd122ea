"""Takes out of a recording who is at work: user names, home directories, arguments, the host."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TypeVar, cast

from tui.monitor.messages import GpuProcess, HostProcesses, ParentProcess, Sample
from tui.text.redact import HOST, NAME, Redactor
from tui.watch.messages import TorchProcesses
from workloads.protocol import messages

E = TypeVar("E")


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
        if isinstance(event, TorchProcesses):
            return cast(E, self._torch_processes(event))
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
        self._know(row.user for row in rows)
        self._know(row.parent.user for row in rows if row.parent)
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

    def _torch_processes(self, event: TorchProcesses) -> TorchProcesses:
        self._know(each.user for each in event.processes)
        processes = tuple(
            replace(
                each,
                user=each.user and NAME,
                command=each.command and program(each.command),
                reason=_without(each.user, each.reason),
                advice=_without(each.user, each.advice),
                launched_by=self._parent(each.launched_by),
            )
            for each in event.processes
        )
        return self._redact.all_of(replace(event, processes=processes))

    def _know(self, users: Iterable[str | None]) -> None:
        found = {user for user in users if user}
        if not found <= self._names:
            self._names |= found
            self._redact = self._redactor()

    @staticmethod
    def _parent(parent: ParentProcess | None) -> ParentProcess | None:
        return parent and replace(
            parent, user=parent.user and NAME, command=parent.command and program(parent.command)
        )

    def _host_processes(self, found: HostProcesses | None) -> HostProcesses | None:
        return None if found is None else replace(found, rows=self._rows(found.rows))

    def _rows(self, rows: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
        return tuple(
            replace(
                row,
                user=row.user and NAME,
                command=row.command and program(row.command),
                parent=self._parent(row.parent),
            )
            for row in rows
        )

    def _redactor(self) -> Redactor:
        # Its collector looks for names in paths of home directories.
        return Redactor(f"/home/{name}/" for name in sorted(self._names))


def _without(user: str | None, words: str) -> str:
    """A sentence without the name of who runs the process that it is about."""
    return re.sub(rf"\b{re.escape(user)}\b", NAME, words) if user else words


def program(command: str) -> str:
    """The program's name out of a command line: its arguments can hold paths and keys."""
    # A title that a program gives itself, as "postgres: jane idle", ends its name with a colon.
    first = re.split(r"[\s:]", command.strip(), maxsplit=1)[0]
    return PurePath(first).name or first
