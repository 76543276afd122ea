"""``gpu-workbench rehearse`` with the real torch on simulated cards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.simulated_gpu.rehearsing import rehearse_program
from tui.watch.runs.rehearsals import read_note

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(300)]

MIB = 1 << 20
TRAINING = """
import sys, torch
torch.manual_seed(0)
batch = int(sys.argv[1])

def main():
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(100):
        x = torch.randn(batch, 2048, device="cuda")
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {more}
    print("the end")

main()
"""
PEAK = "print('peak', torch.cuda.memory_stats()['requested_bytes.all.peak'], flush=True)"


@pytest.fixture
def rehearse(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that rehearses a program, with state and runs of this test's own."""

    def run(program: str, *options: str, words: tuple[str, ...] = (), timeout_s: int = 280) -> Any:
        return rehearse_program(tmp_path, program, *options, words=words, timeout_s=timeout_s)

    return run


Rehearse = Callable[..., subprocess.CompletedProcess[str]]


def training(more: str = "pass") -> str:
    return TRAINING.replace("{more}", more)


def test_a_training_that_fits_is_ended_after_three_steps(rehearse: Rehearse) -> None:
    done = rehearse(training(PEAK), "--gpu", "l4", "--json", words=("4096",))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["answer"], found["steps"], found["stopped"]) == ("fits", 3, True)
    (device,) = found["devices"]
    account = device["account"]
    # Four layers of 2048 x 2048 and their biases, in float32; AdamW has two states of each.
    parameters = 4 * (2048 * 2048 + 2048) * 4
    assert account["parameters"] == parameters
    assert account["optimizer state"] == pytest.approx(2 * parameters, abs=4096)
    assert sum(account.values()) == device["peak"]
    # What torch itself reported in the process, in the last step that printed it.
    printed = Path(found["folder"], "output.log").read_text(encoding="utf-8")
    assert device["processes"][0]["requested_peak"] == int(printed.split()[-1])
    assert "the end" not in printed
    assert device["total"] == found["card"]["total"]
    note = read_note(Path(found["folder"]))
    assert note is not None
    assert (note.card, note.gpus, note.answer) == ("L4", 1, "fits")
    assert note.conclusion[0].startswith("fits on L4: peak ")


def test_a_training_that_does_not_fit_names_its_line_and_what_would_help(
    rehearse: Rehearse,
) -> None:
    done = rehearse(training(), "--gpu", "2G", words=("65536",))
    assert done.returncode == 1, done.stderr
    first = " ".join(done.stdout.split("\n\n", maxsplit=1)[0].split())
    assert first.startswith("does not fit on a card of 2G: OOM before any optimizer step")
    assert "train.py:" in first
    assert "with expandable segments: does not fit either" in done.stdout
    assert "Nothing is computed" in done.stdout


def test_an_optimizer_that_runs_out_fits_one_tensor_after_another(rehearse: Rehearse) -> None:
    # 1 GiB of parameters, of gradients, and two of states: foreach needs as much again for a while.
    program = """
        import torch
        with torch.device("cuda"):
            layers = [torch.nn.Linear(4096, 4096, bias=False) for _ in range(16)]
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(5):
            model(torch.randn(8, 4096, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """
    found = json.loads(rehearse(program, "--gpu", "5306M", "--json").stdout)
    assert found["answer"] == "does not fit"
    attempts = {each["change"]: each["answer"] for each in found["attempts"]}
    assert attempts == {
        "expandable segments": "does not fit",
        "foreach=False in the optimizer": "fits",
    }


def test_half_of_the_batch_is_tried(rehearse: Rehearse) -> None:
    program = training().replace("sys.argv[1]", "sys.argv[2]")
    done = rehearse(program, "--gpu", "1706M", "--json", words=("--batch", "16384"))
    assert done.returncode == 1, done.stderr
    attempts = {each["change"]: each["answer"] for each in json.loads(done.stdout)["attempts"]}
    assert attempts["--batch 8192"] == "fits"


