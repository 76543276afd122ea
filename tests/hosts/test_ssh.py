"""Over a real sshd on loopback, started by this user for the test."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.hosts.ssh_server import NEEDS_SSH, SshServer, free_port, server
from tui.hosts.address import parse_hosts
from tui.hosts.events import HostEvent, HostLost, HostSample
from tui.hosts.watching import first_samples

__all__ = ["server"]

pytestmark = NEEDS_SSH


async def _first(name: str) -> HostEvent:
    (event,) = await first_samples(parse_hosts(name), {name: sys.executable}, within_s=60)
    return event


async def test_a_host_behind_sshd_is_read(server: SshServer) -> None:
    assert server.port
    event = await _first("box")
    assert isinstance(event, HostSample), event
    assert event.sample.host.memory.total > 0


async def test_the_connection_is_shared_and_private(server: SshServer) -> None:
    assert isinstance(await _first("box"), HostSample)
    runtime = Path(os.environ["XDG_RUNTIME_DIR"])
    (path,) = runtime.glob("*/*")
    assert path.is_socket()
    assert path.parent.stat().st_mode & 0o077 == 0
    # With the key gone, only a connection that is still open can be used.
    (server.folder / "authorized_keys").write_text("", encoding="ascii")
    assert isinstance(await _first("box"), HostSample)


async def test_a_key_that_is_not_accepted_says_what_to_run(server: SshServer) -> None:
    shutil.copy(server.folder / "other.pub", server.folder / "authorized_keys")
    event = await _first("box")
    assert isinstance(event, HostLost)
    assert event.reason == (
        "Permission denied (publickey): run `ssh box` once to see which key or password it wants"
    )


async def test_an_unknown_host_key_is_not_accepted(server: SshServer) -> None:
    (server.folder / "known_hosts").write_text("", encoding="ascii")
    event = await _first("box")
    assert isinstance(event, HostLost)
    assert event.reason == "its host key is unknown: run `ssh box` once and accept the key"


async def test_a_changed_host_key_is_not_accepted(server: SshServer) -> None:
    key = (server.folder / "other.pub").read_text(encoding="ascii")
    text = f"[127.0.0.1]:{server.port} {key}"
    (server.folder / "known_hosts").write_text(text, encoding="ascii")
    event = await _first("box")
    assert isinstance(event, HostLost)
    assert event.reason.startswith("its host key has changed: make sure")


async def test_a_server_that_is_not_there_is_named(server: SshServer) -> None:
    server.configure("closed", f"Port {free_port()}")
    event = await _first("closed")
    assert isinstance(event, HostLost)
    assert "Connection refused" in event.reason
