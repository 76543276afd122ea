"""A command that is started from the screen: what is typed, and the run that begins."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tui.kit import terminal
from tui.watch.runs import start
from tui.watch.session.command_start import CommandError, split_command, start_command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python 'my train.py' --batch 8", ["python", "my train.py", "--batch", "8"]),
        ("A=1 B='x y' python t.py", ["env", "A=1", "B=x y", "python", "t.py"]),
        ("python --lr=1 x=2", ["python", "--lr=1", "x=2"]),
        ("~/t.sh a~b", [f"{Path.home()}/t.sh", "a~b"]),
    ],
)
def test_a_command_is_split_as_by_a_shell(text: str, words: list[str]) -> None:
    assert split_command(text) == words


@pytest.mark.parametrize(
    ("text", "why"), [(" ", "give a command"), ("python 't.py", "No closing quotation")]
)
def test_what_is_no_command_is_rejected(text: str, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        split_command(text)


def test_a_started_command_has_the_users_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("TEXTUAL_ANIMATIONS", raising=False)
    terminal.prepare_textual()
    assert os.environ["TEXTUAL_ANIMATIONS"] == "none"
    out = tmp_path / "out.json"
    code = f"import json, os; json.dump(dict(os.environ), open({str(out)!r}, 'w'))"

    async def started() -> int | None:
        run = await start_command(f'OWN=1 {sys.executable} -c "{code}"')
        while not start.is_over(run):
            await asyncio.sleep(0.02)
        return start.with_end(run).code

    assert asyncio.run(asyncio.wait_for(started(), 60)) == 0
    environment = json.loads(out.read_text())
    assert environment["OWN"] == "1"
    assert "TEXTUAL_ANIMATIONS" not in environment


def test_a_program_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    with pytest.raises(CommandError, match="no-such-program: no such program on PATH"):
        asyncio.run(asyncio.wait_for(start_command("no-such-program x"), 60))
