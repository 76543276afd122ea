"""Whether the figures can be trusted: against bare torch, against each other, against themselves.

``pytest tests/benchmarks -m benchmark`` prints them; the machine must be quiet.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children.driver import Driver
from tests.terminal.terminal import Terminal
from workloads.protocol import messages

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
PAIRS = 5
BEFORE = ("transfer", "matmul", "attention", "resnet50_layers", "mlp_training", "amp", "staircase")
"""One or two of each group, those that leave the most behind: heap, threads, flags."""


def _in_the_workbench(workload: str, target: Path) -> float:
    target.unlink(missing_ok=True)
    probe = str(HERE / "app_probe.py")
    with Terminal((sys.executable, probe, str(target), workload), 120, 40) as terminal:
        assert terminal.exit_code(120) == 0
    median = json.loads(target.read_text())["time"]["median_s"]
    assert isinstance(median, float)
    return median


def _bare(workload: str) -> float:
    command = [sys.executable, str(HERE / "bare.py"), workload]
    return float(subprocess.check_output(command, text=True))


@pytest.mark.parametrize("workload", ["conv2d", "matmul"])
def test_the_workbench_agrees_with_bare_torch_utils_benchmark(
    workload: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    ratios = []
    for pair in range(PAIRS):
        if pair % 2 == 0:
            ours, bare = _in_the_workbench(workload, tmp_path / "r.json"), _bare(workload)
        else:
            bare, ours = _bare(workload), _in_the_workbench(workload, tmp_path / "r.json")
        ratios.append(ours / bare)
    ratio = statistics.median(ratios)
    with capsys.disabled():
        each = ", ".join(f"{value:.3f}" for value in ratios)
        print(f"\n{workload}: workbench / torch.utils.benchmark {ratio:.3f} ({each})")
    assert 0.97 <= ratio <= 1.05


def _conv2d(runner: Driver) -> float:
    runner.send(messages.Run("c", "conv2d", "cpu", {}, {}, "normal"))
    result = runner.until(messages.Finished, lambda event: event.result.id == "c").result
    assert result.time is not None
    return result.time.median_s


def test_conv2d_reads_the_same_whatever_ran_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    ratios = []
    for _ in range(3):
        with Driver() as runner:
            runner.ready()
            fresh = _conv2d(runner)
            for name in BEFORE:
                assert runner.run(name).status == "ok"
            ratios.append(_conv2d(runner) / fresh)
    ratio = statistics.median(ratios)
    with capsys.disabled():
        each = ", ".join(f"{value:.3f}" for value in ratios)
        print(f"\nconv2d after others of every group / in a fresh runner: {ratio:.3f} ({each})")
    assert 0.9 <= ratio <= 1.1


def test_a_setting_compared_with_itself_is_not_called_different(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tries = 20
    with Driver() as runner:
        runner.ready()
        verdicts = [
            runner.compare("matmul", "mkldnn.enabled", (True, True)).verdict for _ in range(tries)
        ]
    with capsys.disabled():
        found = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
        print(f"\nmatmul, mkldnn.enabled on against on, {tries} tries: {found}")
    assert sum(verdict in ("faster", "slower") for verdict in verdicts) <= 1


def test_a_true_difference_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "tui", "compare", "conv2d", "--device", "cpu"]
    command += ["--flag", "mkldnn.enabled=on,off", "--json"]
    found = json.loads(subprocess.check_output(command, text=True))
    with capsys.disabled():
        low, high = found["ci95"]
        print(
            f"\nconv2d, mkldnn.enabled on to off: {found['verdict']}, time ratio "
            f"{found['ratio']:.3f} ({low:.3f} to {high:.3f}), {found['pairs']} pairs"
        )
    assert found["verdict"] in ("faster", "slower")
