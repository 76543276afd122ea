"""Where a host is, and the command that runs a program there."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workloads.agent.address import open_socket_folder, place

SSH_OPTIONS = (
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2", "-o", "Compression=yes"),
)
"""No terminal and no question: nobody could answer one. A link that is cut ends within 10 s.
Samples are repetitive text: for eight GPUs they shrink from 12 kB/s to 0.7 kB/s."""
SHARED_CONNECTION = ("-o", "ControlMaster=auto", "-o", "ControlPersist=4")
"""The children of one host share one connection, and so does a start soon after. Nothing is left of
it 5 s after this side is killed."""
HOST_FIELD = "{host}"
"""Stands for the host in ``--transport``."""
_REMOTE_SHELLS = ("ssh", "autossh", "gsissh")
"""Programs that join the words of a command and have a shell read them again."""
_MOST_HOSTS = 64
_SCONTROL_WITHIN_S = 10.0
_WITH_PORT = re.compile(
    r"(?P<user>[^@:/]+@)?(?:\[(?P<address>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<name>[^:@\[\]]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
"""``gpu1:2222``, ``user@[::1]`` or ``[::1]:2222``: ssh itself knows no brackets and no port there.
An address of IPv6 without brackets has several colons and is as ssh reads it."""


class HostError(ValueError):
    """No host can be reached by this name; the text says why."""


@dataclass(frozen=True, slots=True)
class HostAddress:
    """One host."""

    name: str
    """As the user gave it; it heads the host's rows."""
    prefix: tuple[str, ...]
    """Program and arguments that run the command which follows, on the host."""
    quoted: bool = False
    """A shell there reads the command again, so it goes as one quoted word."""
    login: str = ""
    """Command that shows the user why a connection fails, such as ``ssh gpu3``."""
    shareable: bool = False
    """It is reached with our own ssh command, to which options can be added."""

    def command(self, program: Sequence[str]) -> tuple[str, ...]:
        """Return the command, for this machine, that runs a program on the host.

        Args:
            program: and its arguments.
        """
        return (*self.prefix, *((_join_in_one_line(program),) if self.quoted else program))


_IN_LINES = 'eval "exec $(printf %s "$0" | tr "{mark}" "\\012")"'
"""Script of sh: runs the command that its name is, with a mark in place of each end of a line."""


def _join_in_one_line(program: Sequence[str]) -> str:
    """Return a command that every login shell reads alike; csh has no lines within quotes."""
    text = shlex.join(program)
    mark = next((character for character in "~^@%|+" if character not in text), None)
    if "\n" not in text or mark is None:
        return text
    return shlex.join(("sh", "-c", _IN_LINES.format(mark=mark), text.replace("\n", mark)))


HERE = HostAddress("here", ())
"""This machine, by the same way as any host but without a program in between."""


def parse_hosts(text: str, transport: str | None = None) -> tuple[HostAddress, ...]:
    """Return the hosts of ``--host``: names with commas between them.

    Args:
        text: such as ``gpu1,user@gpu2,docker:train,kubectl:pod/x``.
        transport: command in which ``{host}`` stands for the name, in place of ssh.

    Raises:
        HostError: a name or the transport is unusable.
    """
    names = [name.strip() for name in text.split(",")]
    if len(names) > _MOST_HOSTS:
        raise HostError(f"{len(names)} hosts are too many: at most {_MOST_HOSTS}")
    for name in names:
        if not name:
            raise HostError(f"a host has no name in {text!r}")
        if names.count(name) > 1:
            raise HostError(f"{name} is given twice: name each host once")
    return tuple(parse_host(name, transport) for name in names)


def parse_host(name: str, transport: str | None = None) -> HostAddress:
    """Return one host.

    Args:
        name: for ssh, also with a port, as in ``user@gpu1:2222`` or ``[::1]:2222``; or
            ``docker:CONTAINER``, or ``kubectl:POD``.
        transport: command in which ``{host}`` stands for the name, in place of ssh.

    Raises:
        HostError: the name or the transport is unusable.
    """
    _check(name, name)
    if transport is not None:
        return _over_transport(name, transport)
    kind, colon, target = name.partition(":")
    if colon and kind in ("docker", "podman", "kubectl"):
        _check(target, name)
        end = ("--",) if kind == "kubectl" else ()
        prefix = (kind, "exec", "-i", target, *end)
        return HostAddress(name, prefix, login=shlex.join((*prefix, "sh")))
    port, destination = _split_port(name)
    prefix = ("ssh", *SSH_OPTIONS, *port, "--", destination)
    login = shlex.join(("ssh", *port, destination))
    return HostAddress(name, prefix, True, login, shareable=True)


