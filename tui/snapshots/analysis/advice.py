"""What would help against running out of memory, each with the figure that says so."""

from __future__ import annotations

from tui.snapshots.analysis.cause import Figures
from tui.snapshots.analysis.pinning import Window
from tui.snapshots.model.results import Advice, Cause, Top
from tui.text.numbers import count, share
from tui.text.numbers import size as text

DOMINANT = 0.3
"""Share of the live bytes from which one site is worth naming."""
LARGE_SHARE = 0.05
"""Share of the reserved bytes from which memory that is cached and stuck is worth an advice."""
SMALL_PIN = 0.25
"""Blocks that pin a span count as cheap to move if they hold less than this share of it."""


def is_on(settings: dict[str, str], name: str) -> bool | None:
    """Whether an allocator setting is on; ``None`` where the file does not say."""
    value = settings.get(name)
    return None if value is None else value.strip().lower() in ("true", "1", "yes", "on")


def advise(
    figures: Figures,
    cause: Cause,
    top: tuple[Top, ...],
    settings: dict[str, str],
    window: Window | None,
) -> tuple[Advice, ...]:
    """Advice for one failed allocation, the most telling first.

    Args:
        figures: of the failure.
        cause: as decided.
        top: the sites that held the most.
        settings: ``allocator_settings`` of the file.
        window: the fewest blocks whose release would have made a piece large enough.
    """
    stuck = figures.serving_cached + figures.kind_cached
    made = [
        _expandable(figures, cause, stuck, settings),
        _pins(figures, cause, window),
        _pools(figures, cause),
        _streams(figures, cause),
        _processes(figures, cause),
        _limit(figures, cause),
        _dominant(figures, cause, top),
        _empty_cache(stuck + figures.streams_cached),
    ]
    return tuple(advice for advice in made if advice is not None)


def _expandable(
    figures: Figures, cause: Cause, stuck: int, settings: dict[str, str]
) -> Advice | None:
    if figures.expandable or is_on(settings, "expandable_segments"):
        return None
    if stuck < LARGE_SHARE * figures.reserved and cause != "fragmentation":
        return None
    if stuck == 0:
        return None
    off = (
        "expandable segments are off"
        if "expandable_segments" in settings
        else "whether expandable segments are on is not in the file"
    )
    return Advice(
        "set PYTORCH_ALLOC_CONF=expandable_segments:True before torch starts (before torch 2.9:"
        " PYTORCH_CUDA_ALLOC_CONF)",
        f"{text(stuck)} was cached in pieces between live blocks, the largest"
        f" {text(figures.serving_largest)}; {off}",
    )


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
    if not top or figures.live == 0:
        return None
    most = top[0]
    if most.share < DOMINANT and cause != "truly full":
        return None
    return Advice(
        "a smaller batch or sequence, activation checkpointing, or a lower precision there",
        f"{most.label} held {text(most.bytes)} in {count(most.count, 'allocation')},"
        f" {share(most.share)} of what was live",
    )


def _empty_cache(stuck: int) -> Advice | None:
    if stuck == 0:
        return None
    return Advice(
        "do not expect torch.cuda.empty_cache() to help",
        "the allocator had given back its free segments before it failed; the"
        f" {text(stuck)} still cached shares segments with live blocks",
    )
