"""Look up the limit of a run's rate, and measure a ceiling where no other limit exists.

A ceiling is the best block of matrix products, or of copies, of a few sizes. Measuring comes at the
end of a run, since its allocations would raise the run's peaks.
"""

from __future__ import annotations

import gc
import os
import platform
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from workloads.declare.place import DTYPES, Place
from workloads.declare.workload import Case, Skip
from workloads.limits import limits
from workloads.limits.ceilings import Ceilings
from workloads.limits.limits import uncached
from workloads.measure import cpu_share, environment, float32, memory, torch_state
from workloads.measure.clocks import Clock, HostClock
from workloads.measure.timing import BLOCK_S, Cancelled, Control
from workloads.protocol.results import COPY, Ceiling, Limit, Rates, first_line

SECONDS = 2.0
"""Seconds of counted blocks for one ceiling that a run lacks."""
THOROUGH_S = 6.0
"""Seconds for an explicitly requested ceiling: on a virtual machine, a neighbor can take a share
of the caches and of the clock for seconds."""
CPU_BLOCK_S = 0.001
"""On a CPU, undisturbed moments are short. A GPU has longer blocks, since it cannot sustain its
first millisecond's rate for long."""
CLOSE = 1.5
"""A size is dropped if it took more than this multiple of the best one's time at first."""
CONTENDERS = 4
LONGEST_CALL_S = 0.25
"""Larger products are skipped where a call would probably take longer: a cancel has to wait."""
SMALLEST_N, LARGEST_N = 256, 16_384
SMALLEST_COPY, LARGEST_COPY = 64 * 2**20, 2**30
_ROWS = 2**20
"""Number of random numbers, copied repeatedly: drawing more takes longer than timing them."""
SHARE_OF_FREE = 8
"""A ceiling's data uses at most this fraction (one in so many) of the free memory."""
TF32 = "tf32"
_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One size, ready to be called."""

    name: str
    work: int
    """FLOP or bytes of one call."""
    call: Callable[[], object]
    call_s: float


@dataclass(frozen=True, slots=True)
class _Found:
    """A block's candidate and rate."""

    candidate: _Candidate
    rate: float
    """FLOP or bytes per second."""


def conditions(device: torch.device) -> dict[str, str]:
    """Return the conditions under which a ceiling of this device is valid."""
    common = {
        "host": socket.gethostname(),
        "torch": torch.__version__,
        "library": str(torch.version.cuda or torch.version.hip or "none"),
    }
    described = environment.device(device)
    if device.type == "cpu":
        threads = str(torch.get_num_threads())
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        return {**common, "cpu": described.name, "cpus": str(usable), "threads": threads}
    where = described.uuid or described.name
    return {**common, "device": where, "name": described.name, "driver": _driver(device)}


def _driver(device: torch.device) -> str:
    """Return the driver's version from its kernel module; on a Mac, the system's version."""
    if device.type == "mps":
        return platform.mac_ver()[0]
    try:
        text = _DRIVER.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "not told"
    match = re.search(r"Kernel Module\D*([\d.]+)", text)
    return match.group(1) if match else "not told"


def best_rate(
    kind: str, place: Place, clock: Clock, control: Control, seconds: float = SECONDS
) -> Ceiling:
    """Measure one ceiling.

    Args:
        kind: a precision, or :data:`workloads.protocol.results.COPY`.
        place: the device with its data.
        clock: the device's clock.
        control: receives the progress; may end the run.
        seconds: total of the counted blocks.

    Raises:
        Cancelled: the control ended it.
        Skip: the device does not support this precision.
        RuntimeError: an error from torch, such as for a product it does not have here.
    """
    control.report("measuring the ceiling")
    with _use_default_flags(), _tf32(kind, place.type), torch.inference_mode():
        candidates = list(_copies(place, clock) if kind == COPY else _products(kind, place, clock))
        candidates.sort(key=lambda item: item.call_s / item.work)
        cpu, began = cpu_share.now(), time.perf_counter()
        best, blocks = _best(candidates, clock, control, seconds)
    others = cpu_share.other_cores(cpu, cpu_share.now(), time.perf_counter() - began)
    on_cpu = place.type == "cpu"
    disturbed = on_cpu and cpu_share.disturbed(others, torch.get_num_threads())
    name, rate = best.candidate.name, best.rate
    del candidates, best
    gc.collect()
    if not on_cpu or memory.host_heap().in_use is not None:
        memory.empty_cache(place.device)
    how = f"{name}, best of {blocks} blocks, torch {torch.__version__}"
    how += f", {torch.get_num_threads()} threads" if on_cpu else ""
    how += f", while others kept {others:.1f} cores busy" if disturbed else ""
    return Ceiling(
        kind=kind,
        value=rate,
        how=how,
        measured_at=time.time(),
        under=conditions(place.device),
        disturbed=disturbed,
    )


