"""How the time of a workload has changed from run to run, for the list of results. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.lines import TextStyle
from tui.results.store.compare import Environments
from tui.results.store.records import StoredRow

RUNS = 10
"""Most runs in a trend."""
FLAT = 0.05
"""Medians whose largest exceeds the smallest by less than this share are drawn flat, so that noise
does not look like a change."""
WHOLE = 0.25
"""Share by which the largest median must exceed the smallest to fill the height, so that a small
change looks small."""
FEWEST = 3
"""Fewest runs whose trend is drawn: the two times of a change say as much."""
HIGHEST = 6
"""Steps of the highest column: below a full cell, so that the trends of consecutive rows stay
apart."""
_PLACE = ("box", "gpu")
"""Facts that the runs of a trend share."""


@dataclass(frozen=True, slots=True)
class TimeTrend:
    """The medians of a workload's runs in seconds, oldest first, up to one of them."""

    medians_s: tuple[float, ...]
    is_apart: bool
    """The last run's 95% interval and that of the run before do not overlap."""

    @property
    def change(self) -> float | None:
        """The last median over the one before, minus 1; ``None`` of a single run."""
        if len(self.medians_s) < 2:
            return None
        return self.medians_s[-1] / self.medians_s[-2] - 1


def find_trends(rows: Iterable[StoredRow], facts: Environments) -> dict[int, TimeTrend]:
    """Return the trend of each successful run, by the row's number.

    The time of a failed run is not valid, so it has no trend and is in none. The runs of a
    trend share the workload, its parameters, the device, the box and the GPU.

    Args:
        rows: results in any order.
        facts: the environments of the rows, by hash.
    """
    series: dict[Hashable, list[StoredRow]] = {}
    for row in sorted(rows, key=lambda row: (row.at, row.number)):
        if row.kind == "run" and row.valid_s:
            known = facts[row.environment].values
            place = tuple(known.get(name) for name in _PLACE)
            series.setdefault((row.workload, row.measured, row.device, place), []).append(row)
    return {
        row.number: _build_trend(runs[max(0, at + 1 - RUNS) : at + 1])
        for runs in series.values()
        for at, row in enumerate(runs)
    }


def _build_trend(runs: Sequence[StoredRow]) -> TimeTrend:
    medians = tuple(run.median_s for run in runs if run.median_s)
    return TimeTrend(medians, len(runs) > 1 and _are_apart(runs[-2], runs[-1]))


def _are_apart(before: StoredRow, after: StoredRow) -> bool:
    """Return whether the intervals of two runs are known and do not overlap."""
    if before.ci95_s is None or after.ci95_s is None:
        return False
    return before.ci95_s[1] < after.ci95_s[0] or after.ci95_s[1] < before.ci95_s[0]


def format_change(trend: TimeTrend | None) -> str:
    """Format the change of the time: ``+8%`` is slower; empty where the intervals overlap."""
    if trend is None or trend.change is None or not trend.is_apart:
        return ""
    sign = "+" if trend.change > 0 else "-"
    return f"{sign}{text.share(abs(trend.change))}"


def is_flat(trend: TimeTrend) -> bool:
    """Return whether the medians differ by no more than noise."""
    return max(trend.medians_s) < min(trend.medians_s) * (1 + FLAT)


def draw_trend(trend: TimeTrend | None) -> str:
    """Draw a column for each run, the fastest lowest; empty of fewer than :data:`FEWEST` runs."""
    if trend is None or len(trend.medians_s) < FEWEST:
        return ""
    steps = glyphs.GLYPHS.vertical[:HIGHEST]
    least, most = min(trend.medians_s), max(trend.medians_s)
    if is_flat(trend):
        return steps[0] * len(trend.medians_s)
    span = max(most - least, WHOLE * least)
    return "".join(steps[round((s - least) / span * (len(steps) - 1))] for s in trend.medians_s)


def choose_trend_style(trend: TimeTrend | None) -> TextStyle:
    """Return the style of a drawn trend: slower, faster, or back at the first time."""
    if trend is None or is_flat(trend):
        return TextStyle.REST
    ratio = trend.medians_s[-1] / trend.medians_s[0]
    if 1 / (1 + FLAT) < ratio < 1 + FLAT:
        return TextStyle.ALLOCATED
    return TextStyle.NOTE if ratio > 1 else TextStyle.GOOD


def choose_change_style(trend: TimeTrend | None) -> TextStyle:
    """Return the style of a change: that of a verdict."""
    change = trend.change if trend is not None and trend.is_apart else None
    if not change:
        return TextStyle.PLAIN
    return TextStyle.NOTE if change > 0 else TextStyle.GOOD
