"""Which runs are kept: the newest, and none that goes on, here or on another machine."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests import waiting
from tui.cli.program import parse
from tui.kit.command_line.output import UsageError
from tui.watch.cli.output import stored_run_lines
from tui.watch.runs import runs, start
from tui.watch.runs.runs import StartedRun
from workloads.agent import identity


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("GPU_WORKBENCH_RUNS_KEPT", "2")
    return tmp_path / "state"


def old(number: int, **facts: object) -> StartedRun:
    """Store a run that is older than those that the limit keeps."""
    run = replace(runs.new_run([f"old {number}"]), began=1.6e9 + number, **facts)  # type: ignore[arg-type]
    runs.save(run)
    return run


def age(path: Path, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(path, (at, at))


def is_kept(run: StartedRun) -> bool:
    for _ in range(2):
        runs.save(replace(runs.new_run(["newer"]), ended=time.time(), code=0))
    runs.new_run(["newest"])
    return run.command in [each.command for each in runs.stored_runs()]


def test_a_run_that_has_ended_goes_at_once_also_where_its_files_are_new() -> None:
    run = old(1, ended=1.7e9, code=0)
    (run.folder / f"{os.uname().nodename}-1-1.jsonl").write_text("{}\n")
    (run.folder / "elsewhere-1-1.jsonl").write_text("{}\n")
    assert not is_kept(run)


def test_a_run_of_this_machine_whose_process_is_gone_goes_at_once() -> None:
    assert not is_kept(old(1, pid=1, start_ticks=1))


@pytest.mark.parametrize("other", [{"host": "elsewhere"}, {"boot": "another start"}])
@pytest.mark.parametrize(("seconds", "kept"), [(60, True), (runs.STALE_S + 60, False)])
def test_a_run_of_another_machine_is_kept_while_its_heart_beats(
    other: dict[str, str], seconds: float, kept: bool
) -> None:
    # Its pid is that of a process here, which says nothing.
    run = old(1, pid=1, start_ticks=1, **other)
    (run.folder / runs.HEARTBEAT).touch()
    age(run.folder / runs.HEARTBEAT, seconds)
    assert is_kept(run) == kept


def test_a_run_of_another_machine_is_kept_while_its_heartbeat_is_locked() -> None:
    run = old(1, pid=1, start_ticks=1, host="elsewhere")
    beat = run.folder / runs.HEARTBEAT
    with beat.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        age(beat, runs.STALE_S + 60)
        assert runs.is_locked(run)
        assert is_kept(run)
    assert not runs.is_locked(run)
    assert not is_kept(run)


@pytest.mark.parametrize(("seconds", "kept"), [(3 * 86_400, True), (runs.UNHEARD_S + 60, False)])
def test_one_without_a_heart_is_kept_for_long(seconds: float, kept: bool) -> None:
    run = old(1, pid=1, start_ticks=1, host="elsewhere")
    for path in (*run.folder.iterdir(), run.folder):
        age(path, seconds)
    assert is_kept(run) == kept


def test_a_run_that_goes_on_has_a_heartbeat_host_and_boot() -> None:
    run, process = start.begin(["sleep", "1000"], None)
    try:
        waiting.until((run.folder / runs.HEARTBEAT).exists)
        found = runs.find_run(run.folder.name)
        assert (found.host, found.boot) == (os.uname().nodename, runs.boot_id())
        assert len(found.boot) == 36
        assert is_kept(found)
        waiting.until(lambda: runs.is_locked(found))
    finally:
        process.kill()
        process.wait()
    waiting.until(lambda: not runs.is_locked(found))


def test_a_run_that_is_kept_for_good_stays_and_is_listed_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = old(1, ended=1.7e9, code=0)
    assert parse(("watch", "keep", run.folder.name)).carry_out() == 0
    assert "is stored until you remove it" in capsys.readouterr().out
    assert is_kept(run)
    assert "exit code 0, protected" in stored_run_lines()[-1]
    assert parse(("watch", "rm", run.folder.name)).carry_out() == 0
    assert capsys.readouterr().out == f"{run.folder.name} is removed\n"
    assert not run.folder.exists()


def test_a_run_that_goes_on_is_not_removed() -> None:
    run = old(1, pid=os.getpid(), start_ticks=int(identity().rsplit("-")[-1]))
    with pytest.raises(UsageError, match="is running, or may be; end it before you remove it"):
        parse(("watch", "rm", run.folder.name)).carry_out()
    with pytest.raises(UsageError, match="no stored run is named nothing"):
        parse(("watch", "keep", "nothing")).carry_out()
    assert run.folder.exists()
