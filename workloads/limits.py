"""What a rate is held against: a published peak, else a derived one, else one measured here.

Where there are several, the first in this order is taken, and the limit says which it is. No torch.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace

from workloads.inventory import TorchDevice
from workloads.pcie_link import PcieLink
from workloads.peaks import (
    READ,
    Peak,
    derived_byte_per_s,
    derived_flop_per_s,
    published,
)
from workloads.results import COPY, Basis, Ceiling, Limit
from workloads.workload import THREE_TF32

_COHERENT = r"\bG[BH]\d"
"""Names of parts whose CPU is beside them on NVLink-C2C: copies do not go over their PCIe link."""
ERROR = 0.03
"""Of a limit itself: rounded figures, clocks that are a little off, noise of a measured one."""
CACHES = 4
"""Bytes of a call below this many times the last cache may never reach the memory."""

MEMORY, PCIE, NVLINK = "memory", "pcie", "nvlink"
_NAMES = {
    MEMORY: "memory bandwidth",
    PCIE: "PCIe, one way",
    NVLINK: "NVLink, one way",
    THREE_TF32: "float32 (or 3xTF32)",
}


def name_of(kind: str) -> str:
    """What a limit is called: the precision, or of what it is the bandwidth.

    Args:
        kind: a precision, ``memory``, ``pcie`` or ``nvlink``.
    """
    return _NAMES.get(kind, kind)


def ceiling_kind(kind: str) -> str | None:
    """The ceiling that can stand in for a limit; ``None`` if there is none to measure."""
    # A ceiling is of plain products of one type; float8 needs scales beside it.
    unmeasured = (PCIE, NVLINK, THREE_TF32, "float8")
    return None if kind in unmeasured else COPY if kind == MEMORY else kind


def hardware_limit(
    device: TorchDevice, kind: str, rate: float, link: PcieLink | None = None
) -> Limit | None:
    """The limit by the table or the device's properties; ``None`` where neither has a figure.

    Args:
        device: as torch describes it.
        kind: a precision (``Case.precision``), ``memory``, ``pcie`` or ``nvlink``.
        rate: that is held against it, FLOP/s or byte/s.
        link: the device's, as it was right after the run; for ``pcie`` it goes before the table,
            which takes every slot for one of sixteen lanes.
    """
    if kind == PCIE and link is not None and not re.search(_COHERENT, device.name):
        return _of_link(link, rate)
    peak = published(device)
    listed = _listed(peak, kind) if peak is not None else None
    derived = _derived(device, kind)
    if peak is not None and listed is not None:
        # Datasheets quote some rates at less than the highest clock.
        reach = max(1.0, (derived or 0.0) / listed)
        source = f"published dense peak ({peak.source}; read {READ})"
        return _limit(
            kind, listed, rate, source=source, basis="published", error=reach * (1 + ERROR) - 1
        )
    if derived is None:
        return None
    return _limit(
        kind, derived, rate, source=_how_derived(device, kind), basis="derived", error=ERROR
    )


def _of_link(link: PcieLink, rate: float) -> Limit:
    """By the link as it is; one that is too fast for that shows that it had slowed down since."""
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
    """The limit by a ceiling that was measured on this box."""
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(ceiling.measured_at))
    other = "" if ceiling.kind in (COPY, kind) else f"in {ceiling.kind}, which is faster here: "
    source = f"measured on this box {moment}: {other}{ceiling.how}"
    limit = _limit(kind, ceiling.value, rate, source=source, basis="measured", error=ERROR)
    return replace(limit, disturbed=ceiling.disturbed)


def uncached(smallest: int, cache: int | None) -> int:
    """Bytes of a tensor whose copy goes to the memory: ``smallest``, doubled as often as it takes.

    Args:
        smallest: bytes, for a cache that is not known or small.
        cache: the last one before the memory, bytes; ``None`` if not known.
    """
    size = smallest
    while 2 * size < CACHES * (cache or 0):
        size *= 2
    return size


def cached(kind: str, byte: int | None, cache: int | None) -> str | None:
    """Why a rate is not held against the memory's bandwidth, if it is not.

    Args:
        kind: of the limit.
        byte: that one call moves.
        cache: the last one before the memory, bytes; ``None`` if not known.
    """
    if kind != MEMORY or not cache or byte is None or byte >= CACHES * cache:
        return None
    moved, held = byte / 2**20, cache / 2**20
    return (
        f"{moved:.3g} MiB a call can stay in the cache of {held:.3g} MiB: the memory's bandwidth "
        "is no limit for it"
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
    """The rate of products of a kind, from those of the precisions that the hardware has."""
    if kind != THREE_TF32:
        return rate_of(kind)
    plain, tensor = rate_of("float32"), rate_of("tf32")
    return None if plain is None or tensor is None else max(plain, tensor / 3)


def _how_derived(device: TorchDevice, kind: str) -> str:
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
