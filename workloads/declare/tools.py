"""What a study measures with, whoever does it: calls, clocks, the memory that is held. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

from workloads.measure.cpu_share import Others
from workloads.protocol.results import Ceiling, Limit

Call = Callable[[], object]
ClockName = Literal["device", "wall"]


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """Memory that is held at one moment, bytes; on the CPU by the C library's heap.

    ``None`` is not known, and ``unavailable`` says why by the field's name.
    """

    allocated: int | None
    """By tensors (CUDA), or by all that lives in the heap (CPU)."""
    reserved: int | None
    """By the caching allocator, cuBLAS's workspaces included, or by the heap, with what is kept."""
    used: int | None
    """Of the device by everybody, as the driver says; on the CPU resident in this process."""
    nvml: int | None
    """Of the device by everybody, as NVML says; like ``used`` without what the driver keeps."""
    unavailable: dict[str, str]


class Within:
    """A call under a context manager, such as one that chooses a backend.

    A block of calls enters it once (:func:`entered`), so that its own time is not in theirs: on a
    GPU that would be the larger part of a short one.

    Args:
        context: makes the context manager.
        call: under it.
    """

    def __init__(self, context: Callable[[], AbstractContextManager[object]], call: Call) -> None:
        self.context = context
        self.call = call

    def __call__(self) -> object:
        with self.context():
            return self.call()


@contextmanager
def entered(call: Call) -> Iterator[Call]:
    """Yield the function to call repeatedly, within the context that the call asks for, if any."""
    if isinstance(call, Within):
        with call.context():
            yield call.call
    else:
        yield call


class Tools(Protocol):
    """What a study measures with; the implementation knows the device."""

    def time(self, call: Call, clock: ClockName) -> float:
        """Return the median seconds per call of a short measurement."""

    def rounds(self, calls: Sequence[Call], clock: ClockName) -> list[list[float]]:
        """Seconds per call, for each round a value for each callable; rounds alternate order."""

    def watched(self) -> AbstractContextManager[None]:
        """Watch other processes while a study times something itself."""

    def others(self) -> Others:
        """Return what other processes used of the CPU in the timings since the last such call."""

    def peak(self, call: Call) -> int | None:
        """Bytes that one call needs on top of what is held before it, at its highest."""

    def held(self) -> HeldMemory:
        """Return the memory that is held now."""

    def ceiling(self, kind: str) -> Ceiling:
        """Measure a ceiling anew: of a precision, or ``copy``.

        Raises:
            RuntimeError: torch has no product of such numbers here.
        """

    def limit(self, kind: str, rate: float) -> Limit | None:
        """Return the limit for a rate, if nothing has to be measured for it."""

    def look(self) -> None:
        """Say how far it is.

        Raises:
            Cancelled: the run is to end.
        """
