"""Why one allocation failed: the state at its OOM entry, the cause, who held the memory."""

from __future__ import annotations

from collections.abc import Iterable

from tui.snapshots.analysis.advice import advise
from tui.snapshots.analysis.allocations import round_up
from tui.snapshots.analysis.cause import BESIDES, Decision, Figures, decide
from tui.snapshots.analysis.growth import growth_words
from tui.snapshots.analysis.layout import Filled, Layout, Need, could_serve
from tui.snapshots.analysis.pinning import cheapest_window
from tui.snapshots.analysis.ranges import DEFAULT_POOL
from tui.snapshots.analysis.replay import Replay
from tui.snapshots.analysis.settings import is_on, rounds_sizes_up
from tui.snapshots.model.results import Cause, Entry, Growth, OomText, Site, State, Top, Verdict
from tui.snapshots.model.snapshot import DeviceSnapshot, Snapshot
from tui.text.numbers import size as text

_NO_TEXT = "not in the file; the text of the exception tells it (give it along)"


def verdict(
    snapshot: Snapshot,
    device: DeviceSnapshot,
    replayed: Replay,
    layout: Layout,
    state: State,
    entry: Entry,
    top: tuple[Top, ...],
    growth: Growth | None,
    site: Site,
    message: OomText | None,
) -> Verdict:
    """Judge one OOM entry.

    Args:
        snapshot: the file.
        device: whose trace holds the entry.
        replayed: of the device.
        layout: at the entry, as are ``state`` and ``top``.
        state: its figures.
        entry: the OOM entry.
        top: the sites that held the most.
        growth: the site that grew until then.
        site: what the request is put down to.
        message: the text of the exception that fits the entry, where it is known.
    """
    need = Need(round_up(entry.size), entry.stream, entry.pool or DEFAULT_POOL)
    figures = gather(
        snapshot=snapshot,
        device=device,
        replayed=replayed,
        layout=layout,
        state=state,
        entry=entry,
        need=need,
        site="" if site.frame is None else site.label,
        message=message,
    )
    decision = decide(figures)
    cause = decision.cause
    grown = () if growth is None else (growth_words(growth),)
    serving = [part for part in layout.filled if could_serve(part.range, need)]
    window = cheapest_window(serving, need.size)
    unavailable = {}
    if figures.total is None:
        unavailable["total"] = _NO_TEXT
    if figures.others is None:
        unavailable["others"] = _NO_TEXT if message is None else "the text does not tell it"
    if figures.device_free is None:
        unavailable["device_free"] = "neither the event nor a text tells it"
    return Verdict(
        device=device.index,
        event=entry.event,
        time_us=entry.time_us,
        asked=entry.size,
        state=state,
        device_free=figures.device_free,
        total=figures.total,
        others=figures.others,
        serving_free_block=figures.serving_largest,
        serving_cached=figures.serving_cached,
        streams_cached=figures.streams_cached,
        cause=cause,
        headline=headline(decision, figures),
        reasons=(
            *decision.reasons,
            *grown,
            *_unsure(snapshot, figures, entry, cause, message),
        ),
        top=top,
        advice=advise(figures, cause, top, growth, snapshot, window),
        site=figures.site,
        stack=entry.stack,
        growth=growth,
        text=message,
        unavailable=unavailable,
    )


