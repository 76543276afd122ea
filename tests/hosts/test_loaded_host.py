"""A fleet of four hosts behind sshd, one of which has another load: it is the one that is named."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hosts.capacity import capacities
from tests.hosts.ssh_server import NEEDS_SSH, SshServer, server

__all__ = ["server"]

pytestmark = [*NEEDS_SSH, pytest.mark.slow, pytest.mark.timeout(900)]
HOSTS = ("box1", "box2", "box3", "box4")
LOADED = "box2"
HOGS = 2
HOST = """#!/bin/sh
echo $$ > {group}
exec unshare -m sh -c 'mount --bind "$0" /proc/sys/kernel/random/boot_id
exec {python} "$@"' {boot_id} "$@"
"""
"""A host's Python, with a share of the processors; its boot id makes it a machine of its own."""
BUSY = "print(flush=True)\nwhile True: pass"


@contextmanager
def _load(pythons: dict[str, Path]) -> Iterator[None]:
    """Keep processes busy on the loaded host until the block ends."""
    words = shlex.join((str(pythons[LOADED]), "-c", BUSY))
    command = ["ssh", "-T", "--", LOADED, words]
    hogs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(HOGS)
    ]
    try:
        for hog in hogs:
            assert hog.stdout is not None
            assert hog.stdout.readline() == b"\n"
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.communicate()


def test_a_host_with_another_load_is_reported(server: SshServer, tmp_path: Path) -> None:
    for name in HOSTS:
        server.configure(name)
    with capacities(HOSTS, share=0.4) as groups:
        pythons = {name: tmp_path / name for name in HOSTS}
        for name, path in pythons.items():
            boot_id = tmp_path / f"{name}.boot_id"
            boot_id.write_text(f"boot of {name}\n", encoding="ascii")
            script = HOST.format(group=groups[name], boot_id=boot_id, python=sys.executable)
            path.write_text(script, encoding="utf-8")
            path.chmod(0o700)
        options = [f"--host-python={name}={path}" for name, path in pythons.items()]
        words = ("fleet", "--host", ",".join(HOSTS), *options, "--device", "cpu", "--json")
        with _load(pythons):
            done = subprocess.run(
                [sys.executable, "-m", "tui", *words, "--rounds", "6"],
                capture_output=True,
                text=True,
                timeout=800,
                check=False,
            )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["answer"].startswith(f"{LOADED} is odd: "), found["answer"]
    (model,) = found["models"]
    odd = {each["device"] for ratios in model["works"].values() for each in ratios if each["odd"]}
    assert odd == {LOADED}
