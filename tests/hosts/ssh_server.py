"""An sshd on loopback, started by this user for a test, and hosts that are names for it."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import until

_SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
NEEDS_SSH = [
    pytest.mark.skipif(_SSHD is None, reason="no sshd: install openssh-server"),
    pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh: install openssh-client"),
    pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd"),
]
"""Marks of the tests that use it."""


@dataclass(frozen=True)
class SshServer:
    """A server, and a client configuration that calls it ``box`` and knows its key."""

    folder: Path
    port: int

    @property
    def configuration(self) -> Path:
        """What ``ssh`` is given as the user's configuration."""
        return self.folder / "ssh_config"

    def configure(self, name: str, *lines: str) -> None:
        """Add a host to the client's configuration."""
        settings = (
            # The first value of each setting counts.
            *lines,
            "HostName 127.0.0.1",
            f"Port {self.port}",
            f"User {getpass.getuser()}",
            "IdentitiesOnly yes",
            f"IdentityFile {self.folder}/key",
            f"UserKnownHostsFile {self.folder}/known_hosts",
            "StrictHostKeyChecking yes",
        )
        with self.configuration.open("a", encoding="utf-8") as file:
            file.write(f"Host {name}\n" + "".join(f"  {line}\n" for line in settings))


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    folder = tmp_path / "sshd"
    folder.mkdir(mode=0o700)
    for name in ("key", "other", "host_key"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(argv, check=True)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    found = SshServer(folder, free_port())
    key = (folder / "host_key.pub").read_text(encoding="ascii")
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{found.port} {key}", encoding="ascii")
    lines = (
        f"ListenAddress 127.0.0.1:{found.port}",
        f"HostKey {folder}/host_key",
        f"AuthorizedKeysFile {folder}/authorized_keys",
        f"PidFile {folder}/pid",
        *("UsePAM no", "StrictModes no", "PasswordAuthentication no", "PermitRootLogin yes"),
        "KbdInteractiveAuthentication no",
    )
    (folder / "sshd_config").write_text("\n".join([*lines, ""]), encoding="utf-8")
    found.configure("box")
    # ssh reads the configuration of the user in the password file, wherever HOME is.
    wrapper = folder / "bin"
    wrapper.mkdir()
    (wrapper / "ssh").write_text(
        f'#!/bin/sh\nexec {shutil.which("ssh")} -F {found.configuration} "$@"\n', encoding="utf-8"
    )
    (wrapper / "ssh").chmod(0o700)
    monkeypatch.setenv("PATH", f"{wrapper}:{os.environ['PATH']}")
    # The path of a socket is short, and a test's folder may not be.
    runtime = Path(tempfile.mkdtemp(prefix="run"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert _SSHD is not None
    with (folder / "log").open("w") as log:
        argv = [_SSHD, "-D", "-e", "-f", str(folder / "sshd_config")]
        process = subprocess.Popen(argv, stderr=log, stdin=subprocess.DEVNULL)
    try:
        until(lambda: process.poll() is not None or _answers(found.port))
        if process.poll() is not None:
            pytest.skip("sshd does not start for this user: " + (folder / "log").read_text()[-300:])
        yield found
    finally:
        for path in runtime.glob("*/*"):
            argv = ["ssh", "-O", "exit", "-o", f"ControlPath={path}", "box"]
            subprocess.run(argv, capture_output=True, check=False)
        shutil.rmtree(runtime)
        process.terminate()
        process.wait()
