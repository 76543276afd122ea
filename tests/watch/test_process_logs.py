"""The OOMs in an agent's file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.explain.scenes import container, inventory
from tests.watch.test_hostile_folder import BEGIN, NAME, OOM
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.explain.frames import Frame
from tui.watch.runs import process_logs, runs
from tui.watch.runs.failures import first_failure
from tui.watch.runs.process_logs import ProcessLog, process_logs_in
from tui.watch.session.run_folder import RunFolder
from tui.watch.state.explained import explain_without_snapshot
from workloads.agent import identity
from workloads.protocol import wire


def test_an_oom_without_an_inventory_has_the_names_of_an_earlier_one(tmp_path: Path) -> None:
    names = wire.to_plain(inventory(container("errors", 6000, 3)))
    events: list[dict[str, Any]] = [BEGIN]
    for number, (step, mib) in enumerate(((0, 6000), (0, 6300), (0, 3000), (1, 6000)), 1):
        events.append({**OOM, "oom": number, "step": step, "allocated": mib << 20})
        if number == 1:
            events.append({"event": "inventory", "at": 1.0, "oom": 1, "inventory": names})
    (tmp_path / f"{NAME}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    (log,) = process_logs_in(tmp_path)
    assert [oom.inventory is not None for oom in log.ooms] == [True, True, False, False]
    assert log.ooms[1].why_no_snapshot.endswith("; names are those of OOM 1")
    explanation = explain_without_snapshot(log.ooms[1], Circumstances(watched=True))
    assert explanation.where == Frame("train.py", 3, "")
    assert explanation.account[0].description == "named errors"


SPOKEN = {**OOM, "snapshot_follows": True}
ASKED = {"event": "inventory", "at": 1.0, "oom": 1, "inventory": None}
WRITTEN = {"event": "no snapshot", "at": 1.0, "oom": 1, "text": "the disk is full"}


def read_of(folder: Path, process: str, *events: dict[str, Any]) -> ProcessLog:
    """Return the log of a process with these events after its first."""
    begin = {**BEGIN, "identity": process}
    lines = [f"{json.dumps(each)}\n" for each in (begin, *events)]
    (folder / f"{process}.jsonl").write_text("".join(lines))
    (log,) = process_logs_in(folder)
    return log


def test_an_oom_is_not_judged_while_its_snapshot_is_being_written(tmp_path: Path) -> None:
    (oom,) = read_of(tmp_path, identity(), SPOKEN).ooms
    assert oom.is_examined
    assert oom.why_no_snapshot == "it is being written"
    assert "the process is running" in oom.why_not_known
    explanation = explain_without_snapshot(oom, Circumstances(watched=True))
    assert explanation.line == "OOM at step 3: the snapshot is being written"
    assert explanation.account == ()


def test_with_its_inventory_an_oom_is_explained_before_its_snapshot(tmp_path: Path) -> None:
    names = wire.to_plain(inventory(container("errors", 6000, 3)))
    (oom,) = read_of(tmp_path, identity(), SPOKEN, {**ASKED, "inventory": names}).ooms
    assert oom.is_examined
    explanation = explain_without_snapshot(oom, Circumstances(watched=True))
    assert explanation.account[0].description == "named errors"


def test_an_oom_without_a_snapshot_of_a_running_process_is_not_said_to_have_ended_it(
    tmp_path: Path,
) -> None:
    (oom,) = read_of(tmp_path, identity(), SPOKEN, WRITTEN).ooms
    assert (oom.is_examined, oom.why_no_snapshot) == (False, "the disk is full")
    assert "the process is running" in oom.why_not_known


def test_a_process_that_ended_while_its_snapshot_was_written_says_so(tmp_path: Path) -> None:
    (oom,) = read_of(tmp_path, NAME, SPOKEN).ooms
    assert not oom.is_examined
    assert oom.why_no_snapshot == "its process ended before it was written"
    assert "it was killed" in oom.why_not_known


def test_a_rank_that_runs_has_not_failed_and_was_not_ended(tmp_path: Path) -> None:
    log = read_of(tmp_path, identity(), SPOKEN)
    other = replace(log, rank="1", ooms=())
    launched = ("torchrun", "train.py")
    assert first_failure([log, other], launched) == ""
    ended = replace(log, running=False)
    assert first_failure([ended, other], launched) == "rank 0 ran out of memory"


def test_the_end_of_a_killed_process_is_read_although_no_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_of(tmp_path, identity(), SPOKEN)
    folder = RunFolder(tmp_path)
    assert folder.logs()[0].running
    for module in (process_logs, runs):
        monkeypatch.setattr(module, "find_running", lambda _process: 0)
    assert not folder.logs()[0].running
