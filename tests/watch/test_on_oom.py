"""``watch --on-oom CMD``: a command that the supervisor starts at the first OOM, and once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import waiting
from tests.tiers import VARIANT
from tui.cli.program import parse
from tui.kit.command_line.output import UsageError
from tui.watch.runs import runs
from tui.watch.runs.on_oom import LOG, OnOom

ROOT = Path(__file__).parents[2]
AN_OOM = json.dumps({"event": "oom", "at": 1.0}) + "\n"
WRITES = f"""
import os, pathlib, sys
folder = pathlib.Path(os.environ["GPU_WORKBENCH_RUN"])
(folder / "box-1-1.jsonl").write_text({AN_OOM!r} * 2)
sys.exit(3)
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / "state"


def watch(on_oom: str, code: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tui", "watch", "--no-screen", "--on-oom", on_oom]
    return subprocess.run(
        [*words, "--", sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


def test_it_is_started_once_with_the_runs_name_and_without_the_agent() -> None:
    says = 'echo "$1 $GPU_WORKBENCH_RUN_NAME [$GPU_WORKBENCH_RUN]"'
    assert watch(says, WRITES).returncode == 3
    (run,) = runs.stored_runs()
    name = run.folder.name
    waiting.until(lambda: (run.folder / LOG).exists() and (run.folder / LOG).read_text())
    waiting.until(lambda: not runs.find_run(name).is_running)
    assert (run.folder / LOG).read_text() == f"{name} {name} []\n"
    assert runs.find_run(name).code == 3


@VARIANT
def test_where_nothing_runs_out_of_memory_it_is_not_started() -> None:
    assert watch("echo started", "print(1)").returncode == 0
    (run,) = runs.stored_runs()
    assert not (run.folder / LOG).exists()


@VARIANT
def test_its_failure_is_a_line_in_its_log_and_costs_the_run_nothing() -> None:
    assert watch("no-such-program-is-there", WRITES).returncode == 3
    (run,) = runs.stored_runs()
    said = waiting.until(
        lambda: "exit code" in (run.folder / LOG).read_text() and (run.folder / LOG).read_text()
    )
    assert said.splitlines()[-1] == (
        "gpu-workbench: the command of --on-oom ended with exit code 127"
    )


@VARIANT
def test_the_run_ends_while_the_command_goes_on(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert watch(f"cat < {fifo}; echo done", WRITES).returncode == 3
    (run,) = runs.stored_runs()
    assert (run.code, run.ended is None) == (3, False)
    with fifo.open("w") as file:
        file.write("last\n")
    waiting.until(lambda: (run.folder / LOG).read_text() == "last\ndone\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("x", "--pid", "1"), "--on-oom: give the command that is watched after --"),
        (("x",), "--on-oom: give the command that is watched after --"),
        (("x", "2026"), "--on-oom: give the command that is watched after --"),
        (("", "--", "true"), "--on-oom: give a command for the shell"),
        (("x", "--here", "--", "true"), "--on-oom and --here: no program is left"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse(("watch", "--on-oom", *words)).carry_out()


def pid_after_poll(command: OnOom) -> int | None:
    command.poll()
    return command.pid


def test_a_half_written_line_and_other_events_start_nothing(tmp_path: Path) -> None:
    command = OnOom(tmp_path, "true")
    path = tmp_path / "box-1-1.jsonl"
    for text in (
        '{"event": "step"}\n',
        '{"event": "trouble", "text": "{\\"event\\": \\"oom\\""}\n',
    ):
        path.write_text(text)
        assert pid_after_poll(command) is None
    (tmp_path / "link.jsonl").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "fifo.jsonl")
    assert pid_after_poll(command) is None
    with path.open("a") as file:
        file.write(AN_OOM[:9])
        file.flush()
        assert pid_after_poll(command) is None
        file.write(AN_OOM[9:])
    started = pid_after_poll(command)
    assert started is not None
    os.waitpid(started, 0)
    assert pid_after_poll(command) == started
