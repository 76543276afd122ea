"""Where nothing is to be written, nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.children.sessions import saying
from tests.results.samples import kept
from tests.terminal.terminal import PROGRAM, Terminal
from tests.tiers import VARIANT, with_variants
from tui.app import start as workbench
from tui.app.workbench import WorkbenchApp
from tui.cli.program import parse
from tui.results.store.database import Database
from tui.results.store.recorder import ResultRecorder


@pytest.mark.parametrize(
    ("words", "keeps"), [([], True), (["--no-store"], False), (["--readonly"], False)]
)
def test_the_workbench_stores_results_unless_it_is_not_to(
    words: list[str], keeps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(workbench, "check_terminal", lambda: None)
    monkeypatch.setattr(workbench, "_monitor", lambda _chosen: None)
    monkeypatch.setattr(workbench, "prepare_screen", lambda _chosen: None)
    monkeypatch.setattr(WorkbenchApp, "run", lambda app, **_more: seen.append(app._session))
    parse(words).carry_out()
    (session,) = seen
    kinds = [type(each) for each in session._attachments]
    assert (ResultRecorder in kinds) is keeps


def _state(folder: Path) -> dict[str, tuple[int, int]]:
    found = {each: each.stat() for each in (folder, *folder.rglob("*"))}
    return {str(path): (stat.st_mtime_ns, stat.st_size) for path, stat in found.items()}


@pytest.mark.parametrize("what", with_variants(["--readonly"], ["replay"]))
@VARIANT
def test_a_look_and_a_recording_write_nothing(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with Database(folder / "results.sqlite3", writing=True) as database:
        database.add([kept(1), kept(2)])
    argv: tuple[str, ...] = (*PROGRAM, "--python", saying(tmp_path), "--readonly")
    if what == "replay":
        argv = (*PROGRAM, "demo", "--speed", "max")
    before = _state(folder)
    with Terminal(argv, variables={"GPU_WORKBENCH_STATE": str(folder)}) as terminal:
        terminal.until_shows("REPLAY" if what == "replay" else "ready", "transfer")
        terminal.keys("6")
        terminal.until_shows("A recording stores no results" if what == "replay" else "Results   2")
        terminal.keys("x")
        terminal.keys("1")
        terminal.until_shows("Workloads")
        terminal.keys("q")
        assert terminal.exit_code() == 0
    assert _state(folder) == before
