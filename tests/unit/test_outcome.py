"""What an error of CUDA means for the run and for the process that it was raised in."""

from __future__ import annotations

import pytest
import torch

from workloads.measure import nvml_memory
from workloads.measure.nvml_memory import NvmlMemory
from workloads.protocol.inventory import TorchDevice
from workloads.runner import outcome as outcomes
from workloads.runner.outcome import is_device_lost, outcome

MIB, GIB = 2**20, 2**30
FULL = "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in the documentation."
CUBLAS = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
CUDNN = "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"
ILLEGAL = "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be …"
ALLOCATOR = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79 GiB"

AcceleratorError: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)


@pytest.fixture
def _full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        outcomes.environment,
        "device",
        lambda device: TorchDevice(str(device), "H200", uuid="GPU-0"),
    )
    monkeypatch.setattr(
        outcomes.nvml_memory, "read", lambda _uuid: NvmlMemory(80 * GIB, 79 * GIB, 99 * MIB)
    )


@pytest.mark.usefixtures("_full")
@pytest.mark.parametrize(
    "error", [AcceleratorError(FULL), RuntimeError(FULL), RuntimeError(CUBLAS), RuntimeError(CUDNN)]
)
def test_memory_that_cuda_itself_was_refused_is_told_as_out_of_memory_with_what_is_free(
    error: RuntimeError,
) -> None:
    status, reason = outcome(error, "cuda:0")
    assert status == "failed"
    assert reason.startswith(f"out of memory: {str(error).splitlines()[0]}: it was CUDA")
    assert reason.endswith("99 MiB of 80.0 GiB are free on cuda:0")
    assert "\n" not in reason


def test_what_is_free_is_said_to_be_unknown_where_nvml_does_not_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(_uuid: str | None) -> NvmlMemory:
        raise nvml_memory.NvmlError("libnvidia-ml.so.1 cannot be loaded")

    monkeypatch.setattr(
        outcomes.environment, "device", lambda device: TorchDevice(str(device), "H200")
    )
    monkeypatch.setattr(outcomes.nvml_memory, "read", silent)
    _, reason = outcome(AcceleratorError(FULL), "cuda:0")
    assert reason.endswith(
        "what is free on cuda:0 is not known: libnvidia-ml.so.1 cannot be loaded"
    )


def test_a_device_that_does_not_even_tell_its_name_does_not_hide_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(_device: torch.device) -> TorchDevice:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(outcomes.environment, "device", lost)
    _, reason = outcome(AcceleratorError(FULL), "cuda:0")
    assert reason.startswith("out of memory: CUDA error: out of memory: ")


@pytest.mark.usefixtures("_full")
@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (AcceleratorError(FULL), False),
        (RuntimeError(CUBLAS), False),
        (torch.OutOfMemoryError(ALLOCATOR), False),
        (AcceleratorError(ILLEGAL), True),
        (RuntimeError("device-side assert triggered"), True),
        (ValueError("shapes differ"), False),
    ],
)
def test_no_memory_costs_no_process_and_an_error_of_a_kernel_does(
    error: Exception, lost: bool
) -> None:
    _, reason = outcome(error, "cuda:0")
    assert is_device_lost(reason) is lost
    assert is_device_lost(f"after timing: {reason}") is lost


def test_a_tensor_that_does_not_fit_keeps_the_allocators_own_words() -> None:
    _, reason = outcome(torch.OutOfMemoryError(ALLOCATOR), "cuda:0")
    assert reason == f"out of memory: {ALLOCATOR}"
