"""A store of 100 000 results: how long it takes to list and to compare them.

The times are those of whole commands, the start of the program included.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.results.samples import BEGAN, FACTS, kept
from tui.results.store.database import Database
from tui.results.store.earlier import EarlierSessions
from tui.results.store.records import StoredResult

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

RESULTS = 100_000
WORKLOADS = 40
BATCH = 5_000
LOOKS = 5
LIST_S, COMPARE_S = 0.3, 2.0
"""What a quiet box of today is to take; told, not asserted."""


def _made() -> Iterator[StoredResult]:
    rng = random.Random(1)
    drivers = ({"driver": "580.65.06"}, {"driver": "590.10.01"})
    for number in range(RESULTS):
        yield kept(
            number,
            workload=f"workload_{number % WORKLOADS}",
            median=1e-3 * rng.lognormvariate(0, 0.01),
            facts=drivers[number % WORKLOADS % 2 ^ number // WORKLOADS % 2],
        )


def _filled(place: Path, results: int) -> None:
    ones = _made()
    with Database(place, writing=True) as database:
        for _ in range(0, results, BATCH):
            database.add([next(ones) for _ in range(min(BATCH, results))])


Took = tuple[float, float]
"""Seconds of the clock, and of the processor."""


def _took(state: Path, *words: str) -> Took:
    """Return the median time of a command."""
    clock, processor = [], []
    for _ in range(LOOKS):
        began, used = time.perf_counter(), os.times()
        done = subprocess.run(
            [sys.executable, "-m", "tui", "results", *words],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "GPU_WORKBENCH_STATE": str(state)},
        )
        clock.append(time.perf_counter() - began)
        after = os.times()
        user = after.children_user - used.children_user
        processor.append(user + after.children_system - used.children_system)
        assert done.returncode == 0, done.stderr
    return statistics.median(clock), statistics.median(processor)


def test_a_hundred_thousand_results_are_listed_and_compared(tmp_path: Path) -> None:
    began = time.perf_counter()
    _filled(tmp_path / "many" / "results.sqlite3", RESULTS)
    print(f"\n{RESULTS} results put in within {time.perf_counter() - began:.1f} s")
    _filled(tmp_path / "few" / "results.sqlite3", 100)
    few, many = (
        {
            "list": _took(tmp_path / name, "list"),
            "list of one workload": _took(tmp_path / name, "list", "--workload", "workload_7"),
            "compare": _took(tmp_path / name, "compare", "driver=580", "driver=590"),
        }
        for name in ("few", "many")
    )
    for what, taken in many.items():
        print(
            f"{what}: {taken[0]:.2f} s, {taken[1]:.2f} s of the processor;"
            f" of 100 results {few[what][0]:.2f} s, {few[what][1]:.2f} s"
        )
    place, clock = tmp_path / "many" / "results.sqlite3", []
    for _ in range(LOOKS):
        began = time.perf_counter()
        found = EarlierSessions(place, BEGAN + RESULTS).read_newest(FACTS["box"])
        clock.append(time.perf_counter() - began)
    assert len(found) == WORKLOADS
    print(
        f"newest of each, as the workbench asks once it is drawn: {statistics.median(clock):.3f} s"
    )
    print(f"wanted: {LIST_S} s to list and for the newest, {COMPARE_S} s to compare")
    # A thousand times as many rows: a list reads those that it shows and counts the rest.
    assert many["list"][1] < 3 * few["list"][1]
