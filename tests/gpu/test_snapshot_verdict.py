"""Failures of torch's own allocator on a GPU: the verdict on what torch writes of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.oom_text import parse_oom_texts
from tui.snapshots.model.results import Cause, Verdict
from tui.snapshots.read.load import load

pytestmark = [pytest.mark.timeout(120), pytest.mark.simulated_gpu]

MIB = 2**20
PROGRAM = """
import math, sys, torch
file, case = sys.argv[1:]
torch.cuda.memory._record_memory_history(max_entries=10000, stacks="python")
# In the except block the stack has unwound; the observer sees what was live.
torch._C._cuda_attach_out_of_memory_observer(lambda *_: torch.cuda.memory._dump_snapshot(file))

def fail(case):
    held = torch.empty(64 * 2**20 + 5, dtype=torch.uint8, device="cuda")
    free, total = torch.cuda.mem_get_info()
    if case == "square":
        rows = math.isqrt(total // 2) + 1
        print(rows)
        return torch.empty(rows, rows, device="cuda")
    if case == "free":
        print(free)
        return torch.empty(free + 33 * 2**20 + 7, dtype=torch.uint8, device="cuda")
    torch.cuda.set_per_process_memory_fraction(80 * 2**20 / total)
    kept = [held]
    while True:
        kept.append(torch.empty(70000, dtype=torch.uint8, device="cuda"))

try:
    fail(case)
except torch.OutOfMemoryError as error:
    print(error, file=sys.stderr)
"""


def failed(folder: Path, case: str) -> tuple[Verdict, Verdict, str]:
    """Return the verdicts with and without the exception's text, and the program's output."""
    file = folder / "memory.pickle"
    command = [sys.executable, "-c", PROGRAM, str(file), case]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    device = Analysis(load(file)).devices[0]
    (event,) = device.replay.ooms
    told = judge(device, event, parse_oom_texts(done.stderr))
    assert told.text is not None, done.stderr
    assert told.total is not None
    return told, judge(device, event), done.stdout.strip()


def test_a_square_larger_than_the_device(tmp_path: Path) -> None:
    told, untold, rows = failed(tmp_path, "square")
    assert told.cause == "larger than the device"
    assert untold.cause == "larger than what was free"
    shape = f"{int(rows):,} x {int(rows):,} of float32".replace(",", " ")
    for verdict in (told, untold):
        assert verdict.site.endswith(" fail")
        assert verdict.reasons[0].startswith(f"{verdict.site} requested")
        assert any(shape in reason for reason in verdict.reasons)
        assert verdict.site.removesuffix(" fail") in verdict.advice[0].what


def test_a_little_more_than_is_free(tmp_path: Path) -> None:
    told, untold, _ = failed(tmp_path, "free")
    expected: Cause = "larger than what was free"
    assert told.cause == untold.cause == expected
    assert told.state.live == untold.state.live == 64 * MIB + 5


def test_growth_up_to_a_limit_of_the_process(tmp_path: Path) -> None:
    told, untold, _ = failed(tmp_path, "growth")
    assert told.cause == "process limit"
    assert untold.cause == "refused with memory free"
    for verdict in (told, untold):
        found = verdict.growth
        assert found is not None
        assert found.label.endswith(" fail")
        assert found.live == found.count * 70000
        assert found.freed == 0
