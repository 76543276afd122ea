"""Each script runs on its own on the CPU, and prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts import SCRIPTS, run_copy


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs_on_its_own(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert run_copy(script, tmp_path).strip()
