"""The account as a tree: what is a part of what, and that parts add up."""

from __future__ import annotations

import pytest

from tests.screens.helpers import GIB, NOW, make_store, torch_memory
from tui.core.text import glyphs
from tui.devices.memory import Term, account
from tui.devices.memory.model import Value, get_value
from tui.devices.state.devices import CPU
from tui.devices.state.machine import DeviceSelected
from tui.devices.views.memory_tree import TREE_KEYS, TreeRow, build_tree
from tui.recordings.lines import AnyEvent


def _term(key: str, size: int, label: str = "") -> Term:
    return Term(key, label or key, Value(size), "test")


def _names(rows: list[TreeRow]) -> list[str]:
    return [row.lead + row.label for row in rows]


def _list_terms(*more: AnyEvent) -> list[Term]:
    machine = make_store("one gpu", *more).machine
    terms = account(machine, machine.selected_device, NOW).terms
    return [term for term in terms if get_value(term.bytes)]


def _check_sums(rows: list[TreeRow]) -> None:
    """Check that the parts of each term add up to it."""
    for row in rows:
        parts = [get_value(part.term.bytes) or 0 for part in rows if part.whole is row.term]
        assert not parts or sum(parts) == get_value(row.term.bytes), row.term.key


def test_each_figure_stands_below_the_one_that_it_is_a_part_of() -> None:
    rows = build_tree(_list_terms())
    assert _names(rows) == [
        "total",
        "├ device used",
        "│ ├ this process",
        "│ │ ├ reserved",
        "│ │ │ ├ allocated",
        "│ │ │ │ ├ requested",
        "│ │ │ │ └ rounding",
        "│ │ │ └ cached",
        "│ │ │   ├ stuck",
        "│ │ │   └ releasable",
        "│ │ └ context",
        "│ └ others",
        "├ driver reserved",
        "└ free",
    ]
    _check_sums(rows)


def test_pending_blocks_are_cached_and_requests_stand_beside_the_tree() -> None:
    rows = build_tree(_list_terms(torch_memory(active=13 * GIB)))
    names = _names(rows)
    assert "│ │ │   ├ pending free" in names
    assert names[-3:] == ["active", "├ requested", "└ rounding"]
    _check_sums(rows)


def test_the_host_s_account_is_a_tree_too() -> None:
    rows = build_tree(_list_terms(DeviceSelected(CPU)))
    assert rows[0].label == "total"
    assert "├ host used" in _names(rows)
    _check_sums(rows)


def test_a_part_without_its_whole_is_a_part_of_the_next_one() -> None:
    rows = build_tree([_term("used", 9), _term("reserved", 5), _term("context", 1)])
    assert _names(rows) == ["used", "├ reserved", "└ context"]
    assert rows[1].whole == rows[0].term


def test_a_part_that_is_all_of_it_is_left_out() -> None:
    assert _names(build_tree([_term("allocated", 5), _term("requested", 5)])) == ["allocated"]
    assert len(build_tree([_term("allocated", 5), _term("requested", 4)])) == 2


def test_terms_of_other_accounts_have_no_place() -> None:
    assert not build_tree([_term("pinned", 5), _term("heap_in_use", 3)])
    assert not {"pinned", "heap_in_use"} & TREE_KEYS


def test_branches_are_ascii_where_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    assert all(name.isascii() for name in _names(build_tree(_list_terms())))
