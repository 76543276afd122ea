"""The catalogue is grouped by the question that a workload answers, and has an order."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from tui.headless.list import format_catalogue
from workloads import catalog
from workloads.declare.place import Place
from workloads.declare.workload import Case, arrange, infos, registered, workload
from workloads.protocol.groups import FIRST_STEPS, QUESTIONS, format_heading


def test_each_group_has_a_question_and_its_workloads_follow_each_other() -> None:
    shown = [info for info in infos() if info.name in catalog.ORDER]
    assert [group for group, _ in groupby(shown, lambda info: info.group)] == list(QUESTIONS)
    assert all(question.endswith("?") for question in QUESTIONS.values())


def test_the_order_of_the_catalogue_is_the_declared_one() -> None:
    assert tuple(registered())[: len(catalog.ORDER)] == catalog.ORDER


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        (tuple(name for name in catalog.ORDER if name != "matmul"), "matmul"),
        ((*catalog.ORDER, "unheard_of"), "unheard_of"),
        ((*catalog.ORDER, "burn"), "burn"),
    ],
)
def test_an_order_names_each_workload_once(names: tuple[str, ...], wrong: str) -> None:
    before = tuple(registered())
    with pytest.raises(ValueError, match=f"each workload once: {wrong}$"):
        arrange(names)
    assert tuple(registered()) == before


def test_the_list_has_the_questions_and_a_users_own_group_as_it_is_named() -> None:
    lines = format_catalogue(infos(), parameters=False).splitlines()
    assert lines[0] == "health: Is this machine healthy?"
    assert [line for line in lines if not line.startswith(" ")] == list(
        map(format_heading, QUESTIONS)
    )
    assert lines.index(format_heading(FIRST_STEPS)) < lines.index(
        next(line for line in lines if line.startswith("  device_list "))
    )
    assert format_heading("mine") == "mine"


def test_each_of_the_first_steps_has_one_question_and_its_answer() -> None:
    first = [info for info in infos() if info.group == FIRST_STEPS]
    others = [info for info in infos() if info.group != FIRST_STEPS]
    assert [info.name for info in others if info.question] == []
    assert [info.name for info in first if not info.question.endswith("?")] == []
    assert [info.name for info in first if not info.answer.endswith(".")] == []
    assert first


def test_a_question_needs_an_answer() -> None:
    with pytest.raises(ValueError, match="workload asked: give both question= and answer="):

        @workload(group="mine", title="x", about="X.", look_for="X.", question="Why?")
        def asked(_on: Place) -> Case:
            return Case(lambda: None)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"question": "Why?", "answer": "So.", "choices": ("a",), "right_choice": 1}, "2 to 9"),
        ({"question": "Why?", "answer": "So.", "choices": ("a", "b")}, "a number from 1 to 2"),
        ({"question": "Why?", "answer": "So.", "right_choice": 1}, "give 2 to 9 choices"),
        ({"choices": ("a", "b"), "right_choice": 1}, "choices= need a question="),
    ],
)
def test_the_choices_of_a_question_contain_the_right_one(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):

        @workload(group="mine", title="x", about="X.", look_for="X.", **given)
        def asked(_on: Place) -> Case:
            return Case(lambda: None)
