"""The devices pane on a screen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.style import Style

from tests.screens.app_helpers import running
from tests.screens.driving import press, settle
from tests.screens.helpers import (
    HOSTILE,
    NOW,
    PaneApp,
    Recorder,
    clock,
    gpu,
    make_store,
    sample,
    screen_strips,
    screen_text,
    stylesheets,
    uuid,
)
from tui.core.events import MonitorStatus
from tui.devices.screens.device_list import DeviceList
from tui.devices.screens.panes import DevicesPane
from tui.devices.state.devices import CPU
from tui.devices.state.machine import DeviceSelected
from tui.devices.views.host_rows import MORE
from tui.kit.lines import Span, TextStyle, plain
from tui.kit.styles import strip_of
from tui.monitor.messages import Sample, Utilization
from tui.runs.state.state import WorkbenchState


def app_of(
    state: WorkbenchState, actions: Recorder | None = None, now: Callable[[], float] = clock
) -> PaneApp:
    return PaneApp(lambda: DevicesPane(state.machine, actions or Recorder(), now), stylesheets())


class Obedient(Recorder):
    """Selects in its store, as the session does."""

    def __init__(self, state: WorkbenchState) -> None:
        super().__init__()
        self.state = state

    def select_device(self, key: str) -> None:
        super().select_device(key)
        self.state.publish(DeviceSelected(key))


@pytest.mark.parametrize(
    ("size", "rows"),
    [
        (
            (80, 24),
            [
                "  gpu▾   util                   memory                          temp      power",
                "▸ cuda:0 ■■■■■■■■■■╸······  61% ■■╸··············  20.7/139.8G  45°C  310/700 W",
                "  cuda:1 ·················   0% ╸················  <0.1/139.8G  31°C   74/700 W",
                "  cpu    ■■■■·············  23% ■╸···············  12.0/128.0G         16 cores",
            ],
        ),
        (
            (60, 20),
            [
                "  gpu▾   util           memory                  temp  power",
                "▸ cuda:0 ■■■■■╸···  61% ■╸·······  20.7/139.8G  45°C  310 W",
                "  cuda:1 ·········   0% ╸········  <0.1/139.8G  31°C   74 W",
                "  cpu    ■■·······  23% ■········  12.0/128.0G     16 cores",
            ],
        ),
    ],
)
async def test_all_devices_are_listed(size: tuple[int, int], rows: list[str]) -> None:
    app = app_of(make_store("two gpus"))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        lines = screen_text(app)
        assert "Devices   2x H200" in lines[0]
        assert lines[1:5] == rows
        # The rest of the pane is the history of the selected device.
        assert sum("cuda:0 util 61%" in line for line in lines) == 1


async def test_on_a_wide_screen_the_last_minutes_stand_beside_each_row() -> None:
    seen = [sample(gpu(0), gpu(1), at=NOW - 9 + at) for at in range(10)]
    app = app_of(make_store("two gpus", *seen))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        lines = screen_text(app)
        assert "util 0–100%, last " in lines[1]
        busy, idle = lines[2], lines[3]
        # Each of the ten samples has two cells, and the last one may lie in the future.
        assert busy.endswith(f"·{'▅' * 19}")
        assert idle.endswith(f"·{'▁' * 19}")
        assert busy.index("▅") == idle.index("▁") > lines[1].index("util 0–100%, last ")


async def test_a_pane_without_rows_to_spare_has_the_devices_alone() -> None:
    app = app_of(make_store("two gpus"))
    async with app.run_test(size=(80, 24)) as pilot:
        for height, heading, history in ((4, False, False), (5, True, False), (9, True, True)):
            app.pane.styles.height = height
            await settle(pilot)
            text = screen_text(app)[:height]
            assert any("util" in line and "memory" in line for line in text) == heading
            assert any("cuda:0 util 61%" in line for line in text) == history
            assert sum("cuda:" in line and "139.8G " in line for line in text) == 2


def labels(app: PaneApp) -> list[str]:
    """Return the devices from the top, below the headings."""
    return [line[2:8] for line in screen_text(app)[2:6]]


async def test_eight_gpus_are_all_in_view_and_s_sorts_what_keys_go_to() -> None:
    seen = sample(*(gpu(n, utilization=Utilization(10.0 * n, 0)) for n in range(8)), at=NOW + 20)
    async with running((80, 24), "one gpu", seen, now=lambda: NOW + 20) as at:
        rows = [at.row(f"nvml:{n} ") for n in range(1, 8)]
        assert all("139.8G " in row for row in rows)
        assert "of 139.8" in at.row("─ Memory")
        await at.press("s")
        assert "by load" not in at.text
        assert "by name" in at.row("Workloads")
        await at.press("v", "s")
        assert ", by load" in at.row("Devices")
        assert at.rows[3].startswith("  nvml:7 ")
        # The memory pane opens where keys go to it, and the list keeps the selected in view.
        await at.press("m")
        assert at.row("allocated 12.3")
        assert at.row("▸ cuda:0")


async def test_s_sorts_by_the_figures_on_the_screen() -> None:
    def at(second: int, *celsius: float) -> Sample:
        devices = (gpu(n, temperature_c=heat) for n, heat in enumerate(celsius))
        return sample(*devices, at=NOW + second)

    # By the mean, the first GPU is the hottest.
    state = make_store("two gpus", at(20, 80, 50, 50), at(21, 50, 64, 57))
    app = app_of(state, now=lambda: NOW + 21)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.query_one(DevicesPane).sort_by("heat")
        await settle(pilot)
        assert "temp\u25be" in screen_text(app)[1]
        assert labels(app)[:3] == ["cuda:1", "nvml:2", "cuda:0"]


async def test_a_click_on_a_heading_sorts_and_rows_stay_while_figures_are_close() -> None:
    def at(second: int, *loads: float) -> Sample:
        return sample(
            *(gpu(n, utilization=Utilization(load, 0)) for n, load in enumerate(loads)),
            at=NOW + second,
        )

    state = make_store("two gpus", at(20, 10, 90, 50))
    app = app_of(state, now=lambda: NOW + 20)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert labels(app)[:3] == ["cuda:0", "cuda:1", "nvml:2"]
        await pilot.click("DevicesHeading", offset=(screen_text(app)[1].index("util"), 0))
        await settle(pilot)
        assert ", by load" in screen_text(app)[0]
        assert "util▾" in screen_text(app)[1]
        assert labels(app)[0] == "cuda:1"
        assert labels(app)[3].strip() == "cpu"
        order = labels(app)
        # The mean of ten seconds has not moved by ten points yet.
        app.tell(state, at(21, 10, 60, 70))
        await settle(pilot)
        assert labels(app) == order
        app.tell(state, *(at(second, 10, 20, 95) for second in range(22, 34)))
        await settle(pilot)
        assert labels(app)[:2] == ["nvml:2", "cuda:1"]
        assert screen_text(app)[4].startswith("▸ cuda:0")


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("height", [20, 4, 3])
async def test_without_a_driver_one_line_says_so_and_the_cpu_works(width: int, height: int) -> None:
    app = app_of(make_store("no gpu"))
    async with app.run_test(size=(width, height)) as pilot:
        await settle(pilot)
        lines = screen_text(app)
        assert lines[1].lstrip().startswith("! no NVIDIA driver")
        at = next(place for place, row in enumerate(lines) if row.startswith("▸ cpu "))
        told = [row.strip() for row in lines[1:at] if " util" not in row]
        assert told == ["! no NVIDIA driver (v, enter: more)"]


async def test_before_the_first_sample_it_waits_and_then_it_shows() -> None:
    state = make_store("empty")
    app = app_of(state)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert screen_text(app)[1].strip() == "waiting for the monitor"
        app.tell(state, sample(gpu()))
        await settle(pilot)
        lines = screen_text(app)
        # A GPU is what people came for, before torch has said which it sees.
        assert lines[2].startswith("▸ cuda:0 ■")
        assert lines[3].startswith("  cpu")


async def test_a_monitor_that_ended_gives_its_reason_and_the_rows_grow_old() -> None:
    times = [NOW]
    state = make_store("one gpu")
    app = app_of(state, now=lambda: times[0])
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.tell(state, MonitorStatus("ended", "exit code 1"))
        times[0] = NOW + 75
        assert isinstance(app.pane, DevicesPane)
        app.pane.state_changed()
        await settle(pilot)
        lines = screen_text(app)
        assert lines[1].strip() == "! the monitor has ended: exit code 1"
        assert "1 min old" in lines[3]


async def test_keys_move_and_select() -> None:
    state = make_store("two gpus")
    actions = Obedient(state)
    app = app_of(state, actions)
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one("DeviceList").focus()
        await press(pilot, "down", "j", "down", "k", "up", "up")
        app.pane.state_changed()
        await settle(pilot)
        assert actions.asked == [("select_device", key) for key in (uuid(1), CPU, uuid(1), uuid(0))]
        assert screen_text(app)[2].startswith("▸ cuda:0")


async def test_a_click_selects() -> None:
    state = make_store("two gpus")
    actions = Obedient(state)
    app = app_of(state, actions)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.click("DeviceList", offset=(10, 1))
        app.pane.state_changed()
        await settle(pilot)
        assert actions.asked == [("select_device", uuid(1))]
        assert screen_text(app)[3].startswith("▸ cuda:1")


async def test_a_bar_under_the_cursor_is_as_long_as_it_was() -> None:
    state = make_store("one gpu", sample(gpu()))
    app = app_of(state, Obedient(state))
    async with app.run_test(size=(100, 24)) as pilot:
        app.query_one("DeviceList").focus()
        await settle(pilot)
        (cursor,) = (strip for strip in screen_strips(app) if strip.text.startswith("▸ cuda:0"))
        reversed_ = {
            segment.text: bool(segment.style and segment.style.reverse) for segment in cursor
        }
        # Reversed, its blanks would be the coloured part.
        assert [turned for text, turned in reversed_.items() if "■" in text] == [False, False]
        assert [turned for text, turned in reversed_.items() if "61%" in text] == [True]


def test_words_under_the_cursor_are_no_patches_unless_something_is_wrong() -> None:
    words = (
        Span("matmul "),
        Span("not run ", TextStyle.QUIET),
        Span("ok ", TextStyle.GOOD),
        Span("failed", TextStyle.BAD),
    )
    cursor = Style(reverse=True)
    drawn = list(strip_of(words, 30, Style(), cursor))
    assert [segment.text.strip() for segment in drawn] == ["matmul not run ok", "failed", ""]
    assert drawn[0].style == drawn[2].style == cursor
    assert drawn[1].style is not None
    assert drawn[1].style.color is not None


async def test_a_box_with_more_devices_than_rows_scrolls_to_the_selected() -> None:
    state = make_store("one gpu", sample(*(gpu(index) for index in range(9))))
    actions = Obedient(state)
    app = app_of(state, actions)
    async with app.run_test(size=(80, 24)) as pilot:
        app.pane.styles.height = 5
        app.query_one("DeviceList").focus()
        await settle(pilot)
        await press(pilot, "end")
        app.pane.state_changed()
        await settle(pilot)
        shown = screen_text(app)[1:5]
        assert any(line.startswith("▸ cpu") for line in shown)


async def test_names_survive_that_markup_would_eat() -> None:
    app = app_of(make_store("one gpu", sample(gpu(name=HOSTILE))))
    async with app.run_test(size=(160, 24)) as pilot:
        await settle(pilot)
        assert HOSTILE in screen_text(app)[0]


def drawn_cells(pane: DevicesPane) -> dict[tuple[int, int], tuple[str, object]]:
    """Row and column of each cell of the list, with its character and its style."""
    return {
        (row, column): cell
        for row in range(len(pane.machine.devices))
        for column, cell in enumerate(
            (character, segment.style)
            for segment in pane.list.render_line(row)
            for character in segment.text
        )
    }


async def test_a_sample_redraws_only_the_cells_that_changed() -> None:
    state = make_store("two gpus")
    app = app_of(state)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        pane = app.pane
        assert isinstance(pane, DevicesPane)
        before = drawn_cells(pane)
        app.tell(state, sample(gpu(0, utilization=Utilization(76.0, 1.0)), gpu(1)))
        await settle(pilot)
        after = drawn_cells(pane)
        changed = [place for place in before if before[place] != after[place]]
        # The end of the bar and the figure; the other bar, heat and power stay as they are.
        assert {row for row, _ in changed} == {0}
        assert 1 < len(changed) < 6


async def test_enter_shows_the_details_of_a_device_and_has_them_read_meanwhile() -> None:
    async with running((120, 40), "two gpus") as at:
        await at.press("v", "enter")
        assert at.session.device_details == [False, True]
        assert "cuda:0  NVIDIA H200" in at.text
        assert at.row("clocks limited by")
        await at.press("escape")
        assert at.session.device_details == [False, True, False]
        assert not at.row("clocks limited by")


async def test_idle_gpus_of_one_machine_share_a_row_until_enter_unfolds_them() -> None:
    seen = sample(*(gpu(n) for n in range(8)), at=NOW + 20)
    async with running((80, 24), "one gpu", seen, now=lambda: NOW + 20) as at:
        devices = at.workbench.devices.list

        def kinds() -> list[str]:
            return [row.kind for row in devices._host_rows]

        assert "6 more like nvml:1" in at.row("enter here unfolds")
        assert kinds() == ["device", "device", "more", "device"]
        assert at.row("cpu ")
        await at.press("v")
        devices.go_to(kinds().index("more"))
        await at.press("enter")
        assert all(at.row(f"nvml:{n} ") for n in range(1, 8))
        devices.go_to(kinds().index("fold"))
        assert "6 alike" in at.row("enter here folds")
        await at.press("enter")
        assert kinds() == ["device", "device", "more", "device"]
        # Another key selects one of them: it has a row of its own then.
        await at.press("d", "d")
        assert at.row("▸ nvml:2 "), (at.text, devices.key, devices.has_focus)
        assert kinds().count("more") == 1


async def test_eight_idle_gpus_have_a_row_each_where_the_screen_has_the_rows() -> None:
    seen = sample(*(gpu(n) for n in range(8)), at=NOW + 20)
    async with running((120, 40), "one gpu", seen, now=lambda: NOW + 20) as at:
        assert "enter here unfolds" not in at.text
        assert all(at.row(f"nvml:{n} ") for n in range(1, 8))
        assert at.row("cpu ")
        await at.pilot.resize_terminal(80, 24)
        await at.settle()
        assert "6 more like nvml:1" in at.row("enter here unfolds")
        # The zoomed pane has room for all again.
        await at.press("v", "Z")
        assert all(at.row(f"nvml:{n} ") for n in range(1, 8))


async def test_in_three_columns_a_device_has_two_lines_with_wide_gauges() -> None:
    async with running((200, 55), "two gpus") as at:
        devices = at.workbench.devices.list
        load, memory = (plain(line) for line in devices.shown_lines[:2])
        assert load.startswith("\u25b8 cuda:0 \u25a0")
        assert "61%  45\u00b0C  310 W" in load
        assert memory.startswith(" " * 9 + "\u25a0")
        assert memory.rstrip().endswith(" 20.7/139.8G")
        gauges = [sum(sign in "\u25a0\u2578\u00b7" for sign in row) for row in (load, memory)]
        assert gauges[0] == gauges[1] >= 14
        # Both lines are of the device.
        await at.pilot.click(DeviceList, offset=(12, 3))
        at.app.draw_now()
        await at.settle()
        assert (devices.lines_per_row, devices.cursor) == (2, 1)
        assert "\u25b8 cuda:1" in at.text
        await at.press("up")
        at.app.draw_now()
        await at.settle()
        assert "\u25b8 cuda:0" in at.text


async def test_two_lines_need_rows_for_two_histories() -> None:
    idle = [gpu(n) for n in range(16)]
    async with running((200, 55), "one gpu", sample(*idle)) as at:
        assert at.workbench.devices.list.lines_per_row == 1
        assert at.workbench.devices.history.display


def _go_to_more(devices: DeviceList) -> None:
    """Put the cursor on the row for more GPUs, past the devices that it would select."""
    devices.go_to(next(i for i, row in enumerate(devices._host_rows) if row.kind == "more"))
    assert devices.key == MORE


async def test_the_cursor_leaves_a_row_for_more_gpus_that_is_gone() -> None:
    idle = sample(*(gpu(n) for n in range(8)), at=NOW + 20)
    busy = [gpu(n, utilization=Utilization(90.0, 0.0)) for n in range(8)]
    async with running((80, 24), "one gpu", idle, now=lambda: NOW + 20) as at:
        devices = at.workbench.devices.list
        await at.press("v")
        _go_to_more(devices)
        await at.tell(sample(*busy, at=NOW + 21))
        await at.until(lambda: devices.count == 9)
        assert devices.key == uuid(0), "the selected one"
        await at.press("down")
        await at.until(lambda: bool(at.row("▸ nvml:1 ")))
        await at.press("end")
        await at.until(lambda: devices.key == CPU)
        await at.tell(idle)
        await at.until(lambda: devices.count < 9)
        assert devices.key == CPU, "the cursor stays where the user has put it"


async def test_the_cursor_leaves_the_row_for_more_gpus_for_one_selected_elsewhere() -> None:
    seen = sample(*(gpu(n) for n in range(8)), at=NOW + 20)
    async with running((80, 24), "one gpu", seen, now=lambda: NOW + 20) as at:
        devices = at.workbench.devices.list
        await at.press("v")
        _go_to_more(devices)
        await at.tell(DeviceSelected(uuid(5)))
        await at.until(lambda: bool(at.row("▸ nvml:5 ")))
        assert devices.key == uuid(5)
