"""Every workload of one process runs to its end on a GPU and leaves nothing of it behind."""

from __future__ import annotations

import gc

import pytest
import torch

from tests.catalog.runs import ran
from tests.simulated_gpu import place
from workloads.declare.workload import infos

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(300)]

GPU = "cuda:0"
MISSING = ("triton", "CUPTI", "needs 2 GPUs")
"""What a machine may lack; a workload that is skipped for it names it."""
WITHOUT_NUMBERS = (
    "wrong result",
    "the input matrix is singular",
    "cuDNN error: not simulated",
    "No execution plans support the graph",
)
"""How a run may end where kernels compute nothing: its data are zeros, and cuDNN has neither an
LSTM nor attention."""


def cublas_workspaces() -> int:
    """Bytes that cuBLAS holds of the allocator until its workspaces are cleared."""
    before = torch.cuda.memory_allocated()
    torch._C._cuda_clearCublasWorkspaces()
    return before - torch.cuda.memory_allocated()


@pytest.mark.parametrize("name", [info.name for info in infos() if not info.ranks])
def test_it_ends_well_and_gives_all_memory_back(name: str) -> None:
    gc.collect()
    cublas_workspaces()
    before = torch.cuda.memory_allocated()
    result = ran(name, GPU)
    reason = result.reason or ""
    if result.status == "skipped":
        assert any(word in reason for word in MISSING), reason
    elif place.is_simulated() and result.status == "failed":
        assert any(word in reason for word in WITHOUT_NUMBERS), result.trace
    else:
        assert (result.status, result.reason) == ("ok", None), result.trace
    assert result.time is None or result.memory.allocated_peak is not None
    gc.collect()
    cublas_workspaces()
    assert torch.cuda.memory_allocated() == before
