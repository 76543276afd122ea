"""One process of a run and its devices: what was seen of them, in bounded memory."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from tui.state.watched_run import Mark, StepPoint
from tui.text import numbers as text
from tui.watch.findings import Finding, GrowthPer, Track
from tui.watch.growth import Growth
from tui.watch.messages import TorchProcess
from tui.watch.pairing import Placed
from workloads.protocol.frozen import frozen
from workloads.protocol.messages import TorchMemory

MOST_POINTS = 1200
"""Of a device; beyond, neighbours are joined, and the highest of each pair stays."""
MOST_FLUSHES = 200
"""Of a device that have a mark each, the newest."""
JUDGE_S = 1.0
"""Between two judgements on how the figures of a device grow, which take a millisecond or two."""
RATE_S = 10.0
"""Over which steps a second are counted."""
UNPLACED = Placed(None, None, "NVML has not been read yet", "NVML has not been read yet")
NOT_DESCRIBED = "its description was not kept"


@frozen
class Judged:
    """What the figures of a device tell over time."""

    at: float
    """Unix time of the newest of them."""
    growth: Growth | None
    growth_per: GrowthPer
    findings: tuple[Finding, ...]


class SeenDevice:
    """One device of one process."""

    def __init__(self, figures: TorchMemory) -> None:
        self.figures = figures
        """The newest."""
        self.placed = UNPLACED
        self.track = Track()
        self.points: list[StepPoint] = []
        self.flushes: deque[Mark] = deque(maxlen=MOST_FLUSHES)
        self._readings = 1
        """For each point."""
        self._left = 0
        self._judged: Judged | None = None

    def judged(self, *, anew: bool) -> Judged:
        """What its figures tell: at most :data:`JUDGE_S` ago, unless anew."""
        last = self._judged
        if last is None or anew or self.figures.at - last.at >= JUDGE_S:
            track = self.track
            last = Judged(self.figures.at, track.growth(), track.growth_per, track.findings())
            self._judged = last
        return last

    def take(self, figures: TorchMemory, step: int | None) -> None:
        """The next reading.

        Args:
            figures: what was read.
            step: steps that the process had told until then.
        """
        flushed = figures.alloc_retries - self.figures.alloc_retries
        if flushed > 0:
            said = f"the allocator flushed its cache {text.count(flushed, 'time')}"
            self.flushes.append(Mark(figures.at, step, "cache flush", said))
        self.figures = figures
        self.track.add(figures, step)
        point = StepPoint(figures.at, step, figures.allocated, figures.reserved)
        if self._left and self.points:
            self.points[-1] = _higher(self.points[-1], point)
            self._left -= 1
        else:
            self.points.append(point)
            self._left = self._readings - 1
        if len(self.points) > MOST_POINTS:
            pairs = zip(self.points[0::2], self.points[1::2], strict=False)
            odd = self.points[-1:] if len(self.points) % 2 else []
            self.points = [*(_higher(one, other) for one, other in pairs), *odd]
            self._readings, self._left = 2 * self._readings, 0


class SeenProcess:
    """One process."""

    def __init__(self, told: TorchProcess) -> None:
        self.told = told
        self.gone = False
        """It was there, and is not any more."""
        self.devices: dict[str, SeenDevice] = {}
        self.silent: dict[str, str] = {}
        """Why there are no figures of a device now, by its name."""
        self.listed: dict[str, tuple[int | None, str]] = {}
        """What NVML says that it holds, by the device's id."""
        self.steps: int | None = None
        """As its agent has told last."""
        self._told: deque[tuple[float, int]] = deque()

    def take_steps(self, at: float, steps: int) -> None:
        """What its agent has told."""
        self.steps = max(steps, self.steps or 0)
        self._told.append((at, self.steps))
        while len(self._told) > 2 and self._told[1][0] <= at - RATE_S:
            self._told.popleft()

    @property
    def steps_per_s(self) -> float | None:
        """Over the last :data:`RATE_S`; ``None`` before two readings."""
        if len(self._told) < 2 or self._told[-1][0] <= self._told[0][0]:
            return None
        (began, before), (at, now) = self._told[0], self._told[-1]
        return (now - before) / (at - began)

    @property
    def figures(self) -> tuple[TorchMemory, ...]:
        """The newest of each device."""
        return tuple(each.figures for each in self.devices.values())


def _higher(one: StepPoint, other: StepPoint) -> StepPoint:
    highest = max(one, other, key=lambda point: point.allocated)
    return replace(highest, reserved=max(one.reserved, other.reserved))
