"""``run`` keeps what it measures, and holds it against what was kept."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.in_process import Done, run_here
from tests.results.made_runner import made
from tests.tiers import VARIANT
from tui.headless.rounds import parse_arm, parse_arms
from tui.kit.command_line.output import UsageError
from tui.results.store.database import Database

ROOT = Path(__file__).resolve().parents[2]
Program = Callable[..., Done]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Run the program in this process, over a runner with invented times."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))

    def call(*words: str, median: float = 1e-3) -> Done:
        which = ("--python", made(tmp_path, median)) if words[0] == "run" else ()
        return run_here(*which, *words)

    return call


def _count(tmp_path: Path) -> int:
    with Database(tmp_path / "state" / "results.sqlite3") as database:
        return database.count()


RUN = ("run", "matmul", "--device", "cpu", "--quick")


@VARIANT
def test_what_is_slower_than_before_is_an_exit_code(program: Program, tmp_path: Path) -> None:
    done = program(*RUN, "--no-store")
    assert (done.code, _count(tmp_path)) == (0, 0), done.err
    # A name that selects nothing is told before anything runs.
    done = program(*RUN, "--against", "base")
    assert done.code == 2
    assert "base: no result has that id or tag" in done.err
    assert done.out == ""
    done = program(*RUN, "--runs", "3", "--json")
    assert (done.code, _count(tmp_path)) == (0, 3), done.err
    printed = json.loads(done.out)
    assert [one["id"] for one in printed["results"]] == ["run-1", "run-1.2", "run-1.3"]
    assert "against" not in printed
    # What was printed is what was kept.
    (tmp_path / "run.json").write_text(done.out)
    done = program("results", "import", str(tmp_path / "run.json"))
    assert "0 results were imported, 3 were stored already" in done.out

    # A selection that the new runs would be of too; three runs of one minute are one session.
    _make_sessions(tmp_path)
    assert program("results", "tag", "device=cpu", "base").code == 0
    done = program(*RUN, "--against", "device=cpu", "--json", median=1.2e-3)
    assert (done.code, _count(tmp_path)) == (0, 6), done.err
    (question,) = json.loads(done.out)["against"]["questions"]
    assert question["answer"]["verdict"] == "unclear"
    assert question["answer"]["ratio"]["sessions"] == [3, 1]

    # With two earlier sessions of this environment that A does not select there are three.
    _make_sessions(tmp_path)
    done = program(*RUN, "--runs", "1", "--against", "base", median=1.2e-3)
    assert done.code == 1, done.out
    assert "B: these runs and 3 earlier of their environment" in done.out
    assert "slower" in done.out


def _make_sessions(tmp_path: Path) -> None:
    """Let each run that is kept have been on a day of its own."""
    with sqlite3.connect(tmp_path / "state" / "results.sqlite3") as state:
        changed = "UPDATE results SET at = at - 86400.0 * number WHERE at > ?"
        state.execute(changed, (time.time() - 1000,))
    state.close()


@VARIANT
def test_runs_are_printed_as_the_table_that_export_prints(program: Program) -> None:
    assert program(*RUN).code == 0
    done = program(*RUN, "--runs", "2", "--markdown")
    assert done.code == 0, done.err
    heading, _, row, *_ = done.out.splitlines()
    assert heading.startswith("| workload | device | median")
    assert row.startswith("| matmul ")
    # Earlier runs are not in the table.
    assert "| 2 |" in row
    exported = program("results", "export", "--markdown")
    assert exported.out.splitlines()[0] == heading
    assert "| 3 |" in exported.out


@VARIANT
def test_two_settings_take_turns_each_a_session_and_are_compared(
    program: Program, tmp_path: Path
) -> None:
    pythons = []
    for name, median in (("a", 1e-3), ("b", 1.2e-3)):
        (tmp_path / name).mkdir()
        pythons.append(made(tmp_path / name, median))
    sides = [f"python={python}" for python in pythons]
    done = program(*RUN, "--runs", "3", "--interleave", *sides, "--json")
    assert done.code == 1, done.err
    found = json.loads(done.out)
    (question,) = found["compared"]["questions"]
    assert question["answer"]["verdict"] == "slower"
    ratio = question["answer"]["ratio"]
    assert (ratio["sessions"], ratio["runs"]) == ([3, 3], [3, 3])
    assert ratio["value"] == pytest.approx(1 / 1.2, rel=0.01)
    # They took turns.
    with Database(tmp_path / "state" / "results.sqlite3") as database:
        rows = database.read_rows()[::-1]
    assert [row.median_s < 1.1e-3 for row in rows if row.median_s] == [True, False] * 3
    # What is of two environments is not taken in as if it were of one.
    (tmp_path / "run.json").write_text(done.out)
    done = program("results", "import", str(tmp_path / "run.json"))
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "it has no results" in done.err


@pytest.mark.slow
def test_two_settings_take_turns_in_torch(tmp_path: Path) -> None:
    sides = ("OMP_NUM_THREADS=1,MKL_NUM_THREADS=1", "OMP_NUM_THREADS=2,MKL_NUM_THREADS=2")
    words = ("matmul", "--set", "n=256", "--device", "cpu", "--quick", "--runs", "3")
    done = subprocess.run(
        [sys.executable, "-m", "tui", "run", *words, "--interleave", *sides],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={**os.environ, "GPU_WORKBENCH_STATE": str(tmp_path / "state")},
    )
    assert done.stdout.count(", turn 3 of 3") == 2, done.stderr
    assert "variable OMP_NUM_THREADS 1 → 2" in " ".join(done.stdout.split())


def test_a_side_is_a_python_flags_and_variables() -> None:
    arm = parse_arm(f"python={sys.executable}, cudnn.benchmark=on,OMP_NUM_THREADS=2")
    assert arm.python == sys.executable
    assert (arm.flags, arm.variables) == ({"cudnn.benchmark": True}, {"OMP_NUM_THREADS": "2"})
    for text, said in (
        ("on", "give python=PATH"),
        ("", "give python=PATH"),
        ("n=5", "n=5: give python=PATH"),
        ("cudnn.benchmark=maybe", "cudnn.benchmark=maybe: give"),
        ("python=/none", "no program there"),
    ):
        with pytest.raises(UsageError, match=said):
            parse_arm(text)
    with pytest.raises(UsageError, match="both sides are the same"):
        parse_arms(["A=1,B=2", "B=2,A=1"])


def test_a_store_that_cannot_be_used_costs_no_run(program: Program, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    damaged = b"no database, and long enough not to be taken for an empty one" * 20
    (state / "results.sqlite3").write_bytes(damaged)
    done = program(*RUN)
    assert done.code == 0
    assert done.out.startswith("matmul n=")
    assert done.err.count("results are not stored") == 1
    # Nor do the figures of a table that cannot be read from it get lost.
    done = program(*RUN, "--markdown")
    assert done.code == 0
    assert done.out.startswith("matmul n=")
    assert (state / "results.sqlite3").read_bytes() == damaged


def test_what_excludes_each_other_is_refused(program: Program) -> None:
    for words, said in (
        (("--against", "x", "--no-store"), "leave out --no-store"),
        (("--markdown", "--json"), "--json and --markdown: give one of them"),
        (("--markdown", "--no-store"), "leave out --no-store"),
        (("--markdown", "--against", "x"), "leave out --against"),
        (("--markdown", "--interleave", "A=1", "A=2"), "leave out --interleave"),
        (("--runs", "0"), "--runs 0: at least 1"),
        (("--interleave", "A=1", "A=2", "--no-store"), "leave out --no-store"),
        (("--interleave", "A=1", "A=2", "--against", "x"), "leave out --against"),
    ):
        done = program(*RUN, *words)
        assert done.code == 2
        assert said in done.err
