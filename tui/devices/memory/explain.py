"""The use of memory in two forms: slices that add up to the total, and sentences."""

from __future__ import annotations

from tui.core.text import numbers as text
from tui.devices.memory.figures import MEM_GET_INFO, NVML, GpuFigures, cached, workspace_or_none
from tui.devices.memory.model import (
    Absent,
    Reading,
    Slice,
    Stale,
    Value,
    clip,
    copy_age,
    derive,
    get_value,
)

LABELS = {
    "allocated": "allocated",
    "cached": "cached",
    "workspace": "cuBLAS",
    "context": "context",
    "process": "this process",
    "others": "others",
    "process_and_others": "context + others",
    "unattributed": "unattributed",
    "driver": "driver",
    "free": "free",
    "unknown": "use unknown",
}


def context(figures: GpuFigures) -> Reading[int]:
    """Return NVML's figure of this process minus torch's **reserved**, not its allocated."""
    process = figures.process
    if not figures.process_splits:
        # Torch's reserved memory at the time of NVML's reading is unknown.
        return process if isinstance(process, Absent) else Absent(figures.wording.busy)
    return derive(lambda whole, reserved: whole - reserved, process, figures.torch.reserved)


def lay_out(figures: GpuFigures) -> tuple[Slice, ...]:
    """Return the slices in drawing order.

    If figures contradict each other, torch's own figures take precedence, then NVML's figure of
    the process, then its figures of the others; each is limited to the rest of the device's
    ``used``. An absent figure has a slice without a size.
    """
    total = get_value(figures.total)
    if total is None or total <= 0:
        return _lay_out_without_total(figures)
    driver = clip(get_value(figures.driver), 0, total)
    room = total - driver
    used, free, gap = _used_and_free(figures, room)
    occupied = room if used is None else used
    parts = _torch_parts(figures, occupied)
    torch = sum(get_value(part.bytes) or 0 for part in parts)
    if not isinstance(figures.process, Absent):
        own = clip(get_value(figures.process), torch, occupied) - torch
        split = figures.process_splits and not isinstance(figures.torch.reserved, Absent)
        key = "context" if split else "process"
        parts.append(_slice(key, copy_age(own, figures.process)))
        torch += own
    elif not figures.ours_is_unknown:
        parts.append(_slice("context", figures.process))
    if figures.our_processes and not figures.ours_is_unknown:
        runner_size = clip(get_value(figures.ours), 0, occupied - torch)
        size = copy_age(runner_size, figures.ours)
        parts.append(Slice("ours", figures.wording.ours, size))
        torch += runner_size
    rest = occupied - torch
    whole = figures.ours_is_unknown and not figures.used_splits
    labels = {"process_and_others": "this process + others"} if whole else {}
    parts += [
        Slice(key, labels.get(key, LABELS[key]), copy_age(size, figures.total))
        for key, size in _divide_rest(figures, rest, used, gap)
    ]
    if isinstance(figures.others, Absent) and not figures.ours_is_unknown and used is None:
        parts.append(_slice("others", figures.others))
    if driver or not isinstance(figures.driver, Absent):
        parts.append(_slice("driver", copy_age(driver, figures.total)))
    if used is not None:
        label = "available" if figures.unified else LABELS["free"]
        parts.append(Slice("free", label, copy_age(free, figures.total)))
    return tuple(parts)


def _used_and_free(figures: GpuFigures, room: int) -> tuple[int | None, int, int]:
    """Return used bytes (``None`` if unknown), free bytes, and bytes that are neither."""
    free = get_value(figures.free)
    used = get_value(figures.used)
    if used is None:
        if free is None:
            return None, 0, 0
        used = room - clip(free, 0, room)
    used = clip(used, 0, room)
    left = room - used
    free = left if free is None else clip(free, 0, left)
    return used, free, left - free


def _torch_parts(figures: GpuFigures, occupied: int) -> list[Slice]:
    torch = figures.torch
    if not figures.used_splits:
        why = Absent(figures.wording.ended if figures.gone else figures.wording.busy)
        return [_slice(key, why) for key in ("allocated", "cached")]
    if isinstance(torch.allocated, Absent) or isinstance(torch.reserved, Absent):
        absent = torch.allocated if isinstance(torch.allocated, Absent) else torch.reserved
        return [_slice("allocated", absent), _slice("cached", absent)]
    allocated = clip(torch.allocated.value, 0, occupied)
    cache = clip(get_value(cached(torch)), 0, occupied - allocated)
    parts = [_slice("allocated", Value(allocated)), _slice("cached", Value(cache))]
    workspace = clip(get_value(workspace_or_none(torch)), 0, occupied - allocated - cache)
    return [*parts, _slice("workspace", Value(workspace))] if workspace else parts


