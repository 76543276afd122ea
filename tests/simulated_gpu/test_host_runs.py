"""Runs on the GPU of a host behind sshd: figures, flags of cuDNN, memory, whose device it is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.hosts.rig import Rig
from tests.screens.driving import press
from tests.screens.helpers import screen_text
from tests.simulated_gpu.hosts import make_gpu_host, needs_host
from tui.app.workbench import WorkbenchApp
from tui.devices.memory import account
from tui.devices.memory.model import get_value
from tui.devices.state.hosts import HostState
from tui.hosts.address import parse_host
from tui.hosts.plan import HostPlan
from tui.runs.screens.tab import WorkbenchScreen
from tui.runs.session.session import Session

pytestmark = needs_host(400, "its hosts have simulated GPUs")
BENCHMARK = "cudnn.benchmark"


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    with make_gpu_host() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


async def _until(app: WorkbenchApp, holds: Callable[[], object]) -> None:
    async def wait() -> None:
        while not holds():
            await asyncio.sleep(0.05)

    try:
        await asyncio.wait_for(wait(), 180)
    except asyncio.TimeoutError:
        shown = "\n".join(screen_text(app))
        raise AssertionError(f"it did not come about on this screen:\n{shown}") from None


def _requested(host: HostState) -> int | None:
    """Return the bytes that the runner there has requested on the GPU; ``None`` if unknown."""
    sample = host.machine.sample
    if sample is None:
        return None
    return get_value(account(host.machine, host.gpus[0], sample.at).term("requested").bytes)


async def test_a_host_s_gpu_is_timed_and_a_flag_of_cudnn_is_compared_on_it(rig: Rig) -> None:
    plan = HostPlan((parse_host(rig.hosts),), here=False, pythons={"box1": sys.executable})
    session = Session(hosts=plan)
    app = WorkbenchApp(session)
    async with app.run_test(size=(120, 40)) as pilot:
        hosts = session.state.machine.hosts
        await _until(app, lambda: hosts.all and hosts.all[0].gpus)
        (host,) = hosts.all
        runs = session.state.runs.of_hosts["box1"]
        session.select_device("box1:0")
        screen = app.front
        assert isinstance(screen, WorkbenchScreen)
        screen.workloads.table.reveal("conv2d")
        await press(pilot, "r")
        await _until(app, lambda: len(runs.book) == 2 and not runs.pending())
        # A simulated GPU computes nothing: its times are invented and the check fails.
        timed = {run.request.device: run.result and run.result.time for run in runs.book.values()}
        assert None not in timed.values()
        assert set(timed) == {"cpu", "cuda:0"}
        on_gpu = next(run for run in runs.book.values() if run.request.device == "cuda:0")
        assert on_gpu.conditions is not None
        assert "driver" in on_gpu.conditions.versions
        app.draw_now()
        assert "box1:0" in "\n".join(screen_text(app))
        # The account of the device has the figures of torch in the runner there.
        await _until(app, lambda: _requested(host) is not None)

        await press(pilot, "F")
        while screen.backend.body.flag != BENCHMARK:
            await press(pilot, "right")
        await press(pilot, "space")
        assert runs.flags[BENCHMARK] is True
        await _until(app, lambda: runs.comparisons and not runs.pending())
        compared = [each.comparison for each in runs.comparisons.values()]
        assert all(each is not None and each.status == "ok" for each in compared)
        assert {(each.flag, each.device) for each in compared if each} == {(BENCHMARK, "cuda:0")}
        await press(pilot, "escape", "e")
        await _until(app, lambda: any("cuda:0" in line.text for line in session.state.log.lines))
        assert not session.state.runs.book
