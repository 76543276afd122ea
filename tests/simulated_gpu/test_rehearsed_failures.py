"""What ``rehearse`` says first where ranks of torchrun fail: the rank's own error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulated_gpu.rehearsing import rehearse_program

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(300)]

TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
PROGRAM = """
import os, signal, sys, time

rank = int(os.environ["LOCAL_RANK"])
if rank == 1:
    {early}
import torch

torch.cuda.set_device(rank)
torch.ones(3, device="cuda")
if rank == 1:
    {late}
while True:  # until torchrun ends it
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    ("early", "late", "first"),
    [
        ("raise ValueError('no data at /data')", "pass", "rank 1: ValueError: no data at /data"),
        ("sys.exit('no data at /data')", "pass", "rank 1: no data at /data (exit code 1)"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "pass", "rank 1: ended by SIGSEGV"),
        ("pass", "raise KeyError('lr')", "rank 1: KeyError: 'lr'"),
    ],
    ids=["raises before torch", "exits before torch", "is ended by a signal", "raises on its GPU"],
)
def test_the_error_of_the_rank_that_failed_comes_first(
    early: str, late: str, first: str, tmp_path: Path
) -> None:
    program = PROGRAM.replace("{early}", early).replace("{late}", late)
    done = rehearse_program(tmp_path, program, "--gpus", "2", launcher=TORCHRUN)
    assert done.returncode == 3, (done.stdout, done.stderr)
    answer = " ".join(done.stdout.split())
    assert answer.startswith(f"the program failed by itself: {first} ")
    assert "====" not in done.stdout