def _divide_rest(
    figures: GpuFigures, rest: int, used: int | None, gap: int
) -> list[tuple[str, int]]:
    """Divide the used memory beyond this process's known part."""
    if used is None:
        return [("unknown", rest)]
    if figures.ours_is_unknown:
        parts = [("process_and_others", rest)]
        unlisted = gap
    else:
        # If some of their figures are unknown, attribute all of the rest to them.
        others = clip(get_value(figures.others), 0, rest) if figures.others_known else rest
        parts = [("others", others)]
        unlisted = rest - others + gap
    return [*parts, ("unattributed", unlisted)] if unlisted else parts


def _lay_out_without_total(figures: GpuFigures) -> tuple[Slice, ...]:
    return (
        _slice("allocated", figures.torch.allocated),
        _slice("cached", cached(figures.torch)),
        _slice("context", context(figures)),
        _slice("others", figures.others),
    )


def _slice(key: str, size: Reading[int]) -> Slice:
    return Slice(key, LABELS[key], size)


def explain_gpu(
    figures: GpuFigures, slices: tuple[Slice, ...], would_free: Reading[int]
) -> tuple[str, ...]:
    """Explain why nvidia-smi shows more than ``torch.cuda.memory_allocated()``.

    Args:
        figures: the figures of all sources.
        slices: the slices made from them.
        would_free: the most bytes that emptying the cache returns.
    """
    parts = {part.key: part for part in slices}
    return tuple(
        sentence
        for sentence in (
            _opening(figures),
            _cache(figures, would_free),
            _workspace(parts),
            _context(figures, parts),
            _ours(figures, parts),
            _others(figures, parts),
            _unattributed(figures, parts),
            _driver(figures),
            _unified(figures),
        )
        if sentence
    )


def _ended(reason: str) -> str:
    """Return a reason as the end of a sentence; a question already has its mark."""
    return reason if reason.endswith("?") else f"{reason}."


def _bytes(parts: dict[str, Slice], key: str) -> int | None:
    part = parts.get(key)
    return get_value(part.bytes) if part else None


def _opening(figures: GpuFigures) -> str:
    used, allocated = get_value(figures.used), figures.torch.allocated
    if used is None:
        return _describe_unknown(figures)
    shows, reports = ("showed", "reported") if figures.past else ("shows", "reports")
    if figures.unified:
        shown = f"{text.size(used)} of the memory shared with the host {_be(figures)} in use"
    elif figures.source == NVML:
        shown = f"nvidia-smi {shows} {text.size(used)} in use"
    else:
        shown = f"the driver {reports} {text.size(used)} in use"
    if (figures.past or figures.gone) and not isinstance(allocated, Absent):
        return _describe_end(figures, shown, allocated.value)
    shown = shown[0].upper() + shown[1:] if figures.source == MEM_GET_INFO else shown
    if isinstance(allocated, Absent):
        if figures.uses_no_memory and figures.our_processes:
            return f"{shown}; none of it is the runner's: {_ended(allocated.reason)}"
        if figures.uses_no_memory:
            return f"{shown}, none of it the runner's: {_ended(allocated.reason)}"
        return f"{shown}; torch's share is unknown: {_ended(allocated.reason)}"
    size = text.size(allocated.value)
    if isinstance(allocated, Stale) and not figures.used_splits:
        when = "earlier" if allocated.age_s is None else f"{text.old(allocated.age_s)} ago"
        return f"{shown}; live tensors used {size} {when}: {_ended(allocated.reason)}"
    if isinstance(allocated, Stale):
        return f"{shown}; live tensors used {size} of it: {_ended(allocated.reason)}"
    return f"{shown}; live tensors use {size} of it (torch allocated)."


def _describe_unknown(figures: GpuFigures) -> str:
    why = figures.used.reason if isinstance(figures.used, Absent) else ""
    unknown, allocated = f"The used memory is unknown: {_ended(why)}", figures.torch.allocated
    if figures.past and not isinstance(allocated, Absent):
        return f"{_describe_tensors(figures, allocated.value)} {unknown}"
    return unknown


def _describe_end(figures: GpuFigures, shown: str, allocated: int) -> str:
    """Return the opening for a process that has ended, whose figures are of the past.

    Args:
        figures: the figures.
        shown: what the device's used memory is, or was for figures of the past.
        allocated: bytes of live tensors in the process.
    """
    size = text.size(allocated)
    if figures.past:
        then = " at its OOM" if figures.at_oom else ""
        return (
            f"When the process was last read, {shown}; live tensors used {size} of it{then} "
            "(torch allocated)."
        )
    return f"{_describe_tensors(figures, allocated)} Now {shown}."


def _describe_tensors(figures: GpuFigures, allocated: int) -> str:
    when = "At its OOM" if figures.at_oom else "When it was last read"
    reserved = get_value(figures.torch.reserved)
    segments = "" if reserved is None else f" of the {text.size(reserved)} that torch had reserved"
    return f"The process has ended. {when}, live tensors used {text.size(allocated)}{segments}."


