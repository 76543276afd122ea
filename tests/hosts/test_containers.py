"""Containers and pods: a stand-in for the program that enters one runs the rest on this machine."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import VARIANT
from tui.hosts.address import parse_host
from tui.hosts.events import HostLost, HostSample
from tui.hosts.watching import first_samples

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
HOSTS = {
    "docker": ("docker:train", ["exec", "-i", "train"]),
    "podman": ("podman:train", ["exec", "-i", "train"]),
    "kubectl": ("kubectl:pod/x", ["exec", "-i", "pod/x", "--"]),
}


@pytest.fixture
def entering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write programs that note their arguments and run the command behind the container."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, (_, own) in HOSTS.items():
        program = folder / name
        program.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" > {shlex.quote(str(folder))}/{name}.words\n'
            f'shift {len(own)}\nexec "$@"\n',
            encoding="utf-8",
        )
        program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin")
    return folder


@pytest.mark.parametrize("name", ["docker", pytest.param("podman", marks=VARIANT), "kubectl"])
async def test_the_monitor_of_a_container_is_entered_with_these_words(
    name: str, entering: Path
) -> None:
    address, own = HOSTS[name]
    (event,) = await first_samples([parse_host(address)], {address: sys.executable}, within_s=60)
    assert isinstance(event, HostSample), event
    words = (entering / f"{name}.words").read_text(encoding="utf-8").splitlines()
    assert words[: len(own)] == own
    assert words[len(own) : len(own) + 3] == [sys.executable, "-I", "-c"]


async def test_an_engine_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (event,) = await first_samples([parse_host("docker:train")], within_s=60)
    assert isinstance(event, HostLost)
    assert event.reason == "docker cannot be started: No such file or directory"


# A run on a host of another kind differs in the words that the monitor is started by.
@VARIANT
def test_a_workload_runs_in_a_container(entering: Path) -> None:
    assert entering
    words = ["run", "device_list", "--device", "cpu", "--quick", "--no-store", "--json"]
    words += ["--host", "docker:train", "--host-python", f"docker:train={sys.executable}"]
    done = subprocess.run(
        [sys.executable, "-m", "tui", *words],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    (host,) = json.loads(done.stdout)["hosts"]
    assert host["host"] == "docker:train"
    assert host["results"][0]["status"] == "ok"
