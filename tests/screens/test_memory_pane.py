"""The memory pane on a screen."""

from __future__ import annotations

import pytest

from tests.screens.app_helpers import running
from tests.screens.driving import press, settle
from tests.screens.helpers import (
    GIB,
    HOSTILE,
    NOW,
    WORKER,
    PaneApp,
    clock,
    gpu,
    gpu_process,
    make_store,
    sample,
    screen_text,
    stylesheets,
    torch_memory,
    uuid,
)
from tests.tiers import with_variants
from tui.devices.memory import account
from tui.devices.screens.account_panes import MemoryPane
from tui.devices.state.devices import CPU
from tui.devices.state.machine import DeviceSelected
from tui.devices.views.memory import explain_lines
from tui.kit.lines import plain
from tui.monitor.messages import DeviceMemory
from tui.recordings.lines import AnyEvent
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages


async def shown(
    state: WorkbenchState, size: tuple[int, int], height: int, now: float = NOW
) -> list[str]:
    """Return the pane's rows without the scroll bar's column."""
    app = PaneApp(lambda: MemoryPane(state.machine, lambda: now), stylesheets())
    async with app.run_test(size=size) as pilot:
        app.pane.styles.height = height
        await settle(pilot)
        await settle(pilot)
        assert app.pane.outer_size.height == height
        # Text begins below the title, in the third column.
        return [line[2 : size[0] - 1].rstrip() for line in screen_text(app)[1:height]]


def account_reasons(state: WorkbenchState) -> list[str]:
    """Return what i says of the selected device's memory."""
    gauge = account(state.machine, state.machine.selected_device, NOW)
    return [plain(row) for row in explain_lines(gauge, 79)]


async def test_at_80x24_five_rows_hold_bar_legend_and_figures() -> None:
    app = PaneApp(lambda: MemoryPane(make_store().machine, clock), stylesheets())
    async with app.run_test(size=(80, 24)) as pilot:
        app.pane.styles.height = 5
        await settle(pilot)
        lines = [line[:79].rstrip() for line in screen_text(app)]
        assert "Memory   cuda:0 H200   118.5 of 139.8G free" in lines[0]
        assert set(lines[1].strip()) == set("█▓▒░▞·")
        assert lines[2:5] == [
            "  ■ allocated 12.3G  ▓ cached 3.7G  ▒ context 614M  ░ others 4.1G",
            "  ▞ driver 614M  · free 118.5G",
            "  reserved 16.0G (peak 18.2G)  this process 16.6G  device used 20.7G",
        ]
        assert lines[5] == ""


async def test_with_room_the_other_processes_are_there_and_nothing_twice() -> None:
    lines = await shown(make_store(), (120, 40), 10)
    assert lines[1].startswith("■ allocated 12.3 GiB  ▓ cached 3.7 GiB")
    assert lines[1].endswith("· free 118.5 GiB")
    assert lines[4].startswith("777 ada 4.1 GiB")
    assert not "".join(lines[5:])


@pytest.mark.parametrize("size", with_variants([(80, 24)], [(120, 40), (200, 60)]))
async def test_i_explains_the_memory_in_sentences(size: tuple[int, int]) -> None:
    async with running(size, "two gpus", torch_memory(ooms=1)) as on:
        await on.press("m", "i")
        words = " ".join(" ".join(screen_text(on.app)).replace("│", " ").split())
        assert "Memory of cuda:0" in words
        assert "! out of memory 1 time since the last run began" in words
        assert "nvidia-smi shows 20.7 GiB in use; live tensors use 12.3 GiB" in words
        assert "peak device used 20.7G sampled" in words
        await on.press("i")
        assert on.pane == "memory"
        assert "nvidia-smi" not in " ".join(screen_text(on.app))


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40), (200, 60)])
async def test_all_devices_of_a_size_have_sizes_of_one_style(size: tuple[int, int]) -> None:
    async with running(size, "two gpus") as on:
        await on.press("m")
        title = on.workbench.memory.border_title
        await on.tell(DeviceSelected(uuid(1)))
        other = on.workbench.memory.border_title
        assert title != other
        assert ("GiB" in str(title)) == ("GiB" in str(other))


async def test_at_60x20_everything_is_reached_by_scrolling() -> None:
    state = make_store()
    app = PaneApp(lambda: MemoryPane(state.machine, clock), stylesheets())
    seen: list[str] = []
    async with app.run_test(size=(60, 20)) as pilot:
        app.pane.styles.height = 5
        await settle(pilot)
        app.query_one("LinesView").focus()
        for _ in range(15):
            seen += screen_text(app)[2:5]
            await press(pilot, "down")
            await settle(pilot)
    text = " ".join(seen)
    for words in ("· free 118.5", "device used 20.7G", "e frees up to 2.5G", "peak allocated"):
        assert words in text


