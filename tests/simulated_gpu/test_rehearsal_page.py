"""A rehearsal from its dialog to its snapshot, in the real program with real children."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.terminal import PROGRAM, Terminal
from tui.watch.runs import runs
from tui.watch.runs.rehearsals import read_note

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(600)]

TIMEOUT_S = 240.0
"""Several processes import torch, of which each takes some seconds on a busy machine."""
WAITS_AFTER, STEPS = 5, 8
TRAINING = f"""
import os, pathlib, sys, time, torch

def main():
    rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(rank)
    model = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.Linear(2048, 2048)).cuda()
    if "LOCAL_RANK" in os.environ:
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(100):
        loss = model(torch.randn(512, 2048, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        while step == {WAITS_AFTER - 1} and not pathlib.Path(sys.argv[1]).exists():
            time.sleep(0.05)

main()
"""


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Start the program on its watch tab, with no stored run."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    with Terminal(PROGRAM, columns=120, rows=40) as found:
        found.until_shows("Workloads")
        found.keys("5")
        found.until_shows("No watched run is stored")
        try:
            yield found
        finally:  # a rehearsal outlives the program
            for run in runs.stored_runs():
                if run.is_running and run.pid is not None:
                    os.killpg(run.pid, signal.SIGKILL)


def shows(terminal: Terminal, *patterns: str) -> str:
    """Wait until a line matches each pattern; return the screen."""

    def is_shown(text: str) -> bool:
        return all(re.search(each, text, re.MULTILINE) for each in patterns)

    return terminal.until(is_shown, TIMEOUT_S)


def rehearse(terminal: Terminal, command: str, card: str, gpus: int) -> None:
    """Start a rehearsal by its dialog."""
    terminal.keys("V")
    terminal.until_shows("The program as you start it")
    for field, explained in (
        (command, "A card such as h100"),
        (card, "Number of such cards"),
        (str(gpus), "Optimizer steps after which"),
    ):
        terminal.keys(field, "\t")
        terminal.until_shows(explained)
    terminal.keys(str(STEPS), "\r")


def row(rank: str, device: str, steps: int, state: str) -> str:
    """Return a pattern for a row of a process."""
    return rf"^[ │]+{rank} +\d+ {device} .* {steps} .*{state}[ │]*$"


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_rehearsal_is_watched_to_its_verdict_and_opens_its_snapshot(
    terminal: Terminal, tmp_path: Path, ranks: int
) -> None:
    script, go = tmp_path / "train.py", tmp_path / "go"
    script.write_text(TRAINING, encoding="utf-8")
    launcher = f" -m torch.distributed.run --nproc-per-node {ranks}" if ranks > 1 else ""
    rehearse(terminal, f"{sys.executable}{launcher} {script} {go}", "l4", ranks)
    names = [""] if ranks == 1 else ["0", "1"]
    devices = [(name, f"cuda:{index}") for index, name in enumerate(names)]
    told = "a simulated L4" if ranks == 1 else "2 simulated L4"
    shows(
        terminal,
        f"rehearsed on {told}: kernels compute nothing",
        *(row(*each, WAITS_AFTER, "records") for each in devices),
    )
    # Of the card only the total is known: no GPU of this machine stands for it.
    shows(terminal, r"use unknown 2\d\.\d", "the card is simulated", "growth of allocated: ")
    go.touch()
    shows(
        terminal,
        r"^[ │]*fits on L4: peak .* of 22\.0 GiB, headroom",
        "ended with exit code 0",
        *(row(*each, STEPS, "ended") for each in devices),
    )
    (run,) = runs.stored_runs()
    note = read_note(run.folder)
    assert note is not None
    assert (note.answer, note.gpus) == ("fits", ranks)
    terminal.keys("o")
    shows(terminal, "no OOM", r"rehearsed-\S+\.pickle", "live memory peaked at")
    terminal.keys("L")
    shows(terminal, "device 0 by site", r"train\.py:\d+ main .*optimizer state")
    terminal.keys("f")
    shows(terminal, "at the peak", r"train\.py:\d+ main")
    terminal.keys("q")
    assert terminal.exit_code(TIMEOUT_S) == 0
