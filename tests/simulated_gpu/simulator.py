"""The simulated GPU of this environment: is there one, its libraries, and what it is set up as.

It belongs to an environment of its own, in which torch's CUDA build is installed without the
``nvidia-*`` packages that it needs; the simulator's libraries lie where those would. Where the
packages are, nothing is simulated. ``.ci/run`` makes such an environment.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.simulated_gpu import build
from workloads.protocol.wire import field_values

HEADERS = Path(sys.prefix) / "cuda-headers" / "nvidia" / "cu13" / "include"
"""From the packages nvidia-cuda-runtime and nvidia-cuda-crt; ``.ci/run`` says how."""

PREFIX = "SIMULATED_GPU_"


@dataclass(frozen=True)
class Settings:
    """What is simulated; each field is a variable ``SIMULATED_GPU_…`` of that name in capitals.

    The first block is read by the first process that uses a state file, the rest by each process.
    """

    devices: int = 2
    total_mib: int = 8192
    """The memory of each device, the driver's part of it included."""
    reserved_mib: int = 615
    """The driver's part: NVML's ``reserved``."""
    base_mib: int = 4
    """What is in use with no process."""
    mig: int = 0
    """1 or more: one GPU in so many MIG instances."""

    context_mib: int = 500
    context_ms: int = 150
    link_gb_s: int = 4
    memory_gb_s: int = 4000
    convolution_ns: int = 300_000
    name: str = "NVIDIA H200 (simulated)"
    fail_allocation: str = ""
    """``N:CODE``: the Nth request for device memory and the two after it fail with that CUDA error.

    torch asks so often before it gives up. What follows in the text is free, and makes the same
    fault another one: each comes about once.
    """
    fail_launch: str = ""
    """``N:CODE``: the Nth piece of work fails for good with that CUDA error; 0: it never ends."""

    def variables(self, state: Path) -> dict[str, str]:
        """The environment of the processes that share these devices.

        Args:
            state: a file for what they share; it keeps the first configuration that it got.
        """
        values = {name.upper(): str(value) for name, value in field_values(self).items()}
        return {
            **{PREFIX + name: value for name, value in values.items() if value},
            PREFIX + "STATE": str(state),
        }


def state_folder() -> Path:
    """Where state files go: in memory if there is such a place, as each allocation writes there."""
    shared_memory = Path("/dev/shm")
    return shared_memory if shared_memory.is_dir() else Path(tempfile.gettempdir())


def libraries() -> Path | None:
    """The folder of the simulator's libraries; ``None`` where CUDA's own are, or no CUDA build.

    Builds them first where they are missing or older than their sources.

    Raises:
        build.CannotBuildError: what is missing, and how it is had.
    """
    try:
        torch = build.folder_of_torch()
    except build.CannotBuildError:
        return None
    folder = torch.parent / "nvidia" / "cu13" / "lib"
    stamp = folder / "simulated"
    if not (torch / "lib" / "libtorch_cuda.so").exists():
        return None
    if (folder / "libcudart.so.13").exists() and not stamp.exists():
        return None
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "simulated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        expected = build.fingerprint(torch)
        if not stamp.exists() or stamp.read_text(encoding="ascii") != expected:
            stamp.write_text("being built", encoding="ascii")
            build.build(torch, HEADERS, folder)
            stamp.write_text(expected, encoding="ascii")
    return folder


def environment(libraries: Path, settings: Settings, state: Path) -> dict[str, str]:
    """This process's environment and what a child needs to find the simulated NVML and devices."""
    others = os.environ.get("LD_LIBRARY_PATH")
    return {
        **os.environ,
        **settings.variables(state),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(libraries), others])),
    }
