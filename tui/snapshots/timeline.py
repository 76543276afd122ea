"""The memory of one device over its events, in as many columns as there is room for."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from tui.snapshots.annotations import Span, bands
from tui.snapshots.facts import Bucket, Timeline
from tui.snapshots.model import NEVER_TOLD, Trace
from tui.snapshots.replay import Replay


def timeline(
    replayed: Replay,
    trace: Trace,
    found: tuple[Span, ...],
    width: int,
    *,
    first: int = 0,
    last: int | None = None,
) -> Timeline:
    """Cut events ``first`` to ``last`` (inclusive, the whole trace by default) into buckets.

    Args:
        replayed: of the same device as ``trace``.
        trace: for the times.
        found: the annotations of the device.
        width: buckets at most; fewer where there are fewer events, so that none is empty.
        first: clamped to the trace, as is ``last``.
        last: inclusive.

    Raises:
        ValueError: ``width`` is below 1.
    """
    if width < 1:
        raise ValueError(f"a timeline needs at least one column, not {width}")
    scale = max(replayed.peak, replayed.reserved_peak)
    events = replayed.events
    end = events - 1 if last is None else min(last, events - 1)
    begin = max(0, min(first, end))
    shown = end - begin + 1
    if events == 0:
        return Timeline(
            device=replayed.device,
            first=0,
            last=-1,
            scale=scale,
            buckets=(),
            live_at_first=replayed.live_at_start,
            peak_event=None,
            peak=replayed.peak,
            ooms=(),
            bands=(),
        )
    count = min(width, shown)
    edges = [begin + shown * place // count for place in range(count + 1)]
    buckets = tuple(_bucket(replayed, trace, low, high - 1) for low, high in pairwise(edges))
    return Timeline(
        device=replayed.device,
        first=begin,
        last=end,
        scale=scale,
        buckets=buckets,
        live_at_first=replayed.live_at(begin - 1),
        peak_event=replayed.peak_event,
        peak=replayed.peak,
        ooms=tuple(event for event in replayed.ooms if begin <= event <= end),
        bands=bands(found, trace, begin, end),
    )


def _bucket(replayed: Replay, trace: Trace, first: int, last: int) -> Bucket:
    live = replayed.live[first + 1 : last + 2]
    time_us = trace.time_us[first]
    return Bucket(
        first=first,
        last=last,
        time_us=None if time_us == NEVER_TOLD else time_us,
        live_min=min(live),
        live_max=max(live),
        reserved_max=max(replayed.reserved[first + 1 : last + 2]),
        ooms=bisect_left(replayed.ooms, last + 1) - bisect_left(replayed.ooms, first),
        segment_events=bisect_left(replayed.segment_events, last + 1)
        - bisect_left(replayed.segment_events, first),
    )
