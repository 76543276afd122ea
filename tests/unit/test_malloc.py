"""The C library's thresholds: peaks are what the tensors take, whatever ran before."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tests.tiers import VARIANT
from workloads.measure import malloc

linux = pytest.mark.skipif(platform.system() != "Linux", reason="glibc's thresholds")

LOOP = """
from workloads.measure.malloc import fix_thresholds
fix_thresholds()
import torch
from workloads.measure import memory
cpu = torch.device("cpu")
torch.relu(torch.ones(64) + 1)
memory.give_back(cpu)
before = memory.resident()
memory.reset_peaks(cpu)
kept = []
for number in range(12):
    tensors = [torch.ones(SIZE)]
    tensors.append(tensors[0] + 1)
    kept.append([0] * number)
    del tensors
peaks, _ = memory.peaks(cpu)
print((peaks.process_peak - before) / (2 * 4 * SIZE))
"""


@linux
@pytest.mark.parametrize(
    "mib", [pytest.param(40, marks=VARIANT), pytest.param(150, marks=pytest.mark.slow)]
)
def test_a_loop_in_a_fresh_process_peaks_at_what_its_tensors_take(mib: int) -> None:
    script = LOOP.replace("SIZE", str(mib * 2**18))
    argv = [sys.executable, "-W", "ignore", "-c", script]
    ended = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert float(ended.stdout) == pytest.approx(1.0, abs=0.05)


@linux
def test_what_a_user_has_said_about_huge_pages_stays_and_is_told() -> None:
    variables = {malloc.HUGE_PAGES: "0"}
    assert malloc.HUGE_PAGES in malloc.fix_thresholds(variables)
    assert variables == {malloc.HUGE_PAGES: "0"}


@linux
def test_huge_pages_are_asked_for_where_nobody_has_said_anything() -> None:
    variables: dict[str, str] = {}
    said = malloc.fix_thresholds(variables)
    assert "32 MiB" in said
    assert variables == {malloc.HUGE_PAGES: "1"}
