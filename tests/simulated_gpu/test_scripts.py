"""Each script runs on its own on a GPU, and prints what it shows, whatever its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts import SCRIPTS, run_copy

pytestmark = pytest.mark.simulated_gpu


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs_on_its_own_on_a_gpu(script: Path, tmp_path: Path) -> None:
    assert run_copy(script, tmp_path).strip()
