"""One device of a file in figures: what there is, the peak, and who held it."""

from __future__ import annotations

from tui.snapshots.analysis.growth import growth_words
from tui.snapshots.analysis.layout import Layout, fragmentation
from tui.snapshots.analysis.replay import Replay
from tui.snapshots.analysis.settings import expandable_segments, is_on
from tui.snapshots.model.results import Advice, Growth, Summary, Top
from tui.snapshots.model.snapshot import NEVER_TOLD, DeviceSnapshot, Snapshot
from tui.text.numbers import count, share
from tui.text.numbers import size as text
from tui.watch.launch import EXAMPLE, RECORDING

UNWOUND = 0.2
"""Where less than this share of what is reserved is live, most had been freed when it was taken."""
WORTH_TELLING = 256 << 20
"""Bytes below which cached memory is not remarked on."""
LARGE_PREDATING = 0.1
_NO_TRACE = (
    "no history was recorded; call torch.cuda.memory._record_memory_history() early, or start the"
    f" program with {RECORDING}"
)


def summary(
    snapshot: Snapshot,
    device: DeviceSnapshot,
    replayed: Replay,
    layout: Layout,
    top: tuple[Top, ...],
    growth: Growth | None,
) -> Summary:
    """Sum up one device.

    Args:
        snapshot: the file.
        device: which of its devices.
        replayed: of the device.
        layout: at the end.
        top: the sites that held the most, at the peak where there is a trace, else at the end.
        growth: the site that grew until the end.
    """
    blocks = [block for segment in device.segments for block in segment.blocks]
    allocated = sum(block.size for block in blocks if block.state == "active_allocated")
    requested = sum(block.requested for block in blocks if block.state != "inactive")
    pending = sum(
        block.size for block in blocks if block.state not in ("active_allocated", "inactive")
    )
    private = tuple(part for part in layout.filled if part.range.private)
    default = [part.largest for part in layout.filled if not part.range.private]
    traced = replayed.events > 0
    peak_event = replayed.peak_event
    time_us = None if peak_event is None else device.trace.time_us[peak_event]
    return Summary(
        device=device.index,
        segments=len(device.segments),
        blocks=len(blocks),
        reserved=sum(segment.size for segment in device.segments),
        allocated=allocated,
        requested=requested,
        pending=pending,
        largest_free_block=max(default, default=0),
        private_reserved=sum(part.range.size for part in private),
        private_free=sum(part.free for part in private),
        events=replayed.events,
        skipped=device.skipped,
        live_at_start=replayed.live_at_start if traced else None,
        live_peak=replayed.peak if traced else None,
        live_peak_event=peak_event,
        live_peak_time_us=None if time_us == NEVER_TOLD else time_us,
        live_at_end=replayed.live_at_end,
        reserved_peak=replayed.reserved_peak if traced else None,
        reserved_peak_event=replayed.reserved_peak_event,
        ooms=replayed.ooms,
        fragmentation=fragmentation(layout.filled),
        top=top,
        top_at="peak" if traced else "end",
        headline=_headline(replayed),
        remarks=(
            *replayed.doubts,
            *_remarks(replayed, requested, private_free=_free(layout)),
            *(() if growth is None or replayed.ooms else (growth_words(growth, "are"),)),
        ),
        advice=_advice(snapshot, layout, replayed),
        unavailable=_unavailable(replayed, time_us),
    )


def _free(layout: Layout) -> int:
    return sum(part.free for part in layout.filled if part.range.private)


def _unavailable(replayed: Replay, time_us: int | None) -> dict[str, str]:
    if not replayed.events:
        absent = (
            "live_at_start",
            "live_peak",
            "live_peak_event",
            "live_peak_time_us",
            "reserved_peak",
            "reserved_peak_event",
        )
        return dict.fromkeys(absent, _NO_TRACE)
    reasons = {}
    if replayed.peak_event is None:
        at_start = "the peak is what was live before the first event"
        reasons["live_peak_event"] = reasons["live_peak_time_us"] = at_start
    elif time_us == NEVER_TOLD:
        reasons["live_peak_time_us"] = "the file holds no times (torch before 2.2)"
    if replayed.reserved_peak_event is None:
        reasons["reserved_peak_event"] = "the peak is what was reserved before the first event"
    return reasons


def _headline(replayed: Replay) -> str:
    end, reserved = replayed.live_at_end, replayed.reserved[-1]
    now = f"{text(end)} live of {text(reserved)} reserved at the end"
    if not replayed.events:
        return f"{now}; nothing was recorded before"
    where = (
        "before the first event"
        if replayed.peak_event is None
        else f"at event {replayed.peak_event}"
    )
    ooms = count(len(replayed.ooms), "OOM event") if replayed.ooms else "No OOM event"
    return f"{ooms}; live memory peaked at {text(replayed.peak)} {where}; {now}"


def _remarks(replayed: Replay, requested: int, private_free: int) -> tuple[str, ...]:
    lines = []
    reserved = replayed.reserved[-1]
    if replayed.events:
        start = replayed.live_at_start
        if start > LARGE_PREDATING * replayed.peak:
            lines.append(
                f"{text(start)} was live before the first event and has no stack unless it is live"
                " still: record earlier, or with a larger max_entries"
            )
    else:
        lines.append(_NO_TRACE)
    if not replayed.ooms and requested < UNWOUND * reserved and reserved >= WORTH_TELLING:
        lines.append(
            f"only {share(requested / reserved)} of the {text(reserved)} reserved is live: if this"
            " was written in an except block, the stack had unwound and freed what filled the"
            f" device; {EXAMPLE} writes it before that"
        )
    if private_free >= WORTH_TELLING:
        lines.append(f"{text(private_free)} is cached in private pools, which only they can use")
    return tuple(lines)


def _advice(snapshot: Snapshot, layout: Layout, replayed: Replay) -> tuple[Advice, ...]:
    """What the end of the file suggests, where nothing failed."""
    if replayed.ooms:
        return ()
    made = []
    default = [part for part in layout.filled if not part.range.private]
    whole = sum(part.range.size for part in default if not part.held)
    stuck = sum(part.free for part in default if part.held)
    if whole >= WORTH_TELLING:
        made.append(
            Advice(
                "torch.cuda.empty_cache() would return memory to other processes",
                f"{text(whole)} is in segments in which nothing is live",
            )
        )
    if (
        stuck >= WORTH_TELLING
        and is_on(snapshot.settings, "expandable_segments") is not True
        and not any(part.range.expandable for part in default)
    ):
        made.append(
            Advice(
                f"{expandable_segments(snapshot.torch)} lets free memory come together",
                f"{text(stuck)} is cached in pieces beside live blocks",
            )
        )
    return tuple(made)
