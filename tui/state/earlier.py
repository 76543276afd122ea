"""What was kept of earlier sessions, as the workbench shows it beside what it measures itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import Setting
from workloads.protocol.results import Verdict


@frozen
class EarlierResult:
    """The newest run of a workload with one setting on one device of this box."""

    workload: str
    gpu: str
    """The UUID of the GPU, of several the first; empty of a run on the CPU."""
    asked: dict[str, Setting]
    """The parameters as they were asked for."""
    used: dict[str, Setting]
    """As they were used: what was left to the workload is a number."""
    at: float
    """Unix time at which it ended."""
    median_s: float
    ci95_s: tuple[float, float] | None
    driver: str
    """Its version; empty of a run on the CPU, and where it is not known."""
    torch: str
    """Likewise."""

    def is_of(self, parameters: Mapping[str, Setting]) -> bool:
        """Whether it was measured with these parameters."""
        return parameters in (self.asked, self.used)

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % interval within the run, over its median."""
        if self.ci95_s is None or not self.median_s:
            return None
        return (self.ci95_s[1] - self.ci95_s[0]) / 2 / self.median_s


@frozen
class Against:
    """A run, with those like it of this session, beside the earlier ones that it is held to."""

    at: float
    """Unix time of the newest of the earlier runs."""
    verdict: Verdict
    ratio: float
    """Time of the earlier runs over that of these: above 1, these are faster."""
    ci95: tuple[float, float] | None
    """From run to run; ``None`` of too few runs."""
    runs: tuple[int, int]
    """Earlier ones, and of this session."""
    varies: float | None
    """Nineteen of twenty runs lie within ± this share where nothing differs; ``None`` where that
    was not asked for or is not known."""
    differences: tuple[str, ...]
    """What the environments differ in, as text; not causes."""


class EarlierResults:
    """Finds results of earlier sessions.

    Args:
        results: in any order.
        at: Unix time at which they were read.
    """

    def __init__(self, results: Sequence[EarlierResult] = (), at: float = 0.0) -> None:
        self.at = at
        self._results: dict[tuple[str, str], list[EarlierResult]] = {}
        for one in sorted(results, key=lambda one: one.at, reverse=True):
            self._results.setdefault((one.workload, one.gpu), []).append(one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EarlierResults) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return sum(map(len, self._results.values()))

    def find(
        self, workload: str, gpu: str, parameters: Mapping[str, Setting]
    ) -> EarlierResult | None:
        """The newest of a workload with these parameters.

        Args:
            workload: its name.
            gpu: UUID of the GPU; empty for the CPU.
            parameters: as they would be asked for now.
        """
        known = self._results.get((workload, gpu), ())
        return next((one for one in known if one.is_of(parameters)), None)
