"""Figures of an account that are absent for the same reason: told together, once. Pure."""

from __future__ import annotations

from dataclasses import replace

from tui.memory import Gauge
from tui.state.reading import Absent, Reading
from tui.text import numbers as text
from tui.ui.views.lines import Line, Tone, paragraph
from tui.ui.views.memory import EMPTY_KEY

WOULD_FREE = f"{EMPTY_KEY} would free"
Reasons = dict[str, list[str]]
"""Labels of figures by why they are absent."""


def shared_reasons(gauge: Gauge) -> Reasons:
    """The reasons for which more than one figure is absent."""
    figures: list[tuple[str, Reading[int]]] = [
        *((term.label, term.bytes) for term in gauge.terms),
        *((f"peak {term.label}", term.bytes) for term in gauge.peaks),
        *((counter.label, counter.count) for counter in gauge.counters),
        (WOULD_FREE, gauge.would_free),
    ]
    found: Reasons = {}
    for label, figure in figures:
        if isinstance(figure, Absent):
            found.setdefault(figure.reason, []).append(label)
    return {reason: labels for reason, labels in found.items() if len(labels) > 1}


def without(gauge: Gauge, reasons: Reasons) -> Gauge:
    """The account without the peaks and counters that are absent for these reasons."""
    return replace(
        gauge,
        peaks=tuple(term for term in gauge.peaks if not absent_for(term.bytes, reasons)),
        counters=tuple(each for each in gauge.counters if not absent_for(each.count, reasons)),
    )


def absent_for(figure: Reading[int], reasons: Reasons) -> bool:
    """Whether it is absent for one of these reasons."""
    return isinstance(figure, Absent) and figure.reason in reasons


def reason_lines(reasons: Reasons, cells: int) -> list[Line]:
    """Each reason once, with the figures that it concerns."""
    return [
        row
        for reason, labels in reasons.items()
        for row in paragraph(
            f"{'; '.join(labels)} {text.NA}: {reason}", cells, Tone.QUIET, indent="  "
        )
    ]
