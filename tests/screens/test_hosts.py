"""Several hosts in the device list: what their rows say, what is folded, what works there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.app_helpers import Running, running
from tests.screens.helpers import GIB, NOW, environment, gpu, gpu_process, sample, uuid
from tests.screens.results import DEFAULTS, result
from tests.screens.watching import figures, torch_process
from tests.tiers import with_variants
from tui.allocators.messages import ProcessFigures, RankJob, TorchProcesses
from tui.core.events import RunnerStatus, Topic
from tui.hosts.events import HostLost, HostSample, HostsNamed, HostTorch
from tui.monitor.messages import DeviceMemory, Driver, Sample, Utilization
from tui.recordings.lines import AnyEvent
from tui.runs.state.events import HostRunEvent, RunQueued
from workloads.protocol import messages

SKEW_S = 3600.0
"""The clock of a host is an hour ahead."""
NO_KEY = "Permission denied (publickey): run `ssh gpu3` once to see which key it wants"


def _box(gpus: int, *, busy: float = 88.0, version: str = "580.95", **first: object) -> Sample:
    at = NOW + SKEW_S
    row = gpu_process(4711, user="ada", command="python train.py", started_at=at - 60)
    devices = tuple(
        gpu(
            index,
            memory=DeviceMemory(80 * GIB, 71 * GIB, 9 * GIB, 0),
            utilization=Utilization(busy, 10.0),
            processes=(row,),
            read_at=at,
            memory_read=(at, at),
            **(first if index == 0 else {}),
        )
        for index in range(gpus)
    )
    return replace(sample(*devices, at=at), driver=Driver(version, "13.0", None))


def host_events(*, here: bool = False) -> tuple[AnyEvent, ...]:
    idle = _box(4, busy=0.0, version="570.12")
    free = DeviceMemory(80 * GIB, GIB, 79 * GIB, 0)
    devices = [
        replace(each, memory=free, id=uuid(20 + number)) for number, each in enumerate(idle.devices)
    ]
    first = _box(8)
    if here:
        # This machine's GPU has the first UUID.
        ids = [replace(each, id=uuid(10 + i)) for i, each in enumerate(first.devices)]
        first = replace(first, devices=tuple(ids))
    idle = replace(idle, devices=tuple(devices))
    return (
        HostsNamed(("gpu1", "gpu2", "gpu3"), here),
        HostSample("gpu1", first, 0.042, NOW),
        HostSample("gpu2", idle, 0.18, NOW),
        HostLost("gpu3", NO_KEY, 5.0, NOW - 12),
    )


def twenty_gpus() -> tuple[AnyEvent, ...]:
    """Three hosts: one whose GPUs are alike, one with a hot GPU and free ones, one without key."""
    found = _box(12, version="570.12")
    each_of_gpu2 = [replace(each, id=uuid(20 + i)) for i, each in enumerate(found.devices)]
    free = DeviceMemory(80 * GIB, GIB, 79 * GIB, 0)
    devices = [
        replace(each, memory=free, utilization=Utilization(0.0, 0.0), processes=())
        if number >= 6
        else each
        for number, each in enumerate(each_of_gpu2)
    ]
    devices[3] = replace(
        devices[3],
        utilization=Utilization(61.0, 10.0),
        temperature_c=87.0,
        power_w=390.0,
        throttle=("sw_thermal_slowdown",),
    )
    return (
        HostsNamed(("gpu1", "gpu2", "gpu3"), here=False),
        HostSample("gpu1", _box(8), 0.042, NOW),
        HostSample("gpu2", replace(found, devices=tuple(devices)), 0.18, NOW),
        HostLost("gpu3", NO_KEY, 5.0, NOW - 12),
    )


async def _hosts(at: Running, *events: AnyEvent) -> None:
    await at.tell(*(events or host_events()))


async def test_a_screen_of_80_columns_shows_every_host_in_order() -> None:
    async with running((80, 24)) as at:
        await _hosts(at)
        assert "3 hosts, 12 GPUs" in at.rows[0]
        assert at.rows[1].startswith("─ Devices   4 of 12 GPUs free (≥ 20G or 90%, < 5%)")
        headings = [row for row in at.rows if row[:1] in "▾▸" and row[2:6].rstrip("123") == "gpu"]
        assert [row.split()[1] for row in headings] == ["gpu1", "gpu1:0", "gpu2", "gpu3"]
        assert "driver 580.95   42 ms" in at.row("▾ gpu1")
        assert "driver 570.12 ≠   180 ms" in at.row("▾ gpu2")
        assert "unreachable for 12 s: Permission denied (publickey)" in at.row("▸ gpu3")
        assert "ada  train.py" in at.row("gpu1:0")
        assert " old" not in at.text  # an hour ahead, the host's figures are still new


async def test_before_an_answer_no_number_of_gpus_is_told() -> None:
    async with running((80, 24)) as at:
        await _hosts(at, HostsNamed(("gpu1", "gpu3"), here=False), host_events()[3])
        assert "  2 hosts  " in at.rows[0]
        assert "GPU" not in at.rows[0]
        await at.tell(host_events()[1])
        assert "  2 hosts, 8 GPUs" in at.rows[0]


async def test_the_header_and_the_title_count_the_same_gpus() -> None:
    async with running((80, 24)) as at:
        whole = gpu(0, id=uuid(40), mig=True)
        instances = [gpu(0, id=f"MIG-{name}", parent=whole.id) for name in "ab"]
        split = HostSample("gpu1", sample(whole, *instances), 0.01, NOW)
        await _hosts(at, HostsNamed(("gpu1",), here=False), split)
        assert "1 host, 2 GPUs" in at.rows[0]
        assert "of 2 GPUs free" in at.rows[1]


async def test_alike_devices_fold_and_enter_unfolds_them() -> None:
    async with running((80, 24)) as at:
        await _hosts(at)
        assert "6 more like gpu1:1" in at.text
        await at.press("f1", "escape")
        pane = at.workbench.devices
        at.app.set_focus(pane.list)
        rows = {row.kind: place for place, row in enumerate(pane.list._host_rows)}
        assert "more" in rows
        pane.list.go_to(next(i for i, row in enumerate(pane.list._host_rows) if row.kind == "more"))
        await at.press("enter")
        shown = [row.key for row in pane.list._host_rows if row.kind == "device"]
        assert {f"gpu1:{number}" for number in range(8)} <= set(shown)


async def test_the_cursor_leaves_a_host_s_row_for_more_devices_that_is_gone() -> None:
    async with running((80, 24)) as at:
        await _hosts(at)
        devices = at.workbench.devices.list
        at.app.set_focus(devices)
        place = next(i for i, row in enumerate(devices._host_rows) if row.kind == "more")
        devices.go_to(place)
        assert devices.cursor == place
        await at.resize(80, 60)
        assert all(row.kind != "more" for row in devices._host_rows)
        assert devices.cursor is not None
        await at.press("end")
        assert devices.cursor == devices.count - 1


async def test_hosts_are_sampled_often_only_while_their_list_is_open() -> None:
    async with running((120, 50)) as at:
        await _hosts(at)
        for key, often in (("2", False), ("4", False), ("1", True)):
            await at.press(key)
            assert at.session.hosts_are_looked_at is often


async def test_a_heading_folds_its_host() -> None:
    async with running((120, 50)) as at:
        await _hosts(at)
        assert at.row("gpu1:7")
        pane = at.workbench.devices
        at.app.set_focus(pane.list)
        await at.press("home", "enter")
        assert not at.row("gpu1:7")
        assert at.row("▸ gpu1")
        await at.press("enter")
        assert at.row("gpu1:7")


async def test_this_machine_is_a_host_among_the_others() -> None:
    async with running((120, 50)) as at:
        await _hosts(at, *host_events(here=True))
        assert "4 hosts, 13 GPUs" in at.rows[0]
        assert at.row("▾ here")
        assert at.row("cuda:0")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_one_machine_under_two_names_counts_once(size: tuple[int, int]) -> None:
    async with running(size) as at:
        idle = host_events()[2]
        assert isinstance(idle, HostSample)
        named = HostsNamed(("gpu1", "gpu2", "alias"), here=False)
        await _hosts(at, named, *host_events()[1:3], replace(idle, host="alias"))
        assert "2 hosts, 12 GPUs" in at.rows[0]
        assert "4 of 12 GPUs free" in at.rows[1]
        assert "same GPUs as gpu2   driver 570.12" in at.row("alias")
        assert "same" not in at.row("gpu2")
        # Without its first name it is counted under the second.
        await at.tell(HostLost("gpu2", NO_KEY, 5.0, NOW))
        assert "4 of 12 GPUs free" in at.rows[1]
        # A container there may have some of the GPUs.
        some = replace(idle.sample, devices=(*idle.sample.devices[:2], gpu(0, id=uuid(30))))
        await at.tell(HostSample("alias", some, 0.18, NOW))
        assert "2 GPUs also on gpu2" in at.row("alias")


@pytest.mark.parametrize("size", with_variants([(60, 20), (120, 40)], [(80, 24)]))
async def test_memory_and_processes_are_those_of_the_selected_host(size: tuple[int, int]) -> None:
    async with running(size) as at:
        await _hosts(at)
        at.session.select_device("gpu2:3")
        await at.press("2")
        assert "gpu2:3" in at.rows[1]
        assert "79.0 of 80.0 GiB free" in at.rows[1]
        at.session.select_device("gpu1:0")
        await at.press("4")
        assert "Processes on gpu1" in at.rows[1]
        assert "4711" in at.text


@pytest.mark.parametrize("size", with_variants([(60, 20)], [(80, 24), (120, 40)]))
async def test_every_tab_says_why_the_shown_host_is_not_reached(size: tuple[int, int]) -> None:
    later = 0.0
    async with running(size, now=lambda: NOW + later) as at:
        named = HostsNamed(("gpu3", "gpu1"), here=False)
        await _hosts(at, named)
        for key in ("2", "4"):
            await at.press(key)
            assert "connecting to gpu3" in " ".join(at.text.split()), key
        await at.press("1")
        await at.tell(HostLost("gpu3", NO_KEY, 5.0, NOW - 12))
        if size == (60, 20):  # no row has room
            assert "─ Devices   gpu3 unreachable: Permission denied" in at.rows[1]
        for key in ("2", "4"):
            await at.press(key)
            said = " ".join(at.text.split())
            assert "unreachable" in said, key
            assert "Permission denied (publickey)" in said, key
            assert "waiting" not in said, key
        # Figures from before the loss are old for the same reason.
        await at.tell(HostSample("gpu3", _box(1), 0.042, NOW))
        await at.press("2")
        assert "unreachable" not in at.text
        await at.tell(HostLost("gpu3", NO_KEY, 5.0, NOW))
        later = 60.0
        for key in ("4", "2"):
            await at.press(key)
            assert "unreachable:" in at.text, key
            assert "see which key" in at.text, key


async def test_no_process_is_signalled_on_another_host() -> None:
    async with running((80, 24)) as at:
        await _hosts(at, *host_events(here=True))
        at.session.select_device("gpu1:0")
        asked = len(at.asked)
        await at.press("4", "x")
        assert not [each for each in at.asked[asked:] if each[0] == "terminate"]
        assert "Terminate process" not in at.text


def _run_of(host: str, number: str, median_s: float) -> tuple[AnyEvent, ...]:
    """Return the events of one run of ``matmul`` on the CPU of a host, from its request."""
    request = messages.Run(number, "matmul", "cpu", DEFAULTS, {})
    found = result("matmul", "cpu", median_s, id=number)
    return (
        HostRunEvent(host, RunQueued(request)),
        HostRunEvent(host, messages.Finished(found)),
    )


async def test_the_workloads_are_those_of_the_selected_host() -> None:
    async with running((120, 40)) as at:
        await _hosts(at, *host_events(here=True))
        for host in ("gpu1", "gpu2"):
            await at.tell(HostRunEvent(host, messages.Ready(environment(), 1.0)))
        await at.tell(*_run_of("gpu1", "run-1", 1e-3), *_run_of("gpu2", "run-1", 7e-3))
        here = at.row("matmul")
        assert "1.00 ms" not in here
        assert "7.00 ms" not in here
        at.session.select_device("gpu1:0")
        await at.settle()
        at.app.draw_now()
        await at.settle()
        assert "Workloads on gpu1" in at.text
        assert "1.00 ms" in at.row("matmul")
        at.session.select_device("gpu2:0")
        at.app.draw_now()
        await at.settle()
        assert "Workloads on gpu2" in at.text
        assert "7.00 ms" in at.row("matmul")


async def test_a_run_of_another_host_is_queued_there_alone() -> None:
    async with running((120, 40)) as at:
        await _hosts(at, *host_events(here=True))
        at.session.select_device("gpu1:0")
        await at.press("r")
        assert [each[0] for each in at.asked].count("run") == 1
        runs = at.session.state.runs
        assert [len(each.book) for each in runs.everywhere] == [0, 1, 0, 0]
        assert "queued" in at.text
        at.session.select_device("gpu2:0")
        at.app.draw_now()
        await at.settle()
        assert "queued" not in at.text


async def test_cancel_all_is_offered_at_an_idle_host_while_another_runs() -> None:
    async with running((80, 24)) as at:
        await _hosts(at)
        at.session.select_device("gpu1:0")
        await at.press("X")
        assert ("cancel", "") not in at.asked
        asked, _ = _run_of("gpu2", "run-1", 1e-3)
        await at.tell(asked)
        await at.press("X")
        assert ("cancel", "") in at.asked


async def test_the_row_of_a_host_says_what_runs_there_also_while_another_is_shown() -> None:
    async with running((80, 24)) as at:
        await _hosts(at)
        at.session.select_device("gpu1:0")
        asked, ended = _run_of("gpu2", "run-1", 1e-3)
        await at.tell(asked)
        assert "180 ms   running matmul" in at.row("▾ gpu2")
        assert "running" not in at.row("▾ gpu1")
        await at.tell(ended)
        assert "running" not in at.text


async def test_a_host_says_what_starts_torch_there_and_then_why_it_cannot() -> None:
    async with running((80, 24)) as at:
        await _hosts(at)
        assert "r runs a workload on gpu1: the first one starts torch there" in at.text
        at.workbench.focus_pane("detail")
        await at.settle()
        assert "Two square matrices" in at.text
        assert "skipped" not in at.text
        await at.press("escape")
        reason = "connection to gpu1 lost: not answering for 10 s"
        await at.tell(HostRunEvent("gpu1", RunnerStatus("unusable", reason)))
        assert f"Nothing can be run: {reason}" in at.text
        assert "The next run there tries again." in at.text
        assert "nothing can be run" in at.rows[0]


async def test_readonly_offers_no_run_on_a_host_and_says_so() -> None:
    async with running((80, 24), readonly=True) as at:
        await _hosts(at)
        asked = len(at.asked)
        assert "--readonly: nothing is run on gpu1" in at.text
        await at.press("r", "R", "F", "space", "c", "e", "N", "X", "4", "x")
        assert not [each for each in at.asked[asked:] if each[0] != "watch_host"]


async def test_quitting_names_each_host_on_which_runs_go_on() -> None:
    async with running((80, 24)) as at:
        await _hosts(at)
        for host in ("gpu1", "gpu2"):
            await at.tell(_run_of(host, "run-1", 1e-3)[0])
        await at.press("q")
        assert "gpu1: 1 queued." in at.text
        assert "gpu2: 1 queued." in at.text


async def test_a_silent_host_shows_the_age_of_its_figures_and_a_lost_one_why() -> None:
    async with running((120, 50)) as at:
        old = HostSample("gpu1", _box(2), 0.042, NOW)
        await _hosts(at, HostsNamed(("gpu1",), here=False), old)
        at.app.clock = at.workbench.devices.clock = lambda: NOW + 8
        at.workbench.devices.list._clock = lambda: NOW + 8
        at.workbench.devices.state_changed()
        await at.settle()
        assert "silent for 8 s" in at.row("▾ gpu1")
        assert "free (" not in at.text
        await at.tell(HostLost("gpu1", "not answering for 10 s", 1.0, NOW + 8))
        assert "unreachable for 0 s: not answering for 10 s" in at.row("▸ gpu1")


async def test_a_host_without_nvml_says_why_and_others_are_listed() -> None:
    async with running((120, 50)) as at:
        why = "no libnvidia-ml.so.1"
        bare = replace(_box(0), driver=Driver(None, None, why))
        named = HostsNamed(("gpu0", "gpu1"), here=False)
        await _hosts(at, named, HostSample("gpu0", bare, 0.1, NOW), host_events()[1])
        assert "no GPU" in at.row("▸ gpu0")
        assert why in at.row("▸ gpu0")
        assert at.row("gpu1:7")


async def test_a_selected_device_that_disappears_leaves_its_host_selected() -> None:
    async with running((80, 24)) as at:
        await _hosts(at)
        at.session.select_device("gpu2:3")
        await at.tell(HostSample("gpu2", _box(2), 0.1, NOW))
        assert at.row("▸ gpu2:0")
        assert at.row("─ Memory   gpu2:0")


def _torch(rank: int, at: float) -> tuple[HostTorch, HostTorch]:
    """Return the torch process of a host's GPU, a rank of a job over hosts, with its memory."""
    described = torch_process(
        pid=4711, start=at - 60, rank=rank, world_size=2, job=RankJob("gpu1:29500")
    )
    held = replace(figures(allocated=2 * GIB, at=at), pid=4711)
    host = f"gpu{rank + 1}"
    return (
        HostTorch(host, processes=TorchProcesses(at, (described,))),
        HostTorch(host, figures=ProcessFigures(at, (held,), {}, {})),
    )


