"""Both children under a session: what it does when they fail. Real processes, no screen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from tests import ceilings
from tests.children.sessions import (
    ended,
    latest,
    lines,
    misbehaving,
    ready,
    reason_of,
    run,
    saying,
    script,
    session_with,
    until,
)
from tests.tiers import VARIANT
from tests.waiting import assert_gone
from tui.core import state_folder
from tui.runs.session import runner_supervisor as supervisors
from tui.runs.session.session import Session
from workloads.protocol import messages
from workloads.protocol.results import Ceiling

pytestmark = pytest.mark.asyncio(loop_scope="module")

GARBAGE = 'echo "[/x] no JSON"; echo "{}"'
ENDLESS = {"batch": 64, "hidden": 64, "epochs": 1000}
SMALL = {"channels": 8, "size": 16}


@dataclass
class Started:
    """A session that tests share, and what its log warned of when it was started."""

    session: Session
    warnings: list[str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Started]:
    folder = tmp_path_factory.mktemp("session")
    ceilings.keep(folder / "state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPU_WORKBENCH_STATE", str(folder / "state"))
        async with session_with(misbehaving(folder, GARBAGE), interval=0.1) as session:
            await ready(session)
            session.set_parameters("mlp_training", dict(ENDLESS))
            session.set_parameters("conv2d", dict(SMALL))
            session.set_parameters("conv_layouts", dict(SMALL))
            yield Started(session, [line.text for line in lines(session, "warning")])


@pytest_asyncio.fixture(loop_scope="module")
async def session(started: Started) -> Session:
    """Return the shared session at rest, with an empty log."""
    await ready(started.session)
    assert started.session.state.runs.pending() == ()
    started.session.state.log.clear()
    return started.session


async def start(session: Session) -> messages.Run:
    """Start a long run and wait until it is under way."""
    session.run(["mlp_training"], ["cpu"])
    request = latest(session).request
    await until(session, lambda: session.state.runs.book[request.id].progress is not None)
    return request


async def assert_a_run_works(session: Session, workload: str = "rests") -> None:
    state = await run(session, workload)
    assert state.result is not None
    assert state.result.status == "ok"


async def test_a_run_arrives_in_the_store(session: Session) -> None:
    await assert_a_run_works(session, "conv2d")
    assert session.state.machine.worker_pid is not None
    # The roofline needs what earlier runners have measured on this box.
    assert all(one in session.state.runs.ceilings for one in ceilings.made_up())


async def test_garbage_on_the_channel_is_a_warning_and_costs_nothing(
    started: Started, session: Session
) -> None:
    assert any("[/x] no JSON" in warning for warning in started.warnings)
    assert len(started.warnings) == 2
    await assert_a_run_works(session)


@VARIANT
async def test_what_is_asked_for_before_torch_is_imported_is_done_once_it_is_or_cancelled() -> None:
    async with session_with() as session:
        await until(session, lambda: bool(session.state.runs.catalogue))
        session.set_parameters("transfer", {"mib": 1})
        session.run(["transfer"], ["cpu"], "quick")
        session.run(["matmul"], ["cpu"])
        first, second = session.state.runs.book.values()
        session.cancel(second.request.id)
        assert session.state.runs.runner.status != "ready"
        assert session.state.runs.pending() == (first.request.id,)
        state = await ended(session, first)
        assert state.result is not None
        assert state.result.status == "ok"
        cancelled = session.state.runs.book[second.request.id].result
        assert cancelled is not None
        assert cancelled.status == "cancelled"


@pytest.mark.slow
async def test_a_stopped_child_is_said_to_be_stopped_and_goes_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "SILENT_S", 2.0)
    request = await start(session)
    state = session.state
    assert state.runs.hello is not None
    assert state.machine.worker_pid is not None
    for who, pid in (("worker", state.machine.worker_pid), ("runner", state.runs.hello.pid)):
        os.kill(pid, signal.SIGSTOP)
        try:
            await until(session, lambda: "stopped (state T)" in state.runs.runner.reason)
            assert state.runs.runner.silence.startswith(f"no word from the {who} for ")
            assert state.runs.runner.advice.startswith(f"kill -CONT {pid} ")
            assert state.runs.runner.status == "ready"
        finally:
            os.kill(pid, signal.SIGCONT)
        # Its first call takes long: it is said to be at work, then.
        await until(session, lambda: "stopped" not in state.runs.runner.reason)
        assert "dead" not in state.runs.runner.reason
    assert not state.runs.book[request.id].ended
    session.cancel(request.id)
    await until(session, lambda: state.runs.book[request.id].ended)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, marks=VARIANT),
        signal.SIGSEGV,
        pytest.param(signal.SIGABRT, marks=VARIANT),
    ],
)
async def test_a_runner_that_dies_in_mid_run_is_reported_and_the_next_run_works(
    number: signal.Signals, session: Session, state: Path
) -> None:
    request = await start(session)
    assert session.state.runs.hello is not None
    os.kill(session.state.runs.hello.pid, number)
    await until(session, lambda: session.state.runs.book[request.id].ended)
    assert f"the runner ended: {number.name}" in reason_of(session.state.runs.book[request.id])
    report = next((state / "reports").iterdir()).read_text()
    assert f"the runner ended: {number.name}" in report
    await ready(session)
    await assert_a_run_works(session)


@VARIANT
async def test_a_runner_that_the_user_replaces_is_no_error(session: Session, state: Path) -> None:
    request = await start(session)
    session.restart_runner()
    await until(session, lambda: session.state.runs.book[request.id].ended)
    reason = reason_of(session.state.runs.book[request.id])
    assert reason == "a new runner was requested; the next run gets it"
    await ready(session)
    assert "a new runner was requested: it replaces the old one" in [
        line.text for line in lines(session, "info")
    ]
    assert not [line for line in lines(session, "error") if line.source == "workbench"]
    assert not (state / "reports").exists()


@VARIANT
async def test_a_worker_that_crashes_leaves_a_report_with_its_stack(
    session: Session, state: Path
) -> None:
    crashed = await run(session, "segfaults")
    assert "SIGSEGV" in reason_of(crashed)
    await until(session, lambda: (state / "reports").exists())
    report = next((state / "reports").iterdir()).read_text()
    assert "Fatal Python error: Segmentation fault" in report
    await assert_a_run_works(session)


async def test_a_line_without_end_is_dropped_and_what_follows_is_read(tmp_path: Path) -> None:
    python = saying(tmp_path, first="head -c 5000000 /dev/zero; echo")
    async with session_with(python) as session:
        await ready(session)
        assert any("more than" in line.text for line in lines(session, "warning"))


async def test_a_python_without_torch_is_unusable_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    async with session_with(str(folder / "bin" / "python")) as session:
        await until(session, lambda: session.state.runs.runner.status == "unusable")
        runner = session.state.runs.runner
        assert runner.reason == f"there is no torch in {folder / 'bin' / 'python'}"
        assert "gpu-workbench --python PATH" in runner.advice
        # The environment has no pip.
        assert f"uv pip install --python {folder / 'bin' / 'python'} torch" in runner.advice
        state = await run(session)
        assert "there is no torch" in reason_of(state)


async def test_a_python_that_is_not_there_is_unusable_with_the_reason(tmp_path: Path) -> None:
    missing = str(tmp_path / "python")
    async with session_with(missing) as session:
        await until(session, lambda: session.state.runs.runner.status == "unusable")
        assert session.state.runs.runner.reason == f"{missing}: No such file or directory"


async def test_a_runner_that_ends_at_once_says_how_and_with_which_last_words(
    tmp_path: Path,
) -> None:
    async with session_with(script(tmp_path, "echo broken loader >&2; exit 127")) as session:
        await until(session, lambda: session.state.runs.runner.status == "restarting")
        runner = session.state.runs.runner
        assert runner.reason == "the runner ended: exit status 127"
        assert runner.report is not None
        assert "broken loader" in Path(runner.report).read_text()


async def test_a_runner_of_another_version_is_refused(tmp_path: Path) -> None:
    hello = '{"type":"hello","version":99,"pid":1,"python":"3","executable":"x","workloads":[]}'
    async with session_with(script(tmp_path, f"echo '{hello}'; exit 0")) as session:
        await until(session, lambda: session.state.runs.runner.status == "unusable")
        assert "speaks protocol 99" in session.state.runs.runner.reason


async def test_a_report_that_cannot_be_saved_is_said_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file where the folder should be")
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(taken))
    async with session_with(script(tmp_path, "exit 1")) as session:
        await until(session, lambda: session.state.runs.runner.status == "restarting")
        assert session.state.runs.runner.report is None
        assert any("the report was not saved" in line.text for line in lines(session, "error"))


async def test_a_ceiling_is_kept_unless_others_were_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "empty"))
    low = Ceiling("float32", 1e9, "told", 1.0, {"threads": "2"}, disturbed=True)
    high = Ceiling("float64", 1e9, "told", 1.0, {"threads": "2"})
    said = (messages.CeilingMeasured(low), messages.CeilingMeasured(high))
    async with session_with(saying(tmp_path, *said)) as session:
        await until(
            session,
            lambda: any("ceiling of float64" in line.text for line in session.state.log.lines),
        )
        assert any("ceiling of float32" in line.text for line in session.state.log.lines)
    assert state_folder.ceilings() == (high,)


@VARIANT
async def test_a_runner_that_hears_nothing_is_replaced_after_a_cancel(session: Session) -> None:
    request = await start(session)
    assert session.state.runs.hello is not None
    stopped = psutil.Process(session.state.runs.hello.pid)
    stopped.suspend()
    session.cancel()
    await until(session, lambda: session.state.runs.book[request.id].ended)
    result = session.state.runs.book[request.id].result
    assert result is not None
    assert result.status == "cancelled"
    await until(session, lambda: not stopped.is_running())
    await ready(session)


async def test_a_monitor_that_dies_starts_anew(tmp_path: Path) -> None:
    others = psutil.Process().children()
    async with session_with(saying(tmp_path), interval=0.1) as session:
        await until(session, lambda: session.state.machine.sample is not None)
        first = session.state.machine.sample
        monitor = next(
            child
            for child in psutil.Process().children()
            if child not in others and "tui.monitor" in child.cmdline()
        )
        monitor.kill()
        await until(session, lambda: session.state.machine.monitor.status == "restarting")
        assert "SIGKILL" in session.state.machine.monitor.reason
        await until(session, lambda: session.state.machine.sample is not first)


async def test_the_monitor_watches_the_memory_of_the_worker(session: Session) -> None:
    await run(session, "rests")

    def seen() -> bool:
        sample = session.state.machine.sample
        return sample is not None and any(item.unique for item in sample.watched)

    await until(session, seen)


@VARIANT
async def test_stopping_leaves_no_process() -> None:
    others = psutil.Process().children(recursive=True)
    async with session_with(interval=0.1) as session:
        await ready(session)
        session.set_parameters("mlp_training", dict(ENDLESS))
        await start(session)
        family = psutil.Process().children(recursive=True)
        processes = [process for process in family if process not in others]
        assert len(processes) >= 3
    assert_gone(processes)


@VARIANT
async def test_switching_a_flag_says_what_it_does_when_it_is_on(session: Session) -> None:
    before = set(session.state.runs.comparisons)
    session.set_flag("mkldnn.enabled", False)
    await until(session, lambda: not session.state.runs.pending())
    found = session.state.runs.comparisons.items()
    states = [state for name, state in found if name not in before]
    assert [state.request.workload for state in states] == ["conv2d", "conv_layouts"]
    for state in states:
        assert state.request.settings == (False, True)
        assert state.comparison is not None
        assert state.comparison.status == "ok"
    assert session.state.runs.flags_for("cpu")["mkldnn.enabled"] is False
