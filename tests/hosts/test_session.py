"""A session over other hosts: its states, its end, and the same states from a recording."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.hosts.conftest import Boxes
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import busy_box
from tests.waiting import assert_gone
from tui.devices.state.machine import MachineState
from tui.hosts.plan import HostPlan
from tui.recordings.lines import scan_recording
from tui.recordings.recorder import Recorder, Redaction
from tui.recordings.replay import AT_ONCE, ReplaySession
from tui.runs.session.session import Session
from tui.runs.views.runner_notes import runner_notes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
NAMES = ("LD_LIBRARY_PATH", "SCRIPTED_NVML", "SCRIPTED_NVML_LOG")


def _summary(machine: MachineState) -> list[tuple[str, bool, list[str], float | None]]:
    return [
        (
            host.name,
            host.lost is not None,
            [view.label for view in host.machine.devices],
            host.machine.sample.at if host.machine.sample else None,
        )
        for host in machine.hosts.all
    ]


async def _until(condition: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.05)

    await asyncio.wait_for(wait(), 60)


@pytest.fixture
def plan(boxes: Boxes, scripted_nvml: ScriptedNvml) -> HostPlan:
    variables = scripted_nvml.env(busy_box(2))
    there = boxes.add("gpu1", variables={name: variables[name] for name in NAMES})
    return HostPlan((there, boxes.add("gpu2", "exit 127")), here=False)


@pytest.mark.parametrize("redacted", [False, True])
async def test_hosts_are_recorded_and_replayed(
    plan: HostPlan, tmp_path: Path, redacted: bool
) -> None:
    path = tmp_path / "session.jsonl"
    recorder = Recorder(path, Redaction() if redacted else None)
    session = Session(sys.executable, 0.2, attachments=[recorder], hosts=plan)
    machine = session.state.machine
    await session.start()
    gpu1, gpu2 = machine.hosts.all
    await _until(lambda: len(gpu1.gpus) == 2 and gpu2.lost is not None)
    session.select_device("gpu1:1")
    assert machine.shown.selected_device.label == "gpu1:1"
    assert session.state.runs.runner.status == "unusable"
    notes = str(runner_notes(session.state.runs, 80))
    assert "this machine is left out" in notes
    assert "tries again" not in notes
    await session.stop()

    replay = ReplaySession(scan_recording(path), AT_ONCE)
    await replay.start()
    await _until(lambda: replay.describe_position().endswith("end"))
    await replay.stop()
    seen = _summary(replay.state.machine)
    if redacted:
        assert [name for name, *_ in seen] == ["host1", "host2"]
        assert "gpu1" not in path.read_text()
        assert replay.state.machine.hosts.selected == "host1:1"
    else:
        assert seen == _summary(machine)
        assert replay.state.machine.hosts.selected == "gpu1:1"


async def test_nothing_is_left_once_a_session_ends(plan: HostPlan) -> None:
    before = set(psutil.Process().children(recursive=True))
    session = Session(sys.executable, 0.2, hosts=plan)
    await session.start()
    gpu1 = session.state.machine.hosts.all[0]
    await _until(lambda: gpu1.machine.sample is not None)
    started = set(psutil.Process().children(recursive=True)) - before
    assert started
    await session.stop()
    await asyncio.to_thread(assert_gone, started)


async def test_the_torch_processes_of_hosts_are_read_once_the_screen_shows_them(
    plan: HostPlan,
) -> None:
    session = Session(hosts=plan, readonly=True)
    await session.start()
    try:
        first, second = session.state.machine.hosts.all
        await _until(lambda: first.machine.sample is not None)
        assert [each.machine.allocators for each in (first, second)] == [None, None]
        session.watch_torch(True)

        def both_are_known() -> bool:
            found = (first.machine.allocators, second.machine.allocators)
            return all(each is not None and each.status.status != "starting" for each in found)

        await _until(both_are_known)
        assert first.machine.allocators is not None
        assert second.machine.allocators is not None
        assert first.machine.allocators.status.status == "ready"
        assert "no python3 there" in second.machine.allocators.status.reason
    finally:
        await session.stop()
