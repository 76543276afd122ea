"""The limit of a rate: a published peak, else a derived one, else a ceiling measured here."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from workloads.declare.workload import THREE_TF32
from workloads.protocol.results import COPY, Basis, Ceiling, Limit, TorchDevice

_COHERENT = r"\bG[BH]\d"
"""Names of parts with the CPU beside them on NVLink-C2C: copies bypass their PCIe link."""
ERROR = 0.03
"""Error of a limit itself: rounded figures, slightly different clocks, noise of a measurement."""
CACHES = 4
"""A call that moves fewer bytes than this many last-level caches may never reach the memory."""

MEMORY, PCIE, NVLINK = "memory", "pcie", "nvlink"
_NAMES = {
    MEMORY: "memory bandwidth",
    PCIE: "one-way PCIe",
    NVLINK: "one-way NVLink",
    THREE_TF32: "float32 (or 3xTF32)",
}


def name_of(kind: str) -> str:
    """Return the name of a limit: the precision, or the kind of bandwidth.

    Args:
        kind: a precision, ``memory``, ``pcie`` or ``nvlink``.
    """
    return _NAMES.get(kind, kind)


def ceiling_kind(kind: str) -> str | None:
    """Return the kind of ceiling that can replace a limit; ``None`` if none can be measured."""
    # Ceilings come from plain products of one type; float8 also needs scales.
    unmeasured = (PCIE, NVLINK, THREE_TF32, "float8")
    return None if kind in unmeasured else COPY if kind == MEMORY else kind


def hardware_limit(
    device: TorchDevice, kind: str, rate: float, link: PcieLink | None = None
) -> Limit | None:
    """Return the limit from the table or the device's properties; ``None`` without a figure.

    Args:
        device: as torch describes it.
        kind: a precision (``Case.precision``), ``memory``, ``pcie`` or ``nvlink``.
        rate: the rate to compare, FLOP/s or byte/s.
        link: the device's link, read right after the run; for ``pcie`` it takes precedence over the
            table, which assumes sixteen lanes in every slot.
    """
    if kind == PCIE and link is not None and not re.search(_COHERENT, device.name):
        return _find_link_limit(link, rate)
    peak = published(device)
    listed = _listed(peak, kind) if peak is not None else None
    derived = _derived(device, kind)
    if peak is not None and listed is not None:
        # Datasheets state some rates for less than the highest clock.
        reach = max(1.0, (derived or 0.0) / listed)
        source = f"published dense peak ({peak.source}; read {READ})"
        return _limit(
            kind, listed, rate, source=source, basis="published", error=reach * (1 + ERROR) - 1
        )
    if derived is None:
        return None
    return _limit(
        kind, derived, rate, source=_describe_derivation(device, kind), basis="derived", error=ERROR
    )


def _find_link_limit(link: PcieLink, rate: float) -> Limit:
    """Return the link's current limit; a faster rate shows that the link has slowed down since."""
    limit = _limit(
        PCIE,
        link.now.byte_per_s,
        rate,
        source=f"derived: {link.now.text}",
        basis="derived",
        error=ERROR,
    )
    most = link.most
    if most is None or most.byte_per_s <= link.now.byte_per_s:
        return limit
    if limit.exceeded:
        source = f"derived: {most.text}; right after the run {link.now.text}, as idle links are"
        return _limit(PCIE, most.byte_per_s, rate, source=source, basis="derived", error=ERROR)
    slower = f"the device could do {most.text}: the slot has less, or the link had slowed down"
    return replace(limit, source=f"{limit.source}; {slower}")


def measured_limit(ceiling: Ceiling, kind: str, rate: float) -> Limit:
    """Return the limit from a ceiling measured on this machine."""
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(ceiling.measured_at))
    other = "" if ceiling.kind in (COPY, kind) else f"in {ceiling.kind}, which is faster here: "
    source = f"measured on this machine {moment}: {other}{ceiling.how}"
    limit = _limit(kind, ceiling.value, rate, source=source, basis="measured", error=ERROR)
    return replace(limit, disturbed=ceiling.disturbed)