async def test_a_device_that_was_not_used_says_so_where_the_figures_would_be() -> None:
    state = make_store("two gpus", DeviceSelected(uuid(1)))
    lines = await shown(state, (80, 24), 6)
    assert lines[1].startswith("╱ unattributed 4.0M")
    assert lines[2] == "the runner has not used this device yet"
    reasons = account_reasons(state)
    assert "allocated, cached, context n/a: the runner has not used this device yet" in reasons


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (
            (sample(gpu(processes=(gpu_process(9, GIB),))),),
            "this process n/a: NVML does not list our pid 4242: in a container it lists the",
        ),
        ((torch_memory(ooms=1),), "! out of memory 1 time since the last run began"),
        (
            (messages.WorkerEnded(WORKER, "killed", False),),
            "allocated, cached, context n/a: torch starts with the next run",
        ),
        (
            (
                sample(
                    gpu(
                        lost="GPU is lost",
                        memory=DeviceMemory(None, None, None, None),
                        processes=None,
                        unavailable={"memory.total": "GPU is lost", "processes": "GPU is lost"},
                    )
                ),
            ),
            "no bar, the total is not known: GPU is lost",
        ),
    ],
    ids=["container", "out of memory", "worker ended", "lost"],
)
async def test_what_is_wrong_or_not_known_is_said(events: tuple[AnyEvent, ...], words: str) -> None:
    state = make_store("one gpu", *events)
    assert words in [*await shown(state, (80, 24), 8), *account_reasons(state)]


@pytest.mark.parametrize(
    ("pinned", "said"),
    [(2 * GIB, True), (0, False), (None, False)],
    ids=["some", "none", "unknown"],
)
async def test_what_is_pinned_on_the_host_is_said_where_there_is_some(
    pinned: int | None, said: bool
) -> None:
    lines = await shown(make_store("one gpu", torch_memory(pinned=pinned)), (120, 24), 10)
    assert ("pinned on the host 2.0" in " ".join(lines)) is said


async def test_what_cublas_is_given_has_a_part_of_the_bar_and_of_the_legend() -> None:
    bar, *lines = await shown(make_store("one gpu", torch_memory(workspace=GIB)), (120, 24), 10)
    assert "▚" in bar
    assert "▚ cuBLAS 1.0" in " ".join(lines)


async def test_unified_memory_is_labelled() -> None:
    memory = DeviceMemory(None, None, None, None, unified=True)
    small = torch_memory(requested=GIB, allocated=GIB, active=GIB, reserved=2 * GIB)
    state = make_store("one gpu", sample(gpu(memory=memory, processes=())), small)
    app = PaneApp(lambda: MemoryPane(state.machine, clock), stylesheets())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert "116.0 of 128.0G available, unified" in screen_text(app)[0]


async def test_old_figures_are_marked_in_the_title() -> None:
    app = PaneApp(lambda: MemoryPane(make_store().machine, lambda: NOW + 12), stylesheets())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert "12 s old" in screen_text(app)[0]


async def test_the_cpu_has_the_host_s_memory() -> None:
    state = make_store("two gpus", DeviceSelected(CPU))
    lines = await shown(state, (80, 24), 5)
    assert lines[1] == "■ runner 900M  ▓ shared 400M  ░ others 10.7G  · available 116.0G"
    assert lines[2].startswith("runner, resident 1.3G  host used 12.0G  heap in use 640M")
    assert "e frees up to 220M" in lines[2]


async def test_another_device_is_shown_when_it_is_selected() -> None:
    state = make_store("two gpus")
    app = PaneApp(lambda: MemoryPane(state.machine, clock), stylesheets())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.tell(state, DeviceSelected(uuid(1)))
        await settle(pilot)
        assert "cuda:1" in screen_text(app)[0]
        assert screen_text(app)[2].lstrip().startswith("╱ unattributed 4.0M")


async def test_names_survive_that_markup_would_eat() -> None:
    state = make_store("one gpu", sample(gpu(name=HOSTILE)))
    app = PaneApp(lambda: MemoryPane(state.machine, clock), stylesheets())
    async with app.run_test(size=(120, 24)) as pilot:
        await settle(pilot)
        assert HOSTILE in screen_text(app)[0]


async def test_before_the_first_sample_nothing_is_claimed() -> None:
    lines = await shown(make_store("empty"), (80, 24), 5)
    assert lines[0] == "no bar, the total is not known: waiting for the monitor"
    assert "others n/a (i)" in lines


async def test_empty_rows_show_the_history_of_the_memory() -> None:
    state = make_store("one gpu")
    for at in range(5):
        state.publish(sample(gpu(), at=NOW + at))
    tall = await shown(state, (70, 24), 20, NOW + 4)
    low = await shown(state, (70, 24), 10, NOW + 4)
    assert any("cuda:0 memory  last" in row for row in tall)
    assert not any("cuda:0 memory  last" in row for row in low)
    # The picture is at the bottom, and nothing of the account gives way to it.
    assert tall[-1].strip().startswith("0")
    assert [row for row in low if row] == [row for row in tall if row][: len([r for r in low if r])]
