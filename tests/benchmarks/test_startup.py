"""How long until the screen can be used, held against an empty Textual app on the same machine."""

from __future__ import annotations

import compileall
import statistics
import sys
from pathlib import Path

import pytest

import tui
import workloads
from tests.benchmarks.startup import usable_after
from tests.terminal.terminal import PROGRAM

RUNS = 7
MOST = 1.6
EMPTY = (sys.executable, str(Path(__file__).with_name("empty_app.py")))


def test_the_screen_is_usable_within_1_6_times_an_empty_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    # pip compiles what it installs; an editable installation is compiled when it is first run.
    for package in (tui, workloads):
        assert compileall.compile_dir(str(Path(package.__path__[0])), quiet=1)
    ours, empty = [], []
    for _ in range(RUNS):
        empty.append(usable_after(EMPTY, ("usable",)))
        # Panes, keys and a workload to choose: from here on one can work.
        ours.append(usable_after(PROGRAM, ("Devices", "transfer mib", "q quit")))
    ratio = statistics.median(a / b for a, b in zip(ours, empty, strict=True))
    with capsys.disabled():
        print(
            f"\nusable screen: {statistics.median(ours):.3f} s, empty Textual app: "
            f"{statistics.median(empty):.3f} s, ratio {ratio:.2f} ({RUNS} pairs)"
        )
    assert ratio <= MOST
