"""Workloads that users bring: what a file may hold, and that an error in it harms nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workloads import START

ROOT = Path(__file__).resolve().parents[2]
GOOD = """
from typing import Annotated

from workloads.workload import Case, whole, workload
import neighbour


@workload(group="mine", title="softmax", about="Softmax.", look_for="Memory.")
def {name}(on, n: Annotated[int, whole(1, 4096, "rows")] = neighbour.ROWS) -> Case:
    import torch

    x = on.randn(n, n)

    def timed() -> object:
        return torch.softmax(x, dim=1)

    return Case(timed, byte=8 * n * n)
"""
HEAD = (
    "from workloads.workload import Case, workload\n"
    "about = dict(group='g', title='t', about='a', look_for='l')\n"
)
BODY = "    def timed(): pass\n    return Case(timed)\n"


def listed(*files: Path) -> tuple[dict[str, dict[str, object]], list[str], int]:
    """Names of the catalogue, lines on stderr and the exit code of the runner's list."""
    options = [word for file in files for word in ("--workloads", str(file))]
    # From elsewhere: nothing of this folder is on the path.
    done = subprocess.run(
        [sys.executable, "-I", *START, "list", *options],
        capture_output=True, text=True, timeout=60, check=False, cwd="/",
    )  # fmt: skip
    infos = {info["name"]: info for info in json.loads(done.stdout)}
    return infos, done.stderr.splitlines(), done.returncode


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_is_read_with_its_neighbours_and_its_code_is_shown(tmp_path: Path) -> None:
    write(tmp_path, "neighbour.py", "ROWS = 64\n")
    infos, errors, code = listed(write(tmp_path, "mine.py", GOOD.format(name="softmax")))
    assert (errors, code) == ([], 0)
    assert infos["softmax"]["code"] == "return torch.softmax(x, dim=1)"
    assert "matmul" in infos


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("x = 1\ndef f(:\n", 2, "SyntaxError"),
        ("\nimport nonesuch_at_all\n", 2, "ModuleNotFoundError: No module named"),
        ("x = 1\n\nraise SystemExit(3)\n", 3, "SystemExit: 3"),
        (
            HEAD + "@workload(**about)\ndef matmul(on):\n" + BODY,
            3,
            "the name is taken",
        ),
        (
            HEAD + "@workload(**about)\ndef w(on, n=3):\n" + BODY,
            3,
            "n needs a rule and a default",
        ),
        (
            HEAD
            + "about['title'] = 3\n@workload(**about)\ndef w(on):\n    def timed():\n        pass\n"
            "    return Case(timed)\n",
            4,
            "title: expected str",
        ),
        ("x = 1\n", 1, "declares no workload"),
    ],
    ids=lambda value: (
        value if isinstance(value, str) and " " in value and "\n" not in value else ""
    ),
)
def test_an_error_is_one_line_with_file_and_line_and_harms_nothing_else(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    bad = write(tmp_path, "bad.py", text)
    write(tmp_path, "neighbour.py", "ROWS = 64\n")
    good = write(tmp_path, "good.py", GOOD.format(name="softmax"))
    infos, errors, code = listed(bad, good)
    (error,) = errors
    assert code == 1
    assert error.startswith(f"{bad}:")
    assert int(error.removeprefix(f"{bad}:").partition(":")[0]) in (line, line + 1)
    assert says in error
    assert {"softmax", "matmul"} <= infos.keys()


@pytest.mark.slow
def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("## Bring your own")[2]
    example = section.partition("```python\n")[2].partition("```")[0]
    assert example.count("\n") <= 20
    path = write(tmp_path, "mine.py", example)
    arguments = ["run", "--group", "mine", "--workloads", str(path), "--device", "cpu", "--quick"]
    done = subprocess.run(
        [sys.executable, "-m", "tui", *arguments, "--set", "n=64,128", "--json"],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert [result["status"] for result in found["results"]] == ["ok", "ok"]
    (sweep,) = found["sweeps"]
    assert sweep["parameters"] == {"n": [64, 128]}
    assert sweep["median_s"]["places"] == [64.0, 128.0]
    assert sweep["unavailable"]["speed_up"]


LAMBDAS = """
from workloads.workload import Case, workload
import torch

about = dict(group="mine", title="t", about="a.", look_for="l.", devices=("cpu",))

@workload(**about)
def product(on):
    x = on.randn(64, 64)
    return Case(lambda: x @ x, flop=2 * 64**3)

@workload(**about)
def built_in(on):
    return Case(torch.get_num_threads)

@workload(**about)
def not_called(on):
    return Case(on.randn(4))

@workload(**about)
def no_case(on):
    return lambda: None
"""


@pytest.mark.slow
def test_a_lambda_is_run_and_what_cannot_be_timed_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, "mine.py", LAMBDAS)
    arguments = ["run", "--group", "mine", "--workloads", str(path), "--device", "cpu", "--quick"]
    done = subprocess.run(
        [sys.executable, "-m", "tui", *arguments, "--json"],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    results = {result["workload"]: result for result in json.loads(done.stdout)["results"]}
    assert results["product"]["status"] == results["built_in"]["status"] == "ok"
    assert results["product"]["rates"]["flop_per_s"] > 0
    assert "not a Tensor: Case(lambda: ...)" in results["not_called"]["reason"]
    assert "no_case gave back a function, not a Case" in results["no_case"]["reason"]
