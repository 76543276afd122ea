"""Remedies for one failed allocation, based on the allocator's settings."""

from __future__ import annotations

from tui.core.text.numbers import count
from tui.core.text.numbers import size as text
from tui.snapshots.analysis.cause import Figures
from tui.snapshots.analysis.moment import Window
from tui.snapshots.explain.explanation import Explanation, Remedy
from tui.snapshots.model.results import Cause
from tui.snapshots.model.snapshot import TorchVersions

_RENAMED = (2, 9)
"""The first torch version that reads ``PYTORCH_ALLOC_CONF`` and deprecates the older name."""
_NEW, _OLD = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


def is_on(settings: dict[str, str], name: str) -> bool | None:
    """Return whether an allocator setting is on; ``None`` if the file does not contain it."""
    value = settings.get(name)
    return None if value is None else value.strip().lower() in ("true", "1", "yes", "on")


def expandable_segments(torch: TorchVersions) -> str:
    """Return the setting of expandable segments, under the name that the file's torch uses."""
    value = "=expandable_segments:True"
    if torch.least is not None and torch.least >= _RENAMED:
        return _NEW + value
    if torch.below is not None and torch.below <= _RENAMED:
        return _OLD + value
    return f"{_NEW}{value} (before torch 2.9: {_OLD})"


SMALL_PIN = 0.25
"""Maximum share of a span that its blocks may hold to count as cheap to move."""
_CACHED: tuple[Cause, ...] = ("fragmentation", "other streams", "private pools")
"""Causes that lie in cached memory."""


def advise(
    figures: Figures, explanation: Explanation, cause: Cause, window: Window | None
) -> tuple[Remedy, ...]:
    """Return the remedies for one failed allocation, the most important first.

    Args:
        figures: figures of the failure.
        explanation: explanation of the failure, with the advice for its leading cause.
        cause: cause according to the allocator's figures.
        window: cheapest blocks whose release would have made a large enough piece.
    """
    remedies = list(explanation.advice)
    remedies += _pins(figures, cause, window)
    remedies += _empty_cache(figures, cause)
    return tuple(remedies)


def _pins(figures: Figures, cause: Cause, window: Window | None) -> list[Remedy]:
    if window is None or cause != "fragmentation" or window.cost > SMALL_PIN * window.span:
        return []
    return [
        Remedy(
            "allocate long-lived tensors before large short-lived ones, or release these first",
            f"{count(len(window.blocks), 'block')} of {text(window.cost)} split a span of"
            f" {text(window.span)} into pieces; {text(figures.rounded)} was requested",
        )
    ]


def _empty_cache(figures: Figures, cause: Cause) -> list[Remedy]:
    stuck = figures.serving_cached + figures.kind_cached + figures.streams_cached
    if stuck == 0 or cause not in _CACHED:
        return []
    return [
        Remedy(
            "do not expect torch.cuda.empty_cache() to help",
            "the allocator had already released its free segments when it failed; the"
            f" {text(stuck)} still cached shares segments with live blocks",
            futile="torch.cuda.empty_cache()",
        )
    ]