def _best(
    candidates: list[_Candidate], clock: Clock, control: Control, seconds: float
) -> tuple[_Found, int]:
    """Measure the candidates, and return the best of all blocks, and the number of blocks.

    Half of the time goes to all candidates close to the first, in turns, since luck can decide a
    single look. The rest goes to the best of that half.

    Args:
        candidates: sorted by a first look, the fastest first.
        clock: the device's clock.
        control: receives the progress; may end the run.
        seconds: total of the blocks.
    """
    first = candidates[0]
    slowest = CLOSE * first.call_s / first.work
    close = [item for item in candidates[:CONTENDERS] if item.call_s / item.work <= slowest]
    best, blocks = _race(close, clock, control, seconds / 2)
    again, more = _race([best.candidate], clock, control, seconds / 2)
    return max(best, again, key=lambda result: result.rate), blocks + more


def _race(
    candidates: list[_Candidate], clock: Clock, control: Control, seconds: float
) -> tuple[_Found, int]:
    """Measure the candidates in turns, and return the best block and the number of blocks."""
    block_s = CPU_BLOCK_S if isinstance(clock, HostClock) else BLOCK_S
    best, blocks, spent = _Found(candidates[0], 0.0), 0, 0.0
    while spent < seconds or blocks < len(candidates):
        candidate = candidates[blocks % len(candidates)]
        calls = max(1, round(block_s / max(candidate.call_s, 1e-9)))
        block = clock.block(candidate.call, calls)
        rate = calls * candidate.work / block.seconds("device")
        if rate > best.rate:
            best = _Found(candidate, rate)
        blocks, spent = blocks + 1, spent + block.wall_s
        control.report("measuring the ceiling", blocks)
    return best, blocks


def _products(kind: str, place: Place, clock: Clock) -> Iterator[_Candidate]:
    """Yield square products, doubled in size while a call stays short."""
    dtype = "float32" if kind == TF32 else kind
    n, free = SMALLEST_N, place.free_memory()
    while n <= LARGEST_N:
        size = 3 * n * n * max(4, DTYPES[dtype].itemsize)
        if n > SMALLEST_N and free is not None and size > free / SHARE_OF_FREE:
            return
        a, b = place.randn(n, n, dtype=dtype), place.randn(n, n, dtype=dtype)
        out = torch.empty_like(a)

        def call(a: torch.Tensor = a, b: torch.Tensor = b, out: torch.Tensor = out) -> torch.Tensor:
            return torch.mm(a, b, out=out)

        call_s = _warm(call, clock)
        yield _Candidate(f"{n} x {n} matrix product", 2 * n**3, call, call_s)
        if 8 * call_s > LONGEST_CALL_S:
            return
        n *= 2


