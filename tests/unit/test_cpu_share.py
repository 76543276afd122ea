"""What other processes used of the CPU."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from workloads.measure.cpu_share import CpuTime, now, other_cores


def test_what_is_not_ours_is_theirs() -> None:
    assert other_cores(CpuTime(10.0, 4.0), CpuTime(13.0, 5.0), 1.0) == pytest.approx(2.0)


def test_clocks_that_disagree_by_a_tick_give_zero_and_nothing_negative() -> None:
    assert other_cores(CpuTime(10.0, 4.0), CpuTime(10.5, 4.51), 1.0) == 0.0


@pytest.mark.parametrize("pair", [(None, CpuTime(1, 1)), (CpuTime(1, 1), None)])
def test_unknown_stays_unknown(pair: tuple[CpuTime | None, CpuTime | None]) -> None:
    assert other_cores(*pair, 1.0) is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/stat")
def test_a_process_that_keeps_a_core_busy_is_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            before, began = now(), time.monotonic()
            seen = 0.0
            while seen < 0.3 and time.monotonic() - began < 20:
                time.sleep(0.1)
                seen = other_cores(before, now(), time.monotonic() - began) or 0.0
        finally:
            other.kill()
    assert seen >= 0.3
