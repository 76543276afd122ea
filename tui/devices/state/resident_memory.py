"""The host memory of one process over time, read from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tui.allocators.findings import SHORTEST_GROWTH_S, Finding, find_growth, find_stopped_growth
from tui.allocators.growth import GrowthRate, estimate_growth
from tui.core.merged_points import MergedPoints

MOST_POINTS = 1200
"""The most points of a process's whole life; beyond, neighbors merge into their maximum."""
TREND_S = 1.0
"""Seconds between two computations of the trend, which take about a millisecond."""
HOST, HOST_GROWTH = "the host's memory", "host growth"
"""What a growth of host memory fills, and the key of its finding."""
SOURCE = "/proc/PID/statm: resident bytes"


@dataclass(frozen=True, slots=True)
class ResidentPoint:
    """Host memory of a process at one moment."""

    at: float
    """Unix time."""
    resident: int
    """Resident bytes (RSS), including shared pages."""


class ResidentTrend(NamedTuple):
    """Growth of a process's host memory over its life."""

    at: float
    """Unix time of the newest reading."""
    growth: GrowthRate | None
    """Growth in bytes per second; ``None`` after too short a time."""
    finding: Finding | None
    """That it grows, or grew and stays level; ``None`` if it does not, or not for certain."""
    ended: bool
    """It is that of an ended process."""


class ResidentMemory:
    """The resident host memory of one process since its first reading."""

    def __init__(self) -> None:
        self._life = MergedPoints(MOST_POINTS, _higher)
        self.resident: int | None = None
        """Resident bytes at the last reading; ``None`` before it."""
        self._trend: ResidentTrend | None = None

    @property
    def points(self) -> Sequence[ResidentPoint]:
        """Points of the process's whole life, oldest first."""
        return self._life.points

    @property
    def peak(self) -> int | None:
        """The most resident bytes at any reading; ``None`` before the first."""
        return max((point.resident for point in self.points), default=None)

    def apply(self, at: float, resident: int) -> None:
        """Apply the next reading.

        Args:
            at: Unix time.
            resident: resident bytes.
        """
        self.resident = resident
        self._life.add(ResidentPoint(at, resident))

    def trend(self, *, ended: bool) -> ResidentTrend:
        """Return the trend, at most :data:`TREND_S` old; recompute it after the process has ended.

        Args:
            ended: the process has ended.
        """
        newest = self.points[-1].at if self.points else 0.0
        last = self._trend
        # An ended process has the same points for good, and is drawn with each of the others.
        if (
            last is None
            or ended != last.ended
            or (ended and newest != last.at)
            or newest - last.at >= TREND_S
        ):
            last = self._trend = self._compute_trend(newest, ended=ended)
        return last

    def _compute_trend(self, newest: float, *, ended: bool) -> ResidentTrend:
        points = [(point.at, float(point.resident)) for point in self.points]
        if not points or newest - points[0][0] < SHORTEST_GROWTH_S:
            return ResidentTrend(newest, None, None, ended)
        subject = "host memory"
        finding = find_growth(points, "s", HOST_GROWTH, subject, SOURCE, ended=ended)
        if finding is not None:
            # All of it is memory that the process needs: there is no cache to fill first.
            finding = replace(finding, needs=0)
        finding = finding or find_stopped_growth(points, "s", "host plateau", subject, SOURCE)
        return ResidentTrend(newest, estimate_growth(points), finding, ended)


def _higher(first: ResidentPoint, other: ResidentPoint) -> ResidentPoint:
    return max(first, other, key=lambda point: point.resident)
