"""The configuration of the simulated GPU, and the environment variables that carry it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from workloads.protocol.wire import field_values

PREFIX = "SIMULATED_GPU_"


@dataclass(frozen=True)
class DeviceSettings:
    """The configuration; field ``name`` is the environment variable ``SIMULATED_GPU_NAME``.

    The first process that uses a state file reads the first block; each process reads the rest.
    """

    devices: int = 2
    total_mib: int = 8192
    """The memory of each device, including the driver's part."""
    reserved_mib: int = 615
    """The driver's part: NVML's ``reserved``."""
    base_mib: int = 4
    """Bytes in use without any process."""
    mig: int = 0
    """1 or more: number of MIG instances on one GPU."""

    context_mib: int = 500
    blas_mib: int = 34
    """Memory of a process's first cuBLAS handle, with the library's kernels."""
    blas_handle_mib: int = 0
    """Memory of each further handle: torch has one for each thread that multiplies matrices."""
    dnn_mib: int = 90
    """Memory of cuDNN's kernels."""
    context_ms: int = 150
    timed: int = 1
    """0: work ends at once, whatever it is."""
    stored: int = 1
    """0: no copy of more than 1 MiB is stored, and what kernels would write reads as zeros."""
    nccl_pair_mib: int = 0
    """Memory that a communicator of two ranks takes on each device."""
    nccl_group_mib: int = 0
    """The same for a communicator of more ranks."""
    nccl_peer_mib: int = 0
    """Additional memory for each rank that this one sends to or receives from."""
    link_gb_s: int = 4
    memory_gb_s: int = 4000
    convolution_ns: int = 300_000
    name: str = "NVIDIA H200 (simulated)"
    capability: int = 90
    """Compute capability, times ten."""
    sm_count: int = 132
    sm_threads: int = 2048
    """Most threads of a multiprocessor."""
    block_kib: int = 227
    """Most shared memory of a block."""
    l2_mib: int = 50
    fail_allocation: str = ""
    """``N:CODE``: the Nth request for device memory and the two after it fail with that CUDA error.

    torch tries that often before it gives up. Any text may follow, which makes the same fault a
    different one: each occurs once.
    """
    fail_launch: str = ""
    """``N:CODE``: the Nth piece of work fails for good with that CUDA error; 0: it never ends."""

    def variables(self, state: Path) -> dict[str, str]:
        """Return the environment of the processes that share these devices.

        Args:
            state: the file of their shared state; it keeps the first configuration it receives.
        """
        values = {name.upper(): str(value) for name, value in field_values(self).items()}
        return {
            **{PREFIX + name: value for name, value in values.items() if value},
            PREFIX + "STATE": str(state),
        }


def state_folder() -> Path:
    """Return the folder of state files, in memory if possible: each allocation writes there."""
    shared_memory = Path("/dev/shm")
    return shared_memory if shared_memory.is_dir() else Path(tempfile.gettempdir())
