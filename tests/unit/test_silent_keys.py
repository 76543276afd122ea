"""A key that does nothing says why: from the table of commands, in one short line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tui.app.commands import REGISTRY
from tui.kit.commands.command import TABS, Situation
from tui.kit.commands.silent_keys import MOVES, NOTHING_RUNS, READ_ONLY, explain_silent_key

LONGEST = 70
"""Most cells of an answer: one row of a message at 80 cells."""
WORK = Situation(pane="workloads")
KEYS = sorted({key for command in REGISTRY.commands for key in command.keys} - {*MOVES})


def answer(key: str, now: Situation = WORK) -> str:
    return explain_silent_key(REGISTRY, now, key)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("W", "W verdict: a key of tabs 3 and 5"),
        ("L", "L timeline: a key of tabs 3 and 5"),
        ("f", "f flame: a key of tabs 3 and 5"),
        ("B", "B map: a key of tabs 3 and 5"),
        ("C", "C diff: a key of tab 3, Snapshot"),
        ("E", "E end: a key of tab 3, Snapshot"),
        ("p", "p peak: a key of tab 3, Snapshot"),
        ("number_sign", "# tag: a key of tab 6, Results"),
    ],
)
def test_a_key_of_another_tab_names_the_tab(key: str, words: str) -> None:
    assert answer(key) == words


def test_a_key_of_several_tabs_names_their_keys() -> None:
    memory = Situation(tab="memory", pane="memory")
    assert answer("slash", Situation(tab="watch")) == "/ find: a key of tabs 1, 3, 4 and 6"
    assert answer("l", memory) == "l log: a key of tabs 1 and 5"
    assert answer("D", memory) == "D present: a key of tab 1, Workbench"
    assert answer("d", Situation(tab="watch")) == "d device: a key of tabs 1, 2, 3 and 4"


def test_a_key_that_is_not_valid_now_says_what_it_needs() -> None:
    assert answer("less_than_sign", replace(WORK, has_columns=False)) == (
        "< left: no columns at this width"
    )
    no_file = Situation(tab="snapshot")
    assert answer("W", no_file) == "W verdict: needs an open snapshot: o opens one"


def test_a_key_that_would_change_something_says_that_nothing_may() -> None:
    assert answer("r", replace(WORK, readonly=True)) == f"r run: {READ_ONLY}"
    played = replace(WORK, readonly=True, replay=True)
    assert answer("r", played) == f"r run: {NOTHING_RUNS}"


def test_a_page_of_the_demo_names_the_key_that_ends_it() -> None:
    assert answer("W", Situation(tab="present")) == "W does nothing on this page: q ends it"


def test_a_valid_key_and_an_unknown_key_have_no_answer() -> None:
    assert answer("r") == answer("u") == ""
    assert answer("right_square_bracket") == "", "no recording is played"
    assert answer("W", replace(WORK, typing=True)) == ""
    assert answer("escape") == ""


@pytest.mark.parametrize("tab", [*(tab.id for tab in TABS), "present"])
def test_every_key_of_a_command_acts_or_answers_on_every_tab(tab: str) -> None:
    for replay in (False, True):
        now = Situation(tab=tab, pane="", has_columns=False, readonly=replay, replay=replay)
        for key in KEYS:
            known = [command for command in REGISTRY.commands if key in command.keys]
            words = answer(key, now)
            acts = any(command.valid(now) for command in known)
            only = all(command.replays or command.tabs == ("present",) for command in known)
            assert bool(words) is not (acts or only), (tab, key, words)
            assert len(words) <= LONGEST, words
