"""``gpu-workbench fleet``, as a user runs it, over hosts without a network."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from tests.hosts.conftest import NEEDS_MACHINES, Boxes, boxes
from tests.screens.results import result as run_result
from tui.fleet.comparison import PeerRatio
from tui.fleet.rounds import FleetMember, FleetRounds, rotate
from tui.fleet.views import SlowDevice, encode_fleet, find_slow, fleet_lines
from tui.runs.state.runs import RunState
from workloads.protocol.messages import Run

if TYPE_CHECKING:
    from tui.headless.host_runs import HostRuns

__all__ = ["boxes"]
linux = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")


def _fleet(boxes: Boxes, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tui", "fleet", "--device", "cpu", "--transport"]
    words += [boxes.transport, *arguments]
    for name in ("a", "b"):
        words += ["--host-python", f"{name}={sys.executable}"]
    return subprocess.run(words, capture_output=True, text=True, timeout=500, check=False)


@linux
@pytest.mark.slow
@NEEDS_MACHINES
@pytest.mark.parametrize("together", [(), ("--together",)])
def test_two_hosts_are_compared_and_a_third_fails_alone(
    boxes: Boxes, together: tuple[str, ...]
) -> None:
    boxes.add("a", 'exec "$@"', boot_id="boot of a")
    boxes.add("b", 'exec "$@"', boot_id="boot of b")
    boxes.add("c", "exit 127")
    done = _fleet(boxes, "--host", "a,b,c", "--rounds", "2", "--json", *together)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    (model,) = found["models"]
    assert [each["name"] for each in model["devices"]] == ["a", "b"]
    assert [each["rounds"] for each in model["works"]["matmul"]] == [2, 2]
    assert len(model["works"]["memory copy"]) == 2
    (problem,) = found["problems"]
    assert problem.startswith("c: no python3 there")


@linux
@pytest.mark.slow
def test_the_cpu_of_one_machine_under_two_names_is_timed_once(boxes: Boxes) -> None:
    for name in ("a", "b"):
        boxes.add(name, 'exec "$@"')
    done = _fleet(boxes, "--host", "a,b", "--rounds", "2", "--json")
    assert done.returncode == 1, done.stderr
    first, second = json.loads(done.stdout)["problems"]
    assert first == "b: the same CPU as a, timed once"
    assert second.startswith("a: the only ")


class ScriptedRuns:
    """Runs of one device that take scripted times; no host, no process."""

    signalled = False
    error = ""
    session = None

    def __init__(self, factor: float, seed: int) -> None:
        self._factor = factor
        self._noise = random.Random(seed)

    async def time(self, name: str, device: str, _texts: Mapping[str, str]) -> RunState | None:
        """Return a run of 10 ms times the device's factor, with 0.3% of noise."""
        if self.error:
            return None
        median_s = 0.01 * self._factor * self._noise.gauss(1, 0.003)
        ended = run_result(name, device)
        assert ended.time is not None
        result = replace(ended, time=replace(ended.time, median_s=median_s))
        request = Run(id="run-1", workload=name, device=device, parameters={}, flags={})
        return RunState(request, result=result)


def _scripted(factors: Mapping[str, float]) -> FleetRounds:
    members = [
        FleetMember(name, "H100", "cuda:0", cast("HostRuns", ScriptedRuns(factor, number)), name)
        for number, (name, factor) in enumerate(factors.items())
    ]
    return FleetRounds(members, False, lambda _words: None)


async def test_the_slow_device_is_named_first_with_its_interval() -> None:
    factors = {f"gpu{number}:0": 1.0 for number in range(1, 6)} | {"gpu6:0": 1.08}
    rounds = _scripted(factors)
    await rounds.run(None)
    first, *others = fleet_lines([rounds], ["gpu9: unreachable"])
    assert first.startswith("gpu6:0 is odd: ")
    assert " slower than its 5 peers in " in first
    assert others[-1] == "gpu9: unreachable"
    assert {each.ratio.device for each in find_slow([rounds])} == {"gpu6:0"}
    (model,) = encode_fleet([rounds], [])["models"]
    assert {each["device"] for each in model["works"]["matmul"] if each["odd"]} == {"gpu6:0"}


