"""The page over a real run on a GPU: its figures, a snapshot, its OOM, and that q leaves it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.agent.programs import ENDS_AFTER_AUTOGRAD
from tests.agent.test_runs import ROOT, write
from tests.screens.app_helpers import PromptApp, Running
from tests.screens.fakes import FakeSession
from tests.screens.helpers import make_store
from tests.watch.test_session import begun
from tui.watch.runs.runs import StartedRun
from tui.watch.session.watched_session import WatchedRunSession
from tui.watch.state.run import WatchedRun

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(240)]

TRAINS = (
    ENDS_AFTER_AUTOGRAD
    + """
import os, sys, time, torch
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
step = 0
while not os.path.exists(sys.argv[1]):
    step += 1
    model(torch.ones(8, 256, device="cuda")).sum().backward()
    optimizer.step()
    print("step", step, flush=True)
    time.sleep(0.02)
torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
"""
)
"""Steps until a file is there, then runs out of memory."""


class RealApp(PromptApp):
    """The app over a run that is one."""

    def create_run_session(self) -> WatchedRunSession:
        self.real = WatchedRunSession()
        return self.real


def state_of(app: RealApp) -> WatchedRun:
    state = app.real.state
    assert state is not None
    return state


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


async def test_a_run_is_watched_to_its_oom_and_the_oom_is_explained(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    session = FakeSession(make_store("no gpu"))
    app = RealApp(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        at = Running(app, session, pilot)
        await at.press("5")
        await at.until(lambda: "gpu-workbench watch -- python train.py" in at.text)
        run = begun(app.real, [sys.executable, write(tmp_path, TRAINS), str(stop)])
        try:
            await at.until(lambda: "over time" in at.text and "cuda:0" in at.row(" runs"))
            (device,) = state_of(app).devices
            assert device.figures is not None
            assert f"Memory of {device.process.pid}" in at.text
            await at.press("M")
            await at.until(lambda: bool(state_of(app).snapshots))
            await at.until(lambda: "snapshot" in at.row("\u25be"))
            await at.press("l")
            await at.until(lambda: "step " in at.text)
            await at.press("l", "A")
            await at.until(lambda: "over steps" in at.text)
            stop.touch()
            await at.until(lambda: "32.0 TiB requested on cuda:0" in at.text)
            await at.until(lambda: "ended with exit code 1" in at.text)
            await at.until(lambda: "ran out" in at.text)
            await at.press("o")
            tab = app.snapshot
            assert tab is not None
            await at.until(lambda: "is more than the device has" in at.text)
            assert "exception's text: the exception that ended the process" in at.text
            assert "Tried to allocate 32768.00 GiB" in tab.session.main.store.oom_text
            # Both snapshots are of the process: what has grown between them.
            await at.press("5", "c")
            await at.until(lambda: "at their" in at.text and "live" in at.text)
            await at.press("5", "escape")
            await at.until(lambda: "1 stored" in at.text)
            await at.until(lambda: "ended with exit code 1" in at.text)
        finally:
            end(run)


async def test_q_leaves_the_run_and_it_is_followed_again(tmp_path: Path) -> None:
    session = FakeSession(make_store("no gpu"))
    app = RealApp(session)
    stop = tmp_path / "stop"
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        at = Running(app, session, pilot)
        await at.press("5")
        run = begun(app.real, [sys.executable, write(tmp_path, TRAINS), str(stop)])
        await at.until(lambda: "cuda:0" in at.row(" runs"))
        await at.press("q")
    try:
        assert run.is_running
        assert app.run_left is not None
        assert app.run_left.folder == run.folder
        again = RealApp(FakeSession(make_store("no gpu")))
        again.open_run_at_start(run)
        async with again.run_test(size=(80, 24), notifications=True) as pilot:
            at = Running(again, session, pilot)
            await at.until(lambda: "cuda:0" in at.row(" runs"))
            assert "running" in at.rows[1]
            await at.press("x", "k")
            await at.until(lambda: "ended by SIGKILL" in at.text)
        assert not run.is_running
    finally:
        end(run)


def end(run: StartedRun) -> None:
    """See to it that nothing of it is left."""
    if run.pid is not None and run.is_running:
        os.killpg(run.pid, signal.SIGKILL)
