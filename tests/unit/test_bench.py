"""The tools of a study on this machine: peaks, what is held, rounds."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from tests.hog import busy
from tests.tiers import VARIANT, with_variants
from tests.waiting import TIMEOUT_S
from workloads.declare.tools import Within
from workloads.measure import cpu_share, malloc
from workloads.measure.clocks import HostClock
from workloads.measure.cpu_share import Others
from workloads.measure.timing import Cancelled, Control
from workloads.runner.bench import FEWEST, ROUNDS, Bench

MIB = 2**20
CPU = torch.device("cpu")
LONG_S = 1.0
"""A hundred ticks of /proc/stat: a round takes one or two, which a busy core may fall between."""


@pytest.fixture
def bench() -> Bench:
    malloc.fix_thresholds()
    return Bench(CPU, HostClock(), Control())


def test_the_peak_of_a_call_is_what_it_needs_on_top(bench: Bench) -> None:
    held = torch.ones(8 * MIB)
    size = 64 * MIB

    def call() -> object:
        return torch.ones(size // 4)

    peak = bench.peak(call)
    if malloc.heap() is None:
        pytest.skip("this C library has no malloc_trim")
    assert peak is not None
    assert size * 0.95 < peak < size * 1.3
    assert held.numel() == 8 * MIB


def test_what_is_held_grows_with_a_tensor_and_falls_with_it(bench: Bench) -> None:
    gc.collect()
    # What the first call allocates and frees is no part of the difference.
    bench.memory_in_use()
    before = bench.memory_in_use()
    tensor = torch.ones(16 * MIB)
    during = bench.memory_in_use()
    del tensor
    after = bench.memory_in_use()
    if before.allocated is None or during.allocated is None or after.allocated is None:
        pytest.skip("this C library does not report its heap")
    # Less than a MiB of other objects may be freed or made meanwhile.
    assert during.allocated - before.allocated > 63 * MIB
    assert after.allocated - before.allocated < MIB
    assert before.nvml is None
    assert "nvml" in before.unavailable


def test_rounds_give_every_way_a_time_in_each(bench: Bench) -> None:
    small, large = torch.ones(1000), torch.ones(200_000)
    rounds = bench.rounds([lambda: small + 1, lambda: large + 1], "device")
    assert FEWEST <= len(rounds) <= ROUNDS
    assert all(len(times) == 2 and min(times) > 0 for times in rounds)


def test_a_context_is_entered_once_for_a_block_and_not_for_each_call(bench: Bench) -> None:
    entries, calls, inside = 0, 0, False

    @contextmanager
    def context() -> Iterator[None]:
        nonlocal entries, inside
        entries, inside = entries + 1, True
        yield
        inside = False

    def call() -> None:
        nonlocal calls
        assert inside
        calls += 1

    way = Within(context, call)
    rounds = bench.rounds([way, way], "wall")
    # One for each block; the first call and the warm-up of each way share another.
    assert entries == 2 * len(rounds) + 2
    assert calls > 20 * entries
    before = entries
    assert bench.time(way, "wall") > 0
    assert entries == before + 1
    way()
    assert entries == before + 2


def test_a_cancel_is_heard_within_the_rounds() -> None:
    class Ended(Control):
        def report(self, *_args: object, **_more: object) -> None:
            raise Cancelled

    with pytest.raises(Cancelled):
        Bench(CPU, HostClock(), Ended()).rounds([lambda: None], "wall")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/stat")
@pytest.mark.parametrize("how", with_variants(["time"], ["rounds"]))
@VARIANT
def test_a_process_beside_a_study_is_seen_and_told_once(bench: Bench, how: str) -> None:
    data = torch.ones(200_000)
    others = Others()
    with busy(ours=False):
        deadline = time.monotonic() + TIMEOUT_S
        while others.seconds < LONG_S:
            assert time.monotonic() < deadline
            if how == "time":
                bench.time(lambda: data + 1, "wall")
            else:
                bench.rounds([lambda: data + 1, lambda: data + 2], "wall")
            measured = bench.others()
            assert measured.seconds > 0
            assert bench.others().seconds == 0
            others += measured
    assert others.cpu_s > 0


def test_ticks_that_the_clock_cannot_tell_are_not_held_against_a_short_time() -> None:
    ticks = cpu_share.cpus() / os.sysconf("SC_CLK_TCK")
    assert Others(0.05, ticks).cores == 0.0
    assert Others(1.0, 1.0 + ticks).cores == pytest.approx(1.0)
    assert Others().cores is None
