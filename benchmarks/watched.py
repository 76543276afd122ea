"""The cost of ``watch`` for the watched program: ``python -m benchmarks.watched [--gpu]``.

It measures starts of Python with and without the agent's folder in ``PYTHONPATH``, in turns; on a
GPU, real or simulated: the hook after each step, a snapshot with and without a history, and whole
steps.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.agent.interpreters import environment
from workloads.agent import ENTRIES, RECORD

STARTS = 200
PAIRS = 24
STEPS = 60
ON_GPU = """
import json, os, sys, time, torch
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks
torch.cuda.init()
from gpu_workbench_agent.agent import Agent
folder, entries = sys.argv[1], int(sys.argv[2])
(hook,) = hooks.values()
def timed(work, times):
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times
found = {"hook": min(timed(lambda: hook(None, (), {}), 20_000) for _ in range(9))}
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
agent = Agent(torch, folder)
held = [torch.empty(4096, device="cuda") for _ in range(200)]
agent.dump("plain.pickle")
found["dump without history"] = timed(lambda: agent.dump("plain.pickle"), 5)
def deep(n):
    return deep(n - 1) if n else torch.empty(4096, device="cuda")
agent.record(entries)
before = rss()
for turn in range(entries // 2 + 1000):
    deep(turn % 12)
found["ring"] = rss() - before
found["dump with history"] = timed(lambda: agent.dump("full.pickle"), 1)
found["file"] = os.path.getsize(os.path.join(folder, "full.pickle"))
print(json.dumps(found))
"""
STEP = """
import sys, time, torch
from torch import nn
sizes = [64] * 12
model = nn.Sequential(*(nn.Linear(64, 64) for _ in sizes)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(32, 64, device="cuda")
def step():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
for _ in range(20):
    step()
torch.cuda.synchronize()
def turn():
    began = time.process_time()
    for _ in range(int(sys.argv[1])):
        step()
    torch.cuda.synchronize()
    return time.process_time() - began
"""
BY_ITSELF = "print(min(turn() for _ in range(5)) / int(sys.argv[1]))\n"
IN_TURNS = """
import json
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks
agent_s, ratios = dict(hooks), []
assert len(agent_s) == 1
def timed(there):
    hooks.clear()
    hooks.update(agent_s if there else {})
    began = time.process_time()
    step()
    return time.process_time() - began
for pair in range(int(sys.argv[2])):
    # Step by step, so that a slow moment hits both.
    took = {True: 0.0, False: 0.0}
    for turn in range(4 * int(sys.argv[1])):
        for there in (False, True) if turn % 2 else (True, False):
            took[there] += timed(there)
    ratios.append(took[True] / took[False])
print(json.dumps(ratios))
"""


@dataclass(frozen=True, slots=True)
class Start:
    """The time of one process that does nothing, seconds."""

    clock: float
    own: float
    """Processor time, user and system: other programs change it little."""


def start(variables: dict[str, str]) -> Start:
    """Start Python and wait for its end."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", ""], env=variables)
    _, status, used = os.wait4(process.pid, 0)
    clock = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return Start(clock, used.ru_utime + used.ru_stime)


@dataclass(frozen=True, slots=True)
class Starts:
    """Starts in turns, without the agent and with it."""

    pairs: tuple[tuple[Start, Start], ...]

    @property
    def later(self) -> float:
        """The median of the pairs' differences by the clock, seconds."""
        return statistics.median(after.clock - before.clock for before, after in self.pairs)

    @property
    def more(self) -> float:
        """The same of the processor time."""
        return statistics.median(after.own - before.own for before, after in self.pairs)

    @property
    def plain(self) -> float:
        """The processor time without the agent, seconds."""
        return statistics.median(before.own for before, _ in self.pairs)

    def __str__(self) -> str:
        return (
            f"start of Python: {1000 * self.later:+.2f} ms, of which {1000 * self.more:+.2f} ms of "
            f"processor time on top of {1000 * self.plain:.1f} ms ({len(self.pairs)} pairs)"
        )


def starts(count: int, folder: Path) -> Starts:
    """Start both in turns, so that a slow moment of the machine hits each."""
    plain, watched = (environment(folder, watched=on) for on in (False, True))
    for variables in (plain, watched):
        variables.pop("PYTHONDONTWRITEBYTECODE")
        start(variables)
    return Starts(tuple((start(plain), start(watched)) for _ in range(count)))


def on_gpu(folder: Path, entries: int) -> dict[str, float]:
    """Measure the agent's work in a process on the GPU: seconds and bytes by name."""
    variables = environment(folder, watched=True)
    variables.pop(RECORD, None)
    command = [sys.executable, "-c", ON_GPU, str(folder / "measured"), str(entries)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def steps(pairs: int, folder: Path) -> list[float]:
    """Return ratios of a step's processor time, watched to not, of processes in turns."""
    ratios = []
    for _ in range(pairs):
        times = []
        for watched in (False, True):
            done = subprocess.run(
                [sys.executable, "-c", STEP + BY_ITSELF, str(STEPS)],
                env=environment(folder, watched=watched),
                capture_output=True,
                text=True,
                check=True,
            )
            times.append(float(done.stdout))
        ratios.append(times[1] / times[0])
    return ratios


def hooked(pairs: int, folder: Path) -> list[float]:
    """Return ratios of a step's processor time with the agent's hook to without, in one process."""
    command = [sys.executable, "-c", STEP + IN_TURNS, str(STEPS), str(pairs)]
    variables = environment(folder, watched=True)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    ratios: list[float] = json.loads(done.stdout)
    return ratios


def _interval(ratios: Sequence[float]) -> str:
    ordered = sorted(ratios)
    # With 95%, the median of 24 pairs lies between the 7th and the 18th.
    skipped = max(0, round(len(ordered) / 2 - 0.98 * len(ordered) ** 0.5) - 1)
    low, high = ordered[skipped], ordered[-1 - skipped]
    return f"{statistics.median(ordered):.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=STARTS)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--gpu", action="store_true", help="measure also what needs a GPU")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(starts(chosen.starts, folder))
        if chosen.gpu:
            (folder / "measured").mkdir()
            figures = on_gpu(folder, ENTRIES)
            print(f"after a step: {1e6 * figures['hook']:.2f} us")
            print(f"snapshot without history: {1000 * figures['dump without history']:.2f} ms")
            print(
                f"snapshot of {ENTRIES} entries: {figures['dump with history']:.2f} s, "
                f"{figures['file'] / 2**20:.0f} MiB; the ring {figures['ring'] / 2**20:.0f} MiB"
            )
            print(f"a step with the hook to without: {_interval(hooked(chosen.pairs, folder))}")
            print(f"a step, watched to not watched: {_interval(steps(chosen.pairs, folder))}")
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
