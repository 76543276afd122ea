"""Whether the whole catalogue runs on the CPU, and how long a quick look at all of it takes.

``pytest tests/benchmarks/test_everything.py -m slow`` prints the figures.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workloads import catalog
from workloads.declare.workload import infos

assert catalog

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_every_workload_runs_on_the_cpu_or_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # No ceiling that an earlier run has kept.
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    command = [sys.executable, "-m", "tui", "run", "--all", "--device", "cpu", "--quick", "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    results = json.loads(done.stdout)["results"]
    by_status = {
        status: [result for result in results if result["status"] == status]
        for status in ("ok", "skipped", "failed", "cancelled")
    }
    with capsys.disabled():
        counts = ", ".join(f"{len(found)} {status}" for status, found in by_status.items())
        print(f"\nrun --all --device cpu --quick: {counts}, in {seconds:.0f} s")
        took = {item["workload"]: item["ended_at"] - item["started_at"] for item in results}
        for name in sorted(took, key=took.__getitem__, reverse=True)[:10]:
            print(f"  {name} {took[name]:.1f} s")
    assert {result["workload"] for result in results} == {info.name for info in infos()}
    wrong = [(item["workload"], item["reason"]) for item in by_status["failed"]]
    assert not wrong
    assert not by_status["cancelled"]
    for result in by_status["skipped"]:
        assert "needs" in result["reason"] or "runs on" in result["reason"], result["reason"]
    assert done.returncode == 0