def uncached(smallest: int, cache: int | None) -> int:
    """Return ``smallest``, doubled until a copy of so many bytes exceeds the cache.

    Args:
        smallest: bytes, for a small cache or an unknown size.
        cache: bytes of the last cache before the memory; ``None`` if unknown.
    """
    size = smallest
    while 2 * size < CACHES * (cache or 0):
        size *= 2
    return size


def cached(kind: str, byte: int | None, cache: int | None) -> str | None:
    """Return the reason not to compare a rate with the memory's bandwidth, if there is one.

    Args:
        kind: kind of the limit.
        byte: bytes that one call moves.
        cache: bytes of the last cache before the memory; ``None`` if unknown.
    """
    if kind != MEMORY or not cache or byte is None or byte >= CACHES * cache:
        return None
    moved, capacity = byte / 2**20, cache / 2**20
    return (
        f"{moved:.3g} MiB a call can stay in the cache of {capacity:.3g} MiB: the memory's "
        "bandwidth is no limit for it"
    )


def _listed(peak: Peak, kind: str) -> float | None:
    if kind == MEMORY:
        return peak.memory_gb_s * 1e9
    if kind == PCIE:
        return None if peak.pcie_gb_s is None else peak.pcie_gb_s * 1e9
    if kind == NVLINK:
        return None if peak.nvlink_gb_s is None else peak.nvlink_gb_s * 1e9 / 2
    tflops = _products(kind, peak.tflops.get)
    return None if tflops is None else tflops * 1e12


def _derived(device: TorchDevice, kind: str) -> float | None:
    if kind in (PCIE, NVLINK):
        return None
    if kind == MEMORY:
        return derived_byte_per_s(device)
    return _products(kind, lambda precision: derived_flop_per_s(device, precision))


def _products(kind: str, rate_of: Callable[[str], float | None]) -> float | None:
    """Return the rate of products of a kind, from the rates of the hardware's precisions."""
    if kind != THREE_TF32:
        return rate_of(kind)
    plain, tensor = rate_of("float32"), rate_of("tf32")
    return None if plain is None or tensor is None else max(plain, tensor / 3)


def _describe_derivation(device: TorchDevice, kind: str) -> str:
    if kind == MEMORY:
        megahertz = (device.memory_clock_hz or 0) / 1e6
        return f"derived: a bus of {device.memory_bus_bits} bits at {megahertz:.0f} MHz, both edges"
    megahertz = (device.clock_hz or 0) / 1e6
    return f"derived: {device.multi_processors} multiprocessors at {megahertz:.0f} MHz"


def _limit(kind: str, value: float, rate: float, source: str, basis: Basis, error: float) -> Limit:
    return Limit(
        name=name_of(kind),
        value=value,
        fraction=rate / value,
        source=source,
        basis=basis,
        error=error,
    )


READ = "2026-11-21"
"""Date on which all sources of the table were read."""
_M, _L, _T, _X, _W, _D = (
    "ml-engineering's accelerator tables",
    "lightning-fabric's table",
    "torchtitan",
    "xformers' device limits",
    "the architecture's whitepaper",
    "TechPowerUp",
)


@dataclass(frozen=True, slots=True)
class Peak:
    """One part: TFLOP/s by precision, GB/s of its memory and of its host link one way."""

    pattern: str
    """Regular expression for the name that CUDA reports."""
    min_gib: int
    max_gib: int
    """Upper bound of the memory that CUDA reports: parts share names, and a MIG slice has less."""
    tflops: dict[str, float]
    memory_gb_s: float
    pcie_gb_s: float | None
    """``None`` where the host link is not PCI Express."""
    source: str
    nvlink_gb_s: float | None = None
    """Both ways together, all links of one GPU; ``None`` where some parts have none."""


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
    """Return a row; ``flops``: float32, TF32, 16 and 8 bits, ``None`` if absent or unknown."""
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


