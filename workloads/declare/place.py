"""The place where a workload runs: a device with data and free memory; FLOP counts and checks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import torch

from workloads.declare.workload import THREE_TF32, Skip
from workloads.measure import environment, float32, malloc, memory
from workloads.protocol.results import Check, TorchDevice

SEED = 20_000
"""Seed of the random data, the same in every run, so that two runs multiply the same numbers."""

PARTIAL_SUMS = 2**16
"""Bytes of the blocks' partial sums when a GPU sums all entries, at most: 32 blocks of 8 bytes on
each of some 150 multiprocessors (ATen: ``Reduce.cuh``)."""

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class Place:
    """A device on which a workload prepares its data."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self._generator = torch.Generator().manual_seed(SEED)
        self._on_device: torch.Generator | None = None

    @property
    def type(self) -> str:
        """The device's type: cpu, cuda or mps."""
        return self.device.type

    def described(self) -> TorchDevice:
        """Return the device as torch describes it."""
        return environment.device(self.device)

    def sizes(self, **requests: tuple[int, tuple[int, int]]) -> dict[str, int]:
        """Return sizes by name, with a default for the type of device in place of 0.

        Args:
            requests: the requested size, and the pair of defaults on the CPU and on a GPU.
        """
        place = 0 if self.type == "cpu" else 1
        return {name: size or defaults[place] for name, (size, defaults) in requests.items()}

    def randn(self, *shape: int, dtype: str = "float32") -> torch.Tensor:
        """Return normal random data, created on the device; constant data would run too fast.

        Args:
            shape: the tensor's shape.
            dtype: one of :data:`DTYPES`.

        Raises:
            Skip: the device does not support this dtype.
        """
        if self.type == "mps" and dtype == "float64":
            raise Skip("MPS has no float64")
        if self.type == "cpu":
            return self.host_randn(*shape).to(DTYPES[dtype])
        return torch.randn(
            *shape, generator=self._device_generator(), device=self.device, dtype=DTYPES[dtype]
        )

    def _device_generator(self) -> torch.Generator:
        if self._on_device is None:
            self._on_device = torch.Generator(self.device).manual_seed(SEED)
        return self._on_device

    def host_randn(self, *shape: int, pinned: bool = False) -> torch.Tensor:
        """Return normally distributed float32 data in host memory, pageable or pinned."""
        return torch.randn(*shape, generator=self._generator, pin_memory=pinned)

    def synchronize(self) -> None:
        """Wait until the device has finished all queued work, for timings taken by hand."""
        if self.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.type == "mps":
            torch.mps.synchronize()

    def empty_cache(self) -> None:
        """Return freed memory to the device or, on the CPU, to the kernel, where possible.

        A C library that cannot trim its heap keeps the memory.
        """
        if self.type != "cpu" or malloc.heap() is not None:
            memory.empty_cache(self.device)

    def require(self, size: int, purpose: str, *, host: int = 0) -> None:
        """Check that enough memory is free, before anything is allocated.

        Args:
            size: bytes on the device.
            purpose: the thing that needs them, for the message.
            host: bytes of host memory needed in addition.

        Raises:
            Skip: too little memory is free.
        """
        _require(size, self.free_memory(), purpose, str(self.device))
        if self.type != "cpu":
            _require(host, _host_available(), purpose, "the host")

    def free_memory(self) -> int | None:
        """Return the bytes that can be allocated, cached ones included; ``None`` if unknown."""
        if self.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            cached = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(
                self.device
            )
            return int(free + cached)
        if self.type == "mps":
            return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
        return _host_available()


def pinned_bytes(size: int) -> int:
    """Return the bytes torch pins: the next power of two (``torch.cuda.host_memory_stats``)."""
    return 1 << max(0, size - 1).bit_length()


def supports_tf32(on: Place) -> bool:
    """Return whether float32 can be multiplied in TF32: from capability 8.0 (Ampere) on."""
    # This variable overrides torch's flags in the libraries below torch.
    if on.type != "cuda" or os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        return False
    return torch.cuda.get_device_capability(on.device)[0] >= 8


def precision(on: Place, dtype: str, operation: float32.Operation) -> str:
    """Return the precision of multiplications: for float32, TF32 or bfloat16 where it rounds to it.

    Args:
        on: the place of the multiplications.
        dtype: type of the numbers.
        operation: torch has a setting for products and one for cuDNN's convolutions; its own
            convolutions, with cuDNN off, do not use TF32.
    """
    if dtype == "float32" and on.type == "cpu":
        return "bfloat16" if float32.rounds_to_bf16(operation) else dtype
    if dtype != "float32" or not float32.allows_tf32(operation):
        return dtype
    used = operation == "matmul" or torch.backends.cudnn.enabled
    return "tf32" if used and supports_tf32(on) else dtype


