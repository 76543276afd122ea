"""Read one snapshot in a fresh process and print the time and memory that it took, as JSON.

``snapshot_probe.py FILE`` loads it and summarizes every device; ``snapshot_probe.py FILE bare``
only unpickles it without the garbage collector: no reader of the whole file can be faster. Both
times include freeing the file's objects. The timelines are computed and timed afterwards.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from tui.snapshots.model.pictures import Stacking

if TYPE_CHECKING:
    from tui.snapshots.analysis.analysis import DeviceAnalysis

STACKINGS: tuple[Stacking, ...] = get_args(Stacking)
COLUMNS = 190


def processor_time() -> float:
    """Return the processor time of this process and its ended children, seconds."""
    return sum(os.times()[:4])


def bare(path: Path) -> dict[str, float]:
    gc.disable()
    began, cpu = time.perf_counter(), processor_time()
    with path.open("rb") as stream:
        pickle.load(stream)
    return {
        "load_s": time.perf_counter() - began,
        "summary_s": 0.0,
        "cpu_s": processor_time() - cpu,
    }


def ours(path: Path) -> dict[str, float]:
    from tui.snapshots.analysis.analysis import Analysis
    from tui.snapshots.read.load import load

    began, cpu = time.perf_counter(), processor_time()
    snapshot = load(path)
    loaded = time.perf_counter()
    devices = Analysis(snapshot).devices.values()
    for device in devices:
        device.summary()
    times = {
        "load_s": loaded - began,
        "summary_s": time.perf_counter() - loaded,
        "cpu_s": processor_time() - cpu,
    }
    return {**times, "timeline_cpu_s": max(map(_timeline, devices))}


def _timeline(device: DeviceAnalysis) -> float:
    """Return the processor time of the slowest timeline, by stacking, whole and second half."""
    slowest = 0.0
    for stacking in STACKINGS:
        for first in (0, device.replay.events // 2):
            cpu = processor_time()
            device.timeline(COLUMNS, stacking=stacking, first=first)
            slowest = max(slowest, processor_time() - cpu)
    return slowest


def main() -> None:
    figures = (bare if sys.argv[2:] == ["bare"] else ours)(Path(sys.argv[1]))
    figures["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
