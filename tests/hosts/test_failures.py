"""Failures of real hosts and links: each in its own lines, the other hosts unaffected."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import psutil
import pytest

from tests.hosts.rig import NEEDS_RIG, Rig, make_rig
from tests.waiting import until

pytestmark = [*NEEDS_RIG, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with make_rig(2) as found:
        # The names come before the settings of all hosts.
        configuration = found.folder / "ssh_config"
        text = configuration.read_text(encoding="utf-8")
        nobody = f"Host nobody\n  HostName {found.net}.250\n"
        configuration.write_text(nobody + text, encoding="utf-8")
        yield found


def _pythons(rig: Rig, number: int) -> list[int]:
    """Return the processes of our children on a host."""
    found = []
    for pid in rig.pids(number):
        with suppress(psutil.Error):
            if "-I" in psutil.Process(pid).cmdline():
                found.append(pid)
    return found


def _until_line(
    process: subprocess.Popen[str], wanted: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Read lines until one is wanted, and return it."""
    assert process.stdout is not None
    for line in process.stdout:
        found: dict[str, Any] = json.loads(line)
        if wanted(found):
            return found
    raise AssertionError("the program has ended")


@pytest.fixture
def watching(rig: Rig) -> Iterator[subprocess.Popen[str]]:
    """Start the program and wait until both hosts are connected."""
    with rig.start("devices", "--host", rig.hosts, *rig.pythons, "--no-here", "--jsonl") as process:
        for name in rig.names:
            _until_line(process, partial(_is_sample, host=name))
        yield process
        process.kill()


def _is_sample(line: dict[str, Any], host: str) -> bool:
    return line["host"] == host and "sample" in line


def _is_error(line: dict[str, Any], host: str) -> bool:
    return line["host"] == host and bool(line.get("error"))


def _until_replaced(watching: subprocess.Popen[str]) -> None:
    """Wait until box2 is lost and answers again, while box1 goes on."""
    _until_line(watching, lambda line: _is_error(line, "box2"))
    _until_line(watching, lambda line: _is_sample(line, "box1"))
    _until_line(watching, lambda line: _is_sample(line, "box2"))


def test_a_link_that_is_cut_is_told_and_restored(rig: Rig, watching: subprocess.Popen[str]) -> None:
    rig.cut(2)
    try:
        lost = _until_line(watching, lambda line: _is_error(line, "box2"))
        _until_line(watching, lambda line: _is_sample(line, "box1"))
        # The child there ends itself, since no keep-alive reaches it.
        until(lambda: not _pythons(rig, 2))
    finally:
        rig.mend(2)
    assert lost["error"].startswith(("not answering", "client_loop", "Timeout"))
    _until_line(watching, lambda line: _is_sample(line, "box2"))


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_child_there_that_is_stopped_or_killed_is_replaced(
    rig: Rig, watching: subprocess.Popen[str], number: signal.Signals
) -> None:
    (pid,) = until(lambda: _pythons(rig, 2))
    psutil.Process(pid).send_signal(number)
    try:
        _until_replaced(watching)
    finally:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_connection_that_is_stopped_or_killed_here_is_replaced(
    rig: Rig, watching: subprocess.Popen[str], number: signal.Signals
) -> None:
    ssh = rig.shared_connection(2)
    ssh.send_signal(number)
    try:
        _until_replaced(watching)
    finally:
        with suppress(psutil.NoSuchProcess):
            ssh.kill()


def test_nothing_is_left_there_when_this_side_is_killed(
    rig: Rig, watching: subprocess.Popen[str]
) -> None:
    assert _pythons(rig, 1)
    watching.kill()
    watching.wait(60)
    until(lambda: not [*_pythons(rig, 1), *_pythons(rig, 2)])
    # The shared connection closes, too: the server alone is left.
    until(lambda: len(rig.pids(1)) == len(rig.pids(2)) == 1, timeout_s=40)


def test_names_that_lead_nowhere_have_ssh_s_own_words(rig: Rig) -> None:
    names = ("box1", "nobody", "no-such-host.invalid")
    words = ["devices", "--host", ",".join(names), "--no-here", "--json"]
    done = rig.run(*words, *rig.pythons[:2])
    reached, nobody, unknown = json.loads(done.stdout)["hosts"]
    assert "sample" in reached
    assert any(why in nobody["error"] for why in ("No route to host", "timed out"))
    assert "Could not resolve hostname" in unknown["error"]