def _cache(figures: GpuFigures, would_free: Reading[int]) -> str:
    cache, reserved = get_value(cached(figures.torch)), get_value(figures.torch.reserved)
    if cache is None or reserved is None or not figures.used_splits:
        return ""
    if figures.past:
        if cache <= 0:
            return "torch's cache was empty: the tensors used all reserved memory."
        return (
            f"{text.size(cache)} was torch's cache: freed, and kept for new tensors "
            f"(reserved {text.size(reserved)})."
        )
    if cache <= 0:
        return "torch's cache is empty: the tensors use all reserved memory."
    sentence = (
        f"{text.size(cache)} is torch's cache: freed, and reused for new tensors "
        f"(reserved {text.size(reserved)})"
    )
    free = get_value(would_free)
    if free is None:
        return f"{sentence}."
    if free == 0:
        return f"{sentence}; emptying it would return nothing, live tensors sit in every segment."
    return f"{sentence}; emptying it would return up to {text.size(free)}."


def _workspace(parts: dict[str, Slice]) -> str:
    size = _bytes(parts, "workspace")
    if not size:
        return ""
    return f"torch has given {text.size(size)} to cuBLAS as its workspace, while the run lasts."


def _be(figures: GpuFigures) -> str:
    """Return the verb of a sentence: in the past for a process that has ended."""
    return "was" if figures.past else "is"


def _context(figures: GpuFigures, parts: dict[str, Slice]) -> str:
    be = _be(figures)
    both = _bytes(parts, "process_and_others")
    if both is not None:
        subject = "CUDA context" if figures.used_splits else "memory"
        unknown = figures.ours if figures.uses_no_memory else figures.process
        reason = unknown.reason if isinstance(unknown, Absent) else ""
        return (
            f"{text.size(both)} {be} this process's {subject} and other processes together; "
            f"the split is unknown: {_ended(reason)}"
        )
    context = _bytes(parts, "context")
    if context:
        return (
            f"{text.size(context)} {be} this process's CUDA context, kernels and libraries "
            "(cuBLAS, cuDNN, NCCL), which torch does not count."
        )
    process = _bytes(parts, "process")
    if not process:
        return ""
    if figures.used_splits:
        return f"{text.size(process)} {be} this process: its CUDA context at the least."
    return f"{text.size(process)} {be} this process, torch's share of it included."


def _ours(figures: GpuFigures, parts: dict[str, Slice]) -> str:
    own = _bytes(parts, "ours")
    if not own:
        return ""
    holders = text.count(figures.our_processes, "process", "processes")
    held = f"{text.size(own)} {_be(figures)} used by {holders} of this workbench"
    return f"{held}: {figures.wording.about_ours}."


def _others(figures: GpuFigures, parts: dict[str, Slice]) -> str:
    others = _bytes(parts, "others")
    if not others:
        return ""
    size, be = text.size(others), _be(figures)
    if figures.unified:
        return f"{size} {be} used by other programs, on the GPU or on the host."
    if figures.other_processes:
        holders = text.count(figures.other_processes, "other process", "other processes")
        return f"{size} {be} used by {holders}."
    return f"{size} {be} used by others."


def _unattributed(figures: GpuFigures, parts: dict[str, Slice]) -> str:
    size = _bytes(parts, "unattributed")
    verb = "belonged" if figures.past else "belongs"
    return f"{text.size(size)} {verb} to no listed process." if size else ""


def _driver(figures: GpuFigures) -> str:
    driver = get_value(figures.driver)
    if not driver:
        return ""
    return f"{text.size(driver)} is reserved by the driver and not part of the used figure."


def _unified(figures: GpuFigures) -> str:
    if not figures.unified:
        return ""
    return (
        "This device has unified memory: the total is the host's, and the available memory "
        "includes reclaimable file cache."
    )


def explain_host(
    used: int, unique: int | None, resident: int | None, heap: int | None, why_not: str
) -> tuple[str, ...]:
    """Explain the use of the host's memory.

    Args:
        used: bytes of the host that are not available.
        unique: bytes of the worker alone; ``None`` if unknown.
        resident: bytes of the worker, including shared memory.
        heap: freed bytes that the C library's heap still has.
        why_not: the reason for absent figures of the worker, if any.
    """
    sentences = [f"The host has {text.size(used)} in use."]
    if unique is not None and resident is not None:
        shared = max(0, resident - unique)
        sentences.append(
            f"{text.size(unique)} is the runner's alone and would be free if it ended; "
            f"{text.size(shared)} more is shared, such as torch's libraries."
        )
    elif resident is not None:
        sentences.append(f"{text.size(resident)} is resident in the runner, shared parts included.")
    elif why_not:
        sentences.append(f"The runner's part is unknown: {_ended(why_not)}")
    if heap:
        sentences.append(
            f"Its heap has {text.size(heap)} free; emptying it would return up to that."
        )
    return tuple(sentences)
