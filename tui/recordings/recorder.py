"""The writer of recordings, with optional redaction of the names of users and hosts.

A crash loses at most the line being written.
"""

from __future__ import annotations

import datetime
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import TypeVar, cast

from tui.allocators.messages import TorchProcess, TorchProcesses
from tui.core.events import LogLine, RequestSent, RunnerStatus
from tui.core.text.redact import HOST, NAME, Redactor, whole_words, with_texts
from tui.devices.state.machine import DeviceSelected, PeaksReset
from tui.hosts.events import AnyHostEvent, HostLost, HostSample, HostsNamed, HostTorch
from tui.monitor.messages import GpuProcess, ParentProcess, Sample
from tui.recordings import lines
from tui.recordings.lines import GZIP, AnyEvent
from tui.runs.session.session import Session
from tui.runs.state.events import CeilingsRead, HostRunEvent
from workloads.protocol import messages, wire
from workloads.protocol.machine_identity import UNKNOWN
from workloads.protocol.process import write_whole
from workloads.protocol.results import Ceiling

E = TypeVar("E")
P = TypeVar("P", GpuProcess, ParentProcess, TorchProcess)

_UUID = re.compile(
    r"(?P<kind>(?:MIG-GPU-|GPU-|MIG-))(?P<number>[0-9a-f]{1,8}(?:-[0-9a-f]{0,12}){0,4})(?![0-9a-z])"
    r"|(?<![0-9a-z-])(?P<bare>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-z-])",
    re.IGNORECASE,
)
_WHOLE_UUID = 36
_IPV6 = re.compile(r":.*:")
_OWN_WORD = re.compile(r"[a-z_]+(?::\d+)?")
"""A text that may be a word of ours, such as a status or a device, although a host has its name."""
NO_REASON = "not connected; the reason was left out of the recording"


