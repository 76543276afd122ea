"""The end of runs that no program of ours waited for."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tui.watch.runs.run_summary import describe_finished_run, describe_unseen_end
from tui.watch.runs.runs import LastSign, StartedRun, find_last_sign

AT = 1_700_000_000.0


def leave(folder: Path, name: str, *events: object, at: float = AT) -> None:
    """Leave an agent's file with these events, last written at that time."""
    path = folder / name
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    os.utime(path, (at, at))


def end(at: object) -> dict[str, object]:
    return {"event": "end", "at": at, "steps": 3}


def test_the_agents_last_event_is_the_end_of_the_first_process(tmp_path: Path) -> None:
    leave(tmp_path, "box-7-99.jsonl", {"event": "begin", "at": AT}, end(AT + 5))
    leave(tmp_path, "box-8-99.jsonl", end(AT + 50))
    assert find_last_sign(tmp_path, 7, 99) == LastSign(AT + 5, is_end=True)
    # It executed another program, which has a file of its own.
    leave(tmp_path, "box-7-99.2.jsonl", end(AT + 9))
    assert find_last_sign(tmp_path, 7, 99) == LastSign(AT + 9, is_end=True)


def test_where_no_end_was_written_the_newest_file_is_the_last_sign(tmp_path: Path) -> None:
    assert find_last_sign(tmp_path, 7, 99) is None
    leave(tmp_path, "run.json", at=AT + 1000)
    assert find_last_sign(tmp_path, 7, 99) is None
    leave(tmp_path, "box-7-99.jsonl", {"event": "step", "at": AT}, at=AT + 20)
    leave(tmp_path, "output.log", at=AT + 30)
    assert find_last_sign(tmp_path, 7, 99) == LastSign(AT + 30, is_end=False)
    assert find_last_sign(tmp_path, None, None) == LastSign(AT + 30, is_end=False)
    leave(tmp_path, "output.log", at=time.time() + 9e6)
    found = find_last_sign(tmp_path, 7, 99)
    assert found is not None
    assert found.at <= time.time()


@pytest.mark.parametrize("at", ["x", None, True, 1e300, -1.0, [1]])
def test_an_end_that_cannot_be_is_no_end(tmp_path: Path, at: object) -> None:
    leave(tmp_path, "box-7-99.jsonl", end(at), at=AT)
    found = find_last_sign(tmp_path, 7, 99)
    assert found == LastSign(AT, is_end=False)


def test_a_link_or_a_file_without_an_end_of_line_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "box-7-99.jsonl").symlink_to("/dev/zero")
    (tmp_path / "box-7-99.2.jsonl").write_bytes(b"\xff" * 200_000)
    found = find_last_sign(tmp_path, 7, 99)
    assert found is not None
    assert not found.is_end


def test_each_kind_of_end_has_its_words() -> None:
    assert describe_unseen_end(None) == "end unknown"
    assert "exit code is known to the shell" in describe_unseen_end(LastSign(AT, is_end=True))
    clock = time.strftime("%H:%M:%S", time.localtime(AT))
    assert describe_unseen_end(LastSign(AT, is_end=False)).endswith(f"last sign {clock}")


def test_a_run_whose_end_nobody_saw_has_no_duration(tmp_path: Path) -> None:
    run = StartedRun(tmp_path, ("python", "train.py"), "/", 1.0)
    assert describe_finished_run(run) == f"python train.py: end unknown; stored in {tmp_path}"