def test_a_program_that_fails_by_itself_says_so_first(rehearse: Rehearse) -> None:
    done = rehearse(training("raise KeyError('lr')"), words=("8",))
    assert done.returncode == 3
    assert done.stdout.startswith("the program failed by itself: KeyError: 'lr'")
    done = rehearse("import torch, sys; torch.ones(3, device='cuda'); sys.exit('no data')")
    assert done.returncode == 3
    assert "no data (exit code 1)" in done.stdout


def test_a_program_without_a_gpu_is_unknown(rehearse: Rehearse) -> None:
    done = rehearse("print('only the CPU')")
    assert done.returncode == 4
    assert "the program used no GPU" in done.stdout


def test_the_lines_that_read_data_are_marked(rehearse: Rehearse) -> None:
    done = rehearse(training("print(loss.item())"), "--json", words=("8",))
    found = json.loads(done.stdout)
    (read,) = found["reads"]
    line = next(n for n, text in enumerate(TRAINING.splitlines(), 1) if "{more}" in text)
    assert (Path(read["file"]).name, read["line"]) == ("train.py", line)
    quiet = json.loads(rehearse(training(), "--json", words=("8",)).stdout)
    assert quiet["reads"] == []


def test_an_inference_runs_to_its_end(rehearse: Rehearse) -> None:
    program = """
        import torch
        model = torch.nn.Linear(4096, 4096).cuda()
        with torch.no_grad():
            for _ in range(3):
                model(torch.randn(64, 4096, device="cuda"))
        print("the end")
    """
    done = rehearse(program)
    assert done.returncode == 0, done.stderr
    assert "It has made no optimizer step" in done.stdout
    assert "parameters 64.0 MiB" in done.stdout


