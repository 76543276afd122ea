"""The reason why one allocation failed: the exception's text, the state, the largest sites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tui.core.text.numbers import count
from tui.core.text.numbers import size as text
from tui.snapshots.analysis.allocations import round_up
from tui.snapshots.analysis.analysis import TOP, DeviceAnalysis
from tui.snapshots.analysis.cause import Figures, compute_segment_size, explain_cause
from tui.snapshots.analysis.evidence import gather_evidence
from tui.snapshots.analysis.growth import describe_growth
from tui.snapshots.analysis.layout import DEFAULT_POOL, BlockRequest, Filled, could_serve
from tui.snapshots.analysis.moment import Window, find_cheapest_window
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.explanation import Remedy
from tui.snapshots.explain.lead import rounds_sizes_up
from tui.snapshots.explain.oom_text import OomText, compute_others
from tui.snapshots.explain.thresholds import NORMAL_OUTSIDE
from tui.snapshots.model.results import Cause, Entry, State, Verdict
from tui.snapshots.model.snapshot import Snapshot


def find_matching_text(
    texts: tuple[OomText, ...], device: int, sizes: tuple[int, ...]
) -> OomText | None:
    """Return the message that matches an OOM entry in size and device.

    A message without a device fits any. The last match wins: it ended the program.

    Args:
        texts: messages of exceptions.
        device: device of the entry.
        sizes: possible request sizes in the message.
    """
    fitting = [
        text
        for text in texts
        if text.requested is not None
        and any(abs(text.requested - size) <= text.requested_within for size in sizes)
        and text.device in (None, device)
    ]
    raised = [text for text in fitting if not text.logged]
    logged = [text for text in fitting if text.logged]
    if not raised or not logged:
        return fitting[-1] if fitting else None
    # The log has exact bytes, which the exception's text rounds, and facts that older wordings
    # omit.
    exact, rounded = logged[-1], raised[-1]
    same = rounded.total is None or abs(rounded.total - (exact.total or 0)) <= TOTAL_ROUNDED
    return replace(rounded, total=exact.total) if same else rounded


TOTAL_ROUNDED = 16 << 20
"""Maximum difference in bytes between the totals of two messages, which are rounded to hundredths
of a GiB."""
_NO_TEXT = "not in the file; give the exception's text, which has it"


def find_message(device: DeviceAnalysis, event: int, texts: tuple[OomText, ...]) -> OomText | None:
    """Return the message that matches an OOM entry; ``None`` if there is none."""
    size = device.trace.size[event]
    # torch prints the size of the segment that it requested.
    sizes = size, compute_segment_size(round_up(size), expandable=False)
    return find_matching_text(texts, device.index, sizes)


def judge(
    device: DeviceAnalysis,
    event: int,
    texts: tuple[OomText, ...] = (),
    *,
    top: int = TOP,
    circumstances: Circumstances | None = None,
) -> Verdict:
    """Explain why the allocation of an OOM entry failed.

    Args:
        device: device whose trace contains the entry.
        event: index of the entry.
        texts: messages of exceptions; a matching one adds facts missing from the file.
        top: number of sites to list.
        circumstances: facts from a watch on the program.

    Raises:
        ValueError: the entry is no OOM.
    """
    if event not in device.replay.ooms:
        raise ValueError(f"event {event} of device {device.index} is not an OOM event")
    entry, state, growth = device.entry(event), device.state(event), device.growth(event)
    message = find_message(device, event, texts)
    need = BlockRequest(round_up(entry.size), entry.stream, entry.pool or DEFAULT_POOL)
    serving: list[Filled] = []
    barred: list[Filled] = []
    for part in device.layout(event).filled:
        (serving if could_serve(part.range, need) else barred).append(part)
    figures = _gather_figures(device, serving, barred, state, entry, need, message)
    evidence = gather_evidence(
        device, state, entry, figures, growth, message, circumstances or Circumstances()
    )
    # A watched run also records the device's total and free memory.
    figures = replace(
        figures, total=evidence.total, allowed=evidence.allowed, device_free=evidence.free
    )
    explanation = explain(evidence)
    explained = explain_cause(explanation, figures)
    cause = explained.cause
    unavailable = {}
    if figures.total is None:
        unavailable["total"] = _NO_TEXT
    if figures.others is None:
        unavailable["others"] = _NO_TEXT if message is None else "not in the text"
    if figures.device_free is None:
        unavailable["device_free"] = "neither in the event nor in a text"
    return Verdict(
        device=device.index,
        event=event,
        time_us=entry.time_us,
        requested=entry.size,
        state=state,
        device_free=figures.device_free,
        total=figures.total,
        others=figures.others,
        serving_free_block=figures.serving_largest,
        cause=cause,
        headline=f"Could not allocate {figures.stated_request}: {explained.phrase}",
        reasons=(
            *explained.reasons,
            *(() if growth is None else (describe_growth(growth),)),
            *_unknowns(device.snapshot, figures, entry, cause, message),
        ),
        top=device.top(event, top),
        advice=(
            *explanation.advice,
            *_advise_on_pins(figures, cause, find_cheapest_window(serving, need.size)),
            *_advise_on_empty_cache(figures, cause),
        ),
        site=figures.site,
        stack=entry.stack,
        growth=growth,
        text=message,
        explanation=explanation,
        unavailable=unavailable,
    )


def _gather_figures(
    device: DeviceAnalysis,
    serving: list[Filled],
    barred: list[Filled],
    state: State,
    entry: Entry,
    need: BlockRequest,
    message: OomText | None,
) -> Figures:
    """Return the figures of one failure, from the file, else from the message.

    ``serving`` contains the segments that could serve the request, ``barred`` the others.
    """
    free = entry.device_free
    if free is None and message is not None:
        free = message.device_free
    site = device.stacks.site(device.trace.stack[entry.event])
    same_pool = [part for part in barred if (part.range.pool or DEFAULT_POOL) == need.pool]
    return Figures(
        requested=entry.size,
        rounded=need.size,
        serving_largest=max((part.largest for part in serving), default=0),
        serving_cached=_free(serving),
        kind_cached=_free(part for part in same_pool if part.range.stream == need.stream),
        streams_cached=_free(part for part in same_pool if part.range.stream != need.stream),
        private_cached=_free(
            part
            for part in barred
            if (part.range.pool or DEFAULT_POOL) not in (need.pool, DEFAULT_POOL)
        ),
        default_cached=_free(
            part
            for part in barred
            if (part.range.pool or DEFAULT_POOL) == DEFAULT_POOL != need.pool
        ),
        live=state.live,
        reserved=state.reserved,
        device_free=free,
        total=None if message is None else message.total,
        allowed=None if message is None else message.allowed,
        others=None if message is None else compute_others(message, state.reserved, free),
        others_least=_least_of_others(device, state.reserved, free, message),
        expandable=device.snapshot.has_expandable_segments
        or any(part.range.expandable for part in serving),
        address_space=message is not None and message.address_space,
        site="" if site.frame is None else site.label,
        has_text=message is not None,
        sizes_rounded_up=rounds_sizes_up(device.snapshot.settings),
    )


def _least_of_others(
    device: DeviceAnalysis, reserved: int, free: int | None, message: OomText | None
) -> int:
    """Return a lower bound for the memory of other processes.

    The device has at least the bytes reserved here at the peak, and those reserved plus free at any
    OOM entry; bytes that are neither now are used elsewhere. If a message contains the total but
    not this process's own use, the same applies, minus the normal overhead of a process.
    """
    if free is None:
        return 0
    replayed = device.replay
    totals = [replayed.reserved_peak]
    totals += [
        replayed.reserved_at(event) + then_free
        for event, then_free in device.trace.device_free.items()
    ]
    least = max(totals) - reserved - free
    if message is not None and message.total is not None and message.process is None:
        least = max(least, message.total - reserved - free - NORMAL_OUTSIDE)
    return max(0, least)


def _free(parts: Iterable[Filled]) -> int:
    return sum(part.free for part in parts)


def _unknowns(
    snapshot: Snapshot, figures: Figures, entry: Entry, cause: Cause, message: OomText | None
) -> tuple[str, ...]:
    """Return the unknown facts that might change the verdict."""
    lines = []
    if figures.total is None and cause in ("larger than what was free", "unknown"):
        least = figures.reserved + (figures.device_free or 0)
        lines.append(
            f"the device has at least {text(least)}; its total and the memory of other processes"
            " are only in the exception's text"
        )
    if entry.pool is None and len(snapshot.pools) > 1:
        lines.append(
            "the event does not name its pool: the default one is assumed, a capture would use a"
            " private one"
        )
    if (
        (message is None or message.process is None)
        and figures.total is not None
        and figures.others is None
        and figures.device_free is not None
    ):
        outside = figures.total - figures.device_free - figures.reserved
        lines.append(
            f"{text(outside)} is neither free nor reserved here: CUDA context, libraries, other"
            " processes"
        )
    return tuple(lines)


# ---- advice -------------------------------------------------------------------------------------


SMALL_PIN = 0.25
"""Maximum share of a span that its blocks may hold to count as cheap to move."""
_CACHED: tuple[Cause, ...] = ("fragmentation", "other streams", "private pools")
"""Causes that lie in cached memory."""


def _advise_on_pins(figures: Figures, cause: Cause, window: Window | None) -> Iterator[Remedy]:
    """Advise to move the cheapest blocks whose release would have made a large enough piece."""
    if window is None or cause != "fragmentation" or window.cost > SMALL_PIN * window.span:
        return
    yield Remedy(
        "allocate long-lived tensors before large short-lived ones, or release these first",
        f"{count(len(window.blocks), 'block')} of {text(window.cost)} split a span of"
        f" {text(window.span)} into pieces; {text(figures.rounded)} was requested",
    )


def _advise_on_empty_cache(figures: Figures, cause: Cause) -> Iterator[Remedy]:
    stuck = figures.serving_cached + figures.kind_cached + figures.streams_cached
    if stuck == 0 or cause not in _CACHED:
        return
    yield Remedy(
        "do not expect torch.cuda.empty_cache() to help",
        "the allocator had already released its free segments when it failed; the"
        f" {text(stuck)} still cached shares segments with live blocks",
        futile="torch.cuda.empty_cache()",
    )
