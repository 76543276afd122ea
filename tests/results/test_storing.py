"""Where nothing is to be written, nothing is."""

from __future__ import annotations

from typing import Any

import pytest

from tui.cli import workbench
from tui.cli.program import parse
from tui.ui.app.workbench import WorkbenchApp


@pytest.mark.parametrize(
    ("words", "keeps"), [([], True), (["--no-store"], False), (["--readonly"], False)]
)
def test_the_workbench_keeps_results_unless_it_is_not_to(
    words: list[str], keeps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(workbench, "check_terminal", lambda: None)
    monkeypatch.setattr(workbench, "_monitor", lambda _chosen: None)
    monkeypatch.setattr(workbench, "prepare_screen", lambda _chosen: None)
    monkeypatch.setattr(WorkbenchApp, "run", lambda app, **_more: seen.append(app._session))
    parse(words).carry_out()
    assert [session._keeper is not None for session in seen] == [keeps]
