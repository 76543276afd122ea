"""Why one allocation failed: the state at its OOM entry, the cause, who held the memory."""

from __future__ import annotations

from collections.abc import Iterable

from tui.snapshots.analysis.allocations import round_up
from tui.snapshots.analysis.cause import Figures, advise, decide, is_on
from tui.snapshots.analysis.layout import Filled, Layout, Need, could_serve
from tui.snapshots.analysis.pinning import cheapest_window
from tui.snapshots.analysis.ranges import DEFAULT_POOL
from tui.snapshots.analysis.replay import Replay
from tui.snapshots.model.results import Cause, Entry, OomText, State, Top, Verdict
from tui.snapshots.model.snapshot import DeviceSnapshot, Snapshot
from tui.text.numbers import size as text

BESIDES = 2 << 30
"""What a process holds of a device besides PyTorch's memory, at most: context, libraries, NCCL."""
_NO_TEXT = "not in the file; the text of the exception tells it (give it along)"


def verdict(
    snapshot: Snapshot,
    device: DeviceSnapshot,
    replayed: Replay,
    layout: Layout,
    state: State,
    entry: Entry,
    top: tuple[Top, ...],
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
        message=message,
    )
    cause, reasons = decide(figures)
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
        headline=headline(cause, figures),
        reasons=(*reasons, *_unsure(snapshot, figures, entry, cause, message)),
        top=top,
        advice=advise(figures, cause, top, snapshot.settings, window),
        stack=entry.stack,
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
        return max(0, message.total - free - message.process)
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


_WORDS: dict[Cause, str] = {
    "truly full": "live memory fills what there is",
    "fragmentation": "enough was cached, but in pieces that are too small",
    "other streams": "what was cached belongs to other streams",
    "private pools": "what was cached sits in private pools",
    "other processes": "other processes hold the memory",
    "process limit": "the limit set for this process was reached",
    "unknown": "the cause cannot be told",
}


def headline(cause: Cause, figures: Figures) -> str:
    """One sentence: what failed and why."""
    return (
        f"{text(figures.asked)} could not be had: {_WORDS[cause]}"
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
    if figures.total is None and cause in ("truly full", "unknown"):
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
