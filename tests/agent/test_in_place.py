"""``watch --here`` on a GPU: the process has the agent, and nobody waits for its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui.watch.cli.output import encode_stored_runs, stored_run_lines
from tui.watch.runs import runs

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(240)]


def test_its_end_is_what_its_agent_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    program = "import torch, sys; torch.ones(1000, device='cuda'); sys.exit(5)"
    words = [sys.executable, "-m", "tui", "watch", "--here", "--", sys.executable, "-c", program]
    done = subprocess.run(words, check=False, env=os.environ)
    assert done.returncode == 5
    (run,) = runs.stored_runs()
    assert run.last_sign is not None
    assert (run.ended, run.last_sign.is_end) == (None, True)
    assert run.began < run.last_sign.at
    (line,) = stored_run_lines()[1:]
    assert "ended; its exit code is known to the shell that started it alone" in line
    (plain,) = encode_stored_runs()
    assert plain["last_sign"] == {"at": run.last_sign.at, "end": True}
