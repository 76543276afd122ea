"""The interface of a study's measuring tools: calls, clocks, memory in use. No torch."""

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
class MemoryInUse:
    """Memory in use at one moment, bytes; on the CPU, of the C library's heap.

    ``None`` means unknown; ``unavailable`` has the reason under the field's name.
    """

    allocated: int | None
    """Bytes of tensors (CUDA), or of everything in the heap (CPU)."""
    reserved: int | None
    """Bytes of the caching allocator with cuBLAS's workspaces, or of the heap with free blocks."""
    used: int | None
    """Bytes used on the whole device, as the driver reports; on the CPU, resident bytes."""
    nvml: int | None
    """Bytes used on the whole device, as NVML reports; like ``used`` without the driver's own."""
    unavailable: dict[str, str]

    @property
    def values(self) -> tuple[int | None, ...]:
        """The figures, in their order."""
        return self.allocated, self.reserved, self.used, self.nvml


class Within:
    """A call under a context manager, such as one that chooses a backend.

    A block of calls enters the context once (:func:`entered`), so that the calls' times exclude it:
    on a GPU, entering would be the larger part of a short call.

    Args:
        context: creates the context manager.
        call: the function to call inside it.
    """

    def __init__(self, context: Callable[[], AbstractContextManager[object]], call: Call) -> None:
        self.context = context
        self.call = call

    def __call__(self) -> object:
        with self.context():
            return self.call()


@contextmanager
def entered(call: Call) -> Iterator[Call]:
    """Yield the function to call repeatedly, inside the context that the call needs, if any."""
    if isinstance(call, Within):
        with call.context():
            yield call.call
    else:
        yield call


class Tools(Protocol):
    """A study's measuring tools; the implementation knows the device."""

    def time(self, call: Call, clock: ClockName) -> float:
        """Return the median seconds per call of a short measurement."""

    def rounds(self, calls: Sequence[Call], clock: ClockName) -> list[list[float]]:
        """Return seconds per call: a list per round, a value per callable; order alternates."""

    def watched(self) -> AbstractContextManager[None]:
        """Watch other processes while a study times something itself."""

    def others(self) -> Others:
        """Return other processes' CPU use in the timings since the previous call."""

    def peak(self, call: Call) -> int | None:
        """Return the bytes that one call needs, at its peak, beyond those already held."""

    def memory_in_use(self) -> MemoryInUse:
        """Return the memory in use now."""

    def ceiling(self, kind: str) -> Ceiling:
        """Measure a ceiling again: a precision's, or ``copy``.

        Raises:
            RuntimeError: torch has no product of this precision here.
        """

    def limit(self, kind: str, rate: float) -> Limit | None:
        """Return the limit for a rate, if no measurement is needed for it."""

    def check_cancelled(self) -> None:
        """Report progress, and end a cancelled run.

        Raises:
            Cancelled: the run must end.
        """
