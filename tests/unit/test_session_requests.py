"""What a session asks for, before any child is there."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.screens.helpers import CATALOGUE, environment, gpu, hello, sample, torch_gpu
from tests.screens.results import DEFAULTS, result
from tui.core.events import Publish, RunnerStatus
from tui.devices.session.shared_watch import WatchSupervisor
from tui.hosts.address import HostAddress
from tui.hosts.events import HostSample, HostsNamed
from tui.hosts.monitor import OUT_OF_SIGHT_S, HostMonitor
from tui.hosts.plan import HostPlan
from tui.monitor.messages import VERSION, MonitorHello, Pace
from tui.results.store.recorder import ResultHistory
from tui.runs.session.runner_supervisor import RunnerSupervisor
from tui.runs.session.session import Session
from tui.runs.state.events import HostRunEvent
from tui.runs.state.parameters import Sweep
from tui.runs.state.state import RunsState
from workloads.protocol import messages


def _session() -> Session:
    session = Session(interval=None)
    session.state.publish(hello())
    return session


def _session_of_hosts(*names: str) -> Session:
    """Return a session with hosts whose runners are not started."""
    hosts = HostPlan(tuple(HostAddress(name, ("false",)) for name in names), here=True)
    session = Session(interval=None, hosts=hosts)
    session.state.publish(HostsNamed(names, here=True))
    for name in names:
        runner = session.find_runner(name)
        runner.supervisor = RunnerSupervisor(runner.runs, runner.publish)
    return session


def _asked(session: Session) -> list[tuple[str, str]]:
    return [(run.request.workload, run.request.device) for run in session.state.runs.book.values()]


def test_a_run_asked_for_before_the_gpus_are_known_gets_its_gpu_half_once_they_are() -> None:
    session = _session()
    session.run(["matmul"])
    assert _asked(session) == [("matmul", "cpu")]
    session.state.publish(messages.Ready(environment(torch_gpu(0)), 1.0))
    assert _asked(session) == [("matmul", "cpu"), ("matmul", "cuda:0")]


def test_a_cancel_takes_that_half_with_it() -> None:
    session = _session()
    session.run(["matmul"])
    session.cancel()
    session.state.publish(messages.Ready(environment(torch_gpu(0)), 1.0))
    assert _asked(session) == [("matmul", "cpu")]
    assert session.state.runs.pending() == ()


def test_an_attempt_that_failed_is_not_repeated_on_the_gpu_alone() -> None:
    session = _session_of_hosts("gpu1")
    session.select_device("gpu1:cpu")
    runner = session.find_runner("gpu1")
    for _ in range(2):
        session.run(["matmul"])
        # The supervisor rejects all pending runs when a host cannot be reached.
        runner.publish(RunnerStatus("unusable", "connection refused"))
        for run_id in runner.runs.pending():
            runner.publish(messages.Rejected(run_id, "connection refused"))
        runner.publish(RunnerStatus("starting"))
    session.run(["matmul"])
    session.state.publish(HostSample("gpu1", sample(gpu(0)), 0.1, 0.0))
    for event in (hello(), messages.Ready(environment(torch_gpu(0)), 1.0)):
        runner.publish(event)
    devices = [run.request.device for run in runner.runs.book.values()]
    assert devices == ["cpu", "cpu", "cpu", "cuda:0"]


def test_a_host_lists_the_users_workloads_before_its_runner_does() -> None:
    session = _session_of_hosts("gpu1", "gpu2")
    own = replace(session.state.runs.catalogue[0], name="own")
    session.find_runner("gpu2").publish(hello())
    session.state.publish(hello(*CATALOGUE, own))
    of_hosts = session.state.runs.of_hosts
    listed = {name: [info.name for info in runs.catalogue] for name, runs in of_hosts.items()}
    assert ("own" in listed["gpu1"], "own" in listed["gpu2"]) == (True, False)
    assert "own" in of_hosts["gpu1"].parameters


def test_all_runs_are_cancelled_on_every_machine_and_one_run_where_it_is() -> None:
    session = _session_of_hosts("gpu1", "gpu2")
    session.run(["matmul"])
    for name in ("gpu1", "gpu2"):
        session.select_device(f"{name}:cpu")
        session.run(["matmul"])
    first, _, shown = everywhere = session.state.runs.everywhere
    assert [len(runs.pending()) for runs in everywhere] == [1, 1, 1]
    session.cancel(*shown.pending())
    assert [len(runs.pending()) for runs in everywhere] == [1, 1, 0]
    session.cancel()
    assert [len(runs.pending()) for runs in everywhere] == [0, 0, 0]
    (run,) = first.book.values()
    assert run.cancelled


def test_the_runs_of_the_shown_host_are_cancelled_and_no_others() -> None:
    session = _session_of_hosts("gpu1", "gpu2")
    session.run(["matmul"])
    for name in ("gpu1", "gpu2"):
        session.select_device(f"{name}:cpu")
        session.run(["matmul"])
    session.cancel_shown()
    assert [len(runs.pending()) for runs in session.state.runs.everywhere] == [1, 1, 0]


def test_a_demo_runs_with_the_defaults_whatever_was_edited_or_is_swept() -> None:
    session = _session()
    points = tuple({**DEFAULTS, "size": size} for size in (16, 32))
    session.set_sweep("matmul", Sweep({"size": "16,32"}, points))
    session.run_to_present("matmul")
    session.state.publish(messages.Ready(environment(torch_gpu(0)), 1.0))
    runs = session.state.runs.book.values()
    assert [(run.request.device, run.request.parameters) for run in runs] == [
        ("cpu", DEFAULTS),
        ("cuda:0", DEFAULTS),
    ]
    assert all(run.demo and run.request.budget == "quick" for run in runs)


def test_a_cancelled_run_of_the_demo_leaves_the_user_s_gpu_half() -> None:
    session = _session()
    session.run(["matmul"])
    session.run_to_present("matmul")
    (run_id,) = (run.request.id for run in session.state.runs.book.values() if run.demo)
    session.cancel(run_id)
    session.state.publish(messages.Ready(environment(torch_gpu(0)), 1.0))
    on_gpu = [run for run in session.state.runs.book.values() if run.request.device == "cuda:0"]
    assert [run.demo for run in on_gpu] == [False]


def test_a_device_that_was_named_is_the_only_one() -> None:
    session = _session()
    session.run(["matmul"], ["cpu"])
    session.state.publish(messages.Ready(environment(torch_gpu(0)), 1.0))
    assert _asked(session) == [("matmul", "cpu")]


def test_a_run_gets_the_flags_of_its_device_and_no_others() -> None:
    session = _session()
    session.state.publish(messages.Ready(environment(torch_gpu(0)), 1.0))
    session.run(["matmul"])
    by_device = {run.request.device: run.request.flags for run in session.state.runs.book.values()}
    assert {name.partition(".")[0] for name in by_device["cuda:0"]} == {"cuda", "cudnn"}
    assert all(name.startswith("mkldnn.") for name in by_device["cpu"])


async def test_a_host_far_away_has_longer_to_end_a_cancelled_run() -> None:
    plan = HostPlan((HostAddress("gpu1", ("false",)),), here=False)
    session = Session(interval=None, hosts=plan)
    session.state.publish(HostsNamed(("gpu1",), here=False))
    (runs,) = session.state.runs.of_hosts.values()
    session.state.publish(HostSample("gpu1", sample(), 0.5))
    for event in (hello(), messages.Ready(environment(), 1.0)):
        session.state.publish(HostRunEvent("gpu1", event))
    assert runs.runner.status == "ready"
    runner = session.find_runner("gpu1")
    assert runner.cancel_s == session.here.cancel_s + 1.0


async def test_a_host_out_of_sight_is_sampled_seldom_unless_a_worker_runs_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[str, Pace]] = []

    class NotConnected(HostMonitor):
        async def watch(self) -> None:
            self.apply_event(MonitorHello(VERSION, 1))

        def send(self, message: object) -> bool:
            if isinstance(message, Pace):
                sent.append((self.host.name, message))
            return True

    monkeypatch.setattr("tui.hosts.plan.HostMonitor", NotConnected)
    names = ("gpu1", "gpu2")
    plan = HostPlan(tuple(HostAddress(name, ("false",)) for name in names), here=False)
    session = Session(interval=1.0, hosts=plan)
    session.watch()
    await asyncio.sleep(0)
    session.sample_hosts(often=False)
    assert sent == [("gpu2", Pace(OUT_OF_SIGHT_S))]
    session.select_device("gpu2:cpu")
    assert sent[1:] == [("gpu1", Pace(OUT_OF_SIGHT_S)), ("gpu2", Pace(1.0))]
    session.state.publish(HostRunEvent("gpu1", messages.WorkerStarted(7)))
    assert sent[3:] == [("gpu1", Pace(1.0))]
    session.sample_hosts(often=True)
    session.set_refresh(5.0)
    session.sample_hosts(often=False)
    assert sent[4:] == [(name, Pace(5.0)) for name in names]
    await session.stop()


def test_the_catalogue_is_there_before_the_runner() -> None:
    names = [info.name for info in Session(interval=None).state.runs.catalogue]
    assert names[0] == "matmul"
    assert {"matmul", "conv2d"} <= set(names)


async def test_the_watch_starts_only_where_it_is_looked_at_and_after_sample_and_runner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[object] = []

    class NoChild(WatchSupervisor):
        async def supervise(self) -> None:
            begun.append(self)

    monkeypatch.setattr("tui.devices.session.shared_watch.WatchSupervisor", NoChild)
    session = Session(interval=None)
    session.state.publish(hello())
    session.watch_torch(True)
    session.state.publish(sample(gpu(0)))
    session.watch_torch(False)
    session.state.publish(messages.Ready(environment(torch_gpu(0)), 1.0))
    await asyncio.sleep(0)
    assert begun == []
    session.watch_torch(True)
    await asyncio.sleep(0)
    assert len(begun) == 1
    session.watch_torch(False)
    session.watch_torch(True)
    session.state.publish(sample(gpu(0)))
    await asyncio.sleep(0)
    assert len(begun) == 1
    await session.stop()


async def test_what_the_session_began_has_ended_when_it_has_stopped() -> None:
    ended: list[str] = []

    class Slow(ResultHistory):
        async def compare(self, run_id: str, _runs: RunsState, _publish: Publish) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append(run_id)

    session = Session(interval=None, attachments=[Slow()])
    session.state.publish(messages.Finished(result(id="run-1")))
    await asyncio.sleep(0)
    await session.stop()
    assert ended == ["run-1"]
