"""Settings in a real terminal: what is wrong with them is there to be read after the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.children.sessions import saying
from tests.terminal.terminal import PROGRAM, Terminal
from tests.tiers import VARIANT


@pytest.fixture
def argv(tmp_path: Path) -> tuple[str, ...]:
    """Return the command of a program with a runner that has no torch: nothing runs here."""
    return (*PROGRAM, "--python", saying(tmp_path))


def _quit(terminal: Terminal) -> str:
    """End it; what then stands on the terminal."""
    terminal.keys("q")
    assert terminal.exit_code() == 0
    return terminal.text()


def test_a_broken_file_is_named_in_the_log_and_after_the_end(
    argv: tuple[str, ...], tmp_path: Path
) -> None:
    place = tmp_path / "config.toml"
    place.write_text("refresh = = 2\n")
    with Terminal(argv, variables={"GPU_WORKBENCH_CONFIG": str(place)}) as terminal:
        terminal.until_shows("matmul n=", "q quit")
        terminal.keys("l")
        terminal.until_shows("at line 1", "fix it or remove it")
        left = _quit(terminal).replace("\n", "")
    assert f"gpu-workbench: {place}: Invalid value (at line 1" in left
    assert place.read_text() == "refresh = = 2\n"


@VARIANT
def test_a_choice_made_in_the_workbench_is_written_at_its_end(
    argv: tuple[str, ...], tmp_path: Path
) -> None:
    place = tmp_path / "config.toml"
    with Terminal(argv, variables={"GPU_WORKBENCH_CONFIG": str(place)}) as terminal:
        terminal.until_shows("matmul n=", "q quit")
        terminal.keys("-")
        terminal.until_shows("a sample every 2 s")
        assert "gpu-workbench:" not in _quit(terminal)
    assert place.read_text() == "refresh = 2.0\n"


def test_a_theme_that_there_is_not_is_one_line_and_exit_code_2() -> None:
    with Terminal([*PROGRAM, "--theme", "none"], columns=400) as terminal:
        assert terminal.exit_code() == 2
        assert (
            "gpu-workbench: --theme: no theme none: T in the workbench shows all" in terminal.text()
        )
