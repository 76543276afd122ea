"""A result as text, one function for each fact, shared by screens and commands. Pure."""

from __future__ import annotations

import math
from typing import Protocol

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.runs.state.oom_reason import shorten_oom
from workloads.protocol.results import Basis, Limit, PeakMemory, Rates, RunResult


class Timed(Protocol):
    """An object with a time: a measurement or a stored result."""

    @property
    def median_s(self) -> float | None: ...
    @property
    def ci95_s(self) -> tuple[float, float] | None: ...


def compute_half_width(time: Timed) -> float | None:
    """Return half the 95% interval divided by the median; ``None`` without an interval."""
    if time.ci95_s is None or not time.median_s:
        return None
    return (time.ci95_s[1] - time.ci95_s[0]) / 2 / time.median_s


def format_median(time: Timed) -> str:
    """Return the median with the digits that its interval supports."""
    return text.seconds(time.median_s, compute_half_width(time))


def format_speed_up(first: Timed, second: Timed) -> str:
    """Return the first median over the second with the digits that their intervals support."""
    if not first.median_s or not second.median_s:
        return text.NA
    widths = [compute_half_width(time) for time in (first, second)]
    # Relative errors of independent medians add in quadrature.
    known = None if None in widths else math.hypot(*(width or 0.0 for width in widths))
    return text.ratio(first.median_s / second.median_s, known)


def format_time(time: Timed) -> str:
    """Return the median with its interval: ``2.71 ms ±0.4%``."""
    half = compute_half_width(time)
    return format_median(time) if half is None else f"{format_median(time)} {text.spread(half)}"


def list_rates(rates: Rates) -> list[tuple[float, str]]:
    """Return the known rates with their units: floating point, then bytes, then items."""
    known = (
        (rates.flop_per_s, "FLOP/s"),
        (rates.byte_per_s, "byte/s"),
        (rates.item_per_s, "samples/s"),
    )
    return [(value, unit) for value, unit in known if value is not None]


def format_rates(result: RunResult) -> list[str]:
    """Return the rates of a timed result: ``50.7 TFLOP/s``, with the digits of its time."""
    half = compute_half_width(result.time) if result.time is not None else None
    return [
        text.rate(value, text.RATES.get(unit, unit), half)
        for value, unit in list_rates(result.rates)
    ]


def describe_excess(limit: Limit) -> str:
    """Return a word for a rate above its limit; empty for a possible rate."""
    if not limit.exceeded:
        return ""
    return "above its ceiling" if limit.basis == "measured" else "impossible rate"


def label_limit(name: str, basis: Basis) -> str:
    """Return the name of a limit: ``float32 peak``, or ``float32 ceiling`` if it was measured.

    A ceiling was measured on this machine; a peak is a specification of the hardware.
    """
    return f"{name} {'ceiling' if basis == 'measured' else 'peak'}"


def format_limit_share(limit: Limit) -> str:
    """Return the share of a limit: ``76% of float32 peak``; mark an impossible share.

    A share above 100% within the limit's own error has that error beside it.
    """
    within = f" {text.spread(limit.error)}" if 1 < limit.fraction <= 1 + limit.error else ""
    words = f"{text.share(limit.fraction)}{within} of {label_limit(limit.name, limit.basis)}"
    excess = describe_excess(limit)
    return f"{glyphs.GLYPHS.warning} {words}, {excess}" if excess else words


def find_peak(memory: PeakMemory) -> int | None:
    """Return the peak of the allocator in bytes; ``None`` if unknown.

    Never that of the whole process, which has torch's libraries in it.
    """
    return memory.allocated_peak


def format_result_end(result: RunResult) -> str:
    """Format the end of a result whose failed check is described beside it."""
    if result.status == "failed" and result.check is not None and not result.check.passed:
        return "failed: wrong result"
    return format_end(result.status, result.reason)


def format_end(status: str, reason: str | None) -> str:
    """Format the end of a run, with its reason in short: ``failed: out of memory``."""
    return f"{status}: {shorten_oom(reason)}" if reason else status
