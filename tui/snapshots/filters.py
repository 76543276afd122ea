"""What of a file is kept in memory, and what stays exact when something is left out.

The state at the end (segments and blocks) is always kept whole. Since the replay goes from the
end backwards:

- ``first`` leaves out the *oldest* entries: every state from there on stays exact.
- ``minimal_size`` leaves out small allocations and their frees: larger ones stay exact, while
  sums count the small ones as they stand at the end. Segment, OOM and unknown entries stay.
- ``last`` leaves out the *newest* entries: states before it are then off by what happened after.
- ``device`` leaves out whole devices; nothing of the one that is kept changes.

A filter makes what follows smaller and faster. It does not lower what reading takes: a pickle can
only be unpacked whole.
"""

from __future__ import annotations

from typing import Any

from workloads.fact import fact

_SIZED = frozenset(("alloc", "free", "free_requested", "free_completed"))


@fact
class Keep:
    """What to keep; the default is everything.

    Attributes:
        device: the only device to keep, by the file's number; ``None`` keeps all.
        first: number of the first trace entry to keep, on each device.
        last: number of the last trace entry to keep; ``None`` keeps up to the end.
        minimal_size: bytes; smaller allocations and their frees are left out.
    """

    device: int | None = None
    first: int = 0
    last: int | None = None
    minimal_size: int = 0

    def wants_device(self, index: int) -> bool:
        """Whether a device is kept."""
        return self.device is None or self.device == index

    def wants(self, entry: Any) -> bool:
        """Whether a raw trace entry is large enough; one without a proper size is kept."""
        if not isinstance(entry, dict):
            return True
        action = entry.get("action")
        if not isinstance(action, str) or action not in _SIZED:
            return True
        size = entry.get("size")
        return not isinstance(size, int) or size >= self.minimal_size

    def inexact(self, newer: int, smaller: int) -> str:
        """Why a replay is not exact after so many entries were left out; empty if it is."""
        reasons = []
        if newer:
            reasons.append(f"{newer} newer events were left out")
        if smaller:
            reasons.append(
                f"{smaller} events below {self.minimal_size} bytes were left out, so sums count "
                "small allocations as they stand at the end"
            )
        return "; ".join(reasons)


EVERYTHING = Keep()
"""The filter that leaves nothing out."""
