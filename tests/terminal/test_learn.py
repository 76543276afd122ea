"""The walk through the first steps in a real terminal: keys, the answer, the way back in."""

from __future__ import annotations

import os
import signal
import termios
from functools import partial
from pathlib import Path

import pytest

from tests import ceilings
from tests.results.made_runner import made
from tests.terminal.terminal import PROGRAM, Terminal
from tests.tiers import VARIANT

RUNS = "any key runs it, q ends"
ASKS = "1, 2 or 3 answers, enter skips, l list, q ends"
ASKS_ALONE = "1, 2 or 3 answers, enter skips, q ends"
ASKS_AGAIN = "1, 2 or 3 answers, enter shows the answer, q ends"
KEYS = "f all figures, b back, l list, q ends"
LEARN = (*PROGRAM, "learn", "--device", "cpu")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ceilings.keep(tmp_path / "state")
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("GPU_WORKBENCH_CONFIG", str(tmp_path / "config.toml"))


PROMPT = ", q ends"


def go_to(terminal: Terminal, prompt: str) -> str:
    """Type keys until a prompt is shown, and return all that was on the screens before it."""
    seen = text = terminal.until(_has_prompt)
    while prompt not in text:
        terminal.keys(" ")
        text = terminal.until(partial(_is_another_prompt, text))
        seen += text
    return seen


def _has_prompt(text: str) -> bool:
    return PROMPT in text or "any key ends" in text


def _is_another_prompt(before: str, now: str) -> bool:
    return _has_prompt(now) and now != before


def echoes(terminal: Terminal) -> bool:
    """Whether the terminal shows what is typed, line by line."""
    modes = termios.tcgetattr(terminal.master)[3]
    return bool(modes & termios.ECHO and modes & termios.ICANON)


@pytest.fixture
def stand_in(tmp_path: Path) -> tuple[str, str]:
    """Return the option for a runner without torch: the walk waits for keys, not for runs."""
    return "--python", made(tmp_path)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_a_key_shows_the_answer_and_another_goes_on(
    size: tuple[int, int], stand_in: tuple[str, str]
) -> None:
    with Terminal((*LEARN, *stand_in, "--from", "device_list"), *size) as terminal:
        text = go_to(terminal, ASKS)
        assert "Question: nvidia-smi" in text
        assert "What torch sees" not in text
        assert not echoes(terminal)
        terminal.keys(" ")
        terminal.until_shows("What torch sees", "any key")
        text = go_to(terminal, ASKS_AGAIN)
        assert "printed by the script" in text
        assert "You chose" not in text
        assert "Answer" not in text
        terminal.keys(" ")
        text = terminal.until_shows("Answer: Not always.", "any key goes on to placement")
        assert "2 is right." in text
        assert ASKS_AGAIN not in text
        terminal.keys("\r")
        terminal.until_shows("2 of 13", "Question: batch.to(device)", ASKS)
        terminal.keys("q")
        assert terminal.exit_code() == 0
        words = " ".join(terminal.text().split())
        assert words.endswith("Continue with: gpu-workbench learn --from placement")
        assert echoes(terminal)


def test_a_digit_answers_before_the_run_and_is_judged_after_it(
    stand_in: tuple[str, str],
) -> None:
    with Terminal((*LEARN, *stand_in, "--from", "model_on_cpu"), 120, 60) as terminal:
        go_to(terminal, ASKS)
        terminal.keys("1")
        terminal.until_shows("You chose 1. The answer comes after the run.", PROMPT)
        text = go_to(terminal, "any key goes on to tiny_model")
        assert ASKS_AGAIN not in text
        assert "You chose 1, but 3 is right." in text
        assert "▸ 3 no" in text
        assert "Your answer was wrong." not in text
        terminal.keys(" ")
        terminal.until_shows("13 of 13", ASKS)
        terminal.keys("1")
        terminal.until_shows("You chose 1. The answer", PROMPT)
        go_to(terminal, "any key ends, f all figures, b back, l list")
        terminal.keys(" ")
        terminal.until_shows("first steps.")
        assert "You chose 1: right." in terminal.text()
        assert terminal.exit_code() == 0
        words = " ".join(terminal.text().split())
        assert "These were the first steps. 1 of your 2 answers was right." in words


def test_the_walk_begins_with_the_list_of_steps_and_goes_back(stand_in: tuple[str, str]) -> None:
    with Terminal((*LEARN, *stand_in)) as terminal:
        text = terminal.until_shows(" 1  device_list", "enter begins with 1, or type a number")
        assert "13  " in text
        terminal.keys("19")
        terminal.until_shows("enter begins with 9,")
        terminal.keys("2\r")
        go_to(terminal, "2 of 13")
        go_to(terminal, "any key goes on to device_mismatch, f all figures, b back, l list, q ends")
        terminal.keys("b")
        go_to(terminal, "1 of 13")
        go_to(terminal, "any key goes on to placement")
        terminal.keys("l")
        # Both are done, so the third is proposed.
        terminal.until_shows("   1  device_list        done  list", "enter begins with 3, or type")
        terminal.keys("q")
        assert terminal.exit_code() == 0


