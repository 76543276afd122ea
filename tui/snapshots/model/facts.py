"""The figures of a device and of a verdict, in one ordered list for screens, Markdown and JSON.

Each fact has its JSON path, its display name and its unit, so that one figure has one wording.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tui.core.text import numbers
from tui.core.text.glyphs import escape_markdown
from tui.snapshots.explain.explanation import Explanation, Remedy
from tui.snapshots.model.results import NO_HELP, Summary, Verdict

Unit = Literal["bytes", "share", "count", "piece", "event"]
Shown = Literal["always", "if any", "in detail", "as data"]
"""The places of a fact: always on screen and in Markdown, there only if nonzero, in Markdown only,
or in JSON only."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One named figure with its unit."""

    path: str
    """Dotted path of the keys in JSON; empty if JSON stores the figure elsewhere."""
    name: str
    value: float | None
    """The value in its unit, a share from 0 to 1; ``None`` if unknown."""
    unit: Unit = "bytes"
    shown: Shown = "always"

    @property
    def formatted(self) -> str:
        """The value formatted for display."""
        if self.unit == "share":
            return numbers.share(self.value)
        whole = None if self.value is None else int(self.value)
        if self.unit == "bytes":
            return numbers.size(whole)
        return numbers.count(whole, "" if self.unit == "count" else self.unit)


def list_summary_facts(summary: Summary) -> tuple[Fact, ...]:
    """List the figures of one device of a file."""
    scattered = summary.fragmentation
    # Without a history the remarks say so, and only the end is known.
    recorded: Shown = "as data" if summary.live_peak is None else "always"
    return (
        Fact("live_at_start", "live at start", summary.live_at_start, shown=recorded),
        Fact("live_peak", "live at peak", summary.live_peak, shown=recorded),
        Fact("live_at_end", "live at end", summary.live_at_end),
        Fact("reserved", "reserved", summary.reserved),
        Fact("reserved_peak", "peak reserved", summary.reserved_peak, shown=recorded),
        Fact("allocated", "allocated", summary.allocated),
        Fact("requested", "requested", summary.requested, shown="in detail"),
        Fact("largest_free_block", "largest free block", summary.largest_free_block),
        Fact("fragmentation.free", "cached", scattered.free, shown="in detail"),
        Fact("fragmentation.pieces", "free in", scattered.pieces, "piece"),
        Fact("fragmentation.unused", "unallocated", scattered.unused, "share"),
        Fact("fragmentation.clumped", "clumped", scattered.clumped, "share", "as data"),
        Fact("segments", "segments", summary.segments, "count"),
        Fact("blocks", "blocks", summary.blocks, "count"),
        Fact("events", "events", summary.events, "count"),
        Fact("pending", "pending", summary.pending, shown="if any"),
        Fact("private_pools.reserved", "private pools", summary.private_reserved, shown="if any"),
        Fact("private_pools.free", "free in them", summary.private_free, shown="as data"),
        Fact("skipped", "left out", summary.skipped, "event", "if any"),
    )


def list_verdict_facts(verdict: Verdict) -> tuple[Fact, ...]:
    """List the figures of one failed allocation at the time of failure."""
    state = verdict.state
    return (
        Fact("asked", "requested", verdict.requested),
        Fact("live", "live", state.live),
        Fact("rounding", "rounding", state.rounding, shown="in detail"),
        Fact("reserved", "reserved", state.reserved),
        Fact("cached", "cached", state.cached),
        Fact("device_free", "device free", verdict.device_free),
        Fact("", "largest free block", state.largest_free_block),
        Fact("largest_free_block", "largest usable free block", verdict.serving_free_block),
        Fact("private_pools.reserved", "in private pools", state.private_reserved, shown="if any"),
        Fact("private_pools.free", "free in them", state.private_cached, shown="as data"),
        Fact("others", "other processes", verdict.others),
        Fact("total", "device total", verdict.total),
    )


def format_used(explanation: Explanation) -> str:
    """Return the heading for the account of the used memory, and what refused more of it."""
    refusal = f"; {explanation.refusal}" if explanation.refusal else ""
    return f"Used {numbers.size(explanation.used)} of {explanation.device_words}{refusal}"


def advice_markdown(advice: Sequence[Remedy], heading: str = "") -> list[str]:
    """Return advice as Markdown: a list of the helpful remedies, then the others.

    Args:
        advice: remedies, the most important first.
        heading: precedes the list.
    """
    helpful = [
        f"- {escape_markdown(item.what)}: {escape_markdown(item.why)}"
        for item in advice
        if not item.futile
    ]
    lines = [*([heading, ""] if heading and helpful else []), *helpful]
    for item in advice:
        if item.futile:
            futile, why = escape_markdown(item.futile), escape_markdown(item.why)
            lines += [*([""] if lines else []), f"{NO_HELP}: {futile} ({why})"]
    return lines


def select_displayed_facts(facts: Iterable[Fact], *, detail: bool) -> list[Fact]:
    """Select the facts to display.

    Args:
        facts: all facts.
        detail: include the facts that a screen has no room for.
    """
    return [
        fact
        for fact in facts
        if fact.shown == "always"
        or (fact.shown == "if any" and fact.value)
        or (fact.shown == "in detail" and detail)
    ]


def convert_facts(facts: Iterable[Fact]) -> dict[str, Any]:
    """Convert the facts to nested plain data, following their paths."""
    data: dict[str, Any] = {}
    for fact in facts:
        if fact.path:
            *parents, key = fact.path.split(".")
            place = data
            for parent in parents:
                place = place.setdefault(parent, {})
            place[key] = fact.value
    return data
