"""The screens over a recording: the same panes, a header that says so, and keys that only look."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.recordings.making import Clock, recorded, script
from tests.screens.app_helpers import POLL_S, TIMEOUT_S
from tests.screens.driving import press, settle
from tests.screens.helpers import environment, hello, screen_text, workload
from tests.tiers import VARIANT
from tui.app.replay import ReplayApp
from tui.devices.state.machine import SIMULATED_SHORT
from tui.kit.pane import LinesView
from tui.recordings import DEMO_SNAPSHOT, FOLDER
from tui.recordings.lines import AnyEvent, Scene, scan_recording
from tui.recordings.replay import AT_ONCE, ReplaySession
from tui.runs.screens.tab import WorkbenchScreen
from tui.watch.screens.tab import WatchTab
from workloads.protocol import messages


@dataclass
class Playing:
    app: ReplayApp
    session: ReplaySession
    clock: Clock
    pilot: Pilot[None]

    @property
    def text(self) -> str:
        return "\n".join(screen_text(self.app))

    def place(self) -> tuple[str, str | None]:
        """Return the tab in front, and the workload under the workbench's cursor."""
        front = self.app.front
        assert front is not None
        chosen = front.workloads.table.workload if isinstance(front, WorkbenchScreen) else None
        return front.TAB, chosen

    async def shows(self, *words: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not all(word in self.text for word in words):
            if time.monotonic() > deadline:
                raise AssertionError(f"{words} never came:\n{self.text}")
            await self.pilot.pause(POLL_S)


@asynccontextmanager
async def playing(
    folder: Path,
    size: tuple[int, int] = (100, 30),
    speed: float = 1.0,
    *,
    simulated: bool = False,
    events: Sequence[tuple[float, AnyEvent]] | None = None,
) -> AsyncIterator[Playing]:
    path = folder / "x.jsonl"
    recorded(path, events, simulated=simulated)
    clock = Clock()
    session = ReplaySession(scan_recording(path), speed, now=clock)
    app = ReplayApp(session)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        yield Playing(app, session, clock, pilot)


@pytest.mark.parametrize(
    ("size", "device"),
    [((60, 20), "2x H200"), ((80, 24), "x H200"), ((120, 40), "x H200")],
)
@VARIANT
async def test_the_header_says_replay_and_where_it_is(
    tmp_path: Path, size: tuple[int, int], device: str
) -> None:
    async with playing(tmp_path, size) as found:
        await found.shows("REPLAY 0:00/0:03 1x")
        found.clock.wait(2)
        found.session.faster()
        await found.shows("REPLAY 0:02/0:03 2x", device)


# Wider screens have more room for the word.
@pytest.mark.parametrize("size", [(60, 20), (80, 24)])
@VARIANT
async def test_a_recording_of_simulated_gpus_says_so_on_every_tab_and_at_any_time(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with playing(tmp_path, size, simulated=True) as found:
        for seconds in (0.0, 1.0, 1.0, 5.0):
            found.clock.wait(seconds)
            found.session.faster()
            for tab in ("2", "3", "4", "1"):
                await press(found.pilot, tab)
                await found.shows(f"{SIMULATED_SHORT}  REPLAY 0:0")
        await press(found.pilot, "D")
        await found.shows(SIMULATED_SHORT)
        await press(found.pilot, "escape", "P")
        await found.shows("REPLAY 0:00/0:0", SIMULATED_SHORT)


async def test_a_recording_of_hardware_says_nothing_of_the_kind(tmp_path: Path) -> None:
    async with playing(tmp_path, speed=AT_ONCE) as found:
        await found.shows("end", "x H200")
        assert "simulated" not in found.text


async def test_keys_pause_hasten_and_slow_it_and_begin_anew(tmp_path: Path) -> None:
    async with playing(tmp_path) as found:
        await found.shows("P pause", "] faster", "[ slower")
        await press(found.pilot, "P")
        await found.shows("paused")
        await press(found.pilot, "P", "right_square_bracket", "right_square_bracket")
        await found.shows("4x")
        await press(found.pilot, "left_square_bracket")
        await found.shows("2x")
        found.clock.wait(100)
        await found.shows("0:03/0:03 end", "P again")
        assert "faster" not in found.text
        assert "slower" not in found.text
        await press(found.pilot, "P")
        await found.shows("0:00/0:03 2x")


@pytest.mark.parametrize("key", ["r", "R", "e", "N", "equals_sign", "x"])
@VARIANT
async def test_a_key_that_would_ask_the_runner_says_why_it_does_nothing(
    tmp_path: Path, key: str
) -> None:
    async with playing(tmp_path, speed=AT_ONCE) as found:
        await found.shows("end")
        runs = dict(found.session.state.runs.book)
        await press(found.pilot, key)
        await found.shows("this is a recording")
        assert found.session.state.runs.book == runs
        assert "r run" not in screen_text(found.app)[-1]


async def test_ages_are_those_of_then_and_not_of_now(tmp_path: Path) -> None:
    async with playing(tmp_path) as found:
        found.clock.wait(0.6)
        found.session.faster()
        await found.shows("x H200")
        await press(found.pilot, "d", "4")
        await found.shows("python train.py", "0 s")


async def test_a_device_can_be_chosen_and_tabs_be_opened(tmp_path: Path) -> None:
    async with playing(tmp_path, speed=AT_ONCE) as found:
        await found.shows("end", "x H200")
        first = found.session.state.machine.selected
        await press(found.pilot, "d")
        assert found.session.state.machine.selected != first
        for tab in "2341":
            await press(found.pilot, tab)
            await found.shows("REPLAY 0:03/0:03 end", "P again")


async def test_a_single_offer_of_the_watch_tab_takes_a_single_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    async with playing(tmp_path, (120, 40), AT_ONCE) as found:
        await found.shows("end")
        await press(found.pilot, "5")
        await found.shows("No watched run is stored", "Open the example snapshot")
        front = found.app.front
        assert isinstance(front, WatchTab)
        pane = front.runs_pane
        assert len(pane.offers.offers) == pane.offers.size.height == 1
        words = pane.query(LinesView).last()
        assert words.region.y == pane.offers.region.bottom + pane.offers.styles.margin.bottom


async def test_the_palette_offers_what_can_be_done(tmp_path: Path) -> None:
    async with playing(tmp_path) as found:
        await press(found.pilot, "colon")
        await press(found.pilot, *"faster")
        await found.shows("Play twice as fast")
        await press(found.pilot, "enter")
        await found.shows("2x")


def story() -> list[tuple[float, AnyEvent]]:
    return [
        (0.0, hello(workload(), replace(workload(), name="tiny"))),
        (1.0, Scene("The GPU wins", workload="tiny")),
        (10.0, Scene("Why did it run out?", tab="memory")),
        (10.0, Scene("The end", workload="matmul")),
    ]


@VARIANT
async def test_a_scene_has_a_caption_and_turns_to_what_it_is_about(tmp_path: Path) -> None:
    async with playing(tmp_path, events=story()) as on:
        await on.shows("P pause")
        on.clock.wait(1.5)
        await on.shows("The GPU wins", "P pause", "q quit")
        assert on.place() == ("workbench", "tiny")
        on.clock.wait(10)
        await on.shows("Why did it run out?")
        assert on.place() == ("memory", None)
        on.clock.wait(10)
        await on.shows("The end")
        assert on.place() == ("workbench", "matmul")


@VARIANT
async def test_a_scene_zooms_a_pane_and_the_next_restores_the_layout(tmp_path: Path) -> None:
    events = [*story()[:1], (1.0, Scene("Look", view="detail")), (10.0, Scene("The end"))]
    async with playing(tmp_path, events=events) as on:
        front = on.app.front
        assert isinstance(front, WorkbenchScreen)
        front.detail.turn_to(roofline=True)
        on.clock.wait(1.5)
        await on.shows("Look")
        assert front.zoomed_pane == "detail"
        assert not front.detail.roofline
        assert front.workloads.has_class("-folded")
        on.clock.wait(10)
        await on.shows("The end")
        assert (front.zoomed_pane, front.focused_pane) == ("", "workloads")
        assert not front.workloads.has_class("-folded")


async def test_a_scene_shows_a_view_and_a_moment_of_the_snapshot(tmp_path: Path) -> None:
    events: list[tuple[float, AnyEvent]] = [
        (1.0, Scene("Why?", tab="snapshot")),
        (10.0, Scene("A staircase", tab="snapshot", view="timeline", moment=0.5)),
        (10.0, Scene("Who?", tab="snapshot", view="flame")),
    ]
    async with playing(tmp_path, (120, 40), events=events) as on:
        on.app._shown_snapshot = FOLDER / DEMO_SNAPSHOT
        on.clock.wait(1.5)
        await on.shows("Why?", "What would help")
        tab = on.app.snapshot
        assert tab is not None
        assert tab.session.focus is not None
        oom = tab.session.focus.event
        on.clock.wait(10)
        await on.shows("A staircase", "Timeline")
        assert tab.session.focus.event is not None
        assert oom is not None
        assert 0 < tab.session.focus.event < oom
        on.clock.wait(10)
        await on.shows("Who?", "your code")


@VARIANT
async def test_scenes_go_on_after_one_before_the_workloads_are_known(tmp_path: Path) -> None:
    events: list[tuple[float, AnyEvent]] = [(0.5, Scene("An idle GPU")), *story()]
    async with playing(tmp_path, events=events) as on:
        on.clock.wait(0.6)
        await on.shows("An idle GPU")
        on.clock.wait(0.5)
        await on.shows("matmul")
        on.clock.wait(1)
        await on.shows("The GPU wins")
        assert on.place() == ("workbench", "tiny")


@VARIANT
async def test_who_goes_elsewhere_stays_there(tmp_path: Path) -> None:
    async with playing(tmp_path, events=story()) as on:
        on.clock.wait(1.5)
        await on.shows("The GPU wins")
        await press(on.pilot, "4")
        on.clock.wait(10)
        await on.shows("Why did it run out?")
        assert on.place() == ("processes", None)


@VARIANT
async def test_the_caption_gives_way_to_the_keys_at_the_first_key_after_the_end(
    tmp_path: Path,
) -> None:
    async with playing(tmp_path, events=story()) as on:
        on.clock.wait(1.5)
        await on.shows("The GPU wins")
        await press(on.pilot, "v", "w")
        await on.shows("The GPU wins")
        on.clock.wait(20)
        await on.shows("The end", "P again")
        await press(on.pilot, "w")
        await on.shows("P again", "i detail", "? help")
        assert "The end" not in on.text
        await press(on.pilot, "P")
        on.clock.wait(1.5)
        await on.shows("The GPU wins")


@VARIANT
async def test_a_page_of_the_demo_keeps_its_keys_beside_a_scene(tmp_path: Path) -> None:
    async with playing(tmp_path, events=story()) as on:
        on.clock.wait(1.5)
        await on.shows("The GPU wins")
        await press(on.pilot, "D")
        await on.shows("right next", "q end")
        await press(on.pilot, "q")
        await on.shows("The GPU wins", "P pause")


@VARIANT
async def test_what_ran_when_the_recording_ended_is_not_said_to_run(tmp_path: Path) -> None:
    events: list[tuple[float, AnyEvent]] = [
        (0.0, hello(workload())),
        (0.0, messages.Ready(environment(), 1.0)),
        *script()[2:],
    ]
    async with playing(tmp_path, (120, 30), events=events) as on:
        on.clock.wait(2)
        await on.shows("running matmul")
        on.clock.wait(20)
        await on.shows("P again")
        assert "matmul" not in screen_text(on.app)[0]


async def test_what_is_played_at_once_has_no_scenes(tmp_path: Path) -> None:
    async with playing(tmp_path, speed=AT_ONCE, events=story()) as on:
        await on.shows("end", "tiny")
        assert on.session.caption == ""
        assert on.place() == ("workbench", "matmul")


@VARIANT
async def test_a_caption_is_cut_where_there_is_no_room(tmp_path: Path) -> None:
    events: list[tuple[float, AnyEvent]] = [*story()[:1], (1.0, Scene("word " * 40))]
    async with playing(tmp_path, (60, 20), events=events) as on:
        on.clock.wait(2)
        await on.shows("word word word")
        assert screen_text(on.app)[-1].rstrip().endswith("  P  q")
        assert all(len(row) <= 60 for row in screen_text(on.app))
