"""A program that the driver refuses, as another process holds the card: torch raises no OOM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulated_gpu.test_full_gpu import held_by_another

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(240)]
PROGRAM = """
import torch
def main():
    return torch.nn.Linear(8, 8).cuda()
main()
"""


def test_it_is_an_oom_that_names_who_holds_the_device(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    words = [sys.executable, "-m", "tui", "watch", "--no-screen", "--json", "--"]
    environment = {
        **os.environ,
        "GPU_WORKBENCH_STATE": str(tmp_path / "state"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    with held_by_another() as pid:
        done = subprocess.run(
            [*words, sys.executable, str(program)],
            env=environment,
            capture_output=True,
            check=False,
            cwd=tmp_path,
        )
    told = json.loads(done.stdout)
    ((path, oom),) = [
        (f"processes.{index}.ooms.0", oom)
        for index, process in enumerate(told["processes"])
        for oom in process["ooms"] or ()
    ]
    assert (oom["asked"], oom["free"], oom["handled"]) == (None, None, False)
    assert f"{path}.asked" in told["unavailable"]
    assert oom["text"].startswith("CUDA error: out of memory")
    line = oom["explanation"]["line"]
    assert line.startswith(
        "OOM before any optimizer step, train.py:4 in main. The driver had no memory left: "
        f"pid {pid} ("
    ), line
    assert oom["explanation"]["cause"] == "other processes"