def gather(
    snapshot: Snapshot,
    device: DeviceSnapshot,
    replayed: Replay,
    layout: Layout,
    state: State,
    entry: Entry,
    need: Need,
    site: str,
    message: OomText | None,
) -> Figures:
    """The figures of one failure, from the file and where it lacks them from the message."""
    serving = [part for part in layout.filled if could_serve(part.range, need)]
    free = entry.device_free
    if free is None and message is not None:
        free = message.device_free
    same_pool = [
        part
        for part in layout.filled
        if (part.range.pool or DEFAULT_POOL) == need.pool and part not in serving
    ]
    return Figures(
        asked=entry.size,
        rounded=need.size,
        serving_largest=max((part.largest for part in serving), default=0),
        serving_cached=_free(serving),
        kind_cached=_free(part for part in same_pool if part.range.stream == need.stream),
        streams_cached=_free(part for part in same_pool if part.range.stream != need.stream),
        private_cached=_free(
            part for part in layout.filled if (part.range.pool or DEFAULT_POOL) != need.pool
        ),
        live=state.live,
        reserved=state.reserved,
        device_free=free,
        total=None if message is None else message.total,
        allowed=None if message is None else message.allowed,
        others=None if message is None else others_in(message, state.reserved, free),
        others_least=_others_least(device, replayed, entry, free, message),
        expandable=is_on(snapshot.settings, "expandable_segments")
        or any(part.range.expandable for part in serving),
        address_space=message is not None and message.address_space,
        site=site,
        told=message is not None,
        sizes_rounded_up=rounds_sizes_up(snapshot.settings),
    )


def _others_least(
    device: DeviceSnapshot,
    replayed: Replay,
    entry: Entry,
    free: int | None,
    message: OomText | None,
) -> int:
    """What others must hold at least.

    The device has at least what was reserved here at the peak, and what was reserved and free at
    any OOM entry; what is neither now is held outside. Where a message tells the total but not
    what this process holds, the same, less what a process holds besides.
    """
    if free is None:
        return 0
    here = replayed.reserved_at(entry.event) + free
    seen = [replayed.reserved_peak]
    seen += [replayed.reserved_at(event) + told for event, told in device.trace.device_free.items()]
    least = max(seen) - here
    if message is not None and message.total is not None and message.process is None:
        least = max(least, message.total - here - BESIDES)
    return max(0, least)


def others_in(message: OomText, reserved: int, free: int | None) -> int | None:
    """What other processes held, as far as a message tells.

    Where a message names processes but not this one, as in a container that hides its own pid, the
    one that holds as much as is reserved here is taken for this process.
    """
    free = message.device_free if message.device_free is not None else free
    if message.process is not None and message.total is not None and free is not None:
        held = message.total - free - message.process
        # Of three figures with two decimals each, mostly GiB: what is less is their rounding.
        unit = 1 << 30 if message.total > 1 << 30 else 1 << 20
        return held if held > 3 * unit // 200 else 0
    if message.others:
        sizes = sorted(size for _, size in message.others)
        if message.process is None:
            own = next((size for size in sizes if size >= reserved), None)
            if own is not None:
                sizes.remove(own)
        return sum(sizes)
    return None


def _free(parts: Iterable[Filled]) -> int:
    return sum(part.free for part in parts)


def headline(decision: Decision, figures: Figures) -> str:
    """One sentence: what failed and why."""
    return (
        f"{text(figures.asked)} could not be had: {decision.words}"
        f" ({text(figures.live)} live of {text(figures.reserved)} reserved)"
    )


def _unsure(
    snapshot: Snapshot,
    figures: Figures,
    entry: Entry,
    cause: Cause,
    message: OomText | None,
) -> tuple[str, ...]:
    """What is not known and might change the picture."""
    lines = []
    if figures.total is None and cause in ("larger than what was free", "unknown"):
        seen = figures.reserved + (figures.device_free or 0)
        lines.append(
            f"the device has at least {text(seen)}; its total is not in the file, so what other"
            " processes held is not known: the text of the exception tells it"
        )
    if entry.pool is None and len(snapshot.pools) > 1:
        lines.append(
            "the event does not name its pool, the default pool is assumed; during a capture it"
            " would be a private one"
        )
    if (
        message is not None
        and message.process is None
        and message.total is not None
        and figures.others is None
        and figures.device_free is not None
    ):
        outside = message.total - figures.device_free - figures.reserved
        lines.append(
            f"{text(outside)} is neither free nor reserved here: the CUDA context of this process,"
            " libraries, and other processes"
        )
    return tuple(lines)
