"""The processes tab: what it shows, what it asks for, and that a signal is asked about."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil
import pytest

from tests.screens.app_helpers import running
from tests.screens.helpers import GIB, NOW, STRANGER, WORKER, gpu, gpu_process, host, sample
from tests.tiers import with_variants
from tui.devices.state.devices import CPU
from tui.monitor.messages import DeviceMemory, HostProcesses, ParentProcess


@pytest.mark.parametrize("size", with_variants([(60, 20), (120, 40)], [(80, 24)]))
async def test_the_column_adds_up_on_every_size(size: tuple[int, int]) -> None:
    async with running(size) as at:
        await at.press("4")
        assert str(WORKER) in at.text
        assert str(STRANGER) in at.text
        for label in ("unattributed", "device used", "driver", "free", "total"):
            assert at.row(label)
        assert "20.7 GiB" in at.row("device used")


async def test_the_account_explains_nobodys_memory() -> None:
    whole = "unattributed 19.3 GiB (processes that NVML does not list, or the driver)"
    used = DeviceMemory(139 * GIB, 40 * GIB, 99 * GIB, 0)
    async with running((80, 24), "one gpu", sample(gpu(0, memory=used))) as at:
        await at.press("4")
        row = next(row for row in at.rows if " unattributed" in row)
        assert row.rstrip().endswith(" unattributed")
        assert whole in " ".join(at.text.split())


async def test_sorting_goes_through_the_columns_and_the_title_says_by_which() -> None:
    async with running() as at:
        await at.press("4")
        assert at.rows[3].split()[:2] == ["▌", str(WORKER)]
        for order in ("sm", "cpu", "gpu", "pid"):
            await at.press("s")
            assert f"by {order} " in at.rows[1]
        assert at.rows[3].split()[:2] == ["▌", str(STRANGER)]
        await at.pilot.click("ProcessesHeading", offset=(at.rows[2].index("memory"), 0))
        await at.settle()
        assert "by memory" in at.rows[1]
        assert at.rows[3].split()[:2] == ["▌", str(WORKER)]


async def test_the_processes_of_all_gpus_are_in_one_table_and_a_filter_narrows_it() -> None:
    torchrun = ParentProcess(900, "ada", "torchrun train.py", NOW - 60)
    ranks = [
        gpu_process(901 + rank, command=f"python rank {rank}", parent=torchrun, sm_percent=80.0)
        for rank in range(2)
    ]
    seen = sample(*(gpu(at, processes=(rank,)) for at, rank in enumerate(ranks)))
    async with running((120, 40), "two gpus", seen) as at:
        await at.press("4")
        assert at.row("torchrun train.py").split()[1:5] == ["900", "ada", "2", "GPUs"]
        assert "cuda:0" in at.row("├ python rank 0")
        assert "cuda:1" in at.row("└ python rank 1")
        assert "80%" in at.row("rank 1")
        await at.press("slash", *"cuda:1", "enter")
        assert "filter: cuda:1 (1)" in at.rows[1]
        assert at.row("python rank 1")
        assert not at.row("python rank 0")
        await at.press("escape")
        assert at.row("python rank 0")
        await at.press("slash", *"nobody", "enter")
        assert "No process matches nobody." in at.text


async def test_an_empty_list_says_that_nvml_lists_no_process() -> None:
    idle = [gpu(at, processes=(), memory=DeviceMemory(139 * GIB, 0, 139 * GIB, 0)) for at in (0, 1)]
    async with running((80, 24), "two gpus", sample(*idle)) as at:
        await at.press("4")
        assert at.row("NVML lists no process on 2 GPUs.")
    unread = gpu(processes=None, unavailable={"processes": "not permitted"})
    async with running((80, 24), "one gpu", sample(unread)) as at:
        await at.press("4")
        assert "NVML lists no process" not in at.text


async def test_a_new_process_has_the_color_of_its_job_at_once() -> None:
    # In the place of another one: a table of the same height is not drawn again by itself.
    early = gpu_process(30, 2 * GIB, command="python early.py")
    late = gpu_process(31, 2 * GIB, command="python late.py")
    seen = sample(gpu(processes=(gpu_process(), early)))
    async with running((120, 40), "one gpu", seen) as at:
        await at.press("4")
        assert "\u258c" in at.row(str(WORKER))
        await at.tell(sample(gpu(processes=(gpu_process(), late))))
        assert "\u258c" in at.row("python late.py").partition("31")[0]


async def test_the_account_is_that_of_the_gpu_under_the_cursor() -> None:
    torchrun = ParentProcess(900, "ada", "torchrun train.py", NOW - 60)
    ranks = [gpu_process(901 + rank, parent=torchrun) for rank in range(2)]
    seen = sample(gpu(0), *(gpu(1 + at, processes=(rank,)) for at, rank in enumerate(ranks)))
    async with running((120, 40), "two gpus", seen) as at:
        await at.press("4")

        def account() -> str:
            return at.row("  processes ").strip("\u2502 ").partition("  ")[0]

        assert account() == "2 GPUs", "the launcher is first"
        assert "processes 33.2 GiB" in at.text
        await at.press("down", "down")
        assert account() == "nvml:2"
        await at.press("end")
        assert account() == "cuda:0"


async def test_what_is_no_process_of_the_list_cannot_be_sent_a_signal() -> None:
    torchrun = ParentProcess(900, "ada", "torchrun train.py", NOW - 60)
    ranks = tuple(gpu_process(901 + rank, parent=torchrun) for rank in range(2))
    async with running((80, 24), "one gpu", sample(gpu(0, processes=ranks))) as at:
        await at.press("4")
        assert "x end" not in at.rows[-1]
        await at.press("x")
        assert "End process" not in at.text
        await at.press("down")
        assert "x end" in at.rows[-1]


async def test_the_hosts_processes_are_listed_only_while_the_cpu_is_shown() -> None:
    async with running() as at:
        await at.press("4")
        assert ("watch_host", True) not in at.asked
        await at.press("d")
        while at.session.state.machine.selected != CPU:
            await at.press("d")
        assert at.asked[-1] == ("watch_host", True)
        assert "waiting for the list" in at.text
        listed = HostProcesses((gpu_process(5, 1000, kind="resident"),), 0, 0, 0)
        await at.tell(sample(gpu(0), host=host(), host_processes=listed))
        assert "resident" in at.text
        # The list around a dialog stays what it is.
        await at.press("enter")
        assert "Process 5" in at.text
        assert at.asked[-1] == ("watch_host", True)
        await at.press("escape", "1")
        assert at.asked[-1] == ("watch_host", False)


async def test_a_process_is_ended_only_after_a_yes() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        started = psutil.Process(child.pid).create_time()
        row = gpu_process(child.pid, 5, command="python train.py", started_at=started)
        async with running((80, 24), "one gpu", sample(gpu(0, processes=(row,)))) as at:
            await at.press("4", "x")
            assert f"End process {child.pid}?" in at.text
            assert "python train.py" in at.text
            await at.press("enter")
            assert "End process" in at.text
            await at.press("escape")
            assert child.poll() is None
            await at.press("x", "t")
            assert child.wait(60) == -signal.SIGTERM
    finally:
        child.kill()
        child.wait()


async def test_read_only_offers_no_signal() -> None:
    async with running(readonly=True) as at:
        await at.press("4")
        assert "x end" not in at.rows[-1]
        await at.press("x")
        assert "End process" not in at.text


async def test_the_help_explains_the_tab() -> None:
    async with running(size=(120, 90)) as at:
        await at.press("4", "question_mark")
        assert "memory of processes that NVML does not name" in at.row("unattributed ")


async def test_enter_shows_threads_tree_and_a_masked_environment_and_a_signal_can_follow() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={"CUDA_VISIBLE_DEVICES": "3", "HF_TOKEN": "abc", "PATH": "/bin", "PWD": "/work"},
    )
    try:
        started = psutil.Process(child.pid).create_time()
        row = gpu_process(child.pid, 5, command="python train.py", started_at=started)
        async with running((120, 60), "one gpu", sample(gpu(0, processes=(row,)))) as at:
            await at.press("4", "enter")
            await at.until(lambda: "environment, likely" in at.text)
            assert f"Process {child.pid}" in at.text
            assert "1 thread, by processor time" in at.text
            assert at.row("CUDA_VISIBLE_DEVICES=3")
            assert at.row("HF_TOKEN=***")
            assert at.row("PWD=/work")
            assert "abc" not in at.text
            rows = at.rows
            first = next(n for n, text in enumerate(rows) if "CUDA_VISIBLE" in text)
            assert first < next(n for n, text in enumerate(rows) if "PATH=/bin" in text)
            assert at.row(f"{psutil.Process().pid} ")
            await at.press("x")
            assert f"End process {child.pid}?" in at.text
            assert "SIGKILL" in at.text
            await at.press("k")
            assert child.wait(60) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


async def test_a_process_that_has_ended_has_a_page_that_says_so() -> None:
    row = gpu_process(2**22 + 1, 5, command="python train.py", started_at=NOW)
    async with running((120, 40), "one gpu", sample(gpu(0, processes=(row,)))) as at:
        await at.press("4", "enter")
        await at.until(lambda: "it has ended" in at.text)
        assert "threads, tree, environment n/a: it has ended" in at.text


async def test_a_process_that_is_not_visible_has_a_page_that_speaks_of_no_signal() -> None:
    reason = "no such process: in a container, NVML lists the host's PIDs"
    absent = {"user": reason, "command": reason}
    row = gpu_process(4_000_000, 5, user=None, command=None, started_at=None, unavailable=absent)
    async with running((120, 40), "one gpu", sample(gpu(0, processes=(row,)))) as at:
        await at.press("4")
        assert "n/a (not visible)" in at.text
        await at.press("enter")
        await at.until(lambda: f"threads, tree, environment n/a: {reason}" in at.text)
        assert "was not ended" not in at.text


async def test_read_only_a_page_offers_no_signal() -> None:
    async with running((120, 40), readonly=True) as at:
        await at.press("4", "enter")
        assert "escape close" in at.text
        assert "x ends it" not in at.text
        await at.press("x")
        assert "End process" not in at.text


async def test_below_the_table_each_gpu_has_a_bar_that_marks_the_selected_process() -> None:
    async with running((120, 40)) as at:
        await at.press("4")
        bar = next(
            row for row in at.rows if row.strip(" │").startswith("cuda:0 ") and " free" in row
        )
        assert str(WORKER) in bar
        assert bar.rstrip(" │").endswith(" GiB free")
        marked = f"\N{BLACK RIGHT-POINTING SMALL TRIANGLE}{WORKER}"
        assert marked in bar
        await at.press("down")
        assert marked not in at.text


async def test_a_table_that_fills_the_screen_leaves_no_bars() -> None:
    listed = tuple(gpu_process(1000 + place, GIB) for place in range(40))
    async with running((120, 40), "one gpu", sample(gpu(0, processes=listed))) as at:
        await at.press("4")
        assert "Memory by process" not in at.text
