"""``run`` keeps what it measures, and holds it against what was kept."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.children.sessions import script
from tui.results.database import Database

ROOT = Path(__file__).resolve().parents[2]
Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program over a runner whose times are made up."""

    def call(*words: str, median: float = 1e-3) -> subprocess.CompletedProcess[str]:
        made = f"exec {shlex.quote(sys.executable)} -m tests.results.made_runner {median}"
        python = script(tmp_path, f"cd {shlex.quote(str(ROOT))}\n{made}")
        which = ("--python", python) if words[0] == "run" else ()
        return subprocess.run(
            [sys.executable, "-m", "tui", *which, *words],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            cwd=ROOT,
            env={**os.environ, "GPU_WORKBENCH_STATE": str(tmp_path / "state")},
        )

    return call


def _count(tmp_path: Path) -> int:
    with Database(tmp_path / "state" / "results.sqlite3") as database:
        return database.count()


RUN = ("run", "matmul", "--device", "cpu", "--quick")


def test_what_is_slower_than_before_is_an_exit_code(program: Program, tmp_path: Path) -> None:
    done = program(*RUN, "--no-store")
    assert (done.returncode, _count(tmp_path)) == (0, 0), done.stderr
    # A name that selects nothing is told before anything runs.
    done = program(*RUN, "--against", "base")
    assert done.returncode == 2
    assert "base: no result has that id or tag" in done.stderr
    assert done.stdout == ""
    done = program(*RUN, "--runs", "3", "--json")
    assert (done.returncode, _count(tmp_path)) == (0, 3), done.stderr
    printed = json.loads(done.stdout)
    assert [one["id"] for one in printed["results"]] == ["run-1", "run-1.2", "run-1.3"]
    assert "against" not in printed
    # What was printed is what was kept.
    (tmp_path / "run.json").write_text(done.stdout)
    done = program("results", "import", str(tmp_path / "run.json"))
    assert "0 results are taken in, 3 were there already" in done.stdout

    # A selection that the new runs would be of too.
    done = program(*RUN, "--against", "device=cpu", "--json")
    assert (done.returncode, _count(tmp_path)) == (0, 6), done.stderr
    (question,) = json.loads(done.stdout)["against"]["questions"]
    assert question["answer"]["verdict"] == "same"
    done = program(*RUN, "--against", "device=cpu", median=1.2e-3)
    assert done.returncode == 1
    assert "B: these runs" in done.stdout
    assert "slower" in done.stdout


def test_a_store_that_cannot_be_used_costs_no_run(program: Program, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    damaged = b"no database, and long enough not to be taken for an empty one" * 20
    (state / "results.sqlite3").write_bytes(damaged)
    done = program(*RUN)
    assert done.returncode == 0
    assert done.stdout.startswith("matmul n=")
    assert done.stderr.count("results are not kept") == 1
    assert (state / "results.sqlite3").read_bytes() == damaged


def test_what_excludes_each_other_is_refused(program: Program) -> None:
    for words, said in (
        (("--against", "x", "--no-store"), "leave out --no-store"),
        (("--runs", "0"), "--runs 0: at least 1"),
    ):
        done = program(*RUN, *words)
        assert done.returncode == 2
        assert said in done.stderr
