"""``gpu-workbench fleet``, as a user runs it, over hosts without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.hosts.conftest import Boxes, boxes
from tui.fleet.comparison import PeerRatio
from tui.fleet.rounds import rotate
from tui.fleet.views import SlowDevice

__all__ = ["boxes"]
linux = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
HOG = "while True: pass"


def _fleet(boxes: Boxes, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tui", "fleet", "--device", "cpu", "--transport"]
    words += [boxes.transport, *arguments]
    for name in ("a", "b"):
        words += ["--host-python", f"{name}={sys.executable}"]
    return subprocess.run(words, capture_output=True, text=True, timeout=500, check=False)


@linux
@pytest.mark.parametrize("together", [(), ("--together",)])
def test_two_hosts_are_compared_and_a_third_fails_alone(
    boxes: Boxes, together: tuple[str, ...]
) -> None:
    boxes.add("a", 'exec "$@"')
    boxes.add("b", 'exec "$@"')
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
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs a processor for each host")
def test_a_host_with_a_competing_load_is_slower(boxes: Boxes) -> None:
    boxes.add("a", 'exec taskset -c 0 "$@"')
    boxes.add("b", 'exec taskset -c 1 "$@"')
    hogs = [subprocess.Popen(["taskset", "-c", "1", sys.executable, "-c", HOG]) for _ in range(3)]
    try:
        done = _fleet(boxes, "--host", "a,b", "--rounds", "8")
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("b is ")
    assert " slower than a in " in first


def test_the_words_name_the_verdict_and_its_doubt() -> None:
    ratio = PeerRatio("gpu2:3", 1.062, 1.051, 1.073, 12, 7, slower=True, odd=True)
    assert SlowDevice("matmul", ratio, "").words() == (
        "gpu2:3 is odd: 6.2 % slower than its 7 peers in matmul (5.1–7.3)"
    )
    pair = PeerRatio("a", 1.041, 1.032, 1.05, 6, 1, slower=True, odd=False)
    assert SlowDevice("matmul", pair, "b").words() == "a is 4.1 % (3.2–5.0) slower than b in matmul"


def test_each_device_is_first_and_last_as_often_as_others() -> None:
    members = list("abcd")
    orders = [rotate(members, number) for number in range(8)]
    for place in (0, 3):
        assert sorted(order[place] for order in orders) == sorted([*members, *members])
