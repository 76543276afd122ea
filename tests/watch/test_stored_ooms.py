"""The OOM of a stored run is explained below the list as on the run's page."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.screens.stored_runs import store_runs
from tests.screens.watched import an_oom, device, process_log, ran_out
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.model.facts import format_used
from tui.watch.runs import runs
from tui.watch.session import stored_ooms
from tui.watch.session.run_folder import RunFolder, StoredRun
from tui.watch.session.stored_ooms import (
    StoredOoms,
    describe_fatal_oom,
    explain_stored,
    find_oom_context,
)
from tui.watch.session.watched_session import WatchedRunSession
from tui.watch.state.explained import explain_row, explain_without_snapshot, newest_oom


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredRun:
    """Store a run of two ranks, the first of which leaked until it ran out of memory."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    run, *_ = store_runs()
    return StoredRun(run, False, RunFolder(run.folder).logs())


async def _page_conclusion(stored: StoredRun) -> str:
    session = WatchedRunSession()
    session.open(stored.run)
    while (state := session.state) is None or not state.replayed:
        await asyncio.sleep(0.01)
    await session.stop()
    newest = newest_oom(state.devices)
    assert newest is not None
    return explain_row(newest).line


def test_list_and_page_have_the_same_conclusion(stored: StoredRun) -> None:
    found = explain_stored(stored)
    assert found is not None
    assert "and grow by 257 MiB per step" in found.explanation.line
    assert found.explanation.line == asyncio.run(_page_conclusion(stored))
    assert [row.name for row in found.explanation.account] == [
        *("live tensors", "cached", "outside torch", "unknown")
    ]


@pytest.mark.parametrize("is_folder", [False, True])
def test_without_samples_the_log_alone_explains(stored: StoredRun, is_folder: bool) -> None:
    stored.run.samples.unlink()
    if is_folder:
        stored.run.samples.mkdir()
    found = explain_stored(stored)
    assert found is not None
    assert found.oom.step == an_oom().step
    assert "live tensors hold 130 GiB" in found.explanation.line
    assert "grow" not in found.explanation.line


def test_a_snapshot_of_a_run_has_what_the_run_knows_of_its_oom(stored: StoredRun) -> None:
    # Without run.json, as of a run that --env has prepared.
    path = stored.run.folder / "oom-1.pickle"
    context = find_oom_context(path)
    assert context is not None
    assert context.text.endswith(an_oom().text)
    known = context.circumstances
    assert known.watched
    assert known.growth is not None
    assert known.process is not None
    assert find_oom_context(stored.run.folder / "other.pickle") is None
    assert find_oom_context(stored.run.folder.parent / "oom-1.pickle") is None
    other = stored.run.folder.parent.parent / "other"
    shutil.copytree(stored.run.folder, other)
    assert find_oom_context(other / "oom-1.pickle") is None


@pytest.mark.parametrize("is_own", [True, False])
def test_a_copied_folder_of_a_run_names_no_file_that_is_read(
    stored: StoredRun, tmp_path: Path, is_own: bool
) -> None:
    (tmp_path / "train.py").write_text("\n" * 40 + "loss.backward()\n")
    place = stored.run.folder
    if not is_own:
        place = tmp_path / "copies" / place.name
        shutil.copytree(stored.run.folder, place)
    run = replace(stored.run, folder=place, cwd=str(tmp_path))
    runs.save(run)
    context = find_oom_context(place / "oom-1.pickle")
    assert context is not None
    assert context.text.endswith(an_oom().text)
    assert context.circumstances.growth is not None
    assert context.circumstances.source == ("loss.backward()" if is_own else "")


def test_the_exceptions_text_has_the_total_of_a_device_with_a_limit() -> None:
    text = (
        "CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of 7.40 GiB"
        " of which 2.88 GiB is free. Including non-PyTorch memory, this process has 4.51 GiB memory"
        " in use. 4.00 GiB allowed; Of the allocated memory 3.81 GiB is allocated by PyTorch."
    )
    limited = an_oom(
        request=128 << 20, free=2953 << 20, limit=4 << 30, allocated=3904 << 20, reserved=4086 << 20
    )
    told = explain_without_snapshot(replace(limited, text=text), Circumstances(watched=True))
    assert format_used(told) == "Used 4.5 GiB of 7.4 GiB"
    assert told.cause == "process limit"
    assert "outside torch" in {row.name for row in told.account}
    # Without the text, the total of NVML; without both, what is known at least.
    for known, words in (
        (Circumstances(total=8188 << 20), "Used 5.1 GiB of 8 GiB"),
        (Circumstances(), "Used 4.0 GiB of at least 6.9 GiB"),
    ):
        told = explain_without_snapshot(limited, known)
        assert format_used(told).startswith(words)


def test_the_last_words_on_a_run_are_its_conclusion_and_what_helps_most(stored: StoredRun) -> None:
    conclusion, help_words = describe_fatal_oom(stored.run)
    assert "and grow by 257 MiB per step" in conclusion
    assert help_words.startswith("what would help: ")


def test_an_oom_that_the_program_may_have_survived_is_not_among_the_last_words(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = explain_stored(stored)
    assert found is not None
    for handled in (True, None):
        survived = replace(found, oom=replace(found.oom, handled=handled))
        monkeypatch.setattr(stored_ooms, "explain_stored", lambda *_, survived=survived: survived)
        assert describe_fatal_oom(stored.run) == []


def test_a_part_of_the_samples_is_not_used(stored: StoredRun) -> None:
    asked: list[bool] = []

    def should_continue() -> bool:
        asked.append(True)
        return len(asked) < 3

    found = explain_stored(stored, should_continue)
    assert found is not None
    assert "grow" not in found.explanation.line


def test_a_run_without_an_oom_is_not_explained(stored: StoredRun) -> None:
    assert explain_stored(replace(stored, logs=(process_log(ended=True),))) is None


def test_samples_are_read_once_for_each_oom_and_at_the_end(stored: StoredRun) -> None:
    ooms = StoredOoms()
    assert not ooms.is_read(stored)
    # The user moved on while they were read: nothing of it counts.
    ooms.read(stored, lambda: False)
    assert not ooms.is_read(stored)
    assert ooms.find(stored) is None
    ooms.read(stored, lambda: True)
    assert ooms.is_read(stored)
    assert ooms.find(stored) == explain_stored(stored)
    # More output is no news, another OOM and the run's end are.
    assert ooms.is_read(replace(stored, output=("step 221",)))
    first, *others = stored.logs
    again = replace(first, ooms=(*first.ooms, an_oom(number=2, step=230)))
    for changed in (replace(stored, logs=(again, *others)), replace(stored, is_running=True)):
        assert not ooms.is_read(changed)
        assert ooms.find(changed) == explain_stored(stored)  # until it is read again


def test_the_oom_is_explained_by_the_figures_of_the_device_that_ran_out() -> None:
    row = ran_out()
    assert row.log is not None
    log = replace(row.log, ooms=(an_oom(device=1),))
    first, second = device(log=log), replace(row, device="cuda:1", log=log)
    for rows in ((first, second), (second, first)):
        newest = newest_oom(rows)
        assert newest is not None
        assert newest.row is second
