"""What ``rehearse`` says of programs that a simulated GPU may mislead: marked, or right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulated_gpu.rehearsing import rehearse_program
from tui.rehearsal.cards import find_card

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(300)]

STEPS = """
import torch
model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW(model.parameters())
best, kept = 1.0, []
for step in range(3):
    loss = model(torch.randn(64, 1024, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
    {more}
"""
NVML = """
import ctypes, torch

class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]

held = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
nvml = ctypes.CDLL("libnvidia-ml.so.1")
handle, memory, name = ctypes.c_void_p(), Memory(), ctypes.create_string_buffer(96)
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0
assert nvml.nvmlDeviceGetName(handle, name, 96) == 0
print(name.value.decode(), memory.total >> 20, memory.used >> 20, sep="|")
"""
ON_THE_HOST = """
import torch

model = [torch.ones(1 << 30, dtype=torch.uint8) for _ in range(5)]
there = [part.cuda() for part in model]
"""


def rehearse(folder: Path, program: str) -> tuple[int, str]:
    """Return exit code and answer, its lines joined."""
    done = rehearse_program(folder, program)
    assert all(len(line) <= 80 for line in done.stdout.splitlines()[:-1])
    return done.returncode, " ".join(done.stdout.split())


def test_a_program_that_branches_on_data_is_marked_next_to_the_answer(tmp_path: Path) -> None:
    code, answer = rehearse(
        tmp_path, STEPS.replace("{more}", "if loss.item() < best: kept.append(0)")
    )
    assert code == 0
    assert answer.startswith("fits on H100 80 GB: peak ")
    assert "GiB depends on data: it branches at train.py:10 on values that are zeros" in answer


def test_a_program_that_reads_only_to_print_is_harmless(tmp_path: Path) -> None:
    code, answer = rehearse(tmp_path, STEPS.replace("{more}", "print('loss', loss.item())"))
    assert code == 0
    assert "Values that it only prints are zeros here: train.py:10." in answer
    assert "epends on data" not in answer


def test_a_program_that_fails_by_itself_has_read_nothing(tmp_path: Path) -> None:
    code, answer = rehearse(tmp_path, STEPS.replace("{more}", "print({}['learning_rate'])"))
    assert code == 3
    assert answer.startswith("the program failed by itself: KeyError: 'learning_rate' ")
    assert "It had read no device values." in answer


def test_a_program_that_fails_after_a_read_may_not_fail_on_a_card(tmp_path: Path) -> None:
    code, answer = rehearse(tmp_path, STEPS.replace("{more}", "assert loss.item() > 0, 'no loss'"))
    assert code == 3
    assert answer.startswith("the program failed by itself: AssertionError: no loss ")
    assert (
        "may not fail: it read values of the device, which are zeros here, at train.py:10" in answer
    )


def test_a_program_that_reads_nvml_sees_the_card(tmp_path: Path) -> None:
    done = rehearse_program(tmp_path, NVML, "--json")
    assert done.returncode == 0, done.stdout
    folder = json.loads(done.stdout)["folder"]
    printed = Path(folder, "output.log").read_text(encoding="utf-8").splitlines()[-1]
    name, total, used = printed.split("|")
    card = find_card("h100")
    assert (name, int(total)) == (card.nvml_name, card.nvml_mib)
    # The program's own 2 GiB, a context, and the driver's part.
    assert 2048 + 400 < int(used) < 2048 + 1200


def test_a_program_that_builds_on_the_host_is_told_what_it_took_there(tmp_path: Path) -> None:
    code, answer = rehearse(tmp_path, ON_THE_HOST)
    assert code == 0
    assert "of host memory (sampled): what a program builds on the CPU" in answer