class Redaction:
    """Replaces identifying text consistently in every message of one recording.

    Processes keep their PID, program name and memory, and so does the Python that runs the
    workloads. Names of users become ``user``, both of processes and in paths of home directories.
    Each UUID of a GPU becomes the same stand-in throughout, so that NVML's and torch's devices
    still match; the bus id of a GPU stays, because machines of one kind share it. Names of other
    hosts become ``host1``, ``host2`` and so on; what a machine calls itself becomes ``host``.

    Args:
        home: our own home directory.
    """

    def __init__(self, home: Path | None = None) -> None:
        self._names = {(home or Path.home()).name}
        self._redact = self._redactor()
        self._stand_ins: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        """Stand-ins for the names of other hosts."""
        self._host_words: dict[str, str] = {}
        """Stand-ins for these hosts' names within texts."""
        self._host_pattern: re.Pattern[str] | None = None

    def __call__(self, event: E) -> E:
        """Return the redacted event."""
        return with_texts(self._without_names(event), self._without_uuids, keys=True)

    def _clean(self, value: E) -> E:
        """Return a value without the names of users and other hosts in its texts."""
        return with_texts(value, self._clean_text, keys=True)

    def _clean_text(self, text: str) -> str:
        if self._host_pattern is not None and not _OWN_WORD.fullmatch(text):
            text = self._host_pattern.sub(lambda match: self._host_words[match[0]], text)
        return self._redact(text)

    def _without_uuids(self, text: str) -> str:
        # Most of the many texts in a recording have none.
        return _UUID.sub(self._replace_uuid, text) if "-" in text else text

    def _replace_uuid(self, match: re.Match[str]) -> str:
        """Return the stand-in for a UUID, which CUDA_VISIBLE_DEVICES may abbreviate."""
        number = (match["number"] or match["bare"]).lower()
        known = self._stand_ins
        if number not in known:
            fitting = [
                uuid
                for uuid in known
                if (uuid.startswith(number) and len(uuid) == _WHOLE_UUID)
                or (number.startswith(uuid) and len(number) == _WHOLE_UUID)
            ]
            fresh = f"00000000-0000-0000-0000-{len(known) + 1:012x}"
            used = {known[uuid] for uuid in known if len(uuid) == _WHOLE_UUID}
            usable = [
                known[uuid]
                for uuid in fitting
                if len(number) < _WHOLE_UUID or known[uuid] not in used
            ]
            known[number] = usable[0] if usable else fresh
        return (match["kind"] or "") + known[number]

    def _without_names(self, event: E) -> E:
        if isinstance(event, HostRunEvent):
            return cast(E, self._host_run(event))
        if isinstance(
            event, (HostsNamed, HostSample, HostLost, HostTorch, DeviceSelected, PeaksReset)
        ):
            return cast(E, self._without_hosts(event))
        if isinstance(event, Sample):
            return cast(E, self._sample(event))
        if isinstance(event, TorchProcesses):
            return cast(E, self._torch_processes(event))
        if isinstance(event, messages.CeilingMeasured):
            event = cast(E, replace(event, ceiling=_remove_host(event.ceiling)))
        elif isinstance(event, (CeilingsRead, messages.KnownCeilings)):
            ceilings = tuple(map(_remove_host, event.ceilings))
            event = cast(E, replace(event, ceilings=ceilings))
        elif isinstance(event, messages.Hello):
            event = cast(E, replace(event, executable=extract_program_name(event.executable)))
        elif isinstance(event, messages.Ready):
            python = extract_program_name(event.environment.executable)
            there = replace(event.environment, executable=python)
            event = cast(E, replace(event, environment=there, identity=UNKNOWN))
        return self._clean(event)

    def _without_hosts(
        self, event: AnyHostEvent | DeviceSelected | PeaksReset
    ) -> AnyHostEvent | DeviceSelected | PeaksReset:
        """Return an event with stand-ins for the names of other hosts."""
        if isinstance(event, HostsNamed):
            return replace(event, names=tuple(map(self._host, event.names)))
        if isinstance(event, HostSample):
            stand_in = self._host(event.host)
            self._add_host_word(event.sample.host.name, stand_in)
            return replace(event, host=stand_in, sample=self._sample(event.sample))
        if isinstance(event, HostTorch):
            processes = event.processes and self._torch_processes(event.processes)
            lost = NO_REASON if event.lost else ""
            # A log has the names of hosts, files and variables of the program.
            rest = replace(event, processes=None, log=None, lost=lost)
            redacted = self._clean(rest)
            return replace(redacted, host=self._host(event.host), processes=processes)
        if isinstance(event, HostLost):
            # ssh's own words have names and addresses.
            return replace(event, host=self._host(event.host), reason=NO_REASON)
        name, colon, device = event.key.rpartition(":")
        if colon and name in self._hosts:
            return replace(event, key=f"{self._host(name)}:{device}")
        return self._clean(event)

    def _host_run(self, event: HostRunEvent) -> HostRunEvent:
        """Return an event of the runs on a host with stand-ins for the names of hosts."""
        inner = event.event
        if isinstance(inner, RunnerStatus) and inner.reason:
            # ssh's own words have names and addresses.
            inner = replace(inner, reason=NO_REASON, advice="")
        elif isinstance(inner, messages.Unusable):
            inner = replace(inner, reason=NO_REASON, advice="", detail="")
        elif isinstance(inner, messages.Rejected):
            # The loss of the connection ends runs with the same words.
            inner = replace(inner, reason=NO_REASON)
        return HostRunEvent(self._host(event.host), self._without_names(inner))

    def _host(self, name: str) -> str:
        """Return the stand-in for the name of another host."""
        if name not in self._hosts:
            stand_in = self._hosts[name] = f"{HOST}{len(self._hosts) + 1}"
            # Without the user of ssh, and without the kind of a container.
            bare = name.rpartition("@")[2]
            target = bare if _IPV6.search(bare) else re.split(r"[:/]", bare)[-1]
            for word in (name, bare, target):
                self._add_host_word(word, stand_in)
        return self._hosts[name]

    def _add_host_word(self, word: str, stand_in: str) -> None:
        # A number names no host, and would be replaced within versions and figures.
        if word not in self._host_words and not word.isdecimal():
            self._host_words[word] = stand_in
            self._host_pattern = whole_words(self._host_words, within=r"\w-", any_case=False)

    def _sample(self, sample: Sample) -> Sample:
        rows = [row for device in sample.devices for row in device.processes or ()]
        hosts = sample.host_processes
        rows += hosts.rows if hosts else ()
        self._collect_user_names(row.user for row in rows)
        self._collect_user_names(row.parent.user for row in rows if row.parent)
        devices = tuple(
            replace(device, processes=device.processes and _hide_users(device.processes))
            for device in sample.devices
        )
        return self._clean(
            replace(
                sample,
                host=replace(sample.host, name=HOST, identity=UNKNOWN),
                devices=devices,
                host_processes=hosts and replace(hosts, rows=_hide_users(hosts.rows)),
            )
        )

    def _torch_processes(self, event: TorchProcesses) -> TorchProcesses:
        self._collect_user_names(process.user for process in event.processes)
        processes = tuple(
            replace(
                _hide_user(process),
                reason=_remove_user(process.user, process.reason),
                advice=_remove_user(process.user, process.advice),
                launched_by=process.launched_by and _hide_user(process.launched_by),
                # It has the name of a host.
                job=None,
            )
            for process in event.processes
        )
        return self._clean(replace(event, processes=processes))

    def _collect_user_names(self, users: Iterable[str | None]) -> None:
        names = {user for user in users if user}
        if not names <= self._names:
            self._names |= names
            self._redact = self._redactor()

    def _redactor(self) -> Redactor:
        # Its collector looks for names in paths of home directories.
        return Redactor(f"/home/{name}/" for name in sorted(self._names))