@VARIANT
def test_the_list_has_the_steps_before_the_first_one_too(stand_in: tuple[str, str]) -> None:
    with Terminal((*LEARN, *stand_in, "--from", "3")) as terminal:
        go_to(terminal, f"any key goes on to comparing_results, {KEYS}")
        terminal.keys("l")
        terminal.until_shows("enter begins with 4, or type a number")
        terminal.keys("q")
        assert terminal.exit_code() == 0


def test_all_figures_come_at_the_end_and_the_list_is_near_at_the_question(
    stand_in: tuple[str, str],
) -> None:
    with Terminal((*LEARN, *stand_in, "--from", "naive_timing"), 120, 60) as terminal:
        go_to(terminal, f"any key goes on to matmul_shapes, {KEYS}")
        terminal.keys("f")
        title = "What the workload naive_timing found"
        terminal.until(lambda shown: shown.count(title) == 2)
        terminal.until_shows(f"any key goes on to matmul_shapes, {KEYS}")
        terminal.keys("\r")
        terminal.until_shows("6 of 13", ASKS)
        terminal.keys("x", "7")  # neither is a choice
        terminal.until_shows(ASKS)
        terminal.keys("l")
        terminal.until_shows("naive_timing       done  timing", "enter begins with 6, or type")
        terminal.keys("q")
        assert terminal.exit_code() == 0


@VARIANT
def test_a_step_begins_with_its_title_and_a_key_runs_its_script(
    stand_in: tuple[str, str],
) -> None:
    with Terminal((*LEARN, *stand_in, "--from", "1"), 80, 16) as terminal:
        terminal.until_shows("1 of 13   device_list", ASKS)
        terminal.keys(" ")
        # The script begins below what it does, as far as it has room.
        text = terminal.until_shows("What torch sees", "any key goes on, q ends")
        assert "The script" in text
        assert "Look for" not in go_to(terminal, RUNS)
        assert "Look for" in go_to(terminal, ASKS_AGAIN)
        terminal.keys("q")
        assert terminal.exit_code() == 0
    with Terminal((*LEARN, *stand_in, "--from", "1"), 80, 16) as terminal:
        go_to(terminal, RUNS)
        terminal.keys("q")
        assert terminal.exit_code() == 0
        assert "Continue with: gpu-workbench learn --from device_list" in terminal.text()


def test_after_the_answer_of_a_single_step_the_command_ends(stand_in: tuple[str, str]) -> None:
    with Terminal((*LEARN, *stand_in, "device_list")) as terminal:
        go_to(terminal, ASKS_ALONE)  # without the list, of which it is the only one
        go_to(terminal, ASKS_AGAIN)
        terminal.keys("\r")
        terminal.until_shows("any key ends, f all figures")
        terminal.keys("x")
        assert terminal.exit_code() == 0
        assert "Answer: Not always." in terminal.text()
        assert "Continue with" not in terminal.text()


@VARIANT
def test_a_key_typed_before_the_question_does_not_answer_it() -> None:
    # The real runner, which leaves time for the keys.
    with Terminal((*LEARN, "device_list"), 120, 100) as terminal:
        go_to(terminal, RUNS)
        terminal.keys("\r")
        terminal.until_shows("running the script")
        terminal.keys("\r", "\r")
        text = terminal.until_shows(ASKS_AGAIN)
        assert "Answer" not in text
        assert "this torch is built without CUDA" in text
        assert "where this run took place" not in text
        assert "The rest of the figures, the warnings and the log come with f" in text
        terminal.keys("\r")
        terminal.until_shows("Answer: ", "any key ends, f all figures")
        terminal.keys("f")
        terminal.until_shows("where this run took place")


@pytest.mark.parametrize("by", ["key", "signal"])
@VARIANT
def test_ctrl_c_at_the_question_ends_it_and_gives_the_terminal_back(
    by: str, stand_in: tuple[str, str]
) -> None:
    with Terminal((*LEARN, *stand_in, "device_list")) as terminal:
        go_to(terminal, ASKS_ALONE)
        if by == "key":
            terminal.keys("\x03")
        else:
            os.kill(terminal.process.pid, signal.SIGTERM)
        number = signal.SIGINT if by == "key" else signal.SIGTERM
        assert terminal.exit_code() == 128 + number
        assert echoes(terminal)
        assert "Traceback" not in terminal.text()
