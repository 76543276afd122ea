"""A lesson's parts: pages that fit the terminal, colors, and the run of a script."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys

import pytest

from tests.tiers import VARIANT
from tui.headless import colored
from tui.headless.pager import GOES_ON, Pager
from tui.headless.script_run import ScriptEnd, run_script
from tui.kit.command_line.output import OutputClosedError
from tui.kit.lines import Span, TextStyle, line

ROWS = [line(f"row {number}") for number in range(20)]


@pytest.fixture(autouse=True)
def _of_six_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_: os.terminal_size((80, 6)))


def _show(*parts: int, goes_on: bool = True, blank_end: bool = False) -> tuple[list[str], bool]:
    """Show parts of so many rows; return the prompts, and whether the last one was shown."""
    prompts: list[str] = []

    async def wait(prompt: str) -> bool:
        prompts.append(prompt)
        return goes_on

    async def show() -> bool:
        pager = Pager(wait)
        shown = True
        for count in parts:
            shown = await pager.show([*ROWS[:count], *([()] if blank_end else [])], "next")
        return shown

    return prompts, asyncio.run(show())


def test_parts_that_fit_together_need_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert _show(2, 3) == ([], True)
    assert capsys.readouterr().out.splitlines() == ["row 0", "row 1", "row 0", "row 1", "row 2"]


def test_a_part_that_would_move_another_off_waits_for_a_key() -> None:
    assert _show(3, 3) == (["next"], True)
    assert _show(3, 3, goes_on=False) == (["next"], False)


def test_a_long_part_has_pages_and_none_of_them_is_blank() -> None:
    assert _show(9) == ([GOES_ON], True)
    assert _show(5, blank_end=True) == ([], True)


def test_a_long_part_begins_below_another_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_: os.terminal_size((80, 11)))
    assert _show(2, 12) == ([GOES_ON], True)
    assert len(capsys.readouterr().out.splitlines()) == 14
    assert _show(3, 12) == (["next", GOES_ON], True), "too few rows are left"
    assert _show(1, 18, blank_end=True) == ([GOES_ON], True)


def test_colors_need_a_terminal_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colored.has_colors()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colored.has_colors()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not colored.has_colors()


def test_a_style_is_an_escape_sequence_and_text_from_others_has_none() -> None:
    row = line(Span("def", TextStyle.KEY), " f", Span("\x1b[2J", TextStyle.GOOD))
    encoded = colored.encode(row)
    assert encoded.startswith("\x1b[35mdef\x1b[0m f\x1b[32m")
    assert "\x1b[2J" not in encoded


def test_colored_lines_end_without_a_message_once_their_reader_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, write = os.pipe()
    os.close(read)
    monkeypatch.setattr(colored, "has_colors", lambda: True)
    with os.fdopen(write, "w", encoding="utf-8") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        with pytest.raises(OutputClosedError):
            colored.print_lines([line("x")])


def _run(script: str, longest_s: float = 60.0, *, gpu: bool = True) -> ScriptEnd:
    return asyncio.run(run_script(sys.executable, "x", script, gpu=gpu, longest_s=longest_s))


def test_a_script_returns_what_it_printed() -> None:
    assert _run("print(1)\nprint(__file__.endswith('x.py'))") == ScriptEnd(("1", "True"))


def test_a_lesson_on_the_cpu_hides_the_gpus_from_the_script() -> None:
    script = "import os\nprint(repr(os.environ.get('CUDA_VISIBLE_DEVICES', 'all')))"
    assert _run(script, gpu=False).printed == ("''",)


def test_a_failing_script_has_its_exit_code_and_the_end_of_its_errors() -> None:
    end = _run("print(1)\nraise SystemExit('no')")
    assert end == ScriptEnd(("1",), "exit code 1", ("no",))


@VARIANT
def test_a_script_that_does_not_end_is_stopped_and_keeps_what_it_printed() -> None:
    end = _run("import time\nprint('began')\ntime.sleep(600)", longest_s=2.0)
    assert end.error == "stopped after 2.00 s"
    assert end.printed in (("began",), ())


def test_a_python_that_is_missing_is_named() -> None:
    end = asyncio.run(run_script("/nonesuch/python", "x", "", gpu=True))
    assert end.error == "/nonesuch/python: No such file or directory"
