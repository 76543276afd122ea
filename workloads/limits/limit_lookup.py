"""Look up the limit of a run's rate, and measure a ceiling where there is no other.

A ceiling is the best block of matrix products, or of copies, of a few sizes. Measuring comes at the
end of a run: what it allocates would be in the run's peaks.
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
from workloads.measure import cpu_share, environment, memory, torch_state
from workloads.measure.clocks import Clock, HostClock, TimedBlock
from workloads.measure.timing import BLOCK_S, Cancelled, Control
from workloads.protocol.results import COPY, Ceiling, Limit, Rates, first_line

SECONDS = 2.0
"""Of the blocks that count, for one ceiling that a run lacks."""
THOROUGH_S = 6.0
"""And for one that is asked for itself: on a virtual machine a neighbour can take a share of the
caches and of the clock for seconds."""
CPU_BLOCK_S = 0.001
"""On a CPU the moments in which nothing else runs are short. A GPU has longer blocks: what it does
in the first millisecond it cannot keep up for long."""
CLOSE = 1.5
"""A size that took longer than this times the best one's at the first look is left out."""
CONTENDERS = 4
LONGEST_CALL_S = 0.25
"""No larger product is tried where a call is likely to take longer: a cancel would wait for it."""
SMALLEST_N, LARGEST_N = 256, 16_384
SMALLEST_COPY, LARGEST_COPY = 64 * 2**20, 2**30
_ROWS = 2**20
"""So many random numbers are copied over and over: to make more takes longer than to time them."""
SHARE_OF_FREE = 8
"""A ceiling's data takes at most one part in so many of the free memory."""
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
    """A block: of what, and how fast."""

    candidate: _Candidate
    rate: float
    """FLOP or bytes per second."""


def conditions(device: torch.device) -> dict[str, str]:
    """Return the conditions that a ceiling of this device holds under."""
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
    """Return the driver's version as its kernel module reports it; on a Mac, the system's."""
    if device.type == "mps":
        return platform.mac_ver()[0]
    try:
        text = _DRIVER.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "not told"
    found = re.search(r"Kernel Module\D*([\d.]+)", text)
    return found.group(1) if found else "not told"


def best_rate(
    kind: str, place: Place, clock: Clock, control: Control, seconds: float = SECONDS
) -> Ceiling:
    """Measure one ceiling.

    Args:
        kind: a precision, or :data:`workloads.protocol.results.COPY`.
        place: the device.
        clock: of the device.
        control: told that it goes on; may end it.
        seconds: of the blocks that count.

    Raises:
        Cancelled: the control ended it.
        Skip: the device has no such numbers.
        RuntimeError: what torch says, for one that it has no product of such numbers here.
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
    """Measure the candidates and return the best block of all, and how many there were.

    Half of the time is for all that are close to the first, in turns: who is ahead at a first look
    can be luck. The rest is for the one that was best then.

    Args:
        candidates: the fastest at a first look first.
        clock: of the device.
        control: told that it goes on; may end it.
        seconds: of the blocks.
    """
    first = candidates[0]
    slowest = CLOSE * first.call_s / first.work
    close = [item for item in candidates[:CONTENDERS] if item.call_s / item.work <= slowest]
    best, blocks = _race(close, clock, control, seconds / 2)
    again, more = _race([best.candidate], clock, control, seconds / 2)
    return max(best, again, key=lambda found: found.rate), blocks + more


def _race(
    candidates: list[_Candidate], clock: Clock, control: Control, seconds: float
) -> tuple[_Found, int]:
    """Measure the candidates in turns and return the best block, and how many there were."""
    wanted = CPU_BLOCK_S if isinstance(clock, HostClock) else BLOCK_S
    best, blocks, spent = _Found(candidates[0], 0.0), 0, 0.0
    while spent < seconds or blocks < len(candidates):
        candidate = candidates[blocks % len(candidates)]
        calls = max(1, round(wanted / max(candidate.call_s, 1e-9)))
        block = clock.block(candidate.call, calls)
        rate = calls * candidate.work / _seconds(block)
        if rate > best.rate:
            best = _Found(candidate, rate)
        blocks, spent = blocks + 1, spent + block.wall_s
        control.report("measuring the ceiling", blocks)
    return best, blocks


def _seconds(block: TimedBlock) -> float:
    return block.wall_s if block.device_s is None else block.device_s


def _products(kind: str, place: Place, clock: Clock) -> Iterator[_Candidate]:
    """Square products, doubled in size while a call stays short."""
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
    for each in (size, 4 * size):
        room = free is None or 2 * each <= free / SHARE_OF_FREE
        if each > size and (each > LARGEST_COPY or not room):
            return
        source = place.randn(_ROWS).repeat(each // 4 // _ROWS)
        target = torch.empty_like(source)

        def call(source: torch.Tensor = source, target: torch.Tensor = target) -> torch.Tensor:
            return target.copy_(source)

        yield _Candidate(f"copy of {each // 2**20} MiB", 2 * each, call, _warm(call, clock))


def _warm(call: Callable[[], object], clock: Clock) -> float:
    """Seconds of a call once it has loaded and faulted in what it needs."""
    first = clock.block(call, 1).wall_s
    return min(first, *(_seconds(clock.block(call, 1)) for _ in range(2)))


@contextmanager
def _use_default_flags() -> Iterator[None]:
    """Backend flags at torch's defaults: a ceiling is not that of a setting tried just now."""
    before = {flag.name: flag.get() for flag in torch_state.FLAGS}
    torch_state.apply_flags(torch_state.DEFAULTS)
    try:
        yield
    finally:
        torch_state.apply_flags(before)


