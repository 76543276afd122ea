"""The devices pane on a screen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.screens.driving import press, settle
from tests.screens.helpers import (
    HOSTILE,
    NO_DRIVER,
    NOW,
    PaneApp,
    Recorder,
    clock,
    gpu,
    make_store,
    sample,
    screen_text,
    stylesheets,
    uuid,
)
from tui.monitor.messages import Utilization
from tui.state.events import DeviceSelected, MonitorStatus
from tui.state.pairing import CPU
from tui.state.store import Store
from tui.ui.widgets.devices_pane import DevicesPane


def app_of(
    store: Store, actions: Recorder | None = None, now: Callable[[], float] = clock
) -> PaneApp:
    return PaneApp(lambda: DevicesPane(store, actions or Recorder(), now), stylesheets())


class Obedient(Recorder):
    """Selects in its store, as the session does."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    def select_device(self, key: str) -> None:
        super().select_device(key)
        self.store.apply(DeviceSelected(key))


@pytest.mark.parametrize(
    ("size", "rows"),
    [
        (
            (80, 24),
            [
                "▸ cuda:0 NVIDIA H200              61% █████▌     45°C 310/700 W  20.7/139.8 GiB",
                "  cuda:1 NVIDIA H200               0%            31°C  74/700 W  <0.1/139.8 GiB",
                "  cpu    AMD EPYC 9654            23% ██▏          16/192 cores  12.0/128.0 GiB",
            ],
        ),
        (
            (60, 20),
            [
                "▸ cuda:0 NVIDIA H200    61%  45°C 310/700 W  20.7/139.8 GiB",
                "  cuda:1 NVIDIA H200     0%  31°C  74/700 W  <0.1/139.8 GiB",
                "  cpu    AMD EPYC 9654  23%    16/192 cores  12.0/128.0 GiB",
            ],
        ),
        (
            (120, 40),
            [
                "▸ cuda:0 NVIDIA H200    61% █████████▊        45°C 310/700 W"
                "  20.7/139.8 GiB 1980/3201 MHz",
                "  cuda:1 NVIDIA H200     0%                   31°C  74/700 W"
                "  <0.1/139.8 GiB  345/3201 MHz",
                "  cpu    AMD EPYC 9654  23% ███▋                16/192 cores  12.0/128.0 GiB",
            ],
        ),
    ],
)
async def test_all_devices_are_listed(size: tuple[int, int], rows: list[str]) -> None:
    app = app_of(make_store("two gpus"))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        lines = screen_text(app)
        assert "Devices   2 GPUs" in lines[0]
        assert lines[1:4] == rows


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize(("height", "rows"), [(20, 3), (4, 2), (3, 1)])
async def test_without_a_driver_it_is_said_why_in_the_room_there_is_and_the_cpu_works(
    width: int, height: int, rows: int
) -> None:
    app = app_of(make_store("no gpu"))
    async with app.run_test(size=(width, height)) as pilot:
        await settle(pilot)
        lines = screen_text(app)
        assert lines[1].startswith("! no NVIDIA driver: libnvidia-ml.so.1 was not found;")
        at = next(place for place, row in enumerate(lines) if row.startswith("▸ cpu AMD EPYC 9654"))
        assert at - 1 <= rows
        whole = " ".join(row.strip() for row in lines[1:at])
        assert whole == f"! {NO_DRIVER}" if rows == 3 else whole.endswith(("…", NO_DRIVER[-9:]))


async def test_before_the_first_sample_it_waits_and_then_it_shows() -> None:
    store = make_store("empty")
    app = app_of(store)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert screen_text(app)[1] == "waiting for the monitor"
        app.tell(store, sample(gpu()))
        await settle(pilot)
        lines = screen_text(app)
        assert lines[1].startswith("  nvml:0 NVIDIA H200")
        assert lines[2].startswith("▸ cpu")


async def test_a_monitor_that_ended_gives_its_reason_and_the_rows_grow_old() -> None:
    times = [NOW]
    store = make_store("one gpu")
    app = app_of(store, now=lambda: times[0])
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.tell(store, MonitorStatus("ended", "exit code 1"))
        times[0] = NOW + 75
        assert isinstance(app.pane, DevicesPane)
        app.pane.store_changed()
        await settle(pilot)
        lines = screen_text(app)
        assert lines[1] == "! the monitor has ended: exit code 1"
        assert "1 min old" in lines[2]


async def test_keys_move_and_select() -> None:
    store = make_store("two gpus")
    actions = Obedient(store)
    app = app_of(store, actions)
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one("DeviceList").focus()
        await press(pilot, "down", "j", "down", "k", "up", "up")
        app.pane.store_changed()
        await settle(pilot)
        assert actions.asked == [("select_device", key) for key in (uuid(1), CPU, uuid(1), uuid(0))]
        assert screen_text(app)[1].startswith("▸ cuda:0")


async def test_a_click_selects() -> None:
    store = make_store("two gpus")
    actions = Obedient(store)
    app = app_of(store, actions)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.click("DeviceList", offset=(10, 1))
        app.pane.store_changed()
        await settle(pilot)
        assert actions.asked == [("select_device", uuid(1))]
        assert screen_text(app)[2].startswith("▸ cuda:1")


async def test_a_box_with_more_devices_than_rows_scrolls_to_the_selected() -> None:
    store = make_store("one gpu", sample(*(gpu(index) for index in range(9))))
    actions = Obedient(store)
    app = app_of(store, actions)
    async with app.run_test(size=(80, 24)) as pilot:
        app.pane.styles.height = 5
        app.query_one("DeviceList").focus()
        await settle(pilot)
        await press(pilot, "end")
        app.pane.store_changed()
        await settle(pilot)
        shown = screen_text(app)[1:5]
        assert any(line.startswith("▸ cpu") for line in shown)


async def test_names_survive_that_markup_would_eat() -> None:
    app = app_of(make_store("one gpu", sample(gpu(name=HOSTILE))))
    async with app.run_test(size=(160, 24)) as pilot:
        await settle(pilot)
        assert HOSTILE in screen_text(app)[1]


def drawn_cells(pane: DevicesPane) -> dict[tuple[int, int], tuple[str, object]]:
    """Row and column of each cell of the list, with its character and its style."""
    return {
        (row, column): cell
        for row in range(len(pane.store.devices))
        for column, cell in enumerate(
            (character, segment.style)
            for segment in pane.list.render_line(row)
            for character in segment.text
        )
    }


async def test_a_sample_redraws_only_the_cells_that_changed() -> None:
    store = make_store("two gpus")
    app = app_of(store)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        pane = app.pane
        assert isinstance(pane, DevicesPane)
        before = drawn_cells(pane)
        app.tell(store, sample(gpu(0, utilization=Utilization(63.0, 1.0)), gpu(1)))
        await settle(pilot)
        after = drawn_cells(pane)
        changed = [place for place in before if before[place] != after[place]]
        assert {row for row, _ in changed} == {0}
        columns = [column for _, column in changed]
        assert max(columns) - min(columns) < 10
