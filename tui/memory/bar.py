"""A GPU's figures laid out as slices that add up to its total, whatever the figures are."""

from __future__ import annotations

from tui.memory.figures import GpuFigures, cached, workspace_or_none
from tui.memory.model import Slice, as_old_as, clip
from tui.state.reading import Absent, Reading, Value, derive, value_of

LABELS = {
    "allocated": "allocated",
    "cached": "cached",
    "workspace": "cuBLAS",
    "context": "context",
    "process": "this process",
    "ours": "ours",
    "others": "others",
    "process_and_others": "context + others",
    "unattributed": "unattributed",
    "driver": "driver",
    "free": "free",
    "unknown": "use unknown",
}


def context(figures: GpuFigures) -> Reading[int]:
    """This process by NVML less what torch **reserved**; less allocated would count the cache."""
    if not figures.process_splits:
        return figures.process if isinstance(figures.process, Absent) else _undivided(figures)
    return derive(
        lambda process, reserved: process - reserved, figures.process, figures.torch.reserved
    )


def _undivided(figures: GpuFigures) -> Absent:
    """How much of the process torch had reserved when NVML was read is not known."""
    return Absent(figures.whose.busy)


def lay_out(figures: GpuFigures) -> tuple[Slice, ...]:
    """The slices in the order in which they are drawn.

    Where figures contradict each other, what torch says of itself is believed first, then what
    NVML says of the process, then of the others; each takes what room the device's ``used``
    leaves. What is absent keeps its place without a size.
    """
    total = value_of(figures.total)
    if total is None or total <= 0:
        return _without_total(figures)
    driver = clip(value_of(figures.driver), 0, total)
    room = total - driver
    used, free, gap = _used_and_free(figures, room)
    held = room if used is None else used
    parts = _torch_parts(figures, held)
    torch = sum(value_of(part.bytes) or 0 for part in parts)
    if not isinstance(figures.process, Absent):
        own = clip(value_of(figures.process), torch, held) - torch
        split = figures.process_splits and not isinstance(figures.torch.reserved, Absent)
        key = "context" if split else "process"
        parts.append(_slice(key, as_old_as(own, figures.process)))
        torch += own
    elif not figures.ours_is_unknown:
        parts.append(_slice("context", figures.process))
    if figures.our_processes and not figures.ours_is_unknown:
        ours = clip(value_of(figures.ours), 0, held - torch)
        parts.append(_slice("ours", as_old_as(ours, figures.ours)))
        torch += ours
    rest = held - torch
    whole = figures.ours_is_unknown and not figures.used_splits
    labels = {"process_and_others": "this process + others"} if whole else {}
    parts += [
        Slice(key, labels.get(key, LABELS[key]), as_old_as(size, figures.total))
        for key, size in _rest(figures, rest, used, gap)
    ]
    if isinstance(figures.others, Absent) and not figures.ours_is_unknown and used is None:
        parts.append(_slice("others", figures.others))
    if driver or not isinstance(figures.driver, Absent):
        parts.append(_aged("driver", driver, figures.total))
    if used is not None:
        label = "available" if figures.unified else LABELS["free"]
        parts.append(Slice("free", label, as_old_as(free, figures.total)))
    return tuple(parts)


def _used_and_free(figures: GpuFigures, room: int) -> tuple[int | None, int, int]:
    """What is used, what is free, and what is neither; the used is ``None`` where not known."""
    free = value_of(figures.free)
    used = value_of(figures.used)
    if used is None:
        if free is None:
            return None, 0, 0
        used = room - clip(free, 0, room)
    used = clip(used, 0, room)
    left = room - used
    free = left if free is None else clip(free, 0, left)
    return used, free, left - free


def _torch_parts(figures: GpuFigures, held: int) -> list[Slice]:
    torch = figures.torch
    if not figures.used_splits:
        return [_slice(key, _undivided(figures)) for key in ("allocated", "cached")]
    if isinstance(torch.allocated, Absent) or isinstance(torch.reserved, Absent):
        absent = torch.allocated if isinstance(torch.allocated, Absent) else torch.reserved
        return [_slice("allocated", absent), _slice("cached", absent)]
    allocated = clip(torch.allocated.value, 0, held)
    kept = clip(value_of(cached(torch)), 0, held - allocated)
    parts = [_slice("allocated", Value(allocated)), _slice("cached", Value(kept))]
    workspace = clip(value_of(workspace_or_none(torch)), 0, held - allocated - kept)
    return [*parts, _slice("workspace", Value(workspace))] if workspace else parts


def _rest(figures: GpuFigures, rest: int, used: int | None, gap: int) -> list[tuple[str, int]]:
    """Who holds what this process is not known to hold."""
    if used is None:
        return [("unknown", rest)]
    if figures.ours_is_unknown:
        parts = [("process_and_others", rest)]
        nobody = gap
    else:
        # Where not all of them say what they hold, all of the rest is theirs.
        others = clip(value_of(figures.others), 0, rest) if figures.others_known else rest
        parts = [("others", others)]
        nobody = rest - others + gap
    return [*parts, ("unattributed", nobody)] if nobody else parts


def _without_total(figures: GpuFigures) -> tuple[Slice, ...]:
    return (
        _slice("allocated", figures.torch.allocated),
        _slice("cached", cached(figures.torch)),
        _slice("context", context(figures)),
        _slice("others", figures.others),
    )


def _slice(key: str, size: Reading[int]) -> Slice:
    return Slice(key, LABELS[key], size)


def _aged(key: str, size: int, like: Reading[int]) -> Slice:
    return _slice(key, as_old_as(size, like))
