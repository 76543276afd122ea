"""Reads one snapshot in a process of its own and prints what it took, as JSON.

``snapshot_probe.py FILE`` loads it and sums up every device; ``snapshot_probe.py FILE bare`` only
unpickles it, with the collector off: nothing that reads the file whole can be faster.
"""

from __future__ import annotations

import gc
import json
import pickle
import resource
import sys
import time
from pathlib import Path


def bare(path: Path) -> dict[str, float]:
    gc.disable()
    began = time.perf_counter()
    with path.open("rb") as stream:
        pickle.load(stream)
    return {"load_s": time.perf_counter() - began, "summary_s": 0.0}


def ours(path: Path) -> dict[str, float]:
    from tui.snapshots.analysis import Analysis
    from tui.snapshots.load import load

    began = time.perf_counter()
    snapshot = load(path)
    loaded = time.perf_counter()
    for device in Analysis(snapshot).devices.values():
        device.summary()
    return {"load_s": loaded - began, "summary_s": time.perf_counter() - loaded}


def main() -> None:
    took = (bare if sys.argv[2:] == ["bare"] else ours)(Path(sys.argv[1]))
    took["cpu_s"] = time.process_time()
    took["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(took))


if __name__ == "__main__":
    main()
