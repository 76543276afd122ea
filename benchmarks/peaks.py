"""Peaks of CPU memory against arithmetic: ``python -m benchmarks.peaks`` prints the table.

Each workload runs in fresh processes, after a small run that loads the libraries. They are forks of
a process that has imported torch and not used it, like the runner's workers. The arithmetic counts
the tensors that live at the peak by hand; the workload's parameter is their size.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from dataclasses import dataclass
from pathlib import Path

from workloads.measure.malloc import fix_thresholds

if __name__ == "__main__":
    # Before torch is imported, as in the runner.
    fix_thresholds()

import torch

from workloads import catalog
from workloads.declare import user_workloads
from workloads.measure import memory
from workloads.measure.timing import Control
from workloads.protocol.messages import Run
from workloads.protocol.results import RunResult
from workloads.runner import execute

assert catalog

OWN = """
from typing import Annotated

import torch
from workloads.workload import Case, whole, workload

def declare(name, make):
    def prepared(on, mib: Annotated[int, whole(1, 4096, "MiB")] = 1) -> Case:
        call = make(on, mib * 2**18)
        def timed():
            return call()
        return Case(timed)

    prepared.__name__ = name
    workload(group="peaks", title=name, about="a", look_for="b", devices=("cpu",))(prepared)

def ones(on, n):
    return lambda: torch.ones(n)

def add(on, n):
    x = on.randn(n)
    return lambda: x + 1

def chain(on, n):
    x = on.randn(n)
    return lambda: torch.relu(x * 2 + 1) - x

def softmax(on, n):
    x = on.randn(n // 1024, 1024)
    return lambda: torch.softmax(x, 1)

def transposed(on, n):
    x = on.randn(n // 1024, 1024)
    return lambda: x.t().contiguous()

def joined(on, n):
    x, y = on.randn(n), on.randn(n)
    return lambda: torch.cat([x, y])

def kept(on, n):
    return lambda: [torch.zeros(n) for _ in range(8)]

def widened(on, n):
    x = on.randn(n)
    return lambda: x.double()

for make in (ones, add, chain, softmax, transposed, joined, kept, widened):
    declare("peak_" + make.__name__, make)
"""


@dataclass(frozen=True, slots=True)
class PeakCase:
    """A workload, the size of its tensors, and the number of them that live at the peak."""

    name: str
    mib: int
    tensors: int


CASES = (
    PeakCase("peak_ones", 500, 1),
    PeakCase("peak_add", 300, 2),
    PeakCase("peak_chain", 200, 3),
    PeakCase("peak_chain", 31, 3),
    PeakCase("peak_softmax", 300, 2),
    PeakCase("peak_transposed", 300, 2),
    PeakCase("peak_joined", 150, 4),
    PeakCase("peak_kept", 24, 8),
    PeakCase("peak_widened", 200, 3),
    PeakCase("staircase", 500, 1),
)
SMALL_MIB = {"staircase": 32}
"""The size of the first run, if the workload does not accept 1 MiB."""


def peaks_mib(name: str, mib: int) -> tuple[float, float]:
    """Return a run's peak and the growth of the resident memory, in a fresh process.

    Args:
        name: the workload.
        mib: the size of its tensors, MiB.
    """

    def run(size: int) -> RunResult:
        request = Run("1", name, "cpu", {"mib": size}, {}, "quick", time_only=True)
        return execute.run(request, Control(), lambda _: None, cold=True)

    run(SMALL_MIB.get(name, 1))
    memory.give_back(torch.device("cpu"))
    before = memory.resident()
    result = run(mib)
    allocated, process = result.memory.allocated_peak, result.memory.process_peak
    if allocated is None or process is None or before is None:
        raise RuntimeError(f"{name}: {result.reason or result.unavailable}")
    return allocated / 2**20, (process - before) / 2**20


def main() -> None:
    """Print the table, a row for each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=10, help="fresh ones for each workload")
    parser.add_argument("names", nargs="*", help="workloads (default: all)")
    chosen = parser.parse_args()
    print("| workload | tensors | arithmetic | lowest | highest | largest error | resident |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "peaks_own.py"
        own.write_text(OWN)
        problems = user_workloads.load([str(own)])
        if problems:
            raise RuntimeError("; ".join(problems))
        # Each is a fresh fork: a worker does one task and ends.
        with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
            for case in CASES:
                if chosen.names and case.name not in chosen.names:
                    continue
                runs = [
                    pool.apply(peaks_mib, (case.name, case.mib)) for _ in range(chosen.processes)
                ]
                peaks = [allocated for allocated, _ in runs]
                expected = case.mib * case.tensors
                error = max(abs(peak - expected) / expected for peak in peaks)
                print(
                    f"| {case.name} | {case.tensors} of {case.mib} MiB | {expected} MiB "
                    f"| {min(peaks):.1f} MiB | {max(peaks):.1f} MiB | {error:.1%} "
                    f"| {max(growth for _, growth in runs):.0f} MiB |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
