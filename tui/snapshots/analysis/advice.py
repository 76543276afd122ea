"""What would have helped against one failed allocation, and the allocator's settings for it."""

from __future__ import annotations

import re

from tui.snapshots.analysis.cause import Figures
from tui.snapshots.analysis.moment import Window
from tui.snapshots.model.results import Advice, Cause, Growth, Top
from tui.snapshots.model.snapshot import Snapshot, TorchVersions
from tui.text.numbers import count, share
from tui.text.numbers import size as text
from tui.watch.runs import EXAMPLE

_RENAMED = (2, 9)
"""The first torch that reads ``PYTORCH_ALLOC_CONF``; it warns of the older name."""
_NEW, _OLD = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"
_DIVISIONS = re.compile(r":\s*[1-9]")


def is_on(settings: dict[str, str], name: str) -> bool | None:
    """Whether an allocator setting is on; ``None`` where the file does not say."""
    value = settings.get(name)
    return None if value is None else value.strip().lower() in ("true", "1", "yes", "on")


def rounds_sizes_up(settings: dict[str, str]) -> bool:
    """Whether requests are rounded to more than 512 bytes (``roundup_power2_divisions``)."""
    return _DIVISIONS.search(settings.get("roundup_power2_divisions", "")) is not None


def expandable_segments(torch: TorchVersions) -> str:
    """What to set for expandable segments, by the name that the file's torch knows."""
    value = "=expandable_segments:True"
    if torch.least is not None and torch.least >= _RENAMED:
        return _NEW + value
    if torch.below is not None and torch.below <= _RENAMED:
        return _OLD + value
    return f"{_NEW}{value} (before torch 2.9: {_OLD})"


DOMINANT = 0.3
"""Share of the live bytes from which one site is worth naming."""
LARGE_SHARE = 0.05
"""Share of the reserved bytes from which memory that is cached and stuck is worth an advice."""
SMALL_PIN = 0.25
"""Blocks that pin a span count as cheap to move if they hold less than this share of it."""


CACHE_CAUSES = ("fragmentation", "other streams", "private pools")
"""Causes that lie in what was cached."""


def advise(
    figures: Figures,
    cause: Cause,
    top: tuple[Top, ...],
    growth: Growth | None,
    snapshot: Snapshot,
    window: Window | None,
) -> tuple[Advice, ...]:
    """Advice for one failed allocation, the most telling first.

    Args:
        figures: of the failure.
        cause: as decided.
        top: the sites that held the most.
        growth: the site that grew until then.
        snapshot: the file, for the allocator's settings and the version of torch.
        window: the fewest blocks whose release would have made a piece large enough.
    """
    stuck = figures.serving_cached + figures.kind_cached
    if cause == "larger than the device":
        return tuple(each for each in (_request(figures), _asker(figures)) if each is not None)
    made = [
        _request(figures) if cause == "larger than what was free" else None,
        _limit_unknown(figures, cause),
        _growth(growth) if cause not in CACHE_CAUSES else None,
        _expandable(figures, cause, stuck, snapshot),
        _pins(figures, cause, window),
        _pools(figures, cause),
        _streams(figures, cause),
        _processes(figures, cause),
        _limit(figures, cause),
        _growth(growth) if cause in CACHE_CAUSES else None,
        _dominant(figures, cause, top),
        _empty_cache(figures, cause, stuck + figures.streams_cached),
        _asker(figures),
    ]
    return tuple(advice for advice in made if advice is not None)


def _request(figures: Figures) -> Advice:
    return Advice(
        f"make the tensor smaller that {figures.asker} asks for, or make it in parts",
        f"{text(figures.asked)} in one piece; such a size often comes from a tensor over all pairs:"
        " x[:, None] with y[None, :], distances, attention weights, or a target of (N, 1) beside an"
        " output of (N)",
    )


def _limit_unknown(figures: Figures, cause: Cause) -> Advice | None:
    if cause != "refused with memory free":
        return None
    fraction = "" if figures.told else "torch.cuda.set_per_process_memory_fraction in the program, "
    return Advice(
        f"look for a limit: {fraction}MIG in nvidia-smi -L, the container's limits; then for"
        " processes that come and go (the Processes screen names them)",
        f"{text(figures.device_free)} was free and {text(figures.asked)} was refused",
    )


