"""The CPU under the name of a GPU, and a study with given times: tests without a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from workloads.declare.place import Place
from workloads.declare.study import Study
from workloads.declare.tools import Call, ClockName, MemoryInUse
from workloads.declare.workload import Case, registered
from workloads.measure.cpu_share import Others
from workloads.protocol.results import Limit


class GpuByName(Place):
    """The CPU with its data and its kernels, which a workload takes for a GPU.

    Args:
        free: bytes of free memory to report; ``None`` for unknown.
    """

    def __init__(self, free: int | None = None) -> None:
        super().__init__("cpu")
        self._free = free

    @property
    def type(self) -> str:
        return "cuda"

    def synchronize(self) -> None:
        return None

    def free_memory(self) -> int | None:
        return self._free


class Told:
    """Tools that return the given times one after the other, with equal times for all ways."""

    def __init__(self, times: Iterable[float] = ()) -> None:
        self._times = iter(times)

    def time(self, call: Call, clock: ClockName) -> float:
        call()
        assert clock == "wall"
        return next(self._times)

    def check_cancelled(self) -> None:
        return None

    def rounds(self, calls: Sequence[Call], _clock: ClockName) -> list[list[float]]:
        return [[1.0 for _ in calls]] * 12

    def watched(self) -> AbstractContextManager[None]:
        return nullcontext()

    def others(self) -> Others:
        return Others()

    def peak(self, _call: Call) -> int | None:
        return None

    def memory_in_use(self) -> MemoryInUse:
        raise NotImplementedError

    def limit(self, _kind: str, _rate: float) -> Limit | None:
        return None

    def ceiling(self, _kind: str) -> object:
        raise NotImplementedError


def case_of(name: str, place: Place, parameters: Mapping[str, object]) -> Case:
    """Return a workload prepared on a place."""
    return registered()[name].prepare(place, **parameters)


def studied(name: str, place: Place, times: Iterable[float] = (), **parameters: object) -> Study:
    """Return a workload's study on a place, in which measurements return the given times."""
    case = case_of(name, place, parameters)
    try:
        assert case.study is not None
        found = Study(1.0, case.clock, Told(times), lambda _study: None)  # type: ignore[arg-type]
        case.study(found)
    finally:
        if case.cleanup is not None:
            case.cleanup()
    return found
