"""Reads one snapshot in a process of its own and prints what it took, as JSON.

``snapshot_probe.py FILE`` loads it and sums up every device; ``snapshot_probe.py FILE bare`` only
unpickles it, with the collector off: nothing that reads the file whole can be faster. Both give the
file's own objects up again within their time. The timelines are asked for after that.
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
    """Seconds of processor time that this process and those it has started and ended have taken."""
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
    took = {
        "load_s": loaded - began,
        "summary_s": time.perf_counter() - loaded,
        "cpu_s": processor_time() - cpu,
    }
    return {**took, "timeline_cpu_s": max(map(_timeline, devices))}


def _timeline(device: DeviceAnalysis) -> float:
    """Processor time of the slowest of what one asks of a timeline: each stacking, then closer."""
    slowest = 0.0
    for stacking in STACKINGS:
        for first in (0, device.replay.events // 2):
            cpu = processor_time()
            device.timeline(COLUMNS, stacking=stacking, first=first)
            slowest = max(slowest, processor_time() - cpu)
    return slowest


def main() -> None:
    took = (bare if sys.argv[2:] == ["bare"] else ours)(Path(sys.argv[1]))
    took["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(took))


if __name__ == "__main__":
    main()