# Older drivers omit NVIDIA's name from the data-center parts' names.
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
    _row(r"GH200", (139, 144), (67, 494.5, 989, 1979), 4900, None, _M),
    _row(r"NVIDIA B200", (178, 183), (80, 1125, 2250, 4500), 8000, 5, _M, _T, nvlink=1800),
    # For GB10's tensor cores only a sparse 4-bit figure is published; its memory is the system's.
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
"""Capabilities whose GeForce parts run the tensor cores at half the others' rate."""


def published(device: TorchDevice) -> Peak | None:
    """Return the table's row for a device, by its name and memory size."""
    if device.total_memory is None:
        return None
    gib = device.total_memory / 2**30
    for peak in PEAKS:
        if re.search(peak.pattern, device.name) and peak.min_gib - 2 <= gib <= peak.max_gib + 1:
            return peak
    return None


def derived_flop_per_s(device: TorchDevice, precision: str) -> float | None:
    """Return multiprocessors x FLOP per clock x highest clock.

    The capability does not identify a GeForce part; the name does.
    """
    per_clock = PER_CLOCK.get(device.capability or "", {}).get(precision)
    if per_clock is None or device.multi_processors is None or device.clock_hz is None:
        return None
    halved = "GeForce" in device.name and precision != "float32"
    if halved and device.capability in _HALVED:
        per_clock //= 2
    return device.multi_processors * per_clock * device.clock_hz


def derived_byte_per_s(device: TorchDevice) -> float | None:
    """Return memory clock x 2 (both edges) x bus width; a MIG slice has a share of the bus only."""
    clock, bits = device.memory_clock_hz, device.memory_bus_bits
    if not clock or not bits or "MIG" in device.name:
        return None
    return clock * 2 * bits / 8


_DEVICES = Path("/sys/bus/pci/devices")
_OLD_GT_S, _NEWEST_GT_S = 5.0, 64.0
_PAYLOADS = (8 / 10, 128 / 130, 242 / 256)
"""Share of payload in the bits sent: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, FLITs of 256
bytes from 64 GT/s on (PCI-SIG, PCI Express base specifications 1 to 6)."""


@dataclass(frozen=True, slots=True)
class LinkState:
    """Transfers per second of each lane, in 10^9, and the number of lanes."""

    gt_s: float
    lanes: int

    @property
    def byte_per_s(self) -> float:
        """Bytes per second in one direction, without the encoding."""
        place = 0 if self.gt_s <= _OLD_GT_S else 1 if self.gt_s < _NEWEST_GT_S else 2
        return self.gt_s * 1e9 * self.lanes * _PAYLOADS[place] / 8

    @property
    def text(self) -> str:
        return f"{self.gt_s:g} GT/s x{self.lanes}"


@dataclass(frozen=True, slots=True)
class PcieLink:
    """A link's current state, and the device's best possible one."""

    now: LinkState
    most: LinkState | None
    """``None`` where the system does not report it."""


def read_link(pci_bus_id: str | None) -> PcieLink | None:
    """Return the link of a device; ``None`` where the system does not report it.

    Args:
        pci_bus_id: bus id in NVML's form, ``00000000:65:00.0``.
    """
    if pci_bus_id is None:
        return None
    domain, _, rest = pci_bus_id.lower().partition(":")
    # The kernel writes the domain with four digits.
    folder = _DEVICES / f"{domain[-4:]}:{rest}"
    now = _state(folder, "current")
    return None if now is None else PcieLink(now, _state(folder, "max"))


def _state(folder: Path, which: str) -> LinkState | None:
    try:
        speed = (folder / f"{which}_link_speed").read_text(encoding="ascii")
        lanes = int((folder / f"{which}_link_width").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    match = re.match(r"([\d.]+) GT/s", speed)
    # A device behind a non-PCIe bridge reports "Unknown", or no lanes.
    return LinkState(float(match[1]), lanes) if match and lanes > 0 else None
