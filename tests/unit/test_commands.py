"""The registry's laws: one key, one command; everything is listed everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.binding import Binding
from textual.screen import Screen

from tests.screens.fakes import FakeSession
from tui.app.commands import REGISTRY
from tui.app.replay import ReplayApp
from tui.app.tab_screens import FACTORIES
from tui.app.workbench import WorkbenchApp
from tui.kit.commands.command import KEY_WORDS, NAMES, TABS, Command, Situation, key_text, keys_text
from tui.kit.key_help import (
    FIXED_COMMANDS,
    about_lines,
    chosen_commands,
    command_at,
    footer_line,
    help_lines,
    help_sections,
)
from tui.kit.lines import plain, width
from tui.runs.screens.present import PresentScreen
from tui.runs.state.state import WorkbenchState
from tui.snapshots.commands import VERDICT_PANE

COMMANDS = REGISTRY.commands
KEYS = Path(__file__).resolve().parents[2] / "docs" / "keys.md"


def _screens() -> dict[str, type[Screen[None]]]:
    """Return the class of the screen of each tab and of the demo."""
    app = WorkbenchApp(FakeSession(WorkbenchState()))
    tabs = {tab: type(create(app)) for tab, create in FACTORIES.items()}
    return {
        app.DEFAULT_MODE: type(app.get_default_screen()),
        **tabs,
        PresentScreen.TAB: PresentScreen,
    }


SCREENS = _screens()
PANES: dict[str, tuple[str | None, ...]] = {
    "workbench": ("workloads", "backend"),
    "processes": ("processes",),
    "snapshot": ("sites", "timeline", VERDICT_PANE),
    "watch": ("kept-runs", "watched-run"),
    "results": ("results",),
    "present": ("present",),
}
"""Panes that have commands of their own."""
FLAGS = [item.name for item in fields(Situation) if isinstance(item.default, bool)]


def _flags() -> Iterator[dict[str, Any]]:
    """Yield all flags unset, all set and their defaults, each with up to two flags inverted.

    Every pair of flags has all four combinations; their number grows with the square of the flags.
    """
    defaults = {name: bool(getattr(Situation(), name)) for name in FLAGS}
    for base in (dict.fromkeys(FLAGS, False), dict.fromkeys(FLAGS, True), defaults):
        for count in range(3):
            for inverted in combinations(FLAGS, count):
                yield base | {name: not base[name] for name in inverted}


TAB_PANES = [(tab, pane) for tab in SCREENS for pane in PANES.get(tab, (None,))]
SITUATIONS = [Situation(tab, pane, **flags) for tab, pane in TAB_PANES for flags in _flags()]
any_situation = st.builds(
    lambda place, flags: Situation(*place, **flags),
    st.sampled_from(TAB_PANES),
    st.fixed_dictionaries(dict.fromkeys(FLAGS, st.booleans())),
)


@pytest.mark.parametrize("tab", [*(tab.id for tab in TABS), "present"])
def test_no_key_has_two_commands_on_a_tab(tab: str) -> None:
    keys = [key for command in COMMANDS if tab in command.tabs for key in command.keys]
    assert len(keys) == len(set(keys))


def test_a_key_means_the_same_in_all_tabs() -> None:
    """A letter learned in one tab does nothing else in another, where it may destroy something."""
    meanings: dict[str, set[str]] = {}
    for command in COMMANDS:
        for key in command.keys:
            meanings.setdefault(key, set()).add(command.meaning or command.label)
    assert {key: actual for key, actual in meanings.items() if len(actual) > 1} == {}


@pytest.mark.parametrize("pane", ["backend", "workloads", "devices", "memory", "detail", "log"])
def test_the_footer_of_the_flags_names_a_switch_once_and_the_key_for_more_pairs(pane: str) -> None:
    shown = {item.label: item.keys[0] for item in REGISTRY.in_footer(Situation(pane=pane))}
    switches = {"switch": "enter", "compare": "c"} if pane == "backend" else {}
    assert {
        label: key for label, key in shown.items() if label in ("switch", "compare")
    } == switches
    labels = [item.label for item in REGISTRY.in_footer(Situation(pane=pane))]
    assert len(labels) == len({*labels})


def test_rare_keys_are_not_in_the_footer() -> None:
    shown = {command.id for now in SITUATIONS for command in REGISTRY.in_footer(now)}
    assert not shown & {"reset_peaks", "empty_cache"}


def test_the_footer_names_enter_and_the_palette_in_the_focused_pane() -> None:
    for pane, label in (("devices", "details"), ("workloads", "edit"), ("memory", "explain")):
        commands = REGISTRY.in_footer(Situation(pane=pane))
        words = plain(footer_line(commands, 80))
        assert words.startswith(f" enter {label} ")
        assert " : commands " in words


def test_the_help_begins_with_the_keys_of_the_focused_pane() -> None:
    now = Situation(pane="backend")
    rows = [plain(row) for row in help_lines(REGISTRY, "Backends", "Flags.", 90, now)]
    assert rows[0] == "Keys of Backends"
    keys = rows[1 : rows.index("")]
    assert any(row.startswith("space ") for row in keys)
    assert any(
        row.startswith("enter ") and row.endswith(" Switch the flag and compare.") for row in keys
    )
    assert any(row.startswith("left, right ") for row in rows)
    elsewhere = help_lines(REGISTRY, "Memory", "", 90, Situation(pane="memory"))
    assert not any(plain(row).startswith("left, right ") for row in elsewhere)
    assert rows[rows.index("") + 1] == "What Backends shows"


@pytest.mark.parametrize("cells", [150, 170])
def test_wide_help_has_a_column_for_the_other_screens(cells: int) -> None:
    now = Situation(pane="memory")
    rows = help_lines(REGISTRY, "Memory", "", cells, now)
    assert all(width(row) <= cells for row in rows)
    narrow = help_lines(REGISTRY, "Memory", "", 80, now)
    assert len(rows) < 0.75 * len(narrow)
    starts = {
        plain(row).index("Keys of Snapshot") for row in rows if "Keys of Snapshot" in plain(row)
    }
    assert starts
    assert min(starts) > cells // 3
    # A search that one screen's keys match takes one column.
    (heading, *_) = help_lines(REGISTRY, "", "", cells, pattern="PEAKS reset")
    assert plain(heading).startswith("Devices")


def test_the_names_of_figures_stand_in_a_column_beside_their_meanings() -> None:
    about = (
        "The newest runs. cpu, cuda:0: the time of a call. '!': warnings (i). Below: both "
        "medians. They are of the runs. a name that is longer than a column: stays a sentence."
    )
    assert [plain(row).rstrip() for row in about_lines(about, 60)] == [
        "The newest runs.",
        "cpu, cuda:0    the time of a call.",
        "'!'            warnings (i).",
        "Below: both medians. They are of the runs. a name that is",
        "longer than a column: stays a sentence.",
    ]


@given(st.text("ab: .'", max_size=80), st.integers(20, 100))
def test_no_word_of_an_explanation_is_lost(about: str, cells: int) -> None:
    shown = " ".join(plain(row) for row in about_lines(about, cells))
    assert shown.replace(":", "").split() == about.replace(":", "").split()


def test_the_help_can_be_searched() -> None:
    rows = [plain(row) for row in help_lines(REGISTRY, "", "", 200, pattern="PEAKS reset")]
    assert [row for row in rows if row.startswith("0 ")]
    assert rows == ["Devices and memory", rows[1]]
    nothing = help_lines(REGISTRY, "", "", 80, pattern="zzz")
    assert [plain(row) for row in nothing] == ["no key matches: zzz"]


def test_no_command_is_declared_twice() -> None:
    assert len({command.id for command in COMMANDS}) == len(COMMANDS)


def _assert_places_in_the_footer_differ(now: Situation) -> None:
    places = [
        place
        for command in COMMANDS
        if command.valid(now) and (place := command.place(now)) is not None
    ]
    assert len(places) == len(set(places)), now


def test_no_two_commands_share_a_place_in_the_footer() -> None:
    for now in SITUATIONS:
        _assert_places_in_the_footer_differ(now)


@settings(max_examples=500)
@given(any_situation)
def test_no_two_commands_share_a_place_in_the_footer_of_any_situation(now: Situation) -> None:
    _assert_places_in_the_footer_differ(now)


def _has_action(command: Command) -> bool:
    owners: list[type] = [SCREENS[tab] for tab in command.tabs]
    if command.target == "app":
        owners = [ReplayApp if command.replays else WorkbenchApp]
    method = command.action.partition(".")[2].partition("(")[0]
    return all(hasattr(owner, f"action_{method}") for owner in owners)


def test_a_command_has_an_action_and_a_help_of_one_sentence() -> None:
    assert [command.id for command in COMMANDS if not _has_action(command)] == []
    sentence = re.compile(r"[A-Z](?:(?!\. ).)*\.")
    assert [item.help for item in COMMANDS if not sentence.fullmatch(item.help)] == []


PLAIN = ("space", "enter", "tab", "shift+tab", "escape", "left", "right")


def test_no_command_needs_a_key_that_something_on_the_way_may_take() -> None:
    """Tmux takes Ctrl-B, screen Ctrl-A, Docker Ctrl-P Ctrl-Q, VS Code some of F1 to F12."""
    for command in COMMANDS:
        if command.id == "find_command":
            continue  # what it opens has a key that nothing takes
        first = command.keys[0]
        assert len(first) == 1 or first in PLAIN or first in KEY_WORDS
        assert "ctrl" not in first
        assert not first.startswith("f") or len(first) == 1


def test_each_pane_of_the_workbench_has_a_key_that_goes_there() -> None:
    panes = {"devices": "v", "memory": "m", "workloads": "w", "backend": "F", "detail": "i"}
    keys = {command.id: command.keys for command in COMMANDS}
    jumps = ("go_to_devices", "go_to_memory", "go_to_workloads", "go_to_flags", "show_detail")
    assert [keys[jump] for jump in jumps] == [(key,) for key in panes.values()]
    assert keys["toggle_log"] == ("l",)


def test_every_key_is_bound() -> None:
    for tab, screen in SCREENS.items():
        everywhere = [*screen.BINDINGS, *WorkbenchApp.BINDINGS]
        bound = [binding for binding in everywhere if isinstance(binding, Binding)]
        for command in COMMANDS:
            actual = [binding for binding in bound if binding.action == command.action]
            keys = [key for binding in actual for key in binding.key.split(",")]
            if command.target == "app" or tab in command.tabs:
                assert keys == list(command.keys), (tab, command.id)
            else:
                assert not keys, (tab, command.id)


def test_the_help_lists_every_command() -> None:
    words = " ".join(plain(row).strip() for row in help_lines(REGISTRY, "", "", 500))
    for command in COMMANDS:
        assert command.help in words
        assert keys_text(command) in words


def test_the_help_leaves_out_what_readonly_does_not_offer() -> None:
    words = " ".join(
        plain(row) for row in help_lines(REGISTRY, "", "", 500, Situation(readonly=True))
    )
    for command in COMMANDS:
        assert (command.help in words) is not command.changes_state


def test_every_command_is_valid_in_some_situation() -> None:
    assert [item.id for item in COMMANDS if not any(map(item.valid, SITUATIONS))] == []


def test_readonly_offers_nothing_that_asks_the_runner() -> None:
    asking = [command for command in COMMANDS if command.changes_state]
    assert asking
    for now in filter(lambda situation: situation.readonly, SITUATIONS):
        assert not any(command.offered(now) for command in asking)


def test_the_tabs_open_with_the_keys_that_the_header_shows() -> None:
    by_id = {command.id: command for command in COMMANDS}
    assert {f"tab_{tab.id}": tab.key for tab in TABS} == {
        command.id: command.keys[0] for command in by_id.values() if command.id.startswith("tab_")
    }


def test_each_tab_has_a_screen() -> None:
    assert [WorkbenchApp.DEFAULT_MODE, *FACTORIES] == [tab.id for tab in TABS]


# ---- the footer --------------------------------------------------------------------------------


@given(any_situation, st.integers(min_value=16, max_value=200))
def test_the_footer_fits_and_always_has_help_and_quit(now: Situation, cells: int) -> None:
    commands = REGISTRY.in_footer(now)
    assert width(footer_line(commands, cells)) <= cells
    kept = {command.id for command in commands if command.id in FIXED_COMMANDS}
    assert {command.id for command in chosen_commands(commands, cells)} >= kept
    assert len(kept) == 2


@given(any_situation, st.integers(min_value=40, max_value=200))
def test_a_click_on_a_key_finds_its_command(now: Situation, cells: int) -> None:
    commands = REGISTRY.in_footer(now)
    text = plain(footer_line(commands, cells))
    for command in chosen_commands(commands, cells):
        x = text.index(f" {key_text(command.keys[0])} {command.label} ")
        assert command_at(x + 1, commands, cells) == command
    assert command_at(len(text), commands, cells) is None


def test_at_80_cells_the_footer_of_the_table() -> None:
    line = plain(footer_line(REGISTRY.in_footer(Situation(pane="workloads")), 80))
    assert line == " enter edit  r run  R all  x cancel  F flags  : commands  ? help  q quit "


def test_at_80_cells_the_footer_leads_from_a_row_to_its_result() -> None:
    now = Situation(pane="workloads", has_result=True, pending=False)
    line = plain(footer_line(REGISTRY.in_footer(now), 80))
    assert line.startswith(" enter edit  r run  R all  i detail  F flags ")


# ---- docs/keys.md ------------------------------------------------------------------------------


def test_the_key_table_has_a_row_for_every_command() -> None:
    rows = REGISTRY.key_table_markdown().splitlines()
    assert rows[:3] == ["| Key | What it does |", "| --- | --- |", "| **Runs** | |"]
    assert all(row.startswith("| ") and row.endswith(" |") for row in rows)
    for command in COMMANDS:
        assert sum(row.endswith(f"| {command.help} |") for row in rows) == 1
    assert "| `?`, `F1` | List all keys and explain the focused pane. |" in rows


def test_the_page_of_keys_has_this_table() -> None:
    assert REGISTRY.key_table_markdown() in KEYS.read_text(encoding="utf-8")


@pytest.mark.parametrize("tab", NAMES)
def test_help_begins_with_the_keys_of_the_screen_it_was_asked_on(tab: str) -> None:
    now = Situation(tab=tab)
    actual = help_sections(REGISTRY, now)
    shown = [command for commands in actual.values() for command in commands]
    assert sorted(command.id for command in shown) == sorted(command.id for command in COMMANDS)
    first = next(iter(actual))
    assert first.split(":")[0] == NAMES[tab]
    offered = [command.offered(now) for command in shown]
    assert offered == sorted(offered, reverse=True)


def test_a_replay_s_keys_are_told_where_there_is_a_replay() -> None:
    assert "replay_pause" in {
        command.id for command in help_sections(REGISTRY, Situation())["a replay"]
    }
    played = help_sections(REGISTRY, Situation(replay=True, readonly=True))
    assert "replay_pause" in {command.id for command in played["all screens"]}
