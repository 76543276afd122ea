"""The walk through the first steps without a terminal: its order, its texts and its errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ceilings
from tests.results.made_runner import made
from tests.screens.helpers import workload
from tests.tiers import VARIANT
from tui.headless.lesson_text import (
    code_part,
    contents,
    figures_part,
    script_part,
    title_lines,
)
from tui.headless.on_a_gpu import ON_A_GPU, describe_on_a_gpu
from tui.headless.quiz import Quiz, choice_keys, choose_number, parse_choice
from tui.headless.script_run import ScriptEnd
from tui.headless.steps import choose_steps
from tui.kit.command_line.output import UsageError
from tui.kit.lines import plain, width
from tui.runs.views.question import answer_lines, question_lines
from workloads import catalog
from workloads.declare.workload import infos
from workloads.protocol.groups import FIRST_STEPS

STEPS = [info.name for info in infos() if info.group == FIRST_STEPS]
assert catalog


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tui", "learn", "--device", "cpu", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def chosen(**names: str) -> list[tuple[int, str]]:
    return [(number, info.name) for number, info in choose_steps(infos(), **names)]


def test_the_steps_come_in_the_order_of_learning_and_keep_their_numbers() -> None:
    assert chosen() == list(enumerate(STEPS, 1))
    assert chosen(start="tiny_model") == [(len(STEPS), "tiny_model")]
    assert chosen(name="placement") == [(STEPS.index("placement") + 1, "placement")]


def test_a_step_can_be_named_by_its_number() -> None:
    assert chosen(name="2") == [(2, STEPS[1])]
    assert chosen(start=str(len(STEPS))) == [(len(STEPS), STEPS[-1])]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("0", f"no step 0: gpu-workbench list first_steps shows the {len(STEPS)}, in their order"),
        ("nonesuch", "no step nonesuch: gpu-workbench list first_steps shows all"),
        ("placment", "no step placment (did you mean placement?)"),
        ("matmul", "matmul is not one of the first steps: gpu-workbench run matmul runs it"),
    ],
)
def test_what_is_no_step_is_refused_with_what_to_do(name: str, words: str) -> None:
    for names in ({"name": name}, {"start": name}):
        with pytest.raises(UsageError) as caught:
            choose_steps(infos(), **names)
        assert str(caught.value) == f"learn: {words}"


def test_a_step_has_its_whole_script() -> None:
    info = workload("x", FIRST_STEPS, "x", question="Why?", script="import torch\nprint(1)\n")
    text = [plain(row) for row in code_part(info, 80)]
    assert text == [
        "The script  gpu-workbench code x prints it",
        "  import torch",
        "  print(1)",
        "",
    ]


@pytest.mark.parametrize("cells", [80, 120])
def test_a_step_begins_with_its_title_and_without_a_script_shows_what_is_timed(cells: int) -> None:
    info = workload("placement", FIRST_STEPS, "placing tensors")
    (title, blank) = title_lines(info, 2, 13, cells)
    assert plain(title).startswith("── 2 of 13   placement: placing tensors ──")
    assert width(title) == cells
    assert not blank
    assert [plain(row) for row in code_part(info, cells)] == ["What is timed", "  c = a @ b", ""]


def test_a_script_that_fails_says_how_it_ended() -> None:
    end = ScriptEnd(("first",), "exit code 1", ("RuntimeError: no",))
    assert [plain(row) for row in script_part(end, 80)] == [
        "The script printed",
        "  first",
        "The script failed: exit code 1",
        "  RuntimeError: no",
        "",
    ]
    assert plain(script_part(ScriptEnd(()), 80)[1]) == "  nothing"


def test_the_figures_say_whether_they_come_from_the_script() -> None:
    own = workload("x", FIRST_STEPS, "x")
    ours = workload("x", FIRST_STEPS, "x", question="Why?", script="print(1)\n")
    heads = [plain(figures_part(info, "x on cpu\n")[0]) for info in (own, ours)]
    assert heads == [
        "What the workload x found",
        "What the workload x found with the functions of the script",
    ]


def test_each_text_about_a_gpu_is_that_of_a_first_step() -> None:
    assert set(ON_A_GPU) <= set(STEPS)
    assert describe_on_a_gpu("placement").startswith("With a GPU: ")
    assert describe_on_a_gpu("nonesuch") == ""


@VARIANT
def test_without_a_terminal_a_step_is_printed_with_its_answer_and_nothing_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    ceilings.keep(tmp_path / "state")
    done = run("device_list")
    assert done.returncode == 0, done.stderr
    (info,) = (info for info in infos() if info.name == "device_list")
    assert f"1 of {len(STEPS)}   device_list: list of devices" in done.stdout
    assert "torch.cuda.device_count()" in done.stdout
    assert "The script printed" in done.stdout
    assert "  This script would compute on cpu." in done.stdout
    assert "With a GPU: the list names each GPU" in done.stdout
    assert "devices that torch sees" in done.stdout
    assert "GPUs: 0 (torch.cuda.device_count())" in done.stdout
    assert "warning: " not in done.stdout
    assert not re.search(r"\d [mµn]?s\b", done.stdout)
    words = " ".join(done.stdout.split())
    first, second, third = info.choices
    choices = f"1 {first} ▸ 2 {second} 3 {third} 2 is right."
    assert words.endswith(f"Question: {info.question} {choices} Answer: {info.answer}")
    assert not list((tmp_path / "state").glob("*.db"))


def test_as_json_it_is_one_object_with_questions_and_results(tmp_path: Path) -> None:
    done = run("--python", made(tmp_path), "--from", STEPS[-1], "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["environment"]["torch"]
    (step,) = found["steps"]
    assert (step["number"], step["name"]) == (len(STEPS), STEPS[-1])
    assert step["question"].endswith("?")
    assert len(step["choices"]) == 3
    assert step["right_choice"] == 1
    assert step["answer"].endswith(".")
    assert [result["status"] for result in step["results"]] == ["ok"]


def test_one_step_and_a_first_step_exclude_each_other() -> None:
    done = run("placement", "--from", "tiny_model")
    assert done.returncode == 2
    assert "learn: name one step, or begin with one by --from, but not both" in done.stderr


def test_the_contents_number_the_steps() -> None:
    rows = [plain(row) for row in contents(choose_steps(infos()), 80)]
    assert rows[0].startswith("13 first steps")
    assert rows[1].startswith("   1  device_list ")
    assert rows[13].startswith("  13  ")
    assert rows[14:] == [""]


def test_each_first_step_has_a_question_with_three_choices_that_fit_a_line() -> None:
    asked = [info for info in infos() if info.group == FIRST_STEPS]
    for info in asked:
        assert len(info.choices) == len(set(info.choices)) == 3, info.name
        assert all(len(choice) <= 60 for choice in info.choices), info.name
    # The right one is as often the first as the last.
    assert {info.right_choice for info in asked} == {1, 2, 3}


def test_a_question_marks_its_right_choice_with_the_answer_only() -> None:
    info = workload(
        "x", question="Why?", choices=("so", "because " + "x" * 20), right_choice=2, answer="It is."
    )
    assert [plain(row) for row in question_lines(info, 30)] == [
        "Question: Why?",
        "    1 so",
        "    2 because",
        "      " + "x" * 20,
    ]
    marked = [plain(row) for row in question_lines(info, 30, answered=True)]
    assert marked[1:3] == ["    1 so", "  ▸ 2 because"]


@pytest.mark.parametrize(
    ("chosen", "verdict"),
    [(0, "2 is right."), (1, "You chose 1, but 2 is right."), (2, "You chose 2: right.")],
)
def test_an_answer_says_whether_the_choice_was_right(chosen: int, verdict: str) -> None:
    info = workload("x", question="Why?", choices=("a", "b"), right_choice=2, answer="It is.")
    rows = [plain(row) for row in answer_lines(info, 60, chosen)]
    assert rows == [verdict, "Answer: It is."]


def test_a_question_without_choices_has_only_its_answer() -> None:
    info = workload("x", question="Why?", answer="It is.")
    assert [plain(row) for row in question_lines(info, 60, answered=True)] == ["Question: Why?"]
    assert [plain(row) for row in answer_lines(info, 60)] == ["Answer: It is."]


@pytest.mark.parametrize(
    ("key", "number"), [("1", 1), ("3", 3), ("4", 0), ("0", 0), ("12", 0), ("²", 0), ("", 0)]
)
def test_a_digit_picks_a_choice(key: str, number: int) -> None:
    info = workload("x", question="Why?", choices=("a", "b", "c"), right_choice=2, answer="b")
    assert choice_keys(info) == "1, 2 or 3"
    assert parse_choice(info, key) == number


def test_the_score_counts_the_first_choice_of_each_question() -> None:
    quiz = Quiz()
    first, second = (
        workload(name, question="Why?", choices=("a", "b"), right_choice=1, answer="a")
        for name in ("first", "second")
    )
    assert quiz.format_score() == ""
    quiz.store(first, 0)
    assert quiz.chosen(first) == 0
    quiz.store(first, 2)
    assert quiz.format_score() == "", "its answer was not shown yet"
    quiz.end(first)
    assert quiz.format_score() == "Your answer was wrong."
    assert quiz.list_answers() == {"first": "wrong"}
    quiz.store(first, 1)
    assert quiz.chosen(first) == 2
    quiz.store(second, 1)
    quiz.end(second)
    assert quiz.format_score() == "1 of your 2 answers was right."


@pytest.mark.parametrize(
    ("keys", "number"),
    [
        ("1", "1"),
        ("13", "13"),
        ("14", "4"),
        ("0", ""),
        ("1x", ""),
        ("130", ""),
        ("131", "1"),
        ("²", ""),
    ],
)
def test_a_number_is_typed_key_by_key(keys: str, number: str) -> None:
    typed = ""
    for key in keys:
        typed = choose_number(typed, key, 13)
    assert typed == number
