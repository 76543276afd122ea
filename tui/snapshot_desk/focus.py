"""What one looks at in a snapshot: a device, a moment of it, and how its sites are grouped."""

from __future__ import annotations

from tui.snapshots.facts import Grouping, Order, Summary
from workloads.fact import fact

GROUPINGS: tuple[Grouping, ...] = (
    "site",
    "function",
    "file",
    "annotation",
    "size class",
    "stream",
    "pool",
    "context",
)
ORDERS: tuple[Order, ...] = ("bytes", "count", "name")


@fact
class Focus:
    """What is looked at: a device and a moment of it."""

    device: int
    event: int | None
    """The state right after it; -1 is before the first, ``None`` the end."""


def first_focus(summary: Summary) -> Focus:
    """Where one looks first: the last OOM, else the peak, else the end."""
    if summary.ooms:
        return Focus(summary.device, summary.ooms[-1])
    return Focus(summary.device, peak_of(summary))


def peak_of(summary: Summary) -> int | None:
    """The event of the peak; -1 where it lies before the first, ``None`` without a trace."""
    if not summary.events:
        return None
    return -1 if summary.live_peak_event is None else summary.live_peak_event


def oom_after(summary: Summary, event: int | None) -> int | None:
    """The next OOM, from the last one on to the first; ``None`` where there is none."""
    if not summary.ooms:
        return None
    later = [oom for oom in summary.ooms if event is not None and oom > event]
    return later[0] if later else summary.ooms[0]
