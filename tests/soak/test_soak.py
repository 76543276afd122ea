"""A minute of the soak."""

from __future__ import annotations

import pytest

from benchmarks.soak.soak import soak


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_minute_of_random_faults_leaves_the_program_alive_quick_and_clean() -> None:
    report = soak(60, seed=20)
    assert report.problems == ()
    assert len(report.faults) >= 5
