"""Commands under the watch on GPUs: their own output and exit code, then what became of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from tests import waiting
from tests.agent.programs import ENDS_AFTER_AUTOGRAD
from tui.watch.runs.process_logs import process_logs_in

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
TRAIN = (
    ENDS_AFTER_AUTOGRAD
    + """
import warnings; warnings.simplefilter("ignore")  # torch's, that numpy is not there
import sys, time, torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    optimizer.step()
    print("step", step, flush=True)
    time.sleep(float(sys.argv[2]))
"""
)
RUNS_OUT = TRAIN + "print('now')\ntorch.empty(1 << 41, dtype=torch.uint8, device='cuda')\n"
RANKS = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
total = torch.ones(1) * dist.get_rank()
dist.all_reduce(total)
print(f"sum {total.item()}\\n", end="", flush=True)
dist.barrier()
torch.empty(1 << 41, dtype=torch.uint8, device="cuda")
"""
LOADERS = """
import fcntl, os, subprocess, sys, time, torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.full((2,), float(i))
def work(rank, name):
    torch.cuda.set_device(0)
    x = torch.ones(4, device="cuda")
    if rank == 0:
        # Held until the process has ended: spawn() ends it with the other's failure.
        fcntl.flock(os.open(name + ".lock", os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)
        os.mkdir(name + ".locked")
    else:
        while not os.path.exists(name + ".locked"):
            time.sleep(0.01)
        fcntl.flock(os.open(name + ".lock", os.O_RDWR), fcntl.LOCK_EX)
        torch.empty(1 << 41, dtype=torch.uint8, device="cuda")
if __name__ == "__main__":
    torch.cuda.init()
    x = torch.ones(3, device="cuda")
    for method in ("fork", "spawn", "forkserver"):
        loader = torch.utils.data.DataLoader(Data(), 4, num_workers=2,
                                             multiprocessing_context=method)
        print(method, sum(batch.sum().item() for batch in loader), flush=True)
    code = "import torch; print(torch.ones(2, device='cuda').shape)"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
    quiet = dict(capture_output=True, text=True)
    print(subprocess.run([sys.executable, "-c", "print(7)"], env={}, **quiet).stdout, flush=True)
    try:
        torch.multiprocessing.spawn(work, (sys.argv[0],), nprocs=2)
    except torch.multiprocessing.ProcessRaisedException as error:
        print("OutOfMemoryError" in str(error), flush=True)
"""