def _split_port(name: str) -> tuple[tuple[str, ...], str]:
    """Return the options of ssh for the port of a host, and the host as ssh reads it."""
    match = _WITH_PORT.fullmatch(name)
    if match is None:
        return (), name
    destination = (match["user"] or "") + (match["address"] or match["name"])
    return (("-p", match["port"]) if match["port"] else ()), destination


def share_connection(host: HostAddress, configuration: str, folder: Path) -> HostAddress:
    """Return a host of ssh with one connection for all its children.

    A user who has configured ``ControlMaster`` or ``ControlPath`` keeps that.

    Args:
        host: any host; a host that is not shareable is returned unchanged.
        configuration: what ``ssh -G`` prints for it.
        folder: for the sockets, private to the user.
    """
    if not host.shareable:
        return host
    options = dict(line.split(" ", 1) for line in configuration.splitlines() if " " in line)
    if options.get("controlmaster", "false") != "false" or "controlpath" in options:
        return host
    sharing = (*SHARED_CONNECTION, "-o", f"ControlPath={folder}/%C")
    return replace(host, prefix=(host.prefix[0], *sharing, *host.prefix[1:]))


def socket_folder() -> Path | None:
    """Return the folder of this user's sockets; ``None`` where others could write to it.

    Its path is short: a socket's path has at most 107 bytes (unix(7)).
    """
    folder = place()
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)  # noqa: PTH102 (as the agent's end makes it)
        os.close(open_socket_folder(folder))
    except OSError:
        return None
    return Path(folder)


def _over_transport(name: str, transport: str) -> HostAddress:
    try:
        words = shlex.split(transport)
    except ValueError as error:
        raise HostError(f"the transport {transport!r} cannot be read: {error}") from error
    if not any(HOST_FIELD in word for word in words):
        raise HostError(f"the transport {transport!r} does not say where {HOST_FIELD} goes")
    if HOST_FIELD in words[0]:
        raise HostError(f"the transport {transport!r} begins with the host and not with a program")
    prefix = tuple(word.replace(HOST_FIELD, name) for word in words)
    return HostAddress(name, prefix, Path(words[0]).name in _REMOTE_SHELLS, shlex.join(prefix))


def _check(name: str, text: str) -> None:
    if not name:
        raise HostError(f"a host has no name in {text!r}")
    if name.startswith("-"):
        # ssh would read it as an option (CVE-2017-1000117).
        raise HostError(f"{name} begins with a dash, which no host name may")
    if not name.isprintable() or any(character.isspace() for character in name):
        raise HostError(f"{name!r} has an invalid character")


def slurm_hosts(variables: Mapping[str, str] = os.environ) -> tuple[HostAddress, ...]:
    """Return the hosts of the Slurm allocation that this process runs in, reached with ``srun``.

    Args:
        variables: environment variables.

    Raises:
        HostError: there is no allocation, or Slurm does not name its hosts.
    """
    job, nodes = variables.get("SLURM_JOB_ID"), variables.get("SLURM_JOB_NODELIST")
    if not job or not nodes:
        raise HostError("--slurm: no allocation here (SLURM_JOB_ID is not set): use salloc first")
    try:
        answer = subprocess.run(
            ("scontrol", "show", "hostnames", nodes),
            capture_output=True,
            text=True,
            timeout=_SCONTROL_WITHIN_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(f"--slurm: scontrol does not name the hosts: {error}") from error
    step = ("srun", "--jobid", job, "-N1", "-n1", "--overlap")
    return tuple(
        HostAddress(name, (*step, "-w", name), login=" ".join((*step, "-w", name, "true")))
        for name in answer.stdout.split()
    )
