"""The run behind the page, on GPUs: started, asked, ended, left, opened again, replayed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import waiting
from tests.agent.test_runs import ROOT, TRAIN, write
from tests.watch import following
from tests.watch.test_session import begun
from tui.allocators import findings
from tui.watch.runs import runs
from tui.watch.session.watched_session import WatchedRunSession
from tui.watch.state.run import WatchedDevice, WatchedRun

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(240)]

HOLDS = TRAIN.replace("for step in", "kept = []\nfor step in").replace(
    "    print(",
    "    kept.append(torch.empty(1 << 21, dtype=torch.uint8, device='cuda'))\n    print(",
)
"""Keeps 2 MiB of each step."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / "state"


until = partial(following.until, timeout_s=100)
"""Runs import torch."""


def on_gpu(state: WatchedRun) -> WatchedDevice | None:
    return next((each for each in state.devices if each.figures and each.agent), None)


def train(folder: Path, steps: int, pause: float, text: str = TRAIN) -> list[str]:
    return [sys.executable, write(folder, text), str(steps), str(pause)]


def test_a_run_is_started_asked_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "SHORTEST_GROWTH_S", 2.0)

    async def work() -> None:
        session = WatchedRunSession()
        session.set_visible(True)
        told: list[int] = []
        session.listen(lambda: told.append(1))
        run = begun(session, train(tmp_path, 100_000, 0.01, HOLDS))
        assert [each.folder for each in session.stored_runs()] == [run.folder]
        device = await until(session, on_gpu)
        pid = device.process.pid
        await until(session, lambda state: (on_gpu(state) or device).steps_per_s)
        # What it is asked for, it does at a step, and the page has it.
        assert session.snapshot(pid) == (
            f"requested a snapshot of process {pid}: it comes with the next step"
        )
        (path,) = await until(session, lambda state: state.snapshots)
        assert path.name.startswith("snapshot-")

        def marked(state: WatchedRun) -> Any:
            marks = [mark for each in state.devices for mark in each.marks]
            return [mark for mark in marks if mark.kind == "snapshot"]

        (mark,) = await until(session, marked)
        assert mark.snapshot == path
        assert mark.step > 0
        assert "memory history" in session.record(pid, True)
        await until(session, records)
        session.record(pid, False)
        await until(session, lambda state: on_gpu(state) and not records(state))
        # What it keeps of each step is told by step.
        leak = await until(session, growing)
        assert leak.growth_per == "step"
        assert leak.growth.rate == pytest.approx(2 << 20, rel=0.2)
        assert "/step" in leak.findings[0].text
        # Held still, nothing is lost.
        session.freeze(True)
        frozen = session.state
        assert frozen is not None
        still = await until(session, lambda state: state.output != frozen.output and state)
        assert still.devices == frozen.devices
        assert still.frozen_at is not None
        session.freeze(False)
        await until(session, lambda state: steps_of(state) > steps_of(frozen))
        assert session.end(signal.SIGINT) == (
            f"SIGINT is sent to the run's processes, group {run.pid}"
        )
        state = await until(session, lambda state: state.run.ended and state)
        await session.stop()
        assert (state.run.code, state.run.signal) == (None, signal.SIGINT)
        assert state.devices[0].ended == "ended by KeyboardInterrupt"
        assert session.end(signal.SIGINT) == "no run is open"
        assert told
        # As it was seen, it is replayed.
        again = WatchedRunSession()
        again.open(runs.find_run(run.folder.name))
        replayed = await until(again, lambda state: state.replayed and state)
        assert again.end(signal.SIGTERM) == "SIGTERM is not sent: it has ended already"
        assert again.snapshot(pid) == "no snapshot: the process has ended"
        await again.stop()
        assert replayed == replace(state, replayed=True)

    asyncio.run(work())


def records(state: WatchedRun) -> bool:
    device = on_gpu(state)
    return device is not None and device.agent is not None and device.agent.recording


def steps_of(state: WatchedRun) -> int:
    return state.devices[0].steps or 0


def growing(state: WatchedRun) -> WatchedDevice | None:
    device = on_gpu(state)
    grows = device is not None and device.growth_per == "step" and device.findings
    return device if grows else None


SCREEN = """
import asyncio, sys
from tui.watch.session.watched_session import WatchedRunSession
from tui.watch.runs import runs, start
async def work():
    session = WatchedRunSession()
    run, _ = start.begin(sys.argv[1:], None)
    session.open(run)
    while not any(each.steps for each in session.state.devices):
        await asyncio.sleep(0.02)
    print(run.folder.name, flush=True)
    await asyncio.sleep(1000)
asyncio.run(work())
"""


def test_a_screen_that_is_killed_leaves_the_run_and_the_next_one_sees_its_steps(
    tmp_path: Path,
) -> None:
    shell = ("/bin/sh", "-c", '"$@"; echo code $?', "sh")
    screen = subprocess.Popen(
        [sys.executable, "-c", SCREEN, *shell, *train(tmp_path, 80, 0.1)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=dict(os.environ),
    )
    assert screen.stdout is not None
    name = screen.stdout.readline().strip()
    os.kill(screen.pid, signal.SIGKILL)
    screen.wait()
    screen.stdout.close()
    run = runs.find_run(name[:15])

    async def work() -> WatchedRun:
        session = WatchedRunSession()
        session.open(run)
        before = await until(session, on_gpu)
        await until(session, lambda state: (on_gpu(state) or before).steps > before.steps)
        found = await until(session, lambda state: not state.run.is_running and state)
        found = await until(session, lambda state: state.devices[0].ended and state)
        found = await until(session, lambda state: "code" in state.output[-1] and state)
        await session.stop()
        assert isinstance(found, WatchedRun)
        return found

    state = asyncio.run(work())
    assert (state.devices[0].ended, state.devices[0].steps) == ("ended", 80)
    assert state.output == (*(f"step {step}" for step in range(80)), "code 0")
    assert not state.replayed
    # Its samples are one line of time, whoever wrote them.
    points = [point.at for point in state.devices[0].points]
    assert points == sorted(points)
    steps = [point.step for point in state.devices[0].points if point.step is not None]
    assert steps == sorted(steps)
    assert len(set(steps)) > 3


RANKS = """
import os, time, torch
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    optimizer.step()
    time.sleep(0.05)
"""


def test_ranks_have_rows_and_all_of_them_are_ended(tmp_path: Path) -> None:
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")

    async def work() -> None:
        session = WatchedRunSession()
        begun(session, [sys.executable, *torchrun, write(tmp_path, RANKS)])

        def two(state: WatchedRun) -> Any:
            found = [each for each in state.devices if each.figures and each.agent]
            return len(found) == 2 and found

        rows = await until(session, two)
        assert [row.process.rank for row in rows] == [0, 1]
        assert [row.device for row in rows] == ["cuda:0", "cuda:1"]
        pids = [row.process.pid for row in rows]
        launcher = session.state.devices[-1]  # type: ignore[union-attr]
        assert (launcher.device, launcher.figures) == ("", None)
        assert "CUDA call" in launcher.why_no_agent
        said = session.snapshot(launcher.process.pid)
        assert said.startswith("no snapshot: no agent yet")
        # Torchrun's workers are in groups of their own, and it cannot hand this on.
        session.end(signal.SIGKILL)
        state = await until(session, lambda state: state.run.ended and state)
        assert state.run.signal == signal.SIGKILL
        await session.stop()
        waiting.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))

    asyncio.run(work())
