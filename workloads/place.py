"""Where a workload runs: a torch device, random data on it, and its free memory."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from workloads.workload import Skip

SEED = 20_000
"""Of the random data; the same in every run, so that two runs multiply the same numbers."""

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class Place:
    """A device that a workload prepares its data on."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self._generator = torch.Generator().manual_seed(SEED)

    @property
    def type(self) -> str:
        """The device's type: cpu, cuda or mps."""
        return self.device.type

    def randn(self, *shape: int, dtype: str = "float32", pinned: bool = False) -> torch.Tensor:
        """Normally distributed data on the device: constant data would run faster than real data.

        Args:
            shape: of the tensor.
            dtype: one of :data:`DTYPES`.
            pinned: leave it in page-locked host memory instead.
        """
        data = torch.randn(*shape, generator=self._generator).to(DTYPES[dtype])
        return data.pin_memory() if pinned else data.to(self.device)

    def host_randn(self, *shape: int) -> torch.Tensor:
        """The same in pageable host memory, float32."""
        return torch.randn(*shape, generator=self._generator)

    def require(self, size: int, what: str) -> None:
        """See that there is room before anything is allocated.

        Args:
            size: bytes.
            what: that needs them, for the message.

        Raises:
            Skip: there is not.
        """
        free = self.free_memory()
        if free is not None and size > free:
            need, have = f"{size / 2**30:.1f} GiB", f"{free / 2**30:.1f} GiB"
            raise Skip(f"{what} needs {need}, {have} are free on {self.device}")

    def free_memory(self) -> int | None:
        """Bytes that can be allocated, the allocator's cache counted in; ``None`` if unknown."""
        if self.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            cached = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(
                self.device
            )
            return int(free + cached)
        if self.type == "mps":
            return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
        return _host_available()


def _host_available() -> int | None:
    """MemAvailable on Linux, free pages elsewhere; bytes."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        if "SC_AVPHYS_PAGES" not in os.sysconf_names:
            return None
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