async def test_another_host_s_torch_processes_are_split_in_its_account_and_its_table() -> None:
    async with running((120, 40)) as at:
        await _hosts(at)
        there = NOW + SKEW_S
        await at.tell(*_torch(0, there), *_torch(1, there), HostSample("gpu1", _box(1), 0.04, NOW))
        at.session.select_device("gpu1:0")
        await at.press("2")
        assert at.session.torch_is_looked_at
        assert "allocated 2.0G" in at.row("4711")
        await at.press("4")
        assert "Processes on gpu1" in at.rows[1]
        assert "2.0 GiB" in at.row("python train.py")
        assert "job gpu1:29500: 2 ranks on gpu1, gpu2" in " ".join(at.text.split())


async def test_the_device_list_names_the_rank_on_each_gpu() -> None:
    async with running((80, 24)) as at:
        await _hosts(at)
        there = NOW + SKEW_S
        boxes = (HostSample("gpu1", _box(1), 0.04, NOW), HostSample("gpu2", _box(1), 0.04, NOW))
        await at.tell(*boxes, *_torch(0, there), *_torch(1, there), *boxes)
        for rank in (0, 1):
            assert any(f"gpu{rank + 1}:0" in row and f"rank {rank}" in row for row in at.rows)


async def test_the_devices_of_each_host_are_sorted_and_hosts_keep_their_order() -> None:
    async with running((120, 50)) as at:
        hot = _box(8)
        devices = tuple(
            replace(each, temperature_c=40.0 + 5 * number)
            for number, each in enumerate(hot.devices)
        )
        named = HostsNamed(("gpu1", "gpu2"), here=False)
        boxes = (HostSample("gpu1", replace(hot, devices=devices), 0.04, NOW), *host_events()[2:3])
        await _hosts(at, named, *boxes)
        pane = at.workbench.devices
        while pane.list.order != "heat":
            pane.next_order()
        await at.settle()
        assert "by heat" in at.rows[1]
        keys = [row.key for row in pane.list._host_rows if row.kind == "device"]
        of_first = [key for key in keys if key.startswith("gpu1:")]
        assert of_first == [f"gpu1:{number}" for number in range(7, -1, -1)]
        headings = [row.key for row in pane.list._host_rows if row.kind == "heading"]
        assert headings == ["gpu1:cpu", "gpu2:cpu"]


async def test_torch_processes_of_a_host_that_is_not_shown_wait_for_the_next_sample() -> None:
    """Ten hosts are drawn no more often than one."""
    async with running((80, 24)) as at:
        await _hosts(at)
        bus = at.session.state.bus
        of = {rank: _torch(rank, NOW + SKEW_S)[0] for rank in (0, 1)}
        at.session.select_device("gpu1:0")
        assert bus.publish(of[0]) == {Topic.ALLOCATORS}
        assert bus.publish(of[1]) == frozenset()