def _copies(place: Place, clock: Clock) -> Iterator[_Candidate]:
    """Yield copies too large for the cache; each reads and writes every byte."""
    free = place.free_memory()
    size = uncached(SMALLEST_COPY, environment.last_cache(place.device))
    for byte_count in (size, 4 * size):
        room = free is None or 2 * byte_count <= free / SHARE_OF_FREE
        if byte_count > size and (byte_count > LARGEST_COPY or not room):
            return
        source = place.randn(_ROWS).repeat(byte_count // 4 // _ROWS)
        target = torch.empty_like(source)

        def call(source: torch.Tensor = source, target: torch.Tensor = target) -> torch.Tensor:
            return target.copy_(source)

        yield _Candidate(
            f"copy of {byte_count // 2**20} MiB", 2 * byte_count, call, _warm(call, clock)
        )


def _warm(call: Callable[[], object], clock: Clock) -> float:
    """Return the seconds of a call that has loaded its libraries and touched its pages."""
    first = clock.block(call, 1).wall_s
    return min(first, *(clock.block(call, 1).seconds("device") for _ in range(2)))


@contextmanager
def _use_default_flags() -> Iterator[None]:
    """Set backend flags to torch's defaults, so that ceilings are independent of trial settings."""
    before = {flag.name: flag.get() for flag in torch_state.FLAGS}
    torch_state.apply_flags(torch_state.DEFAULTS)
    try:
        yield
    finally:
        torch_state.apply_flags(before)


@contextmanager
def _tf32(kind: str, device_type: str) -> Iterator[None]:
    """Compute float32 products in full, or in TF32 for a ceiling of TF32."""
    if device_type != "cuda":
        yield
        return
    with float32.tf32_set(kind == TF32, "matmul"):
        yield


HALVES = ("float16", "bfloat16")
NO_RATE = "this workload is not compared with a limit"
LOWEST_RIDGE = 4.0
"""FLOP per byte below which every device waits for its memory: an H100 has 20 in float32 and 295 in
bfloat16, a server's CPU about 10."""


@dataclass(frozen=True, slots=True)
class LimitQuery:
    """A rate, and the kind of its limit."""

    kind: str
    """A precision, ``memory``, ``pcie`` or ``nvlink``."""
    rate: float


def queries(case: Case, rates: Rates, device: torch.device) -> tuple[LimitQuery, ...] | str:
    """Return the queries for a run's rates, operations first, or the reason for none.

    The rate of operations is no query for a call that would wait for the memory, but whose bytes
    may come from a cache: it is far from the units' limit for another reason.
    """
    known = []
    if rates.flop_per_s is not None and case.precision is not None:
        known.append(LimitQuery(case.precision, rates.flop_per_s))
    traffic = _of_bytes(case, rates, device)
    if isinstance(traffic, LimitQuery):
        return (*known, traffic)
    if case.byte_limit == limits.MEMORY and _waits_for_memory(rates):
        return traffic
    return tuple(known) or traffic


def _waits_for_memory(rates: Rates) -> bool:
    """Return whether a call has too few operations for each byte to be bound by them anywhere."""
    if rates.flop_per_s is None or rates.byte_per_s is None:
        return False
    return rates.flop_per_s < LOWEST_RIDGE * rates.byte_per_s


def _of_bytes(case: Case, rates: Rates, device: torch.device) -> LimitQuery | str:
    if rates.byte_per_s is None or case.byte_limit is None:
        return NO_RATE
    if case.byte_limit == limits.PCIE and device.type != "cuda":
        return f"PCI Express is not what bounds {device.type}"
    cache = environment.last_cache(device)
    return limits.cached(case.byte_limit, case.byte, cache) or LimitQuery(
        case.byte_limit, rates.byte_per_s
    )


def nearest(
    queries: Sequence[LimitQuery], device: torch.device, ceilings: Ceilings
) -> Limit | None:
    """Return the first limit to be reached of those known: the lower part of the roofline.

    ``None`` where the first query's limit is unknown: the others do not show how far the device's
    units are from theirs.
    """
    candidates = [find(query, device, ceilings) for query in queries]
    if candidates[0] is None:
        return None
    return max(
        (limit for limit in candidates if limit is not None), key=lambda limit: limit.fraction
    )


def kinds_of_ceiling(kind: str, device_type: str) -> tuple[str, ...]:
    """Return the ceilings whose highest replaces a limit; empty where none can be measured.

    A CPU may compute in float32 with numbers stored in 16 bits, and is often faster that way.

    Args:
        kind: a precision, ``memory``, ``pcie`` or ``nvlink``.
        device_type: cpu, cuda or mps.
    """
    own = limits.ceiling_kind(kind)
    if own is None:
        return ()
    return (own, "float32") if device_type == "cpu" and own in HALVES else (own,)


def find(query: LimitQuery, device: torch.device, ceilings: Ceilings) -> Limit | None:
    """Return the limit, if no measurement is needed for it."""
    described = environment.device(device)
    link = limits.read_link(described.pci_bus_id) if query.kind == limits.PCIE else None
    limit = limits.hardware_limit(described, query.kind, query.rate, link)
    kinds = kinds_of_ceiling(query.kind, device.type)
    if limit is not None or not kinds:
        return limit
    under = conditions(device)
    known = [ceiling for kind in kinds if (ceiling := ceilings.find(kind, under)) is not None]
    if len(known) < len(kinds):
        return None
    highest = max(known, key=lambda ceiling: ceiling.value)
    return limits.measured_limit(highest, query.kind, query.rate)


def measure(
    query: LimitQuery, device: torch.device, clock: Clock, control: Control, ceilings: Ceilings
) -> Limit | str:
    """Measure ceilings now, and return the resulting limit, or the reason for none.

    An exceeded ceiling is measured again; the higher of the two stays.
    """
    kinds = kinds_of_ceiling(query.kind, device.type)
    under = conditions(device)
    before = {kind: ceilings.find(kind, under) for kind in kinds}
    lacking = [kind for kind in kinds if before[kind] is None]
    try:
        for kind in lacking or kinds:
            measure_ceiling(kind, device, clock, control, ceilings, at_least=before[kind])
    except Cancelled:
        return "cancelled before a ceiling was measured"
    except Skip as none_such:
        return str(none_such)
    except RuntimeError as error:
        return f"its ceiling cannot be measured: {first_line(error)}"
    limit = find(query, device, ceilings)
    return limit or f"no limit is known for {limits.name_of(query.kind)} of this device"


def measure_ceiling(
    kind: str,
    device: torch.device,
    clock: Clock,
    control: Control,
    ceilings: Ceilings,
    at_least: Ceiling | None = None,
    seconds: float = SECONDS,
) -> Ceiling:
    """Measure a ceiling, and add it to the known ones.

    Args:
        kind: a precision or ``copy``.
        device: the device to measure.
        clock: the device's clock.
        control: receives the progress; may end the run.
        ceilings: stores it.
        at_least: a valid ceiling, which stays if it is higher.
        seconds: total of the counted blocks.

    Raises:
        Cancelled: the control ended it.
        Skip: the device does not support this precision.
        RuntimeError: an error from torch.
    """
    ceiling = best_rate(kind, Place(str(device)), clock, control, seconds)
    if at_least is not None and at_least.value > ceiling.value:
        return at_least
    ceilings.add(ceiling)
    return ceiling
