"""The full account of a GPU's memory."""

from __future__ import annotations

from tui.core.text import numbers as text
from tui.devices.memory.explain import context, explain_gpu, lay_out
from tui.devices.memory.figures import (
    DERIVED,
    NVML,
    GpuFigures,
    GpuReadings,
    TorchFigures,
    cached,
    collect_figures,
    workspace_or_none,
)
from tui.devices.memory.model import (
    Absent,
    AccountWording,
    Counter,
    Gauge,
    Reading,
    Term,
    Value,
    derive,
    find_chain_breaks,
    get_value,
    pinned_term,
    reading,
)
from tui.devices.state.history import MemoryPoint
from workloads.protocol.messages import TorchMemory

CHAIN = ("requested", "allocated", "active", "reserved", "process", "used", "total")
_CAUSES = {
    "allocated": "the allocator's own figures do not fit together",
    "active": "the allocator's own figures do not fit together",
    "reserved": "the allocator's own figures do not fit together",
    "process": "NVML's figure lags behind, or in a container that pid is another process's",
    "used": "NVML's figures lag behind, or memory that processes share is counted for each",
    "total": "the memory is oversubscribed, or the figures are of different moments",
}


def gpu_gauge(readings: GpuReadings, sampled_peak: MemoryPoint) -> Gauge:
    """Account for a GPU.

    Args:
        readings: of the GPU and of the process to account for.
        sampled_peak: the highest samples since the last reset.
    """
    live, wording = readings.live, readings.wording
    figures = collect_figures(readings)
    slices = lay_out(figures)
    terms = _terms(figures)
    if wording.pinned:
        terms = (*terms, pinned_term(_pinned(live, figures.torch.reserved)))
    by_key = {term.key: term for term in terms}
    would_free = Absent(wording.ended) if figures.past else releasable(figures.torch)
    return Gauge(
        total=figures.total,
        slices=slices,
        terms=terms,
        peaks=_peaks(live, figures, sampled_peak),
        counters=_counters(live, figures.torch.reserved),
        would_free=would_free,
        warnings=(
            *_find_breaks(figures, by_key),
            *_check_sums(figures),
            *_list_events(live, wording),
        ),
        explanation=explain_gpu(figures, slices, would_free),
        wording=wording,
        unified=figures.unified,
    )


def _find_breaks(figures: GpuFigures, terms: dict[str, Term]) -> list[str]:
    """Return contradictions between terms; figures of different moments are not compared."""
    index = CHAIN.index("process")
    chains = (CHAIN,) if figures.process_splits else (CHAIN[:index], CHAIN[index:])
    return [
        warning
        for chain in chains
        for warning in find_chain_breaks(tuple(terms[key] for key in chain), _CAUSES)
    ]


def releasable(torch: TorchFigures) -> Reading[int]:
    """Return the bytes in whole free segments, an upper bound: private pools may own some."""
    active = torch.allocated if isinstance(torch.active, Absent) else torch.active
    stuck = Value(0) if isinstance(torch.stuck, Absent) else torch.stuck
    return derive(
        lambda reserved, used, stuck, workspace: max(0, reserved - used - stuck - workspace),
        torch.reserved,
        active,
        stuck,
        workspace_or_none(torch),
    )


def _difference(larger: Reading[int], smaller: Reading[int]) -> Reading[int]:
    return derive(lambda a, b: a - b, larger, smaller)


