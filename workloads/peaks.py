"""Published peaks of GPUs, and what can be derived where no figure was published. No torch.

Published figures are dense (no structured sparsity), with float32 accumulation for the 16-bit and
8-bit types, which is what torch uses; bandwidths in 10^9 bytes per second. Each row names who lists
the vendor's figure; each was compared with the derivation below. Where two disagree the higher one
stands, so that nothing true is called impossible.
"""

from __future__ import annotations

import re

from workloads.fact import fact
from workloads.inventory import TorchDevice

READ = "2026-11-21"
"""When the sources were read, every row of the table."""
_M, _L, _T, _X, _W, _D = (
    "ml-engineering's accelerator tables",
    "lightning-fabric's table",
    "torchtitan",
    "xformers' device limits",
    "the architecture's whitepaper",
    "TechPowerUp",
)


@fact
class Peak:
    """One part: TFLOP/s by precision, GB/s of its memory and of its host link one way."""

    pattern: str
    """Found in the name that CUDA reports."""
    min_gib: int
    max_gib: int
    """Of the memory that CUDA reports: parts of one name differ in it, and a MIG slice has less."""
    tflops: dict[str, float]
    memory_gb_s: float
    pcie_gb_s: float | None
    """``None`` where the host is not reached over PCI Express."""
    source: str
    nvlink_gb_s: float | None = None
    """Both ways together, all links of one GPU; ``None`` where a part may come without them."""


def _row(
    pattern: str,
    gib: tuple[int, int],
    flops: tuple[float, float | None, float | None, float | None],
    memory: float,
    pcie: int | None,
    *sources: str,
    bf16: bool = True,
    nvlink: float | None = None,
) -> Peak:
    """A row; ``flops`` are float32, TF32, 16 bit and 8 bit, ``None`` without hardware or figure."""
    fp32, tf32, half, eighth = flops
    known = {
        "float32": fp32,
        "tf32": tf32,
        "float16": half,
        "bfloat16": half if bf16 else None,
        "float8": eighth,
    }
    tflops = {name: value for name, value in known.items() if value is not None}
    # PCI Express x16, one way, after 128b/130b encoding.
    link = {3: 15.75, 4: 31.5, 5: 63.0}.get(pcie) if pcie is not None else None
    return Peak(
        pattern=pattern,
        min_gib=gib[0],
        max_gib=gib[1],
        tflops=tflops,
        memory_gb_s=memory,
        pcie_gb_s=link,
        source=", ".join(sources),
        nvlink_gb_s=nvlink,
    )


