"""Thousands of damaged files end in a result or one line, and nothing of them runs.

500 are tried each time, 2 000 by the slow tests. ``GPU_WORKBENCH_FUZZ=20000 pytest
tests/snapshots/test_fuzz.py`` tries as many as it says, and ``GPU_WORKBENCH_FUZZ_SEED`` makes other
ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.snapshots.apart import Outcome, assert_safe, read
from tests.snapshots.mutate import mutants, seeds

COUNT = int(os.environ.get("GPU_WORKBENCH_FUZZ", "500"))
MORE = max(COUNT, 2000)
SEED = int(os.environ.get("GPU_WORKBENCH_FUZZ_SEED", "1"))
ALLOWED = 600 << 20
SECONDS = 20.0
BATCH = 500


@pytest.mark.timeout(max(120, MORE // 10))
@pytest.mark.parametrize("count", [COUNT, pytest.param(MORE, marks=pytest.mark.slow)])
def test_every_damaged_file_ends_in_a_result_or_a_line(
    count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    files = list(mutants(seeds(Path(__file__).parent / "files"), count, SEED))
    outcomes: list[Outcome] = []
    while len(outcomes) < len(files):
        outcomes += read(files[len(outcomes) : len(outcomes) + BATCH], ALLOWED, SECONDS)
        assert_safe(outcomes[-1])
    for number, outcome in enumerate(outcomes):
        try:
            assert_safe(outcome)
        except AssertionError as error:
            raise AssertionError(f"mutant {number} of seed {SEED}: {error}") from error
    results = sum(not outcome.line for outcome in outcomes)
    slowest = max(outcome.seconds for outcome in outcomes)
    # Both happen, else the damage is either none or everything.
    assert 0 < results < len(outcomes)
    assert slowest < SECONDS
    if len(outcomes) > 2000:
        with capsys.disabled():
            print(
                f"\n{len(outcomes)} damaged files: {results} results, "
                f"{len(outcomes) - results} lines, slowest {slowest:.2f} s, "
                f"at most {max(outcome.grown for outcome in outcomes) >> 20} MiB more"
            )
