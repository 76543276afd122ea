"""The walk at an OOM over a hostile program: nothing of it is executed, and nothing kept."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.interpreters import others

PROGRAM = Path(__file__).with_name("hostile.py")
WORKLOADS = Path(__file__).parents[2] / "workloads"
NAMED = ("single", "losses", "ring", "cell", "waiting", "by_name['0']", "tensors")


def check(python: str) -> None:
    command = [python, "-B", str(PROGRAM), str(WORKLOADS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = ast.literal_eval(done.stdout)
    assert told["executed"] == []
    assert told["left"] == 0, "a recovered OOM frees what it would have freed"
    assert (told["unreadable"], told["why"]) == (0, "")
    assert set(NAMED) <= set(told["names"])


def test_hostile_objects_are_read_without_executing_them_and_nothing_is_kept() -> None:
    check(sys.executable)


@pytest.mark.slow
@pytest.mark.parametrize("version", sorted(others()))
def test_the_same_on_each_python(version: str) -> None:
    check(others()[version])
