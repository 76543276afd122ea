"""Two nodes of a Slurm cluster on this machine: rows, a run on each and over both, a fleet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hosts.rig import NEEDS_RIG, NEEDS_SLURM, Rig, make_rig

pytestmark = [*NEEDS_RIG, NEEDS_SLURM, pytest.mark.timeout(600)]
ON_CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with make_rig(2, slurm=True) as found:
        yield found


def _run(rig: Rig, *arguments: str) -> dict[str, Any]:
    """Run the program in an allocation of both nodes, and return its object."""
    words = ["salloc", "-Q", "-N2", sys.executable, "-m", "tui", *arguments, "--slurm"]
    done = subprocess.run(
        [*words, *rig.pythons, "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=rig.environment(),
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_rows_are_those_of_the_nodes(rig: Rig) -> None:
    hosts = _run(rig, "devices", "--no-here")["hosts"]
    assert [each["host"] for each in hosts] == ["box1", "box2"]
    assert all(each["sample"]["host"]["memory"]["total"] > 0 for each in hosts)


def test_a_workload_runs_on_each_node(rig: Rig) -> None:
    small = ("--set", "n=64", "--quick", "--no-store")
    hosts = _run(rig, "run", "matmul", *ON_CPU, *small)["hosts"]
    assert [each["results"][0]["status"] for each in hosts] == ["ok", "ok"]


def test_a_training_runs_over_both_nodes(rig: Rig) -> None:
    small = ("--set", "ranks=1", "--set", "width=32", "--quick", "--no-store")
    found = _run(rig, "run", "ddp_training", *ON_CPU, *small)
    assert "problems" not in found
    results = [each["results"][0] for each in found["hosts"]]
    assert [each["status"] for each in results] == ["ok", "ok"]
    assert [each["figures"]["ranks"]["value"] for each in results] == [2.0, 2.0]


def test_the_nodes_are_compared(rig: Rig) -> None:
    (model,) = _run(rig, "fleet", *ON_CPU, "--rounds", "2")["models"]
    assert [each["name"] for each in model["devices"]] == ["box1", "box2"]
    assert [each["rounds"] for each in model["works"]["matmul"]] == [2, 2]


def test_the_link_between_the_nodes_is_measured(rig: Rig) -> None:
    found = _run(rig, "links", *ON_CPU, "--largest", "1")
    assert found["problems"] == []
    (pair,) = found["pairs"]
    assert {pair["first"], pair["second"]} == {"box1", "box2"}