async def test_equal_devices_are_not_slower() -> None:
    rounds = _scripted({f"gpu{number}:0": 1.0 for number in range(1, 6)})
    await rounds.run(6)
    assert fleet_lines([rounds], [])[0].startswith(
        "no GPU is slower than its peers by more than 2% (5 GPUs, 6 rounds)"
    )


async def test_the_answer_does_not_count_a_device_that_was_not_timed() -> None:
    rounds = _scripted({f"gpu{number}:0": 1.0 for number in range(1, 6)})
    lost = ScriptedRuns(1.0, 0)
    lost.error = "connection lost"
    rounds.members[2].runs = cast("HostRuns", lost)
    await rounds.run(6)
    first, *others = fleet_lines([rounds], [])
    assert "(4 GPUs, 6 rounds)" in first
    assert first.endswith("; not compared: gpu3:0")
    assert "  gpu3:0: matmul, round 1: connection lost" in others


async def test_a_signal_is_said_to_have_stopped_the_round_that_it_ended() -> None:
    rounds = _scripted({f"gpu{number}:0": 1.0 for number in range(1, 4)})

    class StoppedRuns(ScriptedRuns):
        async def time(self, name: str, device: str, texts: Mapping[str, str]) -> RunState | None:
            """Run nothing from the copy of the fourth round on."""
            done = rounds.members[2].done.get("copy over the link", ())
            self.signalled = name == "device_copy" and len(done) == 3
            return None if self.signalled else await super().time(name, device, texts)

    rounds.members[2].runs = cast("HostRuns", StoppedRuns(1.0, 2))
    await rounds.run(6)
    lines = fleet_lines([rounds], [])
    assert "  gpu3:0: device copy, round 4: stopped" in lines
    assert not any("not run" in text for text in lines)


async def test_times_that_vary_too_much_are_no_answer() -> None:
    rounds = _scripted(dict.fromkeys("abc", 1.0))
    for factors in ((1.0, 1.5, 2.0), (2.0, 1.0, 1.5), (1.5, 2.0, 1.0)):
        for seed, (member, factor) in enumerate(zip(rounds.members, factors, strict=True)):
            member.runs = cast("HostRuns", ScriptedRuns(factor, seed))
        # One round, in which this order of the devices says nothing of the next.
        await rounds.run(1)
    assert fleet_lines([rounds], [])[0] == (
        "not clear whether a GPU is slower than its peers by more than 2% (3 GPUs, 3 rounds): the"
        " times vary too much"
    )


async def test_a_pair_is_compared_without_blame() -> None:
    rounds = _scripted({"a": 1.05, "b": 1.0})
    await rounds.run(8)
    slow = find_slow([rounds])
    assert all(not each.ratio.odd for each in slow)
    assert slow[0].describe().startswith("a is ")
    assert " slower than b in " in slow[0].describe()


def test_the_words_name_the_verdict_and_its_doubt() -> None:
    ratio = PeerRatio("gpu2:3", 1.062, 1.051, 1.073, 12, 7, slower=True, odd=True)
    assert SlowDevice("matmul", ratio, "").describe() == (
        "gpu2:3 is odd: 6.2% slower than its 7 peers in matmul (5.1–7.3)"
    )
    pair = PeerRatio("a", 1.041, 1.032, 1.05, 6, 1, slower=True, odd=False)
    assert (
        SlowDevice("matmul", pair, "b").describe() == "a is 4.1% (3.2–5.0) slower than b in matmul"
    )


def test_each_device_is_first_and_last_as_often_as_others() -> None:
    members = list("abcd")
    orders = [rotate(members, number) for number in range(8)]
    for place in (0, 3):
        assert sorted(order[place] for order in orders) == sorted([*members, *members])