@contextmanager
def _tf32(kind: str, device_type: str) -> Iterator[None]:
    """float32 products in full, or in TF32 where that is what is measured."""
    if device_type != "cuda":
        yield
        return
    backend = torch.backends.cuda.matmul
    before = backend.allow_tf32
    backend.allow_tf32 = kind == TF32
    try:
        yield
    finally:
        backend.allow_tf32 = before


HALVES = ("float16", "bfloat16")
NO_RATE = "this workload is not held against a limit"


@dataclass(frozen=True, slots=True)
class LimitQuery:
    """A rate, and the kind of limit that is looked up for it."""

    kind: str
    """A precision, ``memory``, ``pcie`` or ``nvlink``."""
    rate: float


def queries(case: Case, rates: Rates, device: torch.device) -> tuple[LimitQuery, ...] | str:
    """Return the limits to look up for a run's rates, operations first, or why there are none."""
    asked = []
    if rates.flop_per_s is not None and case.precision is not None:
        asked.append(LimitQuery(case.precision, rates.flop_per_s))
    traffic = _of_bytes(case, rates, device)
    if isinstance(traffic, LimitQuery):
        return (*asked, traffic)
    return tuple(asked) or traffic


def _of_bytes(case: Case, rates: Rates, device: torch.device) -> LimitQuery | str:
    if rates.byte_per_s is None or case.byte_limit is None:
        return NO_RATE
    if case.byte_limit == limits.PCIE and device.type != "cuda":
        return f"PCI Express is not what bounds {device.type}"
    cache = environment.last_cache(device)
    return limits.cached(case.byte_limit, case.byte, cache) or LimitQuery(
        case.byte_limit, rates.byte_per_s
    )


def nearest(asked: Sequence[LimitQuery], device: torch.device, ceilings: Ceilings) -> Limit | None:
    """Of the limits that are known, the one that is reached first: the lower part of the roofline.

    ``None`` where that of the first query is not known: the others do not tell how far the
    device's units are from theirs.
    """
    found = [find(query, device, ceilings) for query in asked]
    if found[0] is None:
        return None
    return max((limit for limit in found if limit is not None), key=lambda limit: limit.fraction)


def kinds_of_ceiling(kind: str, device_type: str) -> tuple[str, ...]:
    """Return the ceilings whose highest stands in for a limit; none where none can be measured.

    A CPU may compute in float32 what is stored in 16 bits, and is often faster by that.

    Args:
        kind: a precision, ``memory``, ``pcie`` or ``nvlink``.
        device_type: cpu, cuda or mps.
    """
    own = limits.ceiling_kind(kind)
    if own is None:
        return ()
    return (own, "float32") if device_type == "cpu" and own in HALVES else (own,)


def find(asked: LimitQuery, device: torch.device, ceilings: Ceilings) -> Limit | None:
    """Return the limit, if nothing has to be measured for it."""
    described = environment.device(device)
    link = limits.read_link(described.pci_bus_id) if asked.kind == limits.PCIE else None
    limit = limits.hardware_limit(described, asked.kind, asked.rate, link)
    kinds = kinds_of_ceiling(asked.kind, device.type)
    if limit is not None or not kinds:
        return limit
    under = conditions(device)
    found = [ceilings.find(kind, under) for kind in kinds]
    return _highest([ceiling for ceiling in found if ceiling is not None], len(kinds), asked)


def _highest(found: list[Ceiling], wanted: int, asked: LimitQuery) -> Limit | None:
    """Return the limit by the highest ceiling, once all that are wanted are known."""
    if len(found) < wanted:
        return None
    highest = max(found, key=lambda ceiling: ceiling.value)
    return limits.measured_limit(highest, asked.kind, asked.rate)


def measure(
    asked: LimitQuery, device: torch.device, clock: Clock, control: Control, ceilings: Ceilings
) -> Limit | str:
    """Measure ceilings now and return the limit that they give, or why there is none.

    A ceiling that was exceeded is measured again by this; the higher of the two stays.
    """
    kinds = kinds_of_ceiling(asked.kind, device.type)
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
    limit = find(asked, device, ceilings)
    return limit or f"no limit is known for {limits.name_of(asked.kind)} of this device"


def measure_ceiling(
    kind: str,
    device: torch.device,
    clock: Clock,
    control: Control,
    ceilings: Ceilings,
    at_least: Ceiling | None = None,
    seconds: float = SECONDS,
) -> Ceiling:
    """Measure a ceiling and make it known.

    Args:
        kind: a precision or ``copy``.
        device: whose.
        clock: of it.
        control: told that it goes on; may end it.
        ceilings: takes it.
        at_least: one that holds; it stays if it is higher.
        seconds: of the blocks that count.

    Raises:
        Cancelled: the control ended it.
        Skip: the device has no such numbers.
        RuntimeError: what torch says.
    """
    ceiling = best_rate(kind, Place(str(device)), clock, control, seconds)
    if at_least is not None and at_least.value > ceiling.value:
        return at_least
    ceilings.add(ceiling)
    return ceiling