def write(folder: Path, text: str) -> str:
    path = folder / "train.py"
    path.write_text(text)
    return str(path)


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tui", "watch", *words],
        cwd=folder,
        env={**os.environ, "GPU_WORKBENCH_STATE": str(folder / "state"), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(folder: Path, *words: str) -> tuple[int, str, str]:
    process = start(folder, *words)
    out, errors = process.communicate(timeout=100)
    return process.returncode, out, errors


def the_run(folder: Path) -> Path:
    (found,) = (folder / "state" / "runs").iterdir()
    return found


until = partial(waiting.until, timeout_s=100)
"""Runs import torch."""


def place_of(code: str) -> str:
    """File and line of the first line of `RUNS_OUT` that begins with some code."""
    lines = RUNS_OUT.splitlines()
    return f"train.py:{next(n for n, line in enumerate(lines, 1) if line.startswith(code))}"


def test_an_oom_is_explained_after_the_run_s_own_output(tmp_path: Path) -> None:
    words = ("--no-screen", "--record", "--", sys.executable, write(tmp_path, RUNS_OUT), "3", "0")
    code, out, errors = done(tmp_path, *words)
    assert code == 1
    log = (the_run(tmp_path) / "output.log").read_text()
    shown = "step 0\nstep 1\nstep 2\nnow\n"
    assert out.startswith(shown)
    assert set(shown.splitlines()) < set(log.splitlines())
    assert "OutOfMemoryError" in log  # of standard error, which is apart
    after = out[len(shown) :]
    (left,) = process_logs_in(the_run(tmp_path))
    assert f"process {left.pid}: 3 steps, 1 OOM; ended by OutOfMemoryError" in after
    assert "2.0 TiB requested on cuda:0" in after
    assert left.ooms[0].text in errors  # its traceback has it
    assert left.ooms[0].text not in after
    assert "is more than the device has" in after
    assert f"{place_of('torch.empty')} <module>" in after
    assert f"{place_of('model =')} <module>" in after  # who held the memory, by the history
    assert "--record" not in after
    samples = (the_run(tmp_path) / "samples.jsonl").read_text().splitlines()
    assert all(json.loads(line)["type"] for line in samples)


def test_the_newest_oom_is_reported_as_markdown_for_an_issue(tmp_path: Path) -> None:
    program = write(tmp_path, RUNS_OUT)
    words = ("--no-screen", "--markdown", "--", sys.executable, program, "3", "0")
    code, out, errors = done(tmp_path, *words)
    assert code == 1
    assert f"its output is in {the_run(tmp_path)}/output.log" in errors
    lines = out.splitlines()
    assert lines[0].startswith("**OOM at step 3, train.py:")
    assert lines[2] == f"`{sys.executable} {program} 3 0`"
    assert "now" not in lines  # its output is in the log
    (left,) = process_logs_in(the_run(tmp_path))
    assert f"- process {left.pid}: 3 steps, 1 OOM; ended by OutOfMemoryError" in lines
    assert left.ooms[0].text in out
    assert "is more than the device has" in out
    assert place_of("torch.empty") in out
    # Headings and tables of Markdown, and no table of a terminal.
    assert any(line.startswith("#") for line in lines)
    assert any(set(line) <= set("|-: ") and "|" in line for line in lines)


def test_two_ranks_that_run_out_have_a_row_and_a_verdict_each(tmp_path: Path) -> None:
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    program = write(tmp_path, RANKS)
    words = ("--no-screen", "--json", "--", sys.executable, *torchrun, program)
    code, out, errors = done(tmp_path, *words)
    assert code == 1
    assert "output is in" in errors
    found = json.loads(out)
    assert (found["schema"], found["exit"]) == (1, {"code": 1, "signal": None})
    assert found["command"][1:3] == ["-m", "torch.distributed.run"]
    ranks = {each["rank"]: each for each in found["processes"] if each["ooms"]}
    assert sorted(ranks) == [0, 1]
    for each in ranks.values():
        (oom,) = each["ooms"]
        device = each["rank"] % torch.cuda.device_count()
        assert (oom["asked"], oom["device"], each["steps"]) == (1 << 41, device, 0)
        assert oom["requested"] <= oom["allocated"] <= oom["reserved"]
        assert Path(oom["snapshot"]).exists()
        assert "Tried to allocate 2048.00 GiB" in oom["text"]
    log = (the_run(tmp_path) / "output.log").read_text()
    assert log.count("sum 1.0") == 2, log


def test_workers_children_and_spawned_processes_do_what_they_did(tmp_path: Path) -> None:
    program = write(tmp_path, LOADERS)
    code, out, _ = done(tmp_path, "--no-screen", "--", sys.executable, program)
    for line in ("fork 56.0", "spawn 56.0", "forkserver 56.0", "torch.Size([2])", "7", "True"):
        assert f"{line}\n" in out
    assert code == 0
    left = process_logs_in(the_run(tmp_path))
    # The program, the child, and two that were spawned: none of the loader's workers.
    assert len(left) == 4
    assert all(each.ended for each in left)
    (ran_out,) = (each for each in left if each.ooms)
    assert ran_out.ooms[0].handled is False
    assert "Tried to allocate 2048.00 GiB" in ran_out.text


def test_a_gauge_that_is_killed_costs_the_run_nothing(tmp_path: Path) -> None:
    program = write(tmp_path, TRAIN)
    gauge = start(tmp_path, "--no-screen", "--", sys.executable, program, "60", "0.1")
    assert gauge.stdout is not None
    assert gauge.stdout.readline() == "step 0\n"
    os.kill(gauge.pid, signal.SIGKILL)
    gauge.wait()
    gauge.stdout.close()
    run = the_run(tmp_path)
    # Whoever looks again finds its steps.
    from tui.watch.runs.agents import Agents

    agents = Agents()
    state = until(lambda: agents.states(str(run)))
    more = until(lambda: [e for e in agents.states(str(run)) if e.steps > state[0].steps])
    assert more[0].steps < 60
    agents.close()
    (left,) = until(lambda: [each for each in process_logs_in(run) if each.ended])
    assert (left.steps, left.kind) == (60, "")
    expected = "".join(f"step {step}\n" for step in range(60))
    until(lambda: (run / "output.log").read_text() == expected)


def test_an_interrupt_is_the_command_s_and_its_end_is_reported(tmp_path: Path) -> None:
    program = write(tmp_path, TRAIN)
    gauge = start(tmp_path, "--no-screen", "--json", "--", sys.executable, program, "900", "0.1")
    (run,) = until(lambda: list((tmp_path / "state").glob("runs/*/output.log")))
    until(lambda: "step 3" in run.read_text())
    until(lambda: '"allocated"' in run.with_name("samples.jsonl").read_text())
    gauge.send_signal(signal.SIGINT)
    out, _ = gauge.communicate(timeout=100)
    assert gauge.returncode == 128 + signal.SIGINT
    found = json.loads(out)
    assert found["exit"] == {"code": None, "signal": 2}
    (process,) = (each for each in found["processes"] if each["steps"])
    assert process["steps"] >= 4
    assert process["devices"][0]["allocated"] > 0
    assert "KeyboardInterrupt" in run.read_text()
