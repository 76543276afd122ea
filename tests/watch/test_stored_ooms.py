"""The OOM of a stored run is explained below the list as on the run's page."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.screens.stored_runs import store_runs
from tests.screens.watched import an_oom, device, process_log, ran_out
from tui.watch.session import stored_ooms
from tui.watch.session.run_folder import RunFolder, StoredRun
from tui.watch.session.stored_ooms import StoredOoms, describe_fatal_oom, explain_stored
from tui.watch.session.watched_session import WatchedRunSession
from tui.watch.state.explained import explain_row, newest_oom


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
