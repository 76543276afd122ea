"""The account of the host's memory, for the CPU as a device."""

from __future__ import annotations

from tui.devices.memory.explain import explain_host
from tui.devices.memory.figures import DERIVED, HOST, mark_if_old, read_host_memory
from tui.devices.memory.model import (
    Absent,
    Gauge,
    Reading,
    Slice,
    Term,
    Value,
    clip,
    copy_age,
    derive,
    find_chain_breaks,
    get_value,
    pinned_term,
    reading,
)
from tui.devices.state.history import MemoryPoint
from tui.monitor.messages import Sample, WatchedProcess
from workloads.protocol.messages import HostHeap

HEAP = "C library"
NO_RUNNER = "no runner is active"
CHAIN = ("unique", "resident", "used", "total")
_CAUSES = {"used": "the figures are of different moments"}


def host_gauge(
    sample: Sample | None,
    heap: HostHeap | None,
    worker_pid: int | None,
    sampled_peak: MemoryPoint,
    now: float,
    pinned: int | None = None,
    *,
    no_worker: str = NO_RUNNER,
    lost: str = "",
) -> Gauge:
    """Account for the host's memory, whose total is the width of the bar.

    Args:
        sample: the monitor's newest; ``None`` before the first.
        heap: the C library's heap, of any worker.
        worker_pid: the present worker; figures of other workers are ignored.
        sampled_peak: the highest samples since the last reset.
        now: Unix time.
        pinned: bytes that the worker has pinned; ``None`` without a GPU.
        no_worker: why the worker has no figures, if there is none.
        lost: why the monitor's host is not connected; empty while it is.
    """
    waiting = Absent(lost or "waiting for the monitor")
    total, used, available = (
        (waiting, waiting, waiting) if sample is None else read_host_memory(sample, now, lost)
    )
    unique, resident = _watched(sample, worker_pid, now, no_worker, lost)
    live = heap if heap is not None and heap.pid == worker_pid else None
    in_use, cached = _heap(live, worker_pid, no_worker)
    terms = _terms(
        total=total,
        used=used,
        available=available,
        unique=unique,
        resident=resident,
        in_use=in_use,
        cached=cached,
    )
    by_key = {term.key: term for term in terms}
    return Gauge(
        total=total,
        slices=_slices(total, available, unique, resident, worker_pid is not None),
        terms=terms if pinned is None else (*terms, pinned_term(Value(pinned))),
        peaks=_peaks(sampled_peak),
        counters=(),
        would_free=cached,
        warnings=tuple(find_chain_breaks(tuple(by_key[key] for key in CHAIN), _CAUSES)),
        explanation=_explanation(used, unique, resident, cached),
    )


def _watched(
    sample: Sample | None, worker_pid: int | None, now: float, no_worker: str, lost: str
) -> tuple[Reading[int], Reading[int]]:
    if worker_pid is None:
        nothing = Absent(no_worker)
        return nothing, nothing
    process: WatchedProcess | None = None
    if sample is not None:
        process = next((item for item in sample.watched if item.pid == worker_pid), None)
    if sample is None or process is None:
        nothing = Absent("the monitor has not read the runner yet")
        return nothing, nothing
    unique = reading(process.unique, process.unavailable.get("unique"))
    resident = reading(process.resident, process.unavailable.get("resident"))
    age = now - sample.at
    return mark_if_old(unique, age, sample, lost), mark_if_old(resident, age, sample, lost)


def _heap(
    heap: HostHeap | None, worker_pid: int | None, no_worker: str
) -> tuple[Reading[int], Reading[int]]:
    if heap is None:
        why = no_worker if worker_pid is None else "the runner has not reported yet"
        return Absent(why), Absent(why)
    return (
        reading(heap.in_use, heap.unavailable.get("in_use")),
        reading(heap.cached, heap.unavailable.get("cached")),
    )


def _slices(
    total: Reading[int],
    available: Reading[int],
    unique: Reading[int],
    resident: Reading[int],
    has_worker: bool,
) -> tuple[Slice, ...]:
    whole = get_value(total)
    if whole is None or whole <= 0:
        return (Slice("unique", "runner", unique), Slice("others", "others", total))
    free = clip(get_value(available), 0, whole)
    occupied = whole - free
    parts: list[Slice] = []
    own = 0
    if not isinstance(unique, Absent):
        own = clip(get_value(unique), 0, occupied)
        parts.append(Slice("unique", "runner", copy_age(own, unique)))
        if not isinstance(resident, Absent):
            shared = clip(get_value(resident), own, occupied) - own
            parts.append(Slice("shared", "shared", copy_age(shared, resident)))
            own += shared
    elif not isinstance(resident, Absent):
        own = clip(get_value(resident), 0, occupied)
        parts.append(Slice("unique", "runner, resident", copy_age(own, resident)))
    else:
        parts.append(Slice("unique", "runner", unique))
    label = "runner + others" if has_worker and isinstance(resident, Absent) and not own else ""
    key = "process_and_others" if label else "others"
    parts.append(Slice(key, label or "others", copy_age(occupied - own, total)))
    parts.append(Slice("free", "available", copy_age(free, total)))
    return tuple(parts)


def _terms(
    total: Reading[int],
    used: Reading[int],
    available: Reading[int],
    unique: Reading[int],
    resident: Reading[int],
    in_use: Reading[int],
    cached: Reading[int],
) -> tuple[Term, ...]:
    shared = derive(lambda whole, own: max(0, whole - own), resident, unique)
    others = derive(lambda whole, own: max(0, whole - own), used, resident)
    return (
        Term("heap_in_use", "heap in use", in_use, HEAP, "for CPU tensors"),
        Term(
            "heap_cached", "heap cached", cached, HEAP, "freed, and reused by the next allocation"
        ),
        Term("unique", "runner, unique", unique, HOST, "would be free if it ended (USS)"),
        Term("shared", "runner, shared", shared, DERIVED, "resident - unique: libraries"),
        Term("resident", "runner, resident", resident, HOST, "RSS"),
        Term("others", "others", others, DERIVED, "used - resident: programs and the kernel"),
        Term("used", "host used", used, DERIVED, "total - available"),
        Term("available", "available", available, HOST, "includes reclaimable file cache"),
        Term("total", "total", total, HOST, "the cgroup's limit where that is lower"),
    )


def _peaks(sampled: MemoryPoint) -> tuple[Term, ...]:
    source = f"{HOST}, sampled"
    not_seen = "no sample since the last reset"
    return (
        Term("process_peak", "runner, resident", reading(sampled.process, not_seen), source),
        Term("used_peak", "host used", reading(sampled.used, not_seen), source),
    )


def _explanation(
    used: Reading[int], unique: Reading[int], resident: Reading[int], cached: Reading[int]
) -> tuple[str, ...]:
    known = get_value(used)
    if known is None:
        why = used.reason if isinstance(used, Absent) else ""
        return (f"The host's memory is unknown: {why}.",)
    why_not = resident.reason if isinstance(resident, Absent) else ""
    return explain_host(known, get_value(unique), get_value(resident), get_value(cached), why_not)
