"""How old figures may be before they are called old: that depends on how often they are read."""

from __future__ import annotations

from tui.monitor.messages import Sample

LATE_S = 2.0
"""A sample may be this late, as on a busy machine, before its figures are called old."""
USUAL_INTERVAL_S = 1.0


def stale_after(sample: Sample | None) -> float:
    """Seconds after which figures are no longer drawn as current.

    Args:
        sample: the monitor's newest, which says how far apart it takes them; ``None`` before the
            first.
    """
    if sample is None:
        return USUAL_INTERVAL_S + LATE_S
    return max(sample.interval_s, sample.took_s) + LATE_S