def attention_precision(on: Place, dtype: str) -> str:
    """Return the precision that bounds attention, whichever kernel torch chooses.

    The memory-efficient kernel computes float32 with TF32 tensor cores from capability 8.0 on,
    three products in place of one, whatever the flag (torch:
    ``mem_eff_attention/gemm_kernel_utils.h``).

    Args:
        on: the place of the attention.
        dtype: type of the numbers.
    """
    # The math kernel obeys the setting for products.
    used = precision(on, dtype, "matmul")
    if used != "float32" or on.type != "cuda":
        return used
    capable = torch.cuda.get_device_capability(on.device)[0] >= 8
    return THREE_TF32 if capable else used


def _require(size: int, free: int | None, purpose: str, where: str) -> None:
    if free is not None and size > free:
        need, have = f"{size / 2**30:.1f} GiB", f"{free / 2**30:.1f} GiB"
        raise Skip(f"{purpose} needs {need}, {have} are free on {where}")


_CGROUP = Path("/sys/fs/cgroup")


def _host_available() -> int | None:
    """Return the bytes available on the host, or in the container if that is less."""
    known = [room for room in (_host_room(), _cgroup_room()) if room is not None]
    return min(known, default=None)


def _cgroup_room() -> int | None:
    """Return the bytes up to cgroup v2's limit, file cache included; ``None`` without a limit."""
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if limit == "max":
        return None
    return int(limit) - used + int(stat.get("inactive_file", 0))


def _host_room() -> int | None:
    """Return the bytes of MemAvailable on Linux, of free pages elsewhere."""
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


TOLERANCES = {
    "float64": 1e-12,
    "float32": 1e-4,
    "3xtf32": 1e-4,
    "tf32": 5e-3,
    "float16": 5e-3,
    "bfloat16": 4e-2,
}
"""Tolerance by precision, of a product's largest error over its largest entry: the unit round-off
times a small multiple that covers the growth over sums of up to 65 536 terms with random signs."""


def against_float64(
    result: torch.Tensor, reference: torch.Tensor, tolerance: float, reference_name: str
) -> Check:
    """Check a result against a float64 reference, by the largest relative difference.

    Args:
        result: the result, of any device and precision.
        reference: float64, on the CPU, of the same shape.
        tolerance: largest accepted relative error.
        reference_name: the name of the compared result, for the reader.
    """
    difference = (result.detach().cpu().double() - reference).abs().max()
    return relative(float(difference), float(reference.abs().max()), tolerance, reference_name)


def relative(difference: float, largest: float, tolerance: float, label: str) -> Check:
    """Check a difference, relative to the reference's largest entry, against a tolerance.

    A device that computes nothing would match a reference of zeros, so such a reference fails the
    check.

    Args:
        difference: the largest difference from the reference.
        largest: the reference's largest absolute entry.
        tolerance: largest accepted relative error.
        label: the name of the compared result, for the reader.
    """
    error = ratio(difference, largest)
    known = math.isfinite(error)
    description = label if largest else f"{label}, which is zero everywhere"
    return Check(known and error <= tolerance, error if known else None, tolerance, description)


def ratio(difference: float, largest: float) -> float:
    """Return a difference over the largest entry of its reference; not a number if that is zero."""
    return difference / largest if largest else math.nan


def count_flop(call: Callable[[], object]) -> int:
    """Return the FLOP of one call with tensors on the meta device; pointwise ones count zero."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def attention_flop(batch: int, heads: int, length: int, width: int, *, causal: bool) -> int:
    """Return the FLOP of both products: 4 B H S² D; causal masks need only S (S + 1) / 2 pairs.

    torch counts all pairs, mask or not.

    Args:
        batch: number of sequences, B.
        heads: heads per sequence, H.
        length: positions, S.
        width: width of a head, D.
        causal: each position attends only to itself and those before it.
    """
    pairs = length * (length + 1) // 2 if causal else length**2
    return 4 * batch * heads * pairs * width


def solve_flop(n: int, right: int) -> int:
    """Return the FLOP of an LU factorization and both substitutions for ``right`` right-hand sides.

    Column k of the elimination takes n - k divisions and 2 (n - k)² further operations, 2/3 n³ in
    all; the substitutions 2 n² - n for each side (Golub, Van Loan, Matrix Computations, 3.1, 3.2).
    """
    return (4 * n**3 - 3 * n**2 - n) // 6 + right * (2 * n**2 - n)


def cholesky_flop(n: int) -> int:
    """Return the FLOP of a Cholesky factorization: n³/3 + n²/2 + n/6 (Golub, Van Loan, 4.2)."""
    return (2 * n**3 + 3 * n**2 + n) // 6
