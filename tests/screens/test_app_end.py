"""How the app ends: by key, by an error of its own, with its session stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.screen import Screen

from tests.screens.app_helpers import running
from tests.screens.fakes import FakeSession
from tests.screens.helpers import clock, make_store
from tests.screens.results import progress, queued
from tui.app.drawing import PAUSE_S
from tui.app.workbench import WorkbenchApp
from tui.core.events import LogLine


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("ctrl+q", 0), ("ctrl+c", 130)])
async def test_a_key_ends_it_and_the_session(key: str, code: int) -> None:
    async with running() as on:
        assert on.session.started
        await on.press(key)
    assert on.app.return_code == code
    assert on.session.stopped


async def test_a_key_ends_it_also_before_the_last_panes_are_there() -> None:
    async with running((80, 24)) as on:
        workbench = on.workbench
        on.app.exit()
        # As the frame would that is drawn between the key and the end.
        workbench._add_panes()
    assert on.app.return_code == 0


class SlowToGo(Screen[None]):
    """Goes for longer than a drawing is waited for, after the workbench has gone."""

    async def on_unmount(self) -> None:
        await asyncio.sleep(2 * PAUSE_S)


async def test_a_drawing_that_is_due_while_the_screens_go_is_not_done() -> None:
    session = FakeSession(make_store())
    app = WorkbenchApp(session, clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        app.add_mode("slow", SlowToGo)
        app.switch_mode("slow")
        await pilot.press("1")
        await pilot.pause()
        session.tell(LogLine("runner", "ended", "info"))
    assert session.stopped
    assert app.return_code is None


async def test_nothing_is_drawn_or_valid_once_the_screens_are_gone() -> None:
    async with running() as on:
        pass
    on.session.tell(LogLine("runner", "late", "info"))
    on.app.draw_now()
    assert on.app.check_action("quit", ()) is False


async def test_ctrl_c_asks_while_something_runs_and_a_second_one_ends_it() -> None:
    async with running((100, 30), "one gpu", queued("mlp"), progress("mlp")) as on:
        await on.press("ctrl+c")
        assert "Quit and cancel the runs?" in on.text
        await on.press("n")
        assert on.app.is_running
        assert "Quit and cancel the runs?" not in on.text
        await on.press("q", "ctrl+c")
    assert on.app.return_code == 130


async def test_ctrl_c_ends_it_from_a_dialog_too() -> None:
    async with running() as on:
        await on.press("question_mark", "ctrl+c")
    assert on.app.return_code == 130


async def test_ctrl_c_copies_where_text_is_selected() -> None:
    async with running() as on:
        await on.press("equals_sign")
        await on.press("ctrl+c")  # a field is selected when it gets the focus
        assert on.app.clipboard == "4096"
        assert on.app.return_code is None


async def test_an_error_of_its_own_is_one_line_with_a_report_and_no_locals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    app = WorkbenchApp(FakeSession(make_store()), clock=clock)

    def fails() -> None:
        secret = "hunter2"
        raise RuntimeError(f"broken [/x] {len(secret)}")

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            app.call_later(fails)
            await pilot.pause()

    with pytest.raises(RuntimeError, match="broken"):
        await run()
    said = capsys.readouterr().err
    assert "hunter2" not in said
    report = next((tmp_path / "reports").glob("*.txt"))
    assert "broken [/x] 7" in report.read_text(encoding="utf-8")
    assert app.return_code == 1
