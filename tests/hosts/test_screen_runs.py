"""The workbench runs workloads on other hosts: whose runs they are, what starts, what is left."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from textual.pilot import Pilot

from tests.hosts.conftest import Boxes
from tests.hosts.rig import NEEDS_RIG, Rig, make_rig
from tests.screens.driving import press, settle
from tests.screens.helpers import screen_text
from tests.terminal.terminal import Terminal
from tests.tiers import VARIANT
from tests.waiting import assert_gone, until
from tui.app.workbench import WorkbenchApp
from tui.hosts.address import parse_hosts
from tui.hosts.plan import HostPlan
from tui.recordings.lines import scan_recording
from tui.recordings.recorder import Recorder, Redaction
from tui.recordings.replay import AT_ONCE, ReplaySession
from tui.results.store.database import Database
from tui.results.store.recorder import ResultRecorder
from tui.runs.screens.tab import WorkbenchScreen
from tui.runs.session.session import Session
from tui.runs.state.state import RunsState

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120.0
NAMED = ("gpu1", "gpu2")
MEDIANS = {"gpu1": 1.5e-3, "gpu2": 7.5e-3}
"""Seconds of every run on a host whose runner is scripted, to 0.1%."""
ON_GPU1, ON_GPU2 = r"\b1\.(49|50)\d* ms", r"\b7\.(49|50|51)\d* ms"
"""How the screen shows them."""


def _scripted(boxes: Boxes, median: float) -> str:
    """Return a script that logs each start and has a scripted runner in place of torch."""
    log = shlex.quote(str(boxes.folder / "started"))
    python = shlex.quote(sys.executable)
    return (
        f'echo "$host $1" >> {log}\n'
        f'[ "$1" = env ] || exec "$@"\n'
        f"cd {shlex.quote(str(ROOT))}; exec {python} -m tests.results.made_runner {median}"
    )


def _runners_started(boxes: Boxes) -> list[str]:
    """Return the hosts on which runners were started; the command of one begins with ``env``."""
    started = (boxes.folder / "started").read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in started if line.endswith(" env")]


@pytest.fixture
def plan(boxes: Boxes) -> HostPlan:
    """Two hosts with scripted runners."""
    hosts = tuple(boxes.add(name, _scripted(boxes, MEDIANS[name])) for name in NAMED)
    return HostPlan(hosts, here=False, pythons=dict.fromkeys(NAMED, sys.executable))


@dataclass
class Screen:
    """The workbench over a session, on a screen of its own."""

    app: WorkbenchApp
    session: Session
    pilot: Pilot[None]

    @property
    def text(self) -> str:
        return "\n".join(screen_text(self.app))

    def runs(self, host: str) -> RunsState:
        """Return the runs on a host."""
        return self.session.state.runs.of_hosts[host]

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)

    async def select(self, host: str, workload: str = "matmul") -> None:
        """Select a host's own row, and a workload."""
        self.session.select_device(f"{host}:cpu")
        assert isinstance(self.app.front, WorkbenchScreen)
        self.app.front.workloads.table.reveal(workload)
        self.app.draw_now()
        await settle(self.pilot)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition."""

        async def wait() -> None:
            while not condition():
                await asyncio.sleep(0.02)

        try:
            await asyncio.wait_for(wait(), TIMEOUT_S)
        except asyncio.TimeoutError:
            raise AssertionError(f"it did not come about on this screen:\n{self.text}") from None
        self.app.draw_now()
        await settle(self.pilot)

    async def until_ready(self, host: str) -> None:
        """Wait until torch, or what stands for it, has started on a host."""
        await self.until(lambda: self.runs(host).runner.status == "ready")

    async def until_ended(self, host: str) -> None:
        """Wait until a run has ended on a host."""
        await self.until(lambda: self.ended(host))

    def ended(self, host: str) -> list[str]:
        """Return the statuses of the ended runs of a host."""
        results = [run.result for run in self.runs(host).book.values()]
        return [each.status for each in results if each is not None]


@asynccontextmanager
async def _screen(session: Session, *, readonly: bool = False) -> AsyncIterator[Screen]:
    """Run the workbench until every host has answered and for the block, then end it."""
    app = WorkbenchApp(session, readonly=readonly)
    async with app.run_test(size=(120, 40)) as pilot:
        found = Screen(app, session, pilot)
        hosts = session.state.machine.hosts
        await found.until(lambda: hosts.all and all(each.machine.sample for each in hosts.all))
        yield found


async def test_each_host_runs_what_is_asked_of_it_and_shows_its_own(
    plan: HostPlan, boxes: Boxes
) -> None:
    async with _screen(Session(hosts=plan)) as at:
        await at.select("gpu1")
        await at.press("r")
        await at.until_ended("gpu1")
        assert _runners_started(boxes) == ["gpu1"]
        assert at.ended("gpu2") == []
        assert "Workloads on gpu1" in at.text
        assert re.search(ON_GPU1, at.text)
        await at.select("gpu2")
        assert not re.search(ON_GPU1, at.text)
        await at.press("r")
        await at.until_ended("gpu2")
        assert re.search(ON_GPU2, at.text)
        assert _runners_started(boxes) == ["gpu1", "gpu2"]
        assert [at.ended(name) for name in NAMED] == [["ok"], ["ok"]]
        assert not at.session.state.runs.book


async def test_nothing_is_started_or_signalled_with_readonly(plan: HostPlan, boxes: Boxes) -> None:
    async with _screen(Session(hosts=plan, readonly=True), readonly=True) as at:
        await at.select("gpu1")
        assert "--readonly: nothing is run on gpu1" in at.text
        assert "read only" in at.text
        await at.press("r", "R", "F", "space", "c", "e", "N", "x", "X", "D")
        await at.press("4", "x")
        assert "Terminate" not in at.text
        assert [len(runs.book) for runs in at.session.state.runs.everywhere] == [0, 0, 0]
        statuses = [at.runs(name).runner.status for name in NAMED]
        assert statuses == ["not started", "not started"]
        # The monitors alone.
        assert _runners_started(boxes) == []


@VARIANT
async def test_nothing_runs_on_a_host_unasked(plan: HostPlan, boxes: Boxes) -> None:
    async with _screen(Session(hosts=plan)) as at:
        await at.select("gpu1")
        await at.press("d", "F", "x", "X", "i", "escape")
        # The status changes at the request, the log of starts only once a process runs.
        statuses = [at.runs(name).runner.status for name in NAMED]
        assert statuses == ["not started", "not started"]
        assert _runners_started(boxes) == []


@VARIANT
async def test_a_new_runner_can_be_the_first_one(plan: HostPlan, boxes: Boxes) -> None:
    async with _screen(Session(hosts=plan)) as at:
        await at.select("gpu2")
        await at.press("N")
        await at.until_ready("gpu2")
        assert _runners_started(boxes) == ["gpu2"]
        assert not at.runs("gpu2").book


@VARIANT
async def test_a_host_that_is_lost_in_a_run_ends_it_there_alone_and_is_reached_again(
    boxes: Boxes,
) -> None:
    hosts = tuple(boxes.add(name, _scripted(boxes, float("inf"))) for name in NAMED)
    plan = HostPlan(hosts, here=False, pythons=dict.fromkeys(NAMED, sys.executable))
    async with _screen(Session(hosts=plan)) as at:
        for name in NAMED:
            await at.select(name)
            await at.press("r")
            await at.until_ready(name)
        hello = at.runs("gpu1").hello
        assert hello is not None
        psutil.Process(hello.pid).kill()
        await at.until_ended("gpu1")
        (run,) = at.runs("gpu1").book.values()
        assert run.result is not None
        assert (run.result.reason or "").startswith("connection to gpu1 lost: ")
        assert at.ended("gpu2") == []
        await at.select("gpu1")
        assert "connection to gpu1 lost" in at.text
        await at.press("r")
        await at.until_ready("gpu1")
        assert at.runs("gpu1").hello != hello
        assert len(at.runs("gpu1").pending()) == 1
        await at.press("x")
        await at.until(lambda: at.ended("gpu1") == ["failed", "cancelled"])
        assert at.ended("gpu2") == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param(
            "exit 127",
            "no python3 there: name a Python with --host-python gpu1=PATH",
            marks=VARIANT,
        ),
        (f'shift 5; shift; exec {shlex.quote(sys.executable)} -S "$@"', "there is no torch in"),
    ],
)
async def test_a_host_without_torch_says_so_and_what_to_do(
    boxes: Boxes, script: str, words: str
) -> None:
    # Of a runner alone: the host has a Python for the monitor.
    there = boxes.add("gpu1", f'[ "$1" = env ] || exec "$@"\n{script}')
    plan = HostPlan((there,), here=False, pythons={"gpu1": sys.executable})
    async with _screen(Session(hosts=plan)) as at:
        await at.select("gpu1")
        await at.press("r")
        await at.until_ended("gpu1")
        shown = " ".join(at.text.split())
        assert words in shown
        assert "--host-python gpu1=PATH" in shown


@VARIANT
@pytest.mark.parametrize("redacted", [False, True])
async def test_runs_on_hosts_are_recorded_and_replayed(
    plan: HostPlan, tmp_path: Path, redacted: bool
) -> None:
    path = tmp_path / "session.jsonl"
    recorder = Recorder(path, Redaction() if redacted else None)
    async with _screen(Session(hosts=plan, attachments=[recorder])) as at:
        for name in NAMED:
            await at.select(name)
            await at.press("r")
            await at.until_ended(name)
    replay = ReplaySession(scan_recording(path), AT_ONCE)
    await replay.start()
    until_end = asyncio.create_task(_until_end(replay))
    await asyncio.wait_for(until_end, TIMEOUT_S)
    await replay.stop()
    names = ("host1", "host2") if redacted else NAMED
    assert tuple(replay.state.runs.of_hosts) == names
    for name, original in zip(names, NAMED, strict=True):
        (run,) = replay.state.runs.of_hosts[name].book.values()
        assert run.result is not None
        assert run.result.time is not None
        assert run.result.time.median_s == pytest.approx(MEDIANS[original], rel=0.01)
    assert not replay.state.runs.book
    if redacted:
        assert not any(name in path.read_text(encoding="utf-8") for name in NAMED)


async def _until_end(replay: ReplaySession) -> None:
    while not replay.describe_position().endswith("end"):
        await asyncio.sleep(0.02)


@VARIANT
async def test_the_runners_on_hosts_end_with_the_session(plan: HostPlan) -> None:
    before = set(psutil.Process().children(recursive=True))
    async with _screen(Session(hosts=plan)) as at:
        for name in NAMED:
            await at.select(name)
            await at.press("r")
            await at.until_ended(name)
        started = set(psutil.Process().children(recursive=True)) - before
        runners = {runs.hello.pid for runs in map(at.runs, NAMED) if runs.hello is not None}
        assert runners <= {process.pid for process in started}
    await asyncio.to_thread(assert_gone, started)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    with make_rig(2) as found:
        environment = found.environment()
        for name in ("PATH", "XDG_RUNTIME_DIR"):
            monkeypatch.setenv(name, environment[name])
        yield found


def _rig_test(function: Callable[..., object]) -> Callable[..., object]:
    for mark in (*NEEDS_RIG, pytest.mark.timeout(400)):
        function = mark(function)
    return function


@_rig_test
async def test_a_run_over_ssh_is_stored_here_and_a_cut_ends_the_next_one(
    rig: Rig, tmp_path: Path
) -> None:
    pythons = dict.fromkeys(rig.names, sys.executable)
    plan = HostPlan(parse_hosts(rig.hosts), here=False, pythons=pythons)
    place = tmp_path / "results.sqlite3"
    files = [sorted(path.rglob("*")) for path in rig.folder.glob("box*/home")]
    session = Session(hosts=plan, host_attachments=lambda: [ResultRecorder(place)])
    async with _screen(session) as at:
        for name in rig.names:
            await at.select(name)
            session.set_parameters("matmul", {**at.runs(name).parameters["matmul"], "n": 64})
            await at.press("r")
        for name in rig.names:
            await at.until_ended(name)
            assert at.ended(name) == ["ok"]
        # Nothing was written there.
        assert [sorted(path.rglob("*")) for path in rig.folder.glob("box*/home")] == files

        await at.select("box2", "burn")
        await at.press("r")
        await at.until(lambda: any(run.progress for run in at.runs("box2").book.values()))
        rig.cut(2)
        try:
            await at.until(lambda: len(at.ended("box2")) == 2)
            assert "connection to box2 lost: " in at.text
            await at.select("box1")
            await at.press("r")
            await at.until(lambda: at.ended("box1") == ["ok", "ok"])
            # What ran there has ended by itself.
            until(lambda: not _has_runner(rig, 2))
        finally:
            rig.mend(2)
        await at.select("box2")
        await at.press("r")
        await at.until(lambda: len(at.ended("box2")) == 3)
        assert at.ended("box2")[0::2] == ["ok", "ok"]
    with Database(place) as database:
        boxes = {facts.values["box"] for facts in database.read_facts().values()}
    assert boxes == set(rig.names)
    until(lambda: not any(_has_runner(rig, number) for number in (1, 2)))


@_rig_test
async def test_a_run_behind_a_stopped_connection_ends_and_the_next_one_is_made(rig: Rig) -> None:
    pythons = dict.fromkeys(rig.names, sys.executable)
    session = Session(hosts=HostPlan(parse_hosts(rig.hosts), here=False, pythons=pythons))
    async with _screen(session) as at:
        await at.select("box2", "burn")
        await at.press("r")
        await at.until(lambda: any(run.progress for run in at.runs("box2").book.values()))
        ssh = rig.shared_connection(2)
        ssh.suspend()
        try:
            await at.until_ended("box2")
            assert "connection to box2 lost: not answering for" in " ".join(at.text.split())
            await at.select("box2")
            session.set_parameters("matmul", {**at.runs("box2").parameters["matmul"], "n": 64})
            await at.press("r")
            await at.until(lambda: len(at.ended("box2")) == 2)
            assert at.ended("box2")[1] == "ok"
        finally:
            ssh.kill()


@_rig_test
def test_nothing_is_left_there_when_the_workbench_is_killed_in_a_run(rig: Rig) -> None:
    argv = (sys.executable, "-m", "tui", "--no-here", "--host", rig.hosts, *rig.pythons)
    with Terminal(argv, variables=rig.environment()) as terminal:
        terminal.until_shows("r runs a workload on box1")
        terminal.keys("/", "burn", "\r")
        terminal.until_shows("filter: burn (1 of")
        terminal.keys("r")
        terminal.until_shows("running burn")
        # "running" is on the screen as soon as the run is sent, before torch is loaded there.
        until(lambda: _has_runner(rig, 1))
        terminal.process.kill()
        terminal.process.wait(60)
        # The server alone is left.
        until(lambda: [len(rig.pids(number)) for number in (1, 2)] == [1, 1])


def _has_runner(rig: Rig, number: int) -> bool:
    """Return whether a runner or a worker is there, which alone load torch."""
    for pid in rig.pids(number):
        try:
            maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
        except OSError:
            continue  # it has ended
        if f"{os.sep}torch{os.sep}" in maps:
            return True
    return False
