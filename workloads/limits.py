"""What a rate is held against: published peaks, or where there is no row, derived ones.

Published figures are dense (no structured sparsity), with float32 accumulation for the 16-bit
types, from the vendor's datasheet of the part; bandwidths in 10^9 bytes per second. Sources by
letter: M = the accelerator chapter of the Machine Learning Engineering book, L = Lightning
Fabric's table, T = torchtitan's utilities, X = xformers' device limits, W = the vendor's
architecture whitepaper, each compared with the derivation below; read 2026-11-21.
"""

from __future__ import annotations

import re

from workloads.fact import fact
from workloads.inventory import TorchDevice
from workloads.results import Limit

READ = "read 2026-11-21"


@fact
class Peak:
    """One part: TFLOP/s by precision, GB/s of its memory and of its host link one way."""

    pattern: str
    min_gib: int
    max_gib: int
    tflops: dict[str, float]
    memory_gb_s: float
    pcie_gb_s: float | None
    source: str


def _row(
    pattern: str,
    gib: tuple[int, int],
    fp32: float,
    tf32: float | None,
    half: float,
    memory: float,
    pcie: int | None,
    source: str,
    *,
    bf16: bool = True,
) -> Peak:
    tflops = {"float32": fp32, "float16": half}
    if bf16:
        tflops["bfloat16"] = half
    if tf32 is not None:
        tflops["tf32"] = tf32
    # PCI Express x16, one way, after 128b/130b encoding.
    link = {3: 15.75, 4: 31.5, 5: 63.0}.get(pcie) if pcie is not None else None
    return Peak(pattern, gib[0], gib[1], tflops, memory, link, source)


PEAKS = (
    _row(r"V100.*SXM2", (15, 33), 15.7, None, 125, 900, 3, "L, X", bf16=False),
    _row(r"V100.*PCIE", (15, 33), 14, None, 112, 900, 3, "L, X", bf16=False),
    _row(r"Tesla T4|NVIDIA T4", (14, 16), 8.1, None, 65, 320, 3, "L, X", bf16=False),
    _row(r"NVIDIA A10$", (21, 24), 31.2, 62.5, 125, 600, 4, "L"),
    _row(r"NVIDIA A30", (22, 24), 10.3, 82, 165, 933, 4, "X"),
    _row(r"NVIDIA A40", (43, 48), 37.4, 74.8, 149.7, 696, 4, "L"),
    _row(r"A100.*40GB", (38, 40), 19.5, 156, 312, 1555, 4, "M, L"),
    _row(r"A100.*80GB.*PCI|A100.*PCI.*80GB", (78, 80), 19.5, 156, 312, 1935, 4, "M"),
    _row(r"A100.*SXM.*80GB", (78, 80), 19.5, 156, 312, 2039, 4, "M"),
    _row(r"NVIDIA L4$", (21, 24), 30.3, 60, 121, 300, 4, "L"),
    _row(r"NVIDIA L40S", (43, 48), 91.6, 183, 362, 864, 4, "M"),
    _row(r"RTX 3090$", (23, 24), 35.6, 35.6, 71, 936, 4, "L, W"),
    _row(r"RTX 4090$", (23, 24), 82.6, 82.6, 165.2, 1008, 4, "L, W"),
    _row(r"RTX 5090$", (31, 32), 104.8, 104.8, 209.5, 1792, 5, "W"),
    _row(r"RTX 6000 Ada", (47, 48), 91.1, 182, 364, 960, 4, "W"),
    _row(r"H100 PCIe", (78, 80), 51, 378, 756, 2000, 5, "M, T"),
    _row(r"H100 NVL", (92, 94), 60, 418, 835, 3900, 5, "T, M"),
    _row(r"H100 80GB HBM3", (78, 80), 67, 494.5, 989, 3350, 5, "M, T"),
    _row(r"H200 NVL", (139, 141), 60, 418, 836, 4800, 5, "L halved: it lists sparse"),
    _row(r"NVIDIA H200$", (139, 141), 67, 494.5, 989, 4800, 5, "M, T"),
    _row(r"GH200", (94, 97), 67, 494.5, 989, 4000, None, "M"),
    _row(r"GH200", (139, 144), 67, 494.5, 989, 4800, None, "M"),
    _row(r"NVIDIA B200", (178, 183), 80, 1125, 2250, 7700, 5, "M, T"),
)

PER_CLOCK = {
    "7.0": {"float32": 128, "float16": 1024},
    "7.5": {"float32": 128, "float16": 1024},
    "8.0": {"float32": 128, "tf32": 1024, "float16": 2048, "bfloat16": 2048},
    "8.6": {"float32": 256, "tf32": 512, "float16": 1024, "bfloat16": 1024},
    "8.9": {"float32": 256, "tf32": 512, "float16": 1024, "bfloat16": 1024},
    "9.0": {"float32": 256, "tf32": 2048, "float16": 4096, "bfloat16": 4096},
    "10.0": {"float32": 256, "tf32": 4096, "float16": 8192, "bfloat16": 8192},
    "12.0": {"float32": 256, "tf32": 512, "float16": 1024, "bfloat16": 1024},
}
"""FLOP per clock and multiprocessor, dense, by compute capability (vendor's whitepapers)."""


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
    """Multiprocessors x FLOP per clock x clock; GeForce parts run tensor cores at half the rate."""
    per_clock = PER_CLOCK.get(device.capability or "", {}).get(precision)
    if per_clock is None or device.multi_processors is None or device.clock_hz is None:
        return None
    halved = "GeForce" in device.name and precision != "float32"
    if halved and device.capability in ("7.5", "8.6", "8.9", "12.0"):
        per_clock //= 2
    return device.multi_processors * per_clock * device.clock_hz


def compute_limit(device: TorchDevice, precision: str, flop_per_s: float) -> Limit | None:
    """The limit for a rate of multiplications of the given precision (``Case.precision``)."""
    peak = published(device)
    if peak is not None and precision in peak.tflops:
        value = peak.tflops[precision] * 1e12
        source = f"published dense peak ({peak.source}; {READ})"
        return Limit(precision, value, flop_per_s / value, source)
    derived = derived_flop_per_s(device, precision)
    if derived is None:
        return None
    megahertz = (device.clock_hz or 0) / 1e6
    source = f"derived: {device.multi_processors} multiprocessors at {megahertz:.0f} MHz"
    return Limit(precision, derived, flop_per_s / derived, source)


def bandwidth_limit(device: TorchDevice, kind: str, byte_per_s: float) -> Limit | None:
    """The limit for bytes moved: ``memory`` of the device, or ``pcie`` between it and the host."""
    peak = published(device)
    if peak is None:
        return None
    gb_s = peak.memory_gb_s if kind == "memory" else peak.pcie_gb_s
    if gb_s is None:
        return None
    name = "memory bandwidth" if kind == "memory" else "PCIe x16, one way"
    value = gb_s * 1e9
    source = f"published ({peak.source}; {READ})"
    return Limit(name, value, byte_per_s / value, source)
