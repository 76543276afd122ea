"""The store: what each event changes, and what the screens may ask of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.helpers import environment, gpu, make_store, sample, torch_gpu
from tui.runs.views.workload_table import devices
from tui.state.events import (
    ChildStatus,
    CompareQueued,
    DeviceSelected,
    LogLine,
    ParametersSet,
    RunnerStatus,
    RunQueued,
    Topic,
)
from tui.state.store import Store
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
    store = Store()
    assert Topic.WORKLOADS in store.apply(HELLO)
    assert store.parameters == {"matmul": {"n": 2048}}


def test_parameters_that_were_set_outlive_a_new_runner() -> None:
    store = Store()
    store.apply(HELLO)
    store.apply(ParametersSet("matmul", {"n": 64}))
    store.apply(HELLO)
    assert store.parameters == {"matmul": {"n": 64}}


def test_the_latest_run_is_that_of_the_present_parameters() -> None:
    store = Store()
    store.apply(HELLO)
    store.apply(RunQueued(_run("run-1")))
    store.apply(RunQueued(_run("run-2", n=64)))
    found = store.latest_run("matmul", "cpu")
    assert found is not None
    assert found.request.id == "run-1"
    store.apply(ParametersSet("matmul", {"n": 64}))
    found = store.latest_run("matmul", "cpu")
    assert found is not None
    assert found.request.id == "run-2"


@pytest.mark.parametrize("demo", [True, False])
def test_a_cancelled_run_leaves_the_result_that_was_there(demo: bool) -> None:
    store = Store()
    store.apply(HELLO)
    store.apply(RunQueued(_run("run-1"), demo=demo))
    store.apply(_result(_run("run-1")))
    store.apply(RunQueued(_run("run-2")))
    store.apply(messages.Rejected("run-2", "before it began", "cancelled"))
    found = store.latest_run("matmul", "cpu")
    assert found is not None
    assert found.request.id == "run-1"


def test_where_nothing_was_measured_a_cancelled_run_says_so() -> None:
    store = Store()
    store.apply(HELLO)
    store.apply(RunQueued(_run("run-1")))
    store.apply(messages.Rejected("run-1", "before it began", "cancelled"))
    found = store.latest_run("matmul", "cpu")
    assert found is not None
    assert found.cancelled


def test_a_run_is_pending_until_its_result() -> None:
    store = Store()
    run = _run()
    store.apply(RunQueued(run))
    assert store.pending() == ("run-1",)
    store.apply(_result(run))
    assert store.pending() == ()


def test_a_result_nobody_asked_for_changes_nothing() -> None:
    store = Store()
    assert store.apply(_result(_run())) == frozenset()


def test_a_refused_run_has_failed_with_the_reason() -> None:
    store = Store()
    store.apply(RunQueued(_run()))
    store.apply(messages.Rejected("run-1", "[/x] no"))
    result = store.runs["run-1"].result
    assert result is not None
    assert (result.status, result.reason) == ("failed", "[/x] no")
    assert store.pending() == ()


def test_a_refused_comparison_has_failed_with_the_reason() -> None:
    store = Store()
    request = messages.Compare("c", "matmul", "cpu", {}, "mkldnn.enabled", (True, False), {})
    store.apply(CompareQueued(request))
    store.apply(messages.Rejected("c", "no"))
    found = store.comparisons["c"].comparison
    assert found is not None
    assert (found.status, found.reason, found.verdict) == ("failed", "no", "unclear")
    assert store.pending() == ()


@pytest.mark.parametrize("status", ["restarting", "ended", "unusable"])
def test_the_memory_of_a_dead_worker_is_forgotten(status: ChildStatus) -> None:
    store = Store()
    store.apply(messages.WorkerStarted(7))
    store.apply(messages.HostHeap(7, 0.0, 1, 1))
    store.apply(RunnerStatus(status))
    assert store.worker_pid is None
    assert store.heap is None


def test_an_unexpected_end_of_a_worker_is_a_line_in_the_log() -> None:
    store = Store()
    store.apply(messages.WorkerStarted(7))
    store.apply(messages.WorkerEnded(7, "the worker died: SIGSEGV", expected=False))
    assert store.log[-1] == LogLine("runner", "the worker died: SIGSEGV", "error")


def test_progress_of_a_comparison_is_not_progress_of_a_run() -> None:
    store = Store()
    request = messages.Compare("c", "matmul", "cpu", {}, "mkldnn.enabled", (True, False), {})
    store.apply(CompareQueued(request))
    progress = messages.Progress("c", "measuring", 1.0, "cpu")
    assert store.apply(progress) == frozenset({Topic.BACKEND})
    assert store.apply(replace(progress, id="other")) == frozenset()


def test_without_a_gpu_the_cpu_is_selected_and_there_is_no_gpu_column() -> None:
    store = make_store("no gpu")
    assert store.selected == "cpu"
    assert store.gpu_column is None


def test_the_first_gpu_is_selected_though_torch_sees_none_or_has_not_said() -> None:
    seen = sample(gpu(0), gpu(1))
    store = make_store("empty", seen)
    first, second, _ = (view.key for view in store.devices)
    assert store.selected == first
    store.apply(messages.Ready(environment(), 1.0))
    assert store.selected == first
    assert devices(store) == ("cpu",)
    store.apply(messages.Ready(environment(torch_gpu(1)), 1.0))
    assert store.selected == second
    store.apply(DeviceSelected("cpu"))
    store.apply(seen)
    assert store.selected == "cpu"


def test_a_device_chosen_by_the_user_stays_chosen() -> None:
    store = make_store("two gpus")
    first, second = (view.key for view in store.devices if view.nvml)
    assert store.selected == first
    store.apply(DeviceSelected(second))
    assert store.sample is not None
    store.apply(store.sample)
    assert store.selected == second
    assert store.gpu_column is not None
    assert store.gpu_column.key == second