def _terms(figures: GpuFigures) -> tuple[Term, ...]:
    torch, source, from_torch = figures.torch, figures.source, figures.wording.source
    spare = derive(
        lambda used, *parts: max(0, used - sum(parts)),
        figures.used,
        Value(0) if figures.uses_no_memory else figures.process,
        figures.ours,
        figures.others,
    )
    ours = Term("ours", figures.wording.ours, figures.ours, NVML, figures.wording.about_ours)
    return (
        Term("requested", "requested", torch.requested, from_torch, "requested by live tensors"),
        Term(
            "rounding",
            "rounding",
            _difference(torch.active, torch.requested),
            DERIVED,
            "active - requested: sizes are rounded up to 512 bytes",
        ),
        Term("allocated", "allocated", torch.allocated, from_torch, "in blocks of live tensors"),
        Term(
            "pending",
            "pending free",
            _difference(torch.active, torch.allocated),
            DERIVED,
            "active - allocated: freed, but a stream may still use it",
        ),
        Term("active", "active", torch.active, from_torch, "allocated or pending free"),
        Term(
            "stuck",
            "cached, stuck",
            torch.stuck,
            from_torch,
            "inactive split: free parts of segments that are in use",
        ),
        Term(
            "releasable",
            "cached, releasable",
            torch.stuck if figures.at_oom else releasable(torch),
            DERIVED,
            "reserved - active - stuck - workspace: whole free segments",
        ),
        Term(
            "workspace",
            "cuBLAS workspace",
            torch.workspace,
            from_torch,
            "for cuBLAS, per handle and stream, during a run",
        ),
        Term("cached", "cached", cached(torch), DERIVED, "reserved - allocated - workspace"),
        Term("reserved", "reserved", torch.reserved, from_torch, "segments of torch's allocator"),
        Term(
            "context",
            "context",
            context(figures),
            DERIVED,
            "this process - reserved: CUDA context, kernels, libraries",
        ),
        Term("process", "this process", figures.process, NVML, figures.wording.about),
        *([ours] if figures.our_processes else []),
        Term("others", "others", figures.others, NVML, figures.wording.others),
        Term(
            "unattributed",
            "unattributed",
            spare,
            DERIVED,
            "device used that NVML assigns to no process",
        ),
        _used(figures),
        Term(
            "driver",
            "driver reserved",
            figures.driver,
            figures.total_source,
            "reserved by the driver for itself",
        ),
        Term("free", "free", figures.free, source, "available to all processes"),
        Term("total", "total", figures.total, figures.total_source, ""),
    )


def _used(figures: GpuFigures) -> Term:
    if figures.unified:
        return Term("used", "host used", figures.used, figures.source, "GPU and host together")
    about = "without the driver's reserve"
    if isinstance(figures.driver, Absent):
        about = "with the driver's reserve"
    return Term("used", "device used", figures.used, figures.source, about)


def _check_sums(figures: GpuFigures) -> list[str]:
    process, used = get_value(figures.process), get_value(figures.used)
    own, others = get_value(figures.ours), get_value(figures.others)
    if own is None or others is None or used is None or (process or 0) + own + others <= used:
        return []
    if process is not None and process > used:
        return []  # the chain already reports it
    both = text.size((process or 0) + own + others)
    return [
        f"the processes' figures add up to {both}, more than device used {text.size(used)}: "
        "memory that they share is counted for each"
    ]


def _pinned(torch: TorchMemory | None, like: Reading[int]) -> Reading[int]:
    reason = like.reason if isinstance(like, Absent) else "this torch does not count it"
    return reading(torch.pinned if torch else None, reason)


def _counters(torch: TorchMemory | None, like: Reading[int]) -> tuple[Counter, ...]:
    reason = like.reason if isinstance(like, Absent) else None
    return (
        Counter(
            "alloc retries",
            reading(torch.alloc_retries if torch else None, reason),
            "times that torch had to return its whole cache to find room",
        ),
        Counter(
            "out of memory",
            reading(torch.ooms if torch else None, reason),
            "allocations that failed",
        ),
    )


def _list_events(torch: TorchMemory | None, wording: AccountWording) -> list[str]:
    events = []
    if torch is not None and torch.ooms:
        events.append(f"out of memory {text.count(torch.ooms, 'time')} since {wording.since}")
    if torch is not None and torch.alloc_retries:
        times = text.count(torch.alloc_retries, "time")
        events.append(
            f"torch returned its whole cache {times} to find room since {wording.since} "
            "(alloc retries)"
        )
    return events


def _peaks(
    torch: TorchMemory | None, figures: GpuFigures, sampled: MemoryPoint
) -> tuple[Term, ...]:
    reason = figures.torch.reserved
    why = reason.reason if isinstance(reason, Absent) else None
    exact, seen = "torch, exact", f"{figures.source}, sampled"
    not_seen = "no sample since the last reset"
    whole: list[Term] = []
    if torch is not None and torch.workspace_peak:
        size = Value(torch.allocated_peak + torch.workspace_peak)
        whole.append(Term("allocated_peak_whole", "with cuBLAS", size, exact))

    def highest(then: int | None, now: Reading[int]) -> Reading[int]:
        # Of a process that is read from outside, the present figure may be newer than the samples.
        sizes = [size for size in (then, get_value(now)) if size is not None]
        return reading(max(sizes, default=None), not_seen)

    return (
        Term(
            "allocated_peak",
            "allocated",
            reading(torch.allocated_peak if torch else None, why),
            exact,
        ),
        *whole,
        Term(
            "reserved_peak", "reserved", reading(torch.reserved_peak if torch else None, why), exact
        ),
        Term("process_peak", "this process", highest(sampled.process, figures.process), seen),
        Term("used_peak", "device used", highest(sampled.used, figures.used), seen),
    )
