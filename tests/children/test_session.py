"""Both children under a session: what it does when they fail. Real processes, no screen."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.children.driver import MISBEHAVING
from tests.children.sessions import lines, ready, reason_of, run, script, session_with, until


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(folder))
    return folder


async def test_a_run_arrives_in_the_store() -> None:
    async with session_with() as session:
        await ready(session)
        state = await run(session)
        assert state.result is not None
        assert state.result.status == "ok"
        assert session.store.worker_pid is not None


async def test_a_run_asked_for_before_torch_is_imported_is_done_once_it_is() -> None:
    async with session_with() as session:
        await until(session, lambda: bool(session.store.catalogue))
        state = await run(session)
        assert state.result is not None
        assert state.result.status == "ok"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
async def test_a_runner_that_dies_in_mid_run_is_reported_and_the_next_run_works(
    number: signal.Signals, state: Path
) -> None:
    async with session_with() as session:
        await ready(session)
        session.set_parameters("mlp_training", {"batch": 64, "hidden": 64, "epochs": 1000})
        session.run(["mlp_training"], ["cpu"])
        await until(session, lambda: session.store.runs["run-1"].progress is not None)
        assert session.store.hello is not None
        os.kill(session.store.hello.pid, number)
        await until(session, lambda: session.store.runs["run-1"].ended)
        assert f"the runner ended: {number.name}" in reason_of(session.store.runs["run-1"])
        report = next((state / "reports").iterdir()).read_text()
        assert f"the runner ended: {number.name}" in report
        await ready(session)
        after = await run(session)
        assert after.result is not None
        assert after.result.status == "ok"


async def test_a_worker_that_crashes_leaves_a_report_with_its_stack(
    tmp_path: Path, state: Path
) -> None:
    python = script(tmp_path, f'exec {shlex.quote(sys.executable)} {MISBEHAVING} "$2"')
    async with session_with(python) as session:
        await ready(session)
        crashed = await run(session, "segfaults")
        assert "SIGSEGV" in reason_of(crashed)
        await until(session, lambda: (state / "reports").exists())
        report = next((state / "reports").iterdir()).read_text()
        assert "Fatal Python error: Segmentation fault" in report
        after = await run(session)
        assert after.result is not None
        assert after.result.status == "ok"


async def test_garbage_on_the_channel_is_a_warning_and_costs_nothing(tmp_path: Path) -> None:
    text = f'echo "[/x] no JSON"; echo "{{}}"; exec {shlex.quote(sys.executable)} "$@"'
    async with session_with(script(tmp_path, text)) as session:
        await ready(session)
        warnings = [line.text for line in lines(session, "warning")]
        assert any("[/x] no JSON" in warning for warning in warnings)
        assert len(warnings) == 2
        state = await run(session)
        assert state.result is not None
        assert state.result.status == "ok"


async def test_a_line_without_end_is_dropped_and_what_follows_is_read(tmp_path: Path) -> None:
    text = f'head -c 5000000 /dev/zero; echo; exec {shlex.quote(sys.executable)} "$@"'
    async with session_with(script(tmp_path, text)) as session:
        await ready(session)
        assert any("more than" in line.text for line in lines(session, "warning"))


async def test_a_python_without_torch_is_unusable_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    async with session_with(str(folder / "bin" / "python")) as session:
        await until(session, lambda: session.store.runner.status == "unusable")
        runner = session.store.runner
        assert "torch cannot be imported" in runner.reason
        assert "No module named 'torch'" in runner.reason
        assert "--python PATH" in runner.advice
        state = await run(session)
        assert "torch cannot be imported" in reason_of(state)


async def test_a_python_that_is_not_there_is_unusable_with_the_reason(tmp_path: Path) -> None:
    missing = str(tmp_path / "python")
    async with session_with(missing) as session:
        await until(session, lambda: session.store.runner.status == "unusable")
        assert session.store.runner.reason == f"{missing}: No such file or directory"


async def test_a_runner_that_ends_at_once_says_how_and_with_which_last_words(
    tmp_path: Path,
) -> None:
    async with session_with(script(tmp_path, "echo broken loader >&2; exit 127")) as session:
        await until(session, lambda: session.store.runner.status == "restarting")
        runner = session.store.runner
        assert runner.reason == "the runner ended: exit status 127"
        assert runner.report is not None
        assert "broken loader" in Path(runner.report).read_text()


async def test_a_runner_of_another_version_is_refused(tmp_path: Path) -> None:
    hello = '{"type":"hello","version":99,"pid":1,"python":"3","executable":"x","workloads":[]}'
    async with session_with(script(tmp_path, f"echo '{hello}'; exit 0")) as session:
        await until(session, lambda: session.store.runner.status == "unusable")
        assert "speaks protocol 99" in session.store.runner.reason


async def test_a_report_that_cannot_be_saved_is_said_and_loses_nothing(
    tmp_path: Path, state: Path
) -> None:
    state.write_text("a file where the folder should be")
    async with session_with(script(tmp_path, "exit 1")) as session:
        await until(session, lambda: session.store.runner.status == "restarting")
        assert session.store.runner.report is None
        assert any("the report was not saved" in line.text for line in lines(session, "error"))


async def test_a_runner_that_hears_nothing_is_replaced_after_a_cancel() -> None:
    async with session_with() as session:
        await ready(session)
        session.set_parameters("mlp_training", {"batch": 64, "hidden": 64, "epochs": 1000})
        session.run(["mlp_training"], ["cpu"])
        await until(session, lambda: session.store.runs["run-1"].progress is not None)
        assert session.store.hello is not None
        stopped = psutil.Process(session.store.hello.pid)
        stopped.suspend()
        session.cancel()
        await until(session, lambda: session.store.runs["run-1"].ended)
        result = session.store.runs["run-1"].result
        assert result is not None
        assert result.status == "cancelled"
        await until(session, lambda: not stopped.is_running())
        await ready(session)


async def test_a_run_cancelled_while_torch_is_imported_never_begins() -> None:
    async with session_with() as session:
        await until(session, lambda: session.store.hello is not None)
        session.run(["matmul"], ["cpu"])
        session.cancel()
        assert session.store.pending() == ()
        state = await run(session)
        assert state.result is not None
        assert state.result.status == "ok"
        assert session.store.runs["run-1"].result is not None
        assert session.store.runs["run-1"].result.status == "cancelled"


async def test_a_monitor_that_dies_starts_anew() -> None:
    async with session_with(interval=0.1) as session:
        await until(session, lambda: session.store.sample is not None)
        first = session.store.sample
        monitor = next(
            child for child in psutil.Process().children() if "tui.monitor" in child.cmdline()
        )
        monitor.kill()
        await until(session, lambda: session.store.monitor.status == "restarting")
        assert "SIGKILL" in session.store.monitor.reason
        await until(session, lambda: session.store.sample is not first)


async def test_the_monitor_watches_the_memory_of_the_worker() -> None:
    async with session_with(interval=0.1) as session:
        await ready(session)
        await run(session)

        def seen() -> bool:
            sample = session.store.sample
            return sample is not None and any(item.unique for item in sample.watched)

        await until(session, seen)


async def test_stopping_leaves_no_process() -> None:
    async with session_with(interval=0.1) as session:
        await ready(session)
        session.set_parameters("mlp_training", {"batch": 64, "hidden": 64, "epochs": 1000})
        session.run(["mlp_training"], ["cpu"])
        await until(session, lambda: session.store.runs["run-1"].progress is not None)
        processes = psutil.Process().children(recursive=True)
        assert len(processes) >= 3
    assert psutil.wait_procs(processes, timeout=5)[1] == []


async def test_switching_a_flag_compares_the_new_setting_with_the_old() -> None:
    async with session_with() as session:
        await ready(session)
        session.set_flag("mkldnn.enabled", False)
        await until(session, lambda: not session.store.pending())
        states = list(session.store.comparisons.values())
        compared = [info.name for info in session.store.catalogue if info.compared]
        assert [state.request.workload for state in states] == compared
        assert "conv2d" in compared
        for state in states:
            assert state.request.settings == (True, False)
            assert state.comparison is not None
            assert state.comparison.status == "ok"
        assert session.flags_for("cpu")["mkldnn.enabled"] is False
