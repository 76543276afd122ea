"""Runs over several hosts: where they meet, and one job from one command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pytest

from tests.hosts.conftest import Boxes
from tests.hosts.rig import NEEDS_RIG, Rig, make_rig
from tests.waiting import until
from tui.hosts.children import HostConnection
from tui.hosts.meeting import MeetingError, Meetings, find_meetings
from workloads.protocol.messages import Meeting, Run
from workloads.protocol.process import Channel
from workloads.protocol.results import Setting
from workloads.ranks import torchrun
from workloads.ranks.meeting import MeetingPlace, Reach, Reached, find_interfaces, reach

linux = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
SMALL = ("--device", "cpu", "--quick", "--set", "ranks=1")


# ---- one host ----


@pytest.fixture
def place() -> Iterator[tuple[MeetingPlace, Channel]]:
    """Start a listening host as a child of this process."""
    words = [sys.executable, "-m", "workloads", "meet"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        channel = Channel(child.stdout.fileno(), child.stdin.fileno(), (MeetingPlace, Reached))
        (found,) = channel.receive(60.0)
        assert isinstance(found, MeetingPlace)
        yield found, channel
        child.stdin.close()
        assert child.wait(60) == 0


def test_a_host_is_reached_at_the_address_that_answers_with_its_token(
    place: tuple[MeetingPlace, Channel],
) -> None:
    there, _ = place
    found = reach(Reach("a", there.port, there.token, ("127.0.0.1",)))
    assert found == Reached("a", "127.0.0.1", "127.0.0.1", "")


def test_another_host_at_the_same_address_is_not_mistaken_for_it(
    place: tuple[MeetingPlace, Channel],
) -> None:
    there, channel = place
    channel.send(Reach("a", there.port, "0" * len(there.token), ("127.0.0.1",)))
    (found,) = channel.receive(60.0)
    assert found == Reached("a", "", "", "127.0.0.1: another host answers there")


def test_an_address_where_nobody_listens_says_why() -> None:
    found = reach(Reach("a", 1, "t", ("127.0.0.1",)))
    assert found.reason == "127.0.0.1: Connection refused"
    assert reach(Reach("a", 1, "t", ())).reason == "it has no address but loopback"


def test_loopback_is_no_address_of_a_host() -> None:
    assert not [each for each in find_interfaces() if each.startswith("127.") or each == "::1"]


# ---- several hosts ----


def _place(*addresses: str) -> MeetingPlace:
    return MeetingPlace(4711, "t", dict.fromkeys(addresses, "eth1"))


def test_each_host_sees_the_meeting_by_the_addresses_that_answered() -> None:
    places = {"a": _place("10.0.0.1"), "b": _place("10.0.0.2"), "c": _place("fd00::3")}
    meetings = Meetings(
        places,
        {
            ("b", "a"): Reached("a", "10.0.0.1", "10.0.0.2", ""),
            ("c", "a"): Reached("a", "fd00::1", "fd00::3", ""),
        },
    )
    found = meetings.arrange(["a", "b", "c"])
    assert found["a"] == Meeting("10.0.0.1:4711", True, "10.0.0.1", "eth1")
    assert found["b"] == Meeting("10.0.0.1:4711", False, "10.0.0.2", "eth1")
    assert found["c"] == Meeting("[fd00::1]:4711", False, "fd00::3", "eth1")


def test_a_host_that_does_not_reach_the_first_is_named() -> None:
    places = {"a": _place("10.0.0.1"), "b": _place("10.0.0.2")}
    reason = "10.0.0.1: timed out"
    meetings = Meetings(places, {("b", "a"): Reached("a", "", "", reason)})
    with pytest.raises(MeetingError, match=r"^b cannot reach a: 10\.0\.0\.1: timed out$"):
        meetings.arrange(["a", "b"])


@linux
async def test_a_host_without_python_is_named(boxes: Boxes) -> None:
    a, b = boxes.add("a", 'exec "$@"'), boxes.add("b", "echo welcome; exit 127")
    hosts = [HostConnection(a, sys.executable), HostConnection(b, sys.executable)]
    with pytest.raises(MeetingError, match=r"^b: no python3 there"):
        await find_meetings(hosts)


def test_torchrun_is_told_who_serves_and_which_address_is_its_own() -> None:
    parameters: dict[str, Setting] = {"ranks": 1, "hosts": 2, "rendezvous": "", "wait_s": 60}
    for serves, own in ((True, "10.0.0.1"), (False, "10.0.0.2")):
        meeting = Meeting("10.0.0.1:4711", serves, own, "eth1")
        request = Run("run-1", "all_reduce", "cpu", dict(parameters), {}, meeting=meeting)
        planned = torchrun.layout(request, "cpu", 0)
        words = torchrun.command(planned)
        assert "--rdzv-endpoint=10.0.0.1:4711" in words
        assert f"--local-addr={own}" in words
        assert any(word.endswith(f",is_host={str(serves).lower()}") for word in words)
        if "GLOO_SOCKET_IFNAME" not in os.environ:
            assert torchrun.environment(planned, 2)["GLOO_SOCKET_IFNAME"] == "eth1"


# ---- real hosts ----


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with make_rig(2) as found:
        yield found


def _rig_test(function: Callable[[Rig], None]) -> Callable[[Rig], None]:
    for mark in (*NEEDS_RIG, pytest.mark.timeout(600)):
        function = mark(function)
    return function


@_rig_test
def test_one_command_trains_over_two_hosts_and_stores_the_results_here(rig: Rig) -> None:
    before = [sorted(path.rglob("*")) for path in rig.folder.glob("box*/home")]
    done = rig.run("run", "all_reduce", "ddp_training", "--host", rig.hosts, *rig.pythons, *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "2 of 2 runs succeeded"
    assert lines.count("over box1, box2") == 2
    assert sum("ranks: 2 (processes that took part, on all hosts" in line for line in lines) == 2
    stored = rig.run("results", "compare", "box=box1", "box=box2")
    assert "all_reduce" in stored.stdout, stored.stderr
    assert "ddp_training" in stored.stdout
    assert [sorted(path.rglob("*")) for path in rig.folder.glob("box*/home")] == before


@_rig_test
def test_a_host_that_is_lost_during_the_run_ends_it_with_a_reason(rig: Rig) -> None:
    words = ["run", "all_reduce", "--host", rig.hosts, *rig.pythons, *SMALL, "--set", "mib=512"]
    with rig.start(*words, "--json") as running:
        until(lambda: _has_ranks(rig, 2))
        rig.cut(2)
        try:
            output, errors = running.communicate(timeout=300)
        finally:
            rig.mend(2)
    assert running.returncode == 1, errors
    first, second = json.loads(output)["hosts"]
    assert "not answering" in second["error"]
    assert "error" not in first
    assert first["results"][0]["status"] in ("cancelled", "failed")


def _has_ranks(rig: Rig, number: int) -> bool:
    """Return whether a host has processes that torchrun started."""
    for pid in rig.pids(number):
        with suppress(psutil.Error):
            if psutil.Process(pid).cmdline()[-1:] == ["rank"]:
                return True
    return False
