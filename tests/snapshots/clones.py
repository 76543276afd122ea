"""Large snapshots for benchmarks: the entries of a real file again and again, elsewhere and later.

``python -m tests.snapshots.clones SOURCE TARGET ENTRIES [FRAMES]`` writes one; it takes as much
memory as reading it with ``pickle.load``, so a process of its own is the place for it.
"""

from __future__ import annotations

import gc
import pickle
import sys
from pathlib import Path
from typing import Any

ADDRESSES = 1 << 40
"""Bytes from one copy to the next, more than any device has."""
_LONGER = 1_000_000
"""Microseconds between two copies."""


def clone(raw: dict[str, Any], entries: int, frames: int) -> dict[str, Any]:
    """Return a valid snapshot with so many entries on device 0.

    Args:
        raw: a snapshot with a trace on device 0.
        entries: of the result; as in a ring buffer, the oldest of the first copy fall out.
        frames: added to the outer end of every stack, as a launcher and C++ frames would.
    """
    trace, copies = raw["device_traces"][0], []
    outer = [
        {"filename": f"/opt/launcher/stage{number}.py", "line": number, "name": f"call{number}"}
        for number in range(frames)
    ]
    span = trace[-1]["time_us"] - trace[0]["time_us"] + _LONGER
    segments = []
    for copy in range(-(-entries // len(trace))):
        lists: dict[int, list[Any]] = {}
        shift = copy * ADDRESSES
        for entry in trace:
            stack = entry["frames"]
            if id(stack) not in lists:
                lists[id(stack)] = stack + outer
            copies.append(
                {
                    **entry,
                    "addr": entry["addr"] + shift,
                    "time_us": entry["time_us"] + copy * span,
                    "frames": lists[id(stack)],
                }
            )
        segments += [_moved(segment, shift) for segment in raw["segments"]]
    del copies[: len(copies) - entries]
    return {**raw, "segments": segments, "device_traces": [copies]}


def _moved(segment: dict[str, Any], shift: int) -> dict[str, Any]:
    blocks = [{**block, "address": block["address"] + shift} for block in segment["blocks"]]
    return {**segment, "address": segment["address"] + shift, "blocks": blocks}


def write(source: Path, target: Path, entries: int, frames: int) -> None:
    """Clone a file into another."""
    gc.disable()
    with source.open("rb") as stream:
        raw = pickle.load(stream)
    with target.open("wb") as stream:
        pickle.dump(clone(raw, entries, frames), stream, protocol=4)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
