"""What would have helped against one failed allocation, and the allocator's settings for it."""

from __future__ import annotations

import re

from tui.core.text.numbers import count
from tui.core.text.numbers import size as text
from tui.snapshots.analysis.cause import Figures
from tui.snapshots.analysis.moment import Window
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.model.results import Advice, Cause
from tui.snapshots.model.snapshot import TorchVersions

_RENAMED = (2, 9)
"""The first torch that reads ``PYTORCH_ALLOC_CONF``; it warns of the older name."""
_NEW, _OLD = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"
_DIVISIONS = re.compile(r":\s*[1-9]")


def is_on(settings: dict[str, str], name: str) -> bool | None:
    """Return whether an allocator setting is on; ``None`` where the file does not say."""
    value = settings.get(name)
    return None if value is None else value.strip().lower() in ("true", "1", "yes", "on")


def rounds_sizes_up(settings: dict[str, str]) -> bool:
    """Return whether requests are rounded to more than 512 bytes (``roundup_power2_divisions``)."""
    return _DIVISIONS.search(settings.get("roundup_power2_divisions", "")) is not None


def expandable_segments(torch: TorchVersions) -> str:
    """Return the setting of expandable segments, by the name that the file's torch knows."""
    value = "=expandable_segments:True"
    if torch.least is not None and torch.least >= _RENAMED:
        return _NEW + value
    if torch.below is not None and torch.below <= _RENAMED:
        return _OLD + value
    return f"{_NEW}{value} (before torch 2.9: {_OLD})"


SMALL_PIN = 0.25
"""Blocks that pin a span count as cheap to move if they hold less than this share of it."""
_CACHED: tuple[Cause, ...] = ("fragmentation", "other streams", "private pools")
"""Causes that lie in what was cached."""


def advise(
    figures: Figures, explanation: Explanation, cause: Cause, window: Window | None
) -> tuple[Advice, ...]:
    """Advice for one failed allocation, the most telling first.

    Args:
        figures: of the failure.
        explanation: of it, with the advice that follows its leading cause.
        cause: as the allocator's figures tell it.
        window: the fewest blocks whose release would have made a piece large enough.
    """
    made = [Advice(each.what, each.why) for each in explanation.advice]
    made += _pins(figures, cause, window)
    made += _empty_cache(figures, cause)
    return tuple(made)


def _pins(figures: Figures, cause: Cause, window: Window | None) -> list[Advice]:
    if window is None or cause != "fragmentation" or window.cost > SMALL_PIN * window.span:
        return []
    return [
        Advice(
            "allocate what lives long before what is large and short-lived, or release these first",
            f"{count(len(window.blocks), 'block')} of {text(window.cost)} kept a span of"
            f" {text(window.span)} in pieces; {text(figures.rounded)} was asked for",
        )
    ]


def _empty_cache(figures: Figures, cause: Cause) -> list[Advice]:
    stuck = figures.serving_cached + figures.kind_cached + figures.streams_cached
    if stuck == 0 or cause not in _CACHED:
        return []
    return [
        Advice(
            "do not expect torch.cuda.empty_cache() to help",
            "the allocator had given back its free segments before it failed; the"
            f" {text(stuck)} still cached shares segments with live blocks",
        )
    ]
