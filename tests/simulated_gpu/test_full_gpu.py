"""A GPU whose memory others hold: the run says so, its worker lives on, and doctor fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.children.driver import Driver
from workloads.protocol import messages
from workloads.protocol.results import RunResult

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(300)]

GPU = "cuda:0"
LEFT_MIB = 100
HOLDER = f"""
import sys, torch
torch.zeros(1, device="{GPU}")
kept, step = [], 256 << 20
while step >= 2 << 20:
    free, _ = torch.cuda.mem_get_info("{GPU}")
    if free - step < {LEFT_MIB} << 20:
        step //= 2
        continue
    kept.append(torch.empty(step, dtype=torch.uint8, device="{GPU}"))
print("full", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another() -> Iterator[int]:
    """All but some MiB of the GPU are held by another process, whose pid this is."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"full\n"
        yield holder.pid
        holder.stdin.close()
        holder.wait(60)


@pytest.fixture
def runner() -> Iterator[Driver]:
    with Driver() as driver:
        driver.ready()
        yield driver


def run(runner: Driver, name: str) -> RunResult:
    runner.send(messages.Run(name, "transfer", GPU, {"mib": 1}, {}, "quick"))
    return runner.until(messages.Finished, lambda event: event.result.id == name).result


def test_a_run_on_a_full_gpu_says_that_it_is_full_and_the_same_worker_runs_once_it_is_not(
    runner: Driver,
) -> None:
    with held_by_another():
        result = run(runner, "full")
    assert result.status == "failed"
    assert (result.reason or "").startswith("out of memory: CUDA error: out of memory: it was CUDA")
    assert "are free on cuda:0" in (result.reason or "")
    worker = runner.worker_pid()
    again = run(runner, "room")
    assert (again.status, again.reason) == ("ok", None)
    assert runner.worker_pid() == worker


def test_a_comparison_on_a_full_gpu_says_that_it_is_full(runner: Driver) -> None:
    with held_by_another():
        request = messages.Compare(
            "c", "conv2d", GPU, {}, "cudnn.conv.fp32_precision", (False, True), {}, 3, "quick"
        )
        runner.send(request)
        found = runner.until(messages.Compared, lambda event: event.done).comparison
    assert found.status == "failed"
    assert (found.reason or "").startswith("out of memory: CUDA error: out of memory: ")


def doctor() -> tuple[int, dict[str, list[dict[str, str]]]]:
    done = subprocess.run(
        [sys.executable, "-m", "tui", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    checks: dict[str, list[dict[str, str]]] = {}
    for check in json.loads(done.stdout)["checks"]:
        checks.setdefault(check["name"], []).append(check)
    return done.returncode, checks


def test_doctor_fails_on_a_full_gpu_and_names_who_holds_it() -> None:
    with held_by_another() as pid:
        code, checks = doctor()
    assert code == 1
    (full,) = checks["memory"]
    assert full["outcome"] == "failed"
    assert "is full: " in full["found"]
    assert f"pid {pid}" in full["found"] or "held by" not in full["found"]


def test_doctor_passes_where_the_gpu_has_room() -> None:
    code, checks = doctor()
    assert "memory" not in checks
    assert code == 0, checks