# Older drivers leave NVIDIA's name out of the data-centre parts' names.
PEAKS = (
    _row(r"V100-SXM", (15, 32), (15.7, None, 125, None), 900, 3, _L, _X, bf16=False, nvlink=300),
    _row(r"V100-PCIE", (15, 32), (14, None, 112, None), 900, 3, _L, _X, bf16=False),
    _row(r"(Tesla|NVIDIA) T4$", (14, 16), (8.1, None, 65, None), 320, 3, _L, _X, bf16=False),
    _row(r"(^|NVIDIA )A10$", (21, 24), (31.2, 62.5, 125, None), 600, 4, _L),
    _row(r"(^|NVIDIA )A30$", (22, 24), (10.3, 82, 165, None), 933, 4, _X, _D),
    _row(r"(^|NVIDIA )A40$", (43, 48), (37.4, 74.8, 149.7, None), 696, 4, _L),
    _row(r"A100-SXM.*40GB", (38, 40), (19.5, 156, 312, None), 1555, 4, _M, _L, nvlink=600),
    _row(r"A100.*40GB", (38, 40), (19.5, 156, 312, None), 1555, 4, _M, _L),
    _row(r"A100 80GB PCIe|A100-PCIE-80GB", (78, 80), (19.5, 156, 312, None), 1935, 4, _M),
    _row(r"A100-SXM.*80GB", (78, 80), (19.5, 156, 312, None), 2039, 4, _M, nvlink=600),
    _row(r"NVIDIA L4$", (21, 24), (30.3, 60, 121, 242), 300, 4, _L),
    _row(r"NVIDIA L40S", (43, 48), (91.6, 183, 362, 733), 864, 4, _M),
    _row(r"RTX 3090$", (23, 24), (35.6, 35.6, 71, None), 936, 4, _L, _W),
    _row(r"RTX 4090$", (23, 24), (82.6, 82.6, 165.2, 330), 1008, 4, _L, _W),
    _row(r"RTX 5090$", (31, 32), (104.8, 104.8, 209.5, 419), 1792, 5, _W),
    _row(r"RTX 6000 Ada", (47, 48), (91.1, 182, 364, 728), 960, 4, _W),
    _row(r"H100 PCIe", (78, 80), (51, 378, 756, 1513), 2000, 5, _M, _T),
    _row(r"H100 NVL", (92, 94), (60, 418, 835, 1671), 3900, 5, _T, _M),
    _row(r"H100 80GB HBM3", (78, 80), (67, 494.5, 989, 1979), 3350, 5, _M, _T, nvlink=900),
    _row(r"H200 NVL", (139, 141), (60, 418, 836, 1671), 4800, 5, f"{_L}, sparse there, halved"),
    _row(r"NVIDIA H200$", (139, 141), (67, 494.5, 989, 1979), 4800, 5, _M, _T, nvlink=900),
    _row(r"GH200", (94, 97), (67, 494.5, 989, 1979), 4000, None, _M),
    _row(r"GH200", (139, 144), (67, 494.5, 989, 1979), 4800, None, _M),
    _row(r"NVIDIA B200", (178, 183), (80, 1125, 2250, 4500), 8000, 5, _M, _T, nvlink=1800),
    # Of GB10's tensor cores only a sparse 4-bit figure is published; its memory is the system's.
    _row(r"NVIDIA GB10$", (110, 128), (31, None, None, None), 273, None, _D),
)

_AMPERE = {"float32": 256, "tf32": 512, "float16": 1024, "bfloat16": 1024}
_ADA = {**_AMPERE, "float8": 2048}
PER_CLOCK = {
    "7.0": {"float32": 128, "float16": 1024},
    "7.5": {"float32": 128, "float16": 1024},
    "8.0": {"float32": 128, "tf32": 1024, "float16": 2048, "bfloat16": 2048},
    "8.6": _AMPERE,
    "8.9": _ADA,
    "9.0": {"float32": 256, "tf32": 2048, "float16": 4096, "bfloat16": 4096, "float8": 8192},
    "10.0": {"float32": 256, "tf32": 4096, "float16": 8192, "bfloat16": 8192, "float8": 16384},
    "12.0": _ADA,
    "12.1": _ADA,
}
"""FLOP per clock and multiprocessor, dense, by compute capability (vendor's whitepapers)."""
_HALVED = ("7.5", "8.6", "8.9", "12.0")
"""Where GeForce parts run the tensor cores at half the rate of the others."""


def published(device: TorchDevice) -> Peak | None:
    """The table's row for a device, by its name and memory size."""
    if device.total_memory is None:
        return None
    gib = device.total_memory / 2**30
    for peak in PEAKS:
        if re.search(peak.pattern, device.name) and peak.min_gib - 2 <= gib <= peak.max_gib + 1:
            return peak
    return None


def derived_flop_per_s(device: TorchDevice, precision: str) -> float | None:
    """Multiprocessors x FLOP per clock x highest clock.

    Whether a part is a GeForce cannot be read from its capability; the name decides.
    """
    per_clock = PER_CLOCK.get(device.capability or "", {}).get(precision)
    if per_clock is None or device.multi_processors is None or device.clock_hz is None:
        return None
    halved = "GeForce" in device.name and precision != "float32"
    if halved and device.capability in _HALVED:
        per_clock //= 2
    return device.multi_processors * per_clock * device.clock_hz


def derived_byte_per_s(device: TorchDevice) -> float | None:
    """Memory clock x 2 (both edges) x bus width; a MIG slice has only a share of the bus."""
    clock, bits = device.memory_clock_hz, device.memory_bus_bits
    if not clock or not bits or "MIG" in device.name:
        return None
    return clock * 2 * bits / 8
