"""Reads one snapshot in a process of its own and prints what it took, as JSON.

``snapshot_probe.py FILE`` loads it and sums up every device; ``snapshot_probe.py FILE bare`` only
unpickles it, with the collector off: nothing that reads the file whole can be faster. Both give the
file's own objects up again within their time.
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
    from tui.snapshots.analysis import Analysis
    from tui.snapshots.load import load

    began, cpu = time.perf_counter(), processor_time()
    snapshot = load(path)
    loaded = time.perf_counter()
    for device in Analysis(snapshot).devices.values():
        device.summary()
    return {
        "load_s": loaded - began,
        "summary_s": time.perf_counter() - loaded,
        "cpu_s": processor_time() - cpu,
    }


def main() -> None:
    took = (bare if sys.argv[2:] == ["bare"] else ours)(Path(sys.argv[1]))
    took["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(took))


if __name__ == "__main__":
    main()
