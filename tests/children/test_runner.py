"""The runner over real pipes: what it runs, how it is cancelled, what it outlives."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from tests.children.driver import TIMEOUT_S, Driver
from tests.tiers import VARIANT, with_variants
from tests.waiting import assert_gone, until
from workloads import catalog
from workloads.declare.workload import infos
from workloads.protocol import messages
from workloads.protocol.results import RunResult, Setting

assert catalog
CHEAP: dict[str, dict[str, Setting]] = {
    "transfer": {"mib": 1},
    "matmul": {"n": 256},
    "conv2d": {"size": 32, "channels": 8},
    "mlp_training": {"batch": 256, "hidden": 64, "epochs": 1},
    "mlp_evaluation": {"batch": 256, "hidden": 64},
    "naive_timing": {"n": 256},
}
"""The others run in tests/catalog, with small parameters; all of them in tests/benchmarks."""


def test_it_says_hello_with_the_catalogue_before_torch_is_imported() -> None:
    with Driver() as driver:
        hello = driver.until(messages.Hello)
        assert driver.seen == [hello]
        driver.process.kill()
        assert [info.name for info in hello.workloads] == [info.name for info in infos()]
        assert hello.version == messages.VERSION


def test_the_environment_names_torch_its_threads_and_the_malloc_settings(runner: Driver) -> None:
    environment = runner.environment
    assert environment is not None
    assert environment.torch
    assert environment.threads >= 1
    assert [device.id for device in environment.devices][-1] == "cpu"
    assert {flag.name for flag in environment.flags} >= {"cudnn.benchmark", "mkldnn.enabled"}
    assert environment.malloc


@pytest.mark.parametrize("workload", CHEAP)
def test_a_workload_runs_on_the_cpu(runner: Driver, workload: str) -> None:
    result = runner.run(workload, **CHEAP[workload])
    assert (result.status, result.reason) == ("ok", None)
    assert result.time is not None
    assert 0 < result.time.min_s <= result.time.median_s
    assert result.memory.process_peak
    assert result.check is None or result.check.passed


@pytest.mark.parametrize(
    ("workload", "parameters", "expected"),
    [
        ("matmul", {"n": 64}, 2 * 64**3),
        ("conv2d", {"size": 16, "batch": 2}, 2 * 2 * 64 * 3 * 9 * 16 * 16),
        ("conv2d", {"size": 16, "mode": "forward+backward"}, 2 * 2 * 64 * 3 * 9 * 16 * 16),
    ],
)
def test_the_rate_follows_from_the_hand_formula(
    runner: Driver, workload: str, parameters: dict[str, int | str], expected: int
) -> None:
    result = runner.run(workload, **parameters)
    assert result.time is not None
    assert result.rates.flop_per_s == pytest.approx(expected / result.time.median_s)


@VARIANT
def test_the_training_lowers_its_loss(runner: Driver) -> None:
    figures = runner.run("mlp_training", batch=256, hidden=64).figures
    first, last = figures["loss_epoch_1"].value, figures["loss_at_end"].value
    assert isinstance(first, float)
    assert isinstance(last, float)
    assert last < first


@pytest.mark.parametrize(
    ("workload", "parameters", "says"),
    [
        ("nonesuch", {}, "no workload 'nonesuch': one of matmul"),
        ("matmul", {"n": 0}, "matmul: n=0: from 1 to 65536"),
        ("matmul", {"m": 1}, "matmul has no parameter 'm': it takes n, dtype"),
        ("matmul", {"dtype": "int8"}, "matmul: dtype=int8: one of float32"),
    ],
)
def test_a_bad_request_is_answered_with_what_is_allowed(
    runner: Driver, workload: str, parameters: dict[str, int | str], says: str
) -> None:
    result = runner.run(workload, **parameters)
    assert result.status == "failed"
    assert result.reason is not None
    assert result.reason.startswith(says)


def test_what_does_not_fit_into_memory_is_skipped_with_the_need(runner: Driver) -> None:
    result = runner.run("matmul", n=65536, dtype="float64")
    assert result.status == "skipped"
    assert result.reason is not None
    assert "three 65536 x 65536 matrices of float64 needs 96.0 GiB" in result.reason


def test_progress_comes_by_phase_with_blocks_and_an_estimate(runner: Driver) -> None:
    runner.seen.clear()
    runner.run("conv2d", **CHEAP["conv2d"])
    progress = [event for event in runner.seen if isinstance(event, messages.Progress)]
    phases = list(dict.fromkeys(event.phase for event in progress))
    assert phases == ["preparing", "first call", "warm-up", "measuring", "checking"]
    measuring = [event for event in progress if event.phase == "measuring"]
    assert all(event.estimate_s and event.blocks for event in measuring)


def test_a_comparison_tells_each_pair_and_ends_with_a_verdict(runner: Driver) -> None:
    runner.seen.clear()
    comparison = runner.compare("conv2d", "mkldnn.enabled", (True, False), 6, **CHEAP["conv2d"])
    told = [event.comparison.pairs for event in runner.seen if isinstance(event, messages.Compared)]
    assert told == [1, 2, 3, 4, 5, 6, 6]
    assert comparison.verdict in ("faster", "slower", "same", "unclear")
    assert comparison.ci95 is not None
    if comparison.ratio is None:  # on a busy machine
        assert comparison.unavailable["ratio"].startswith("the pairs disagree, ")
    else:
        assert comparison.ci95[0] <= comparison.ratio <= comparison.ci95[1]
    assert comparison.unavailable["break_even_calls"]


@VARIANT
def test_a_comparison_has_the_values_that_its_workload_chose(runner: Driver) -> None:
    small = {"channels": 4, "size": 8}
    compared = runner.compare("conv_block", "mkldnn.enabled", (True, False), 1, batch=0, **small)
    result = runner.run("conv_block", batch=0, **small)
    assert compared.parameters == {**result.parameters, **result.chosen}
    assert compared.parameters["batch"] != 0


def test_a_flag_without_effect_here_is_refused_with_the_reason(runner: Driver) -> None:
    comparison = runner.compare("conv2d", "mkldnn.fast", (True, False))
    assert comparison.status == "failed"
    assert comparison.reason is not None
    assert comparison.reason.startswith("no flag 'mkldnn.fast': one of cudnn.enabled")


def _cancel(driver: Driver) -> RunResult:
    asked = time.monotonic()
    driver.send(messages.Cancel("run"))
    result = driver.until(messages.Finished).result
    assert time.monotonic() - asked < 2.0
    return result


def test_a_cancel_between_blocks_keeps_what_was_measured(runner: Driver) -> None:
    runner.send(messages.Run("run", "matmul", "cpu", {"n": 64}, {}, "careful"))
    runner.until(messages.Progress, lambda event: event.blocks >= 2)
    result = _cancel(runner)
    assert result.status == "cancelled"
    assert result.time is not None
    assert result.time.blocks >= 2


def _computing(pid: int) -> None:
    """Wait until a process is in its call: it is told of before it begins."""
    worker, deadline = psutil.Process(pid), time.monotonic() + TIMEOUT_S
    began = worker.cpu_times().user
    while worker.cpu_times().user < began + 0.5:
        assert time.monotonic() < deadline
        time.sleep(0.01)


# The default run has a call that holds the interpreter, too.
@VARIANT
def test_a_cancel_in_a_call_that_does_not_return_costs_the_worker(runner: Driver) -> None:
    runner.start_run("matmul", n=6144, dtype="float64")
    runner.until(messages.Progress, lambda event: event.phase == "first call")
    _computing(runner.worker_pid())
    assert _cancel(runner).status == "cancelled"
    ended = runner.until(messages.WorkerEnded)
    assert ended.expected
    assert runner.run("rests").status == "ok"


def test_a_cancel_of_all_ends_what_waits_too(runner: Driver) -> None:
    runner.start_run("mlp_training", "first", epochs=200)
    runner.start_run("matmul", "second")
    runner.until(messages.Progress)
    runner.send(messages.Cancel(""))
    ended = {runner.until(messages.Finished).result.id for _ in range(2)}
    assert ended == {"first", "second"}


@pytest.mark.parametrize(
    "number", with_variants([signal.SIGKILL], [signal.SIGSEGV, signal.SIGABRT])
)
def test_a_worker_killed_in_mid_run_is_reported_and_replaced(
    runner: Driver, number: signal.Signals
) -> None:
    runner.start_run("mlp_training", epochs=1000)
    runner.until(messages.Progress)
    os.kill(runner.worker_pid(), number)
    result = runner.until(messages.Finished).result
    assert result.status == "failed"
    assert result.reason is not None
    assert number.name in result.reason
    assert not runner.until(messages.WorkerEnded).expected
    assert runner.run("rests").status == "ok"


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ("segfaults", "SIGSEGV"),
        ("aborts", "SIGABRT"),
        ("exits", "exit status 3"),
        ("calls_sys_exit", "it called sys.exit with exit status 3"),
        ("exits_with_words", "it called sys.exit with the message no such data set"),
        ("exits_well", "it called sys.exit with exit status 0"),
        ("raises", "RuntimeError: aten::conv[NHWC] [/x] went wrong"),
    ],
)
def test_a_workload_that_fails_is_a_line_with_its_reason(
    runner: Driver, workload: str, says: str
) -> None:
    result = runner.run(workload)
    assert result.status == "failed"
    assert result.reason is not None
    assert says in result.reason
    assert runner.run("rests").status == "ok"


def test_a_workload_that_calls_sys_exit_does_not_cost_the_worker(runner: Driver) -> None:
    assert runner.run("rests").status == "ok"
    before = runner.worker_pid()
    assert runner.run("calls_sys_exit").status == "failed"
    assert runner.run("rests").status == "ok"
    assert runner.worker_pid() == before


def test_an_exception_brings_its_traceback(runner: Driver) -> None:
    trace = runner.run("raises").trace
    assert trace is not None
    assert "_raise" in trace


@pytest.mark.parametrize("workload", ["prints", "garbage", "floods_stderr"])
def test_what_a_workload_writes_does_not_touch_the_protocol(runner: Driver, workload: str) -> None:
    assert runner.run(workload).status == "ok"


def test_after_a_device_error_the_next_queued_run_gets_a_new_process(runner: Driver) -> None:
    runner.start_run("loses_the_device", "first")
    runner.start_run("rests", "second")
    results = [runner.until(messages.Finished).result for _ in range(2)]
    assert [result.status for result in results] == ["failed", "ok"]
    assert "device-side assert" in (results[0].reason or "")


def test_a_comparison_survives_any_exception_of_its_workload(runner: Driver) -> None:
    comparison = runner.compare("raises", "mkldnn.enabled", (True, False))
    assert comparison.status == "failed"
    assert "aten::conv[NHWC] [/x] went wrong" in (comparison.reason or "")
    assert runner.run("rests").status == "ok"


def test_a_result_that_is_not_a_number_fails_and_ends_the_run(runner: Driver) -> None:
    result = runner.run("not_a_number")
    assert result.status == "failed"
    assert result.reason


def test_a_result_that_cannot_travel_fails_with_the_part_that_cannot(runner: Driver) -> None:
    result = runner.run("tells_a_tensor")
    assert result.status == "failed"
    assert result.reason is not None
    start = "the result contains a value that is not a number: finished.result.figures."
    assert result.reason.startswith(start)
    assert "got Tensor" in result.reason
    before = runner.worker_pid()
    assert runner.run("not_a_number").time is not None
    assert runner.worker_pid() == before


def test_an_exception_after_the_time_was_taken_keeps_the_time(runner: Driver) -> None:
    result = runner.run("check_raises")
    assert result.status == "failed"
    assert (result.reason or "").startswith("after timing: out of memory")
    assert result.time is not None


def test_a_cancel_while_the_result_is_checked_keeps_the_time(runner: Driver) -> None:
    runner.start_run("check_takes_long")
    runner.until(messages.Progress, lambda event: event.phase == "checking")
    result = _cancel(runner)
    assert result.status == "cancelled"
    assert result.time is not None


@VARIANT
def test_the_peak_of_a_run_does_not_hold_what_ran_before(runner: Driver) -> None:
    small = runner.run("matmul", n=256).memory.process_peak
    assert small is not None
    assert (runner.run("transfer", mib=64).memory.process_peak or 0) > small + 100 * 2**20
    again = runner.run("matmul", n=256).memory.process_peak
    assert again is not None
    assert again < small + 60 * 2**20


def test_the_first_call_says_whether_it_was_the_first_of_its_process(runner: Driver) -> None:
    runner.run("rests")
    os.kill(runner.worker_pid(), signal.SIGKILL)
    runner.until(messages.WorkerEnded)
    times = [runner.run("rests").time for _ in range(2)]
    assert [time.first_call_cold for time in times if time is not None] == [True, False]


def test_shapes_said_to_be_unseen_are_met_by_a_process_that_has_run_nothing(
    runner: Driver,
) -> None:
    workers = []
    for _ in range(2):
        result = runner.run("varying_shapes", count=2, channels=4, size=10)
        assert result.time is not None
        assert result.time.first_call_cold
        workers.append(runner.worker_pid())
    assert workers[0] != workers[1]


def test_a_call_that_holds_the_gil_is_cancelled_all_the_same(runner: Driver) -> None:
    runner.start_run("holds_the_gil")
    runner.until(messages.Progress, lambda event: event.phase == "first call")
    assert _cancel(runner).status == "cancelled"


@VARIANT
def test_what_a_cancelled_workload_started_is_ended_with_it(runner: Driver) -> None:
    runner.start_run("leaves_a_child")
    runner.until(messages.Progress, lambda event: event.phase == "first call")
    worker = psutil.Process(runner.worker_pid())
    children = until(worker.children)
    _cancel(runner)
    assert_gone(children)


def test_closing_its_stdin_ends_it_and_its_worker() -> None:
    driver = Driver()
    driver.ready()
    driver.start_run("mlp_training", epochs=1000)
    driver.until(messages.Progress)
    worker = psutil.Process(driver.worker_pid())
    assert driver.close() == 0
    assert_gone([worker])


@VARIANT
def test_a_runner_killed_outright_leaves_no_worker() -> None:
    driver = Driver()
    driver.ready()
    driver.start_run("mlp_training", epochs=1000)
    driver.until(messages.Progress)
    worker = psutil.Process(driver.worker_pid())
    driver.process.kill()
    assert_gone([worker])
    driver.close()
