"""One OOM of a process as its agent recorded it, and its description."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tui.core.text import numbers as fmt
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.inventory import Inventory

FROM_EXCEPTION = "the exception that ended the process"
REBUILT = "rewritten from the numbers that torch gave the observer"
BY_DRIVER = (
    "the driver refused it with its own error, which states neither the requested nor the free "
    "memory"
)
"""Why an OOM has no such figures: torch's observer does not see CUDA's own "out of memory"."""


@dataclass(frozen=True, slots=True)
class Oom:
    """One allocation that torch could not make."""

    number: int
    at: float
    """Unix time."""
    step: int
    """Optimizer steps until then."""
    device: int
    """As the process counts them."""
    request: int | None
    """Bytes of the refused request; ``None`` for :data:`BY_DRIVER`."""
    free: int | None
    """Free bytes of the device, as the driver reported; ``None`` for :data:`BY_DRIVER`."""
    limit: int | None
    """Bytes of the whole device, or torch's allowed share of it; ``None`` for
    :data:`BY_DRIVER`."""
    allocated: int
    """Bytes of allocated blocks, each rounded up as torch's allocator does."""
    reserved: int
    thread: str | None
    """``main``, a name, or ``None`` for one of torch's own, such as autograd's."""
    where: str | None = None
    """File and line of the Python code that made the request."""
    handled: bool | None = None
    """True if the program continued: a step or another OOM of the process followed."""
    why_not_known: str = ""
    text: str = ""
    text_source: str = REBUILT
    snapshot: Path | None = None
    why_no_snapshot: str = ""
    is_examined: bool = False
    """True while the agent of the running process examines it and writes the snapshot."""
    requested: int | None = None
    """Requested bytes of live tensors, not rounded up; ``None`` if the agent gave none."""
    stack: tuple[Frame, ...] = ()
    """Stack of the requesting thread, innermost first, if only the exception reports the OOM."""
    inventory: Inventory | None = None
    """Live memory of the process; ``None`` if the agent took no inventory."""

    @property
    def is_at_process_limit(self) -> bool:
        """True if torch's limit for the process refused the request, and not the device.

        The observer receives the device's total, or torch's limit if the process has one.
        """
        if self.request is None or self.free is None or self.limit is None:
            return False
        return self.free >= self.request and self.reserved + self.request > self.limit


def rebuilt_text(oom: Oom) -> str:
    """Return the exception's text from the observer's numbers, in torch's words.

    Empty for an OOM that the observer did not see.
    """
    if oom.request is None or oom.free is None or oom.limit is None:
        return ""
    unallocated = max(0, oom.reserved - oom.allocated)
    total, free = _size(oom.limit), _size(oom.free)
    device = f"GPU {oom.device} has a total capacity of {total} of which {free} is free."
    if oom.is_at_process_limit:
        # In the words of torch before 2.1; the device's total is unknown.
        device = f"(GPU {oom.device}; {total} allowed; {free} free;)"
    return (
        f"CUDA out of memory. {format_request(oom.request)} {device} Of the allocated memory "
        f"{_size(oom.allocated)} is allocated by PyTorch, and {_size(unallocated)} is reserved by "
        "PyTorch but unallocated."
    )


def format_request(size: int) -> str:
    """Return the first sentence of torch's message, with the requested size."""
    return f"Tried to allocate {_size(size)}."


def describe_request(oom: Oom) -> str:
    """Return the requested size, the device, and its free memory."""
    device = f"cuda:{oom.device}"
    if oom.request is None or oom.free is None or oom.limit is None:
        return f"the driver had no memory left on {device} (requested and free bytes are unknown)"
    free = f"{fmt.size(oom.free)} of {fmt.size(oom.limit)} free"
    if oom.is_at_process_limit:
        free = f"{fmt.size(oom.free)} free, beyond the process's limit of {fmt.size(oom.limit)}"
    return f"{fmt.size(oom.request)} requested on {device}, {free}"


def describe_live_memory(oom: Oom) -> str:
    """Return the two kinds of live memory: allocated blocks and requested bytes."""
    allocated = f"{fmt.size(oom.allocated)} allocated"
    if oom.requested is None:
        return f"{allocated} (requested not known)"
    return f"{allocated} ({fmt.size(oom.requested)} requested)"


def rank_oom(oom: Oom) -> tuple[bool, float]:
    """Return a key of which the highest belongs to the newest OOM, preferably one that ended it."""
    return oom.handled is not True, oom.at


def describe_outcome(oom: Oom) -> str:
    """Return whether the program continued after an OOM, or why that is not known."""
    if oom.handled is None:
        return oom.why_not_known
    return "the program continued" if oom.handled else "it ended the process"


def _size(size: int) -> str:
    """Format a size as ``format_size`` of torch's ``CUDACachingAllocator.cpp`` does."""
    if size <= 1024:
        return f"{size} bytes"
    for power, unit in ((1, "KiB"), (2, "MiB")):
        if size <= 1024 ** (power + 1):
            return f"{size / 1024**power:.2f} {unit}"
    return f"{size / 1024**3:.2f} GiB"
