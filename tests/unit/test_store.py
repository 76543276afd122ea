"""The store: what each event changes, and what the screens may ask of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.helpers import environment, gpu, make_store, sample, torch_gpu
from tests.screens.results import comparison
from tui.core.events import ChildStatus, LogLine, RunnerStatus, Topic
from tui.devices.state.machine import DeviceSelected
from tui.runs.state.events import CompareQueued, ParametersSet, RunQueued
from tui.runs.state.state import WorkbenchState
from tui.runs.views.workload_table import list_devices
from workloads.protocol import messages
from workloads.protocol.results import ParameterInfo, RunResult, Status, WorkloadInfo

MATMUL = WorkloadInfo(
    "matmul", "compute", "t", "a", "l", (ParameterInfo("n", 2048, "rows"),), ("cpu",)
)
HELLO = messages.Hello(messages.VERSION, 1, "3.11", "python", (MATMUL,))


def _run(run_id: str = "run-1", device: str = "cpu", n: int = 2048) -> messages.Run:
    return messages.Run(run_id, "matmul", device, {"n": n}, {})


def _result(run: messages.Run, status: Status = "ok") -> messages.Finished:
    result = RunResult(run.id, run.workload, run.device, run.parameters, {}, status)
    return messages.Finished(result)


def test_a_hello_brings_the_catalogue_with_its_defaults() -> None:
    state = WorkbenchState()
    assert Topic.WORKLOADS in state.publish(HELLO)
    assert state.runs.parameters == {"matmul": {"n": 2048}}


def test_parameters_that_were_set_outlive_a_new_runner() -> None:
    state = WorkbenchState()
    state.publish(HELLO)
    state.publish(ParametersSet("matmul", {"n": 64}))
    state.publish(HELLO)
    assert state.runs.parameters == {"matmul": {"n": 64}}


def test_the_latest_run_is_that_of_the_present_parameters() -> None:
    state = WorkbenchState()
    state.publish(HELLO)
    state.publish(RunQueued(_run("run-1")))
    state.publish(RunQueued(_run("run-2", n=64)))
    actual = state.runs.latest_run("matmul", "cpu")
    assert actual is not None
    assert actual.request.id == "run-1"
    state.publish(ParametersSet("matmul", {"n": 64}))
    actual = state.runs.latest_run("matmul", "cpu")
    assert actual is not None
    assert actual.request.id == "run-2"


@pytest.mark.parametrize("demo", [True, False])
def test_a_cancelled_run_leaves_the_result_that_was_there(demo: bool) -> None:
    state = WorkbenchState()
    state.publish(HELLO)
    state.publish(RunQueued(_run("run-1"), demo=demo))
    state.publish(_result(_run("run-1")))
    state.publish(RunQueued(_run("run-2")))
    state.publish(messages.Rejected("run-2", "before it began", "cancelled"))
    actual = state.runs.latest_run("matmul", "cpu")
    assert actual is not None
    assert actual.request.id == "run-1"


def test_where_nothing_was_measured_a_cancelled_run_says_so() -> None:
    state = WorkbenchState()
    state.publish(HELLO)
    state.publish(RunQueued(_run("run-1")))
    state.publish(messages.Rejected("run-1", "before it began", "cancelled"))
    actual = state.runs.latest_run("matmul", "cpu")
    assert actual is not None
    assert actual.cancelled


def test_a_run_is_pending_until_its_result() -> None:
    state = WorkbenchState()
    run = _run()
    state.publish(RunQueued(run))
    assert state.runs.pending() == ("run-1",)
    state.publish(_result(run))
    assert state.runs.pending() == ()


def test_a_result_nobody_asked_for_changes_nothing() -> None:
    state = WorkbenchState()
    assert state.publish(_result(_run())) == frozenset()


def test_a_refused_run_has_failed_with_the_reason() -> None:
    state = WorkbenchState()
    state.publish(RunQueued(_run()))
    state.publish(messages.Rejected("run-1", "[/x] no"))
    result = state.runs.book["run-1"].result
    assert result is not None
    assert (result.status, result.reason) == ("failed", "[/x] no")
    assert state.runs.pending() == ()


def test_a_refused_comparison_has_failed_with_the_reason() -> None:
    state = WorkbenchState()
    request = messages.Compare("c", "matmul", "cpu", {}, "mkldnn.enabled", (True, False), {})
    state.publish(CompareQueued(request))
    state.publish(messages.Rejected("c", "no"))
    actual = state.runs.comparisons["c"].comparison
    assert actual is not None
    assert (actual.status, actual.reason, actual.verdict) == ("failed", "no", "unclear")
    assert state.runs.pending() == ()


@pytest.mark.parametrize("status", ["restarting", "ended", "unusable"])
def test_the_memory_of_a_dead_worker_is_forgotten(status: ChildStatus) -> None:
    state = WorkbenchState()
    state.publish(messages.WorkerStarted(7))
    state.publish(messages.HostHeap(7, 0.0, 1, 1))
    state.publish(RunnerStatus(status))
    assert state.machine.worker_pid is None
    assert state.machine.heap is None


def test_an_unexpected_end_of_a_worker_is_a_line_in_the_log() -> None:
    state = WorkbenchState()
    state.publish(messages.WorkerStarted(7))
    state.publish(messages.WorkerEnded(7, "the worker died: SIGSEGV", expected=False))
    assert state.log.lines[-1] == LogLine("runner", "the worker died: SIGSEGV", "error")


def test_progress_of_a_comparison_is_not_progress_of_a_run() -> None:
    state = WorkbenchState()
    request = messages.Compare("c", "matmul", "cpu", {}, "mkldnn.enabled", (True, False), {})
    state.publish(CompareQueued(request))
    progress = messages.Progress("c", "measuring", 1.0, "cpu")
    assert state.publish(progress) == frozenset({Topic.BACKEND})
    found = {done: messages.Compared(comparison(id="c"), done) for done in (False, True)}
    assert Topic.WORKLOADS not in state.publish(found[False])
    assert Topic.WORKLOADS in state.publish(found[True])
    assert state.publish(replace(progress, id="other")) == frozenset()


def test_without_a_gpu_the_cpu_is_selected_and_there_is_no_gpu_column() -> None:
    state = make_store("no gpu")
    assert state.machine.selected == "cpu"
    assert state.machine.gpu_column is None


def test_the_first_gpu_is_selected_though_torch_sees_none_or_has_not_said() -> None:
    seen = sample(gpu(0), gpu(1))
    state = make_store("empty", seen)
    first, second, _ = (view.key for view in state.machine.devices)
    assert state.machine.selected == first
    state.publish(messages.Ready(environment(), 1.0))
    assert state.machine.selected == first
    assert list_devices(state.runs) == ("cpu",)
    state.publish(messages.Ready(environment(torch_gpu(1)), 1.0))
    assert state.machine.selected == second
    state.publish(DeviceSelected("cpu"))
    state.publish(seen)
    assert state.machine.selected == "cpu"


def test_a_device_chosen_by_the_user_stays_chosen() -> None:
    state = make_store("two gpus")
    first, second = (view.key for view in state.machine.devices if view.nvml)
    assert state.machine.selected == first
    state.publish(DeviceSelected(second))
    assert state.machine.sample is not None
    state.publish(state.machine.sample)
    assert state.machine.selected == second
    assert state.machine.gpu_column is not None
    assert state.machine.gpu_column.key == second
