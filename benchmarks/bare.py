"""Time a workload's callable with bare ``torch.utils.benchmark`` and print the median, seconds.

It sets up the C heap as the runner does: otherwise a convolution measures page faults.
Usage: bare.py WORKLOAD
"""

from __future__ import annotations

import sys

from workloads.measure.malloc import fix_thresholds

fix_thresholds()

import torch  # noqa: E402 (after the heap is set up)
from torch.utils.benchmark import Timer  # noqa: E402

from workloads import catalog  # noqa: E402
from workloads.declare import workload  # noqa: E402
from workloads.declare.place import Place  # noqa: E402

assert catalog


def main() -> None:
    """Time one workload with its defaults on the CPU."""
    declared = workload.registered()[sys.argv[1]]
    case = declared.prepare(Place("cpu"), **workload.complete(declared.info, {}))
    timer = Timer("timed()", globals={"timed": case.timed}, num_threads=torch.get_num_threads())
    print(timer.blocked_autorange(min_run_time=2.0).median)


if __name__ == "__main__":
    main()
