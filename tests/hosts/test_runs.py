"""``gpu-workbench run --host``, as a user runs it: results, failures, and what is left there."""

from __future__ import annotations

import io
import json
import os
import select
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import workloads
from tests import ceilings
from tests.hosts.conftest import BARE_PYTHON, NEEDS_MACHINES, Boxes
from tests.in_process import run_here
from tests.tiers import VARIANT
from tests.waiting import assert_gone, until
from tui.hosts.archive import build_runner_archive
from tui.hosts.boot import OLDEST_FOR_RUNS, preamble, torch_command
from workloads.declare import user_workloads
from workloads.protocol.keep_alive import KeepAlive
from workloads.protocol.wire import encode

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
AS_IT_IS = 'exec "$@"'
"""Run the given command."""
SMALL = ("matmul", "--set", "n=64", "--device", "cpu", "--quick")


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tui", *arguments]


def _run(
    boxes: Boxes, *arguments: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    words = _command("run", "--transport", boxes.transport, *arguments)
    for name in ("a", "b"):
        if (boxes.folder / f"{name}.sh").exists():
            words += ["--host-python", f"{name}={python}"]
    return subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.slow
@NEEDS_MACHINES
@pytest.mark.parametrize("together", [(), ("--together",)])
def test_two_hosts_run_and_their_results_are_compared_here(
    boxes: Boxes, together: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("a", "b"):
        boxes.add(name, AS_IT_IS, boot_id=f"boot of {name}")
    done = _run(boxes, *SMALL, "--host", "a,b", *together)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "2 of 2 runs succeeded"
    assert [line for line in lines if line in ("a", "b")] == ["a", "b"]
    assert sum(line.startswith("matmul n=64") for line in lines) == 2
    assert lines[-1] == "to compare two hosts: gpu-workbench results compare box=a box=b"
    compared = subprocess.run(
        _command("results", "compare", "box=a", "box=b"),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "matmul" in compared.stdout, compared.stderr
    for name in ("a", "b"):
        assert list((boxes.folder / f"{name}.home").iterdir()) == []


@pytest.mark.slow
def test_two_names_of_one_machine_do_not_run_together(boxes: Boxes) -> None:
    for name in ("a", "b"):
        boxes.add(name, AS_IT_IS)
    done = _run(boxes, *SMALL, "--host", "a,b", "--together", "--no-store")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "gpu-workbench: b is the same machine as a, so runs at the same time would slow each other"
        " down: leave one out of --host, or leave out --together"
    ]


@VARIANT
def test_json_has_an_object_for_each_host(
    boxes: Boxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ceilings.keep(tmp_path / "state")
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    boxes.add("a", AS_IT_IS)
    boxes.add("b", "exit 127")
    done = _run(boxes, *SMALL, "--host", "a,b", "--json", "--no-store")
    assert done.returncode == 1
    a, b = json.loads(done.stdout)["hosts"]
    assert a["host"] == "a"
    assert a["results"][0]["status"] == "ok"
    assert b["error"].startswith("no python3 there: name a Python with --host-python b=PATH")


OWN = """
from workloads.workload import Case, workload
{first}

@workload(group="mine", title="doubled", about="Twice.", look_for="Time.")
def doubled(on) -> Case:
    x = on.randn(64)

    def timed() -> object:
        return x * 2

    return Case(timed, byte=512)
"""


def test_a_users_file_is_read_from_memory_on_a_host(tmp_path: Path) -> None:
    own, other, gone = (tmp_path / f"{name}.py" for name in ("own", "other", "gone"))
    own.write_text(OWN.format(first=""), encoding="utf-8")
    other.write_text("import beside\n", encoding="utf-8")
    files = [str(own), str(other), str(gone)]
    archive = build_runner_archive(files)
    own.unlink()
    other.unlink()
    words = preamble(archive, "workloads", ("list", *user_workloads.options(files)))
    done = subprocess.run(
        torch_command(sys.executable), input=words, capture_output=True, timeout=100, check=False
    )
    found = {info["name"]: info for info in json.loads(done.stdout)}
    assert found["doubled"]["code"] == "return x * 2"
    assert "matmul" in found
    neighbour, missing = done.stderr.decode().splitlines()
    assert neighbour == (
        f"{other}:1: ModuleNotFoundError: No module named 'beside'; a host gets this file and no "
        "other"
    )
    assert missing == f"{gone}:1: it cannot be read: No such file or directory"


@pytest.mark.slow
def test_a_users_workload_runs_on_a_host(boxes: Boxes, tmp_path: Path) -> None:
    boxes.add("a", AS_IT_IS)
    own, broken = tmp_path / "own.py", tmp_path / "broken.py"
    own.write_text(OWN.format(first=""), encoding="utf-8")
    broken.write_text(OWN.format(first="1 / 0"), encoding="utf-8")
    files = ("--workloads", str(own), "--workloads", str(broken))
    done = _run(boxes, "doubled", *files, "--device", "cpu", "--quick", "--host", "a", "--no-store")
    assert done.stdout.startswith("1 of 1 run succeeded"), done.stderr
    assert f"a: {broken}:3: ZeroDivisionError" in done.stderr


@pytest.mark.slow
def test_ranks_start_from_memory(boxes: Boxes) -> None:
    boxes.add("a", AS_IT_IS)
    done = _run(boxes, "all_reduce", "--device", "cpu", "--quick", "--host", "a", "--no-store")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("1 of 1 run succeeded")


@pytest.mark.slow
def test_the_ranks_of_a_users_workload_read_it_from_memory(boxes: Boxes, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN.format(first="").replace('group="mine"', 'group="mine", ranks=True'))
    # The file is not on that host.
    boxes.add("a", f"rm -f {shlex.quote(str(own))}; {AS_IT_IS}")
    words = ("doubled", "--workloads", str(own), "--device", "cpu", "--quick", "--no-store")
    done = _run(boxes, *words, "--host", "a")
    assert not own.exists()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ranks: 2 (processes that took part" in done.stdout


@VARIANT
def test_a_python_without_torch_says_which_option_names_another(boxes: Boxes) -> None:
    boxes.add("a", f'while [ "$1" != -c ]; do shift; done; {BARE_PYTHON[7:]}')
    done = _run(boxes, *SMALL, "--host", "a", "--no-store")
    assert done.returncode == 1
    assert done.stdout.startswith("nothing ran; 1 host of 1 cannot run\n\na  there is no torch in")
    assert "--host-python a=PATH" in done.stdout


@pytest.mark.slow
def test_the_first_python_with_torch_is_found(tmp_path: Path) -> None:
    bare, good = tmp_path / "bare", tmp_path / "good"
    for folder, options in ((bare, "-S"), (good, "")):
        folder.mkdir()
        name = "python3" if folder == bare else "python"
        script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {options} "$@"\n'
        (folder / name).write_text(script, encoding="utf-8")
        (folder / name).chmod(0o700)
    path = f"{bare}:{good}:{os.environ['PATH']}"
    variables = {"PATH": path, "VIRTUAL_ENV": "/nowhere", "CONDA_PREFIX": "/nowhere"}
    words = preamble(_archive_that_says("import torch; print(torch.__name__)"), "said")
    done = subprocess.run(
        torch_command(None, variables), input=words, capture_output=True, timeout=100, check=False
    )
    assert done.stdout == b"torch\n", done.stderr


def _archive_that_says(line: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("said.py", f"def main():\n    {line}\n")
        archive.writestr("gpu_workbench_entry.py", _entry())
    return buffer.getvalue()


def _entry() -> str:
    return Path(workloads.ENTRY).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host=-oProxyCommand=x",), "begins with a dash"),
        (("--host", "a", "--runs", "2"), "--runs is for runs on this machine"),
        (("--host", "a", "--host-python", "c=python3"), "--host-python c: --host does not name it"),
        (("--together",), "need --host or --slurm"),
        (("--host", "a", "--python", sys.executable), "--python is for this machine"),
    ],
)
def test_options_that_cannot_be_carried_out_are_refused(
    arguments: tuple[str, ...], said: str
) -> None:
    done = run_here("run", "matmul", *arguments)
    assert done.code == 2
    assert said in done.err


@pytest.mark.parametrize("closes", [pytest.param(True, marks=pytest.mark.slow), False])
@VARIANT
def test_a_runner_ends_with_its_workers_when_this_side_is_gone(closes: bool) -> None:
    """A link that was cut leaves the pipe open; a front end that was killed closes it."""
    serving = ("serve", "--keep-alive", "60" if closes else "1")
    words = preamble(build_runner_archive(), "workloads", serving, OLDEST_FOR_RUNS)
    child = subprocess.Popen(
        torch_command(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(words)
        child.stdin.flush()

        said = bytearray()

        def is_told_to_live(condition: Callable[[], object]) -> bool:
            """Show that this side is there, and return whether a condition holds."""
            assert child.stdin is not None
            child.stdin.write(encode(KeepAlive(0)))
            child.stdin.flush()
            return bool(condition())

        def has_said_hello() -> bool:
            assert child.stdout is not None
            if select.select([child.stdout], [], [], 0)[0]:
                said.extend(os.read(child.stdout.fileno(), 1 << 16))
            return b"\n" in said

        until(lambda: is_told_to_live(has_said_hello))
        assert b'"hello"' in said
        # It imports torch, or has done so: either way it ends.
        until(lambda: is_told_to_live(lambda: len(psutil.Process(child.pid).children()) == 1))
        seen = {psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)}
        if closes:
            child.stdin.close()
        child.stdout.read()
        child.wait(60)
    assert_gone(seen)