def test_a_program_that_records_its_own_history_keeps_its_figures(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    program = """
        import torch
        first = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
        del first
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.memory._record_memory_history(max_entries=1000)
        torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        kept = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        torch.cuda.memory._dump_snapshot("SNAPSHOT")
        torch.cuda.memory._record_memory_history(enabled=None)
    """.replace("SNAPSHOT", str(tmp_path / "own.pickle"))
    done = rehearse(program, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (device,) = found["devices"]
    # The driver's count is not the program's to reset; torch's counter is.
    assert device["reserved_peak"] == 512 * MIB
    assert device["processes"][0]["requested_peak"] == 256 * MIB
    (problem,) = found["problems"]
    assert "the program ended torch's memory history" in problem
    assert "192 MiB below the peak" in problem
    assert (tmp_path / "own.pickle").stat().st_size > 0


def test_a_program_without_an_end_is_ended_after_its_time(rehearse: Rehearse) -> None:
    program = """
        import time, torch
        held = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        while True:
            time.sleep(0.05)
    """
    done = rehearse(program, "--for", "30", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["devices"][0]["processes"][0]["requested_peak"] == 256 * MIB


def test_the_largest_batch_fits_and_the_next_does_not(rehearse: Rehearse) -> None:
    done = rehearse(
        training(), "--gpu", "1230M", "--find", "batch=1..64", "--json", words=("{batch}000",)
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["smallest_that_fails"] == found["largest"] + 1
    assert found["rehearsals"] <= 10


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_largest_batch_is_found_by_the_option_of_the_command(
    rehearse: Rehearse,
) -> None:
    program = training().replace("int(sys.argv[1])", "1000 * int(sys.argv[2])")
    options = ("--gpu", "1230M", "--steps", "2", "--find")
    done = rehearse(program, *options, words=("--batch", "4"), timeout_s=880)
    assert done.returncode == 0, done.stderr
    first, second, expandable, foreach = done.stdout.splitlines()
    assert first.startswith("largest --batch on a card of 1230M: ")
    assert second.startswith("  with ")
    assert expandable.startswith("  with expandable segments: ")
    assert foreach.startswith("  with foreach=False: ")
    values = [int(line.partition(": ")[2].split()[0]) for line in (first, expandable, foreach)]
    assert values[0] > 1
    assert min(values) > 0


def test_a_card_has_its_own_properties(rehearse: Rehearse) -> None:
    program = """
        import torch
        found = torch.cuda.get_device_properties(0)
        print(found.name, found.major, found.minor, found.multi_processor_count)
        print(found.total_memory >> 20, torch.cuda.device_count())
    """
    done = rehearse(program, "--gpu", "4090", "--gpus", "2", "--json")
    folder = json.loads(done.stdout)["folder"]
    printed = Path(folder, "output.log").read_text(encoding="utf-8").split()
    assert printed[-9:] == ["NVIDIA", "GeForce", "RTX", "4090", "8", "9", "128", "24084", "2"]


def test_attention_in_bfloat16_works(rehearse: Rehearse) -> None:
    program = """
        import torch
        q = torch.randn(2, 8, 128, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        out = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        out.sum().backward()
    """
    assert rehearse(program).returncode == 0


def test_the_gradient_of_a_large_embedding_works(rehearse: Rehearse) -> None:
    # Beyond 3072 indices torch sorts them with cub, which divides by attributes of the device.
    program = """
        import torch
        embedding = torch.nn.Embedding(32000, 64, device="cuda")
        embedding(torch.randint(0, 32000, (4, 2048), device="cuda")).sum().backward()
    """
    assert rehearse(program).returncode == 0


def test_compiled_models_run_with_triton(rehearse: Rehearse) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    program = training().replace(
        "    optimizer =", "    model = torch.compile(model)\n    optimizer ="
    )
    done = rehearse(program, "--json", words=("256",))
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    assert (found["steps"], found["compiled"]) == (3, True)
    parameters = 4 * (2048 * 2048 + 2048) * 4
    assert found["devices"][0]["account"]["parameters"] == parameters


def test_triton_refuses_a_tensor_of_the_host(rehearse: Rehearse) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    program = """
        import torch, triton
        import triton.language as tl

        @triton.jit
        def double(at, n: tl.constexpr):
            places = tl.arange(0, n)
            tl.store(at + places, tl.load(at + places) * 2)

        double[(1,)](torch.zeros(64, device="cuda"), 64)
        torch.cuda.synchronize()
        double[(1,)](torch.zeros(64), 64)
    """
    done = rehearse(program)
    assert done.returncode == 3, done.stdout
    assert "cpu tensor?" in done.stdout


def test_host_memory_does_not_grow_with_the_model(rehearse: Rehearse) -> None:
    program = """
        import torch
        with torch.device("cuda"):
            layers = [torch.nn.Linear(16384, 16384, bias=False) for _ in range(16)]
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(5):
            model(torch.randn(64, 16384, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """
    found = json.loads(rehearse(program, "--gpu", "h200", "--json").stdout)
    assert found["answer"] == "fits"
    assert found["devices"][0]["peak"] > 64 << 30
    assert found["host_peak"] < 3 << 29


RANKS = """
import os, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
dist.all_to_all_single(torch.empty(2, device="cuda"), torch.ones(2, device="cuda"))
model = torch.nn.Linear(1024, 1024).cuda()
model = {model}
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(50):
    model(torch.randn(32, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("model", "shards"),
    [("DistributedDataParallel(model, device_ids=[rank])", 1), ("fully_shard(model)", 2)],
    ids=["DDP", "FSDP2"],
)
def test_two_ranks_of_torchrun_are_on_two_cards(model: str, shards: int, tmp_path: Path) -> None:
    program = RANKS.replace("{model}", model)
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    done = rehearse_program(tmp_path, program, "--gpus", "2", "--json", launcher=launcher)
    assert done.returncode == 0, (done.stdout, done.stderr)
    found = json.loads(done.stdout)
    assert [each["index"] for each in found["devices"]] == [0, 1]
    assert {each["processes"][0]["rank"] for each in found["devices"]} == {"0", "1"}
    assumed = found["card"]["nccl_assumed"]
    for device in found["devices"]:
        parameters = device["account"]["parameters"]
        assert parameters == pytest.approx(4 * (1024 * 1024 + 1024) / shards, abs=4096)
        assert device["account"]["optimizer state"] == pytest.approx(2 * parameters, abs=4096)
        # Of a communicator of two, and of the connection that its all-to-all needs.
        buffers = assumed["two_ranks"] + assumed["each_peer"]
        assert device["account"]["NCCL buffers"] == buffers
