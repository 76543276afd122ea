"""Budgets of being watched: the start of a process, a step, a snapshot, the history's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.watched import on_gpu, starts
from workloads.agent import ENTRIES

pytestmark = [pytest.mark.benchmark, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_process_without_cuda_starts_hardly_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = starts(60, tmp_path)
    with capsys.disabled():
        print(f"\n{found}")
    # A fifth of a bare start; ``python -m benchmarks.watched`` on a quiet machine is what
    # docs/watching.md gives.
    assert found.more <= 0.2 * found.plain


@pytest.mark.simulated_gpu
def test_a_snapshot_of_a_full_history_keeps_within_its_file_and_ring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "measured").mkdir()
    found = on_gpu(tmp_path, ENTRIES)
    with capsys.disabled():
        print(f"\n{found}")
    assert found["ring"] <= 64 << 20
    # Ratios, for a machine that is busy: a step's hook to a plain snapshot, and that to a full one.
    assert found["hook"] < found["dump without history"] < found["dump with history"]
