"""cuBLAS's workspaces: memory of the allocator that is no tensor's, in results and messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.catalog.runs import column, numbers, ran
from tests.children.driver import Driver
from workloads.measure import memory
from workloads.protocol import messages
from workloads.protocol.messages import TorchMemory
from workloads.protocol.results import RunResult

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(120)]

GPU = "cuda:0"
MIB = 2**20


def device() -> torch.device:
    return torch.device(GPU)


def product(stream: torch.cuda.Stream | None = None) -> None:
    """Make cuBLAS work; leaves no tensor behind."""
    with torch.cuda.stream(stream):
        one = torch.ones(64, 64, device=GPU)
        _ = one @ one


@pytest.fixture(scope="module")
def one_workspace() -> int:
    """Bytes that torch gives to one handle of cuBLAS on one stream."""
    product()
    torch._C._cuda_clearCublasWorkspaces()
    before = torch.cuda.memory_allocated(GPU)
    product()
    return torch.cuda.memory_allocated(GPU) - before


@pytest.fixture(autouse=True)
def nothing_held() -> Iterator[None]:
    """Each test begins and ends without workspaces."""
    product()
    memory.free_workspaces()
    memory.reset_peaks(device())
    yield
    memory.free_workspaces()


def told() -> TorchMemory:
    found = memory.torch_memory(device())
    assert found is not None
    return found


# ---- what is counted ----


def test_a_product_makes_the_allocator_hold_what_no_tensor_holds(one_workspace: int) -> None:
    assert one_workspace > 0
    before = torch.cuda.memory_allocated(GPU)
    product()
    assert torch.cuda.memory_allocated(GPU) - before == one_workspace


def test_what_cublas_took_is_counted_exactly_and_taken_off(one_workspace: int) -> None:
    tensors = memory.allocated(device())
    with memory.count_workspaces(device()):
        product()
    assert memory.workspace_bytes(device()) == one_workspace
    assert memory.allocated(device()) == tensors
    assert told().workspace == one_workspace
    assert told().allocated == tensors


def test_each_stream_has_one_of_its_own(one_workspace: int) -> None:
    with memory.count_workspaces(device()):
        product()
        product(torch.cuda.Stream(GPU))
    assert memory.workspace_bytes(device()) == 2 * one_workspace


def test_the_thread_that_goes_backward_has_one_of_its_own(one_workspace: int) -> None:
    weight = torch.ones(64, 64, device=GPU, requires_grad=True)
    with memory.count_workspaces(device()):
        (weight @ weight).sum().backward()
        weight.grad = None
    assert memory.workspace_bytes(device()) == 2 * one_workspace


def test_those_of_two_blocks_add_up(one_workspace: int) -> None:
    with memory.count_workspaces(device()):
        product()
    with memory.count_workspaces(device()):
        product()  # takes none: there is one
        product(torch.cuda.Stream(GPU))
    assert memory.workspace_bytes(device()) == 2 * one_workspace


def test_letting_go_leaves_none_and_the_memory_goes_to_the_cache(one_workspace: int) -> None:
    with memory.count_workspaces(device()):
        product()
    before, reserved = torch.cuda.memory_allocated(GPU), torch.cuda.memory_reserved(GPU)
    memory.free_workspaces()
    assert memory.workspace_bytes(device()) == 0
    assert before - torch.cuda.memory_allocated(GPU) == one_workspace
    assert torch.cuda.memory_reserved(GPU) == reserved


def test_cublas_works_after_its_workspace_was_let_go(one_workspace: int) -> None:
    for _ in range(3):
        with memory.count_workspaces(device()):
            product()
        torch.cuda.synchronize(GPU)
        assert memory.workspace_bytes(device()) == one_workspace
        memory.free_workspaces()


def test_a_torch_that_cannot_let_go_keeps_the_count(
    one_workspace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with memory.count_workspaces(device()):
        product()
    monkeypatch.delattr(torch._C, "_cuda_clearCublasWorkspaces")
    memory.free_workspaces()
    with memory.count_workspaces(device()):
        product()
    assert memory.workspace_bytes(device()) == one_workspace
    monkeypatch.undo()


def test_a_tensor_of_the_same_size_stays_a_tensor(one_workspace: int) -> None:
    with memory.count_workspaces(device()):
        product()
    before = memory.allocated(device())
    kept = torch.empty(one_workspace, dtype=torch.uint8, device=GPU)
    assert memory.allocated(device()) - before == kept.numel()
    assert memory.workspace_bytes(device()) == one_workspace


# ---- peaks ----


def test_the_peak_is_of_tensors_alone(one_workspace: int) -> None:
    with memory.count_workspaces(device()):
        product()
    memory.reset_peaks(device())
    before = memory.allocated(device())
    kept = torch.empty(8 * MIB, dtype=torch.uint8, device=GPU)
    del kept
    peak, _ = memory.peaks(device())
    assert peak.allocated_peak == before + 8 * MIB
    assert peak.workspace == one_workspace
    assert told().allocated_peak == peak.allocated_peak


def test_the_peak_stays_the_same_when_the_workspace_is_let_go() -> None:
    with memory.count_workspaces(device()):
        product()
    memory.reset_peaks(device())
    before = told()
    memory.free_workspaces()
    after = told()
    assert after.workspace == 0
    assert (after.allocated, after.allocated_peak) == (before.allocated, before.allocated_peak)
    assert after.allocated_peak >= after.allocated
    assert after.reserved_peak >= after.reserved


def test_the_figures_of_the_allocator_stay_in_order_while_cublas_holds_memory() -> None:
    kept = [torch.empty(3 * MIB, dtype=torch.uint8, device=GPU) for _ in range(3)]
    with memory.count_workspaces(device()):
        product()
    found = told()
    assert found.workspace is not None
    chain = (found.requested, found.allocated, found.active, found.reserved - found.workspace)
    assert list(chain) == sorted(chain)
    assert found.allocated >= 9 * MIB
    del kept


# ---- runs ----


def on_gpu(name: str, **parameters: int) -> RunResult:
    result = ran(name, GPU, **parameters)
    # A simulated GPU computes nothing, so the check of a result may say that it is wrong.
    assert result.time is not None, (result.reason, result.trace)
    return result


def test_a_run_without_a_tensor_has_no_peak() -> None:
    result = on_gpu("device_list")
    assert result.memory.allocated_peak == 0
    assert result.memory.workspace


def test_the_peak_of_a_product_is_that_of_its_matrices() -> None:
    n = 1024
    result = on_gpu("matmul", n=n)
    matrices = 3 * n * n * 4
    assert result.memory.allocated_peak is not None
    assert matrices <= result.memory.allocated_peak < matrices + 4 * MIB


def test_the_peak_does_not_grow_with_the_runs() -> None:
    first = on_gpu("matmul", n=512).memory
    second = on_gpu("matmul", n=512).memory
    assert second == first


def test_what_backward_gives_to_cublas_is_no_part_of_a_trainings_peak(one_workspace: int) -> None:
    result = on_gpu("mlp_training")
    assert result.memory.workspace == 2 * one_workspace
    assert result.memory.allocated_peak is not None
    assert result.memory.reserved_peak is not None
    held = result.memory.allocated_peak + result.memory.workspace
    # What the run made cuBLAS take beside them would stand in the counter that is never taken off.
    assert torch.cuda.max_memory_allocated(GPU) == held


def test_a_staircase_begins_with_nothing_allocated() -> None:
    result = on_gpu("staircase", mib=32)
    steps = column(result, "stairs", "step")
    allocated = dict(zip(steps, numbers(result, "stairs", "allocated"), strict=True))
    assert allocated["start"] == 0
    assert allocated["allocate 32 MiB"] == 32 * MIB
    assert allocated["del"] == 0


# ---- the worker ----


@pytest.fixture(scope="module")
def runner() -> Iterator[Driver]:
    with Driver() as driver:
        driver.ready()
        yield driver


def run(runner: Driver, workload: str, **parameters: int) -> tuple[RunResult, TorchMemory]:
    """Run a workload; return its result and the worker's next reading of the device's memory."""
    runner.send(messages.Run("run", workload, GPU, dict(parameters), {}, "quick"))
    result = runner.until(messages.Finished, lambda event: event.result.id == "run").result
    return result, runner.until(TorchMemory, lambda event: event.device == GPU)


@pytest.mark.parametrize("workload", ["matmul", "mlp_training", "transfer", "device_list"])
def test_after_a_run_no_tensor_and_no_workspace_is_held(runner: Driver, workload: str) -> None:
    _, after = run(runner, workload)
    assert (after.allocated, after.workspace) == (0, 0)


def test_while_a_run_goes_on_cublas_has_its_own_figure(runner: Driver, one_workspace: int) -> None:
    runner.send(messages.Run("run", "mlp_training", GPU, {}, {}, "careful"))
    runner.until(messages.Progress, lambda event: event.phase == "measuring")
    runner.send(messages.ReportMemory())
    during = runner.until(TorchMemory, lambda event: bool(event.workspace))
    assert during.workspace == 2 * one_workspace
    runner.send(messages.Cancel("run"))
    runner.until(messages.Finished)


def test_after_a_run_the_cache_can_be_emptied_to_the_last_byte(runner: Driver) -> None:
    run(runner, "matmul", n=512)
    runner.send(messages.EmptyCache(GPU))
    assert runner.until(messages.Emptied).freed > 0
    after = runner.until(TorchMemory, lambda event: event.device == GPU)
    assert (after.allocated, after.reserved) == (0, 0)


def test_after_a_comparison_no_workspace_is_held(runner: Driver) -> None:
    settings = (False, True)
    runner.send(
        messages.Compare(
            "c", "conv2d", GPU, {"batch": 4}, "cudnn.deterministic", settings, {}, 3, "quick"
        )
    )
    done = runner.until(messages.Compared, lambda event: event.done)
    assert done.comparison.status == "ok", done.comparison.reason
    after = runner.until(TorchMemory, lambda event: event.device == GPU)
    assert (after.allocated, after.workspace) == (0, 0)