def _growth(found: Growth | None) -> Advice | None:
    if found is None:
        return None
    each = found.bytes // found.count
    return Advice(
        f"find what keeps the tensors of {found.label}: a list, a cache, or a sum over steps that"
        " holds their graphs (use detach() or item())",
        f"{count(found.count, 'allocation')} of it, {text(each)} each on the average, were live and"
        f" {'next to none' if found.freed else 'none'} was freed; if they are the activations of"
        " one pass, checkpoint it or give it less",
    )


def _expandable(figures: Figures, cause: Cause, stuck: int, snapshot: Snapshot) -> Advice | None:
    if figures.expandable or is_on(snapshot.settings, "expandable_segments"):
        return None
    if stuck == 0:
        return None
    if cause != "fragmentation" and not _could_matter(figures, stuck):
        return None
    off = (
        "expandable segments are off"
        if "expandable_segments" in snapshot.settings
        else "whether expandable segments are on is not in the file"
    )
    return Advice(
        f"set {expandable_segments(snapshot.torch)} before torch starts",
        f"{text(stuck)} was cached in pieces between live blocks, the largest"
        f" {text(figures.serving_largest)}; {off}",
    )


def _could_matter(figures: Figures, stuck: int) -> bool:
    """Whether what is stuck is worth a word beside what is reserved, and beside what lacked."""
    lacked = figures.rounded - (figures.device_free or 0)
    return stuck >= LARGE_SHARE * figures.reserved and stuck >= LARGE_SHARE * lacked


def _pins(figures: Figures, cause: Cause, window: Window | None) -> Advice | None:
    if window is None or cause != "fragmentation" or window.cost > SMALL_PIN * window.span:
        return None
    return Advice(
        "allocate what lives long before what is large and short-lived, or release these first",
        f"{count(len(window.blocks), 'block')} of {text(window.cost)} kept a span of"
        f" {text(window.span)} in pieces; {text(figures.rounded)} was asked for",
    )


def _pools(figures: Figures, cause: Cause) -> Advice | None:
    held = figures.private_cached
    if cause != "private pools" and (held == 0 or held < LARGE_SHARE * figures.reserved):
        return None
    return Advice(
        "release CUDA graphs that are not needed, capture fewer shapes, or let graphs share one"
        " pool (torch.cuda.graph(pool=…))",
        f"{text(held)} was free inside other pools, which only they can use",
    )


def _streams(figures: Figures, cause: Cause) -> Advice | None:
    if cause != "other streams":
        return None
    return Advice(
        "use fewer streams for large tensors, or free on the stream that allocated",
        f"{text(figures.streams_cached)} was cached for other streams",
    )


def _processes(figures: Figures, cause: Cause) -> Advice | None:
    if cause != "other processes":
        return None
    held = max(figures.others or 0, figures.others_least)
    return Advice(
        "end or move the other processes on this device (the Processes screen names them)",
        f"they held {text(held)}" + ("" if figures.others is not None else " or more"),
    )


def _limit(figures: Figures, cause: Cause) -> Advice | None:
    if cause != "process limit" or figures.allowed is None:
        return None
    return Advice(
        "raise torch.cuda.set_per_process_memory_fraction",
        f"it allows {text(figures.allowed)}; the device had {text(figures.device_free)} free",
    )


def _dominant(figures: Figures, cause: Cause, top: tuple[Top, ...]) -> Advice | None:
    if not top or figures.live == 0 or cause == "refused with memory free":
        return None
    most = top[0]
    if most.share < DOMINANT and cause != "truly full":
        return None
    if cause == "larger than what was free" and figures.live < DOMINANT * figures.known:
        return None
    return Advice(
        "a smaller batch or sequence, activation checkpointing, or a lower precision there",
        f"{most.label} held {text(most.bytes)} in {count(most.count, 'allocation')},"
        f" {share(most.share)} of what was live",
    )


def _empty_cache(figures: Figures, cause: Cause, stuck: int) -> Advice | None:
    if stuck == 0 or (cause not in CACHE_CAUSES and not _could_matter(figures, stuck)):
        return None
    return Advice(
        "do not expect torch.cuda.empty_cache() to help",
        "the allocator had given back its free segments before it failed; the"
        f" {text(stuck)} still cached shares segments with live blocks",
    )


def _asker(figures: Figures) -> Advice | None:
    if figures.site:
        return None
    return Advice(
        f"start the program with {EXAMPLE}",
        "the line that asked is not on record; the snapshot that this writes where memory runs out"
        " names it",
    )
