"""``gpu-workbench links`` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.conftest import Boxes, boxes
from tests.hosts.rig import NEEDS_RIG, Rig, make_rig
from tests.in_process import run_here
from tests.tiers import VARIANT

__all__ = ["boxes"]


def _links(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tui", "links", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)


@VARIANT
def test_a_machine_without_two_gpus_says_that_nothing_was_measured() -> None:
    done = _links("--device", "cpu")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0] == (
        "nothing was measured: no GPU here; give --host A,B to measure between hosts"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
def test_hosts_that_cannot_run_have_their_reasons(boxes: Boxes) -> None:
    boxes.add("a", "exit 127")
    boxes.add("b", "exit 127")
    done = _links("--host", "a,b", "--transport", boxes.transport, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["answer"].startswith("nothing was measured")
    assert [each["problem"].partition(":")[0] for each in found["hosts"]] == [
        "no python3 there"
    ] * 2
    assert found["problems"] == ["links between hosts: not measured, fewer than two can run"]


@VARIANT
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel has no boot id")
def test_two_names_of_one_machine_are_refused(boxes: Boxes) -> None:
    words = ["--device", "cpu", "--transport", boxes.transport]
    for name in ("a", "alias"):
        boxes.add(name, 'exec "$@"')
        words += ["--host-python", f"{name}={sys.executable}"]
    done = _links("--host", "a,alias", *words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "gpu-workbench: alias is the same machine as a, so no link is between them:"
        " leave one out of --host"
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--largest", "0"), "--largest 0: from 1 to 16384 MiB"),
        (("--transport", "x {host}"), "need --host or --slurm"),
    ],
)
def test_useless_options_are_refused(arguments: tuple[str, ...], why: str) -> None:
    done = run_here("links", *arguments)
    assert done.code == 2
    assert why in done.err


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with make_rig(3) as found:
        yield found


def test_the_host_behind_a_slow_link_is_named(rig: Rig, tmp_path: Path) -> None:
    rig.throttle(3, "80mbit")
    words = ["links", "--host", rig.hosts, *rig.pythons, "--device", "cpu", "--largest", "8"]
    done = rig.run(*words, "--json", timeout=500)
    (tmp_path / "links.json").write_text(done.stdout, encoding="utf-8")
    found = json.loads(done.stdout)
    assert found["slow_hosts"] == ["box3"], done.stdout
    assert found["answer"].startswith("box3 is slow: all its 2 pairs are")
    assert done.returncode == 1
    assert found["all_reduce"]["ranks"] == 3
    sizes = [each["byte"] for each in found["all_reduce"]["points"]]
    assert sizes[0] == 8 * 1024
    assert sizes[-1] == 8 * 1024**2
    for each in found["all_reduce"]["points"]:
        factor = each["bus_byte_per_s"] / each["algorithm_byte_per_s"]
        assert factor == pytest.approx(4 / 3)


for mark in (*NEEDS_RIG, pytest.mark.timeout(600)):
    test_the_host_behind_a_slow_link_is_named = mark(test_the_host_behind_a_slow_link_is_named)