def _hide_user(process: P) -> P:
    """Return a process without the name of its user, and with its program's name alone."""
    return replace(
        process,
        user=process.user and NAME,
        command=process.command and extract_program_name(process.command),
    )


def _hide_users(rows: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
    return tuple(
        replace(_hide_user(row), parent=row.parent and _hide_user(row.parent)) for row in rows
    )


def _remove_host(ceiling: Ceiling) -> Ceiling:
    """Return a ceiling without the name of the machine on which it was measured."""
    if "host" not in ceiling.under:
        return ceiling
    return replace(ceiling, under={**ceiling.under, "host": HOST})


def _remove_user(user: str | None, sentence: str) -> str:
    """Return a sentence about a process without the name of its user."""
    return re.sub(rf"\b{re.escape(user)}\b", NAME, sentence) if user else sentence


def extract_program_name(command: str) -> str:
    """Return the program's name from a command line, whose arguments can have paths and keys."""
    # A title that a program sets, such as "postgres: jane idle", ends its name with a colon.
    first = re.split(r"[\s:]", command.strip(), maxsplit=1)[0]
    return PurePath(first).name or first


class Recorder:
    """Writes the events of a session, line by line.

    Args:
        path: the file, which must not exist; compressed if its name ends in ``.gz``.
        redaction: removes user names from each message; ``None`` for no redaction.
        title: title that the screen shows during replay.
        simulated: the GPUs are simulated.
        now: Unix time.
        elapsed: seconds since any fixed moment.

    Raises:
        OSError: the file exists already, or cannot be created.
    """

    def __init__(
        self,
        path: Path,
        redaction: Redaction | None = None,
        title: str = "",
        now: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
        *,
        simulated: bool = False,
    ) -> None:
        self.on_end: Callable[[str], object] | None = None
        """Called once with the reason if the recording ends before :meth:`close`."""
        self.problem = ""
        """The reason why the recording is incomplete; empty if it is complete."""
        self._path = path
        self._redact = redaction
        self._elapsed = elapsed
        # Readable by the user alone: it shows who runs which programs on this machine.
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._pack = zlib.compressobj(wbits=GZIP) if path.suffix == ".gz" else None
        at = now()
        self._began = elapsed()
        date = datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
        first = lines.Recording(
            version=lines.VERSION,
            program=version("gpu-workbench"),
            at=at,
            date=date.isoformat(timespec="seconds"),
            redacted=redaction is not None,
            title=title,
            simulated=simulated,
        )
        try:
            self._write(wire.encode(first))
        except OSError:
            self.close()
            raise

    def attach(self, session: Session) -> None:
        """Write the events of a session; log an early end of the recording."""
        self.on_end = lambda why: session.state.publish(LogLine("workbench", why, "error"))
        session.state.bus.observe(self.write)

    def start(self) -> None:
        """Do nothing: the recorder writes from the first event on."""

    async def detach(self) -> None:
        """End the recording."""
        self.close()

    def write(self, event: object) -> None:
        """Write an event or a request to a child."""
        if self._file is None:
            return
        if isinstance(event, RequestSent):
            request = event.request if self._redact is None else self._redact(event.request)
            self._append(lines.encode_request(self._at, event.child, request))
        else:
            written = cast(AnyEvent, event if self._redact is None else self._redact(event))
            self._append(lines.encode_event(self._at, written))

    def close(self) -> None:
        """End the recording."""
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            try:
                if self._pack is not None and not self.problem:
                    write_whole(file, self._pack.flush(zlib.Z_FINISH))
            finally:
                # A network disk may report only here that it is full.
                os.close(file)
        except OSError as error:
            why = error.strerror or error
            self.problem = self.problem or f"the end of the recording is lost: {self._path}: {why}"

    @property
    def _at(self) -> float:
        return self._elapsed() - self._began

    def _append(self, line: bytes) -> None:
        try:
            self._write(line)
        except OSError as error:
            why = error.strerror or error
            cut = f"the recording is cut after {lines.format_time(self._at)}"
            self.problem = f"{cut}: {self._path}: {why}"
            self.close()
            if self.on_end is not None:
                self.on_end(f"the recording ends here: {self._path}: {why}")

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        if self._pack is not None:
            # Flushed to a byte boundary, so that the file can be unpacked after any end.
            line = self._pack.compress(line) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        write_whole(self._file, line)
